"""Wrappers around the functions of an SDK, put on and taken off by one table."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from functools import reduce
from importlib import import_module
from typing import Any, NamedTuple

import wrapt

logger = logging.getLogger("otel_itl")

Wrapper = Callable[[Any, Any, Any, Any], Any]
"""Called with the wrapped function, the instance it is bound to, its positional and its keyword arguments."""


class Target(NamedTuple):
    """One function of an SDK and what goes around it."""

    module: str
    path: str
    wrapper: Wrapper


class Hooks:
    """The wrappers of one package.

    They are installed when the package is imported, so that instrumenting loads no SDK. Taken off, in whatever order
    with those of others, they become a pass-through: also where somebody holds a bound method from before.
    """

    def __init__(self, package: str, targets: tuple[Target, ...]) -> None:
        self._package = package
        self._targets = [target._replace(wrapper=self._switched(target.wrapper)) for target in targets]
        self._active = False
        self._awaited = False

    def install(self) -> None:
        """Put the wrappers on, now or as soon as the package is imported."""
        self._active = True
        if self._package in sys.modules:
            self._wrap_all()
        elif not self._awaited:
            self._awaited = True
            wrapt.register_post_import_hook(self._imported, self._package)

    def remove(self) -> None:
        """Take the wrappers off; one that somebody else has wrapped since stays, and passes through."""
        self._active = False
        for target in self._targets:
            if target.module not in sys.modules:
                continue
            owner, name = _owner(target)
            current = vars(owner).get(name)
            if _is_ours(current, target):
                setattr(owner, name, current.__wrapped__)

    def _imported(self, _: object) -> None:
        if self._active:
            self._wrap_all()

    def _wrap_all(self) -> None:
        for target in self._targets:
            try:
                owner, name = _owner(target)
                if not any(_is_ours(layer, target) for layer in _layers(vars(owner)[name])):
                    wrapt.wrap_function_wrapper(owner, name, target.wrapper)
            except (ImportError, AttributeError, KeyError):
                logger.warning(
                    "otel_itl does not find %s in %s: what passes there is not measured.", target.path, target.module
                )

    def _switched(self, wrapper: Wrapper) -> Wrapper:
        def switched(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
            if not self._active:
                return wrapped(*args, **kwargs)
            return wrapper(wrapped, instance, args, kwargs)

        return switched


def _owner(target: Target) -> tuple[Any, str]:
    *path, name = target.path.split(".")
    return reduce(getattr, path, import_module(target.module)), name


def _layers(function: Any) -> list[Any]:
    layers = []
    while function is not None:
        layers.append(function)
        function = getattr(function, "__wrapped__", None)
    return layers


def _is_ours(function: Any, target: Target) -> bool:
    return getattr(function, "_self_wrapper", None) is target.wrapper
