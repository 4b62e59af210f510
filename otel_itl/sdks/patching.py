"""Wrappers around the functions of an SDK, put on and taken off by one table."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import reduce
from importlib import import_module
from inspect import unwrap
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import wrapt

from otel_itl.sdks.code_patch import CodePatch, takes

logger = logging.getLogger("otel_itl")

Wrapper = Callable[[Any, Any, Any, Any], Any]
"""Called with the wrapped function, the instance it is bound to, its positional and its keyword arguments."""


class Target(NamedTuple):
    """One function of an SDK and what goes around it."""

    module: str
    path: str
    wrapper: Wrapper


class _Layer:
    """A wrapper that can be switched off where it cannot be taken off."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.active = True

    def __call__(self, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        if not self.active:
            return wrapped(*args, **kwargs)
        return self.target.wrapper(wrapped, instance, args, kwargs)


class Hooks:
    """The wrappers of one package.

    They are installed when the package is imported, so that instrumenting loads no SDK. Taken off, in whatever order
    with those of others, they become a pass-through: also where somebody holds a bound method from before.
    A wrapper goes inside the function where it can, and around it where the function makes a generator.
    """

    def __init__(self, package: str, targets: tuple[Target, ...]) -> None:
        self._package = package
        self._targets = targets
        self._layers: dict[Target, _Layer] = {}
        self._detours: dict[Target, CodePatch] = {}
        self._missing: set[Target] = set()
        self._wanted = False
        self._awaited = False

    def install(self) -> None:
        """Put the wrappers on, now or as soon as the package is imported."""
        self._wanted = True
        if self._package in sys.modules:
            self._wrap_all()
        elif not self._awaited:
            self._awaited = True
            wrapt.register_post_import_hook(self._imported, self._package)

    def remove(self) -> None:
        """Take the wrappers off; one that somebody else has wrapped since stays, and passes through."""
        self._wanted = False
        for target, layer in self._layers.items():
            layer.active = False
            with suppress(Exception):
                owner, name = _owner(target)
                current = vars(owner).get(name)
                if _layer_of(current) is layer:
                    setattr(owner, name, current.__wrapped__)
        self._layers.clear()
        for detour in self._detours.values():
            detour.take_out()

    def _imported(self, _: object) -> None:
        if self._wanted:
            self._wrap_all()

    def _wrap_all(self) -> None:
        for target in self._targets:
            try:
                self._wrap(target)
            except Exception:  # noqa: BLE001 - the fence: an SDK that has changed is left alone, target by target
                if target not in self._missing:
                    self._missing.add(target)
                    logger.warning(
                        "otel_itl does not find %s in %s: what passes there is not measured.",
                        target.path,
                        target.module,
                    )

    def _wrap(self, target: Target) -> None:
        owner, name = _owner(target)
        function = unwrap(vars(owner)[name])
        if takes(function):
            self._detour(target, function, owner, name)
            return
        found = next((layer for layer in _layers(vars(owner)[name]) if layer.target == target), None)
        if found is None:
            found = _Layer(target)
            wrapt.wrap_function_wrapper(owner, name, found)
        elif target not in self._layers:
            found.active = True
        self._layers[target] = found

    def _detour(self, target: Target, function: FunctionType, owner: Any, name: str) -> None:
        detour = self._detours.get(target)
        if detour is None or detour.function is not function:
            is_method = not isinstance(owner, ModuleType) and not isinstance(vars(owner)[name], staticmethod)
            detour = self._detours[target] = CodePatch(function, target.wrapper, is_method=is_method)
        detour.put_in()


def _owner(target: Target) -> tuple[Any, str]:
    *path, name = target.path.split(".")
    return reduce(getattr, path, import_module(target.module)), name


def _layers(function: Any) -> Iterator[_Layer]:
    """Our own layers of a function that has been wrapped, by us and perhaps by others."""
    while function is not None:
        layer = _layer_of(function)
        if layer is not None:
            yield layer
        function = getattr(function, "__wrapped__", None)


def _layer_of(function: Any) -> _Layer | None:
    wrapper = getattr(function, "_self_wrapper", None)
    return wrapper if isinstance(wrapper, _Layer) else None
