"""Wrappers around the functions of an SDK, installed and removed by one table."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import reduce
from importlib import import_module
from inspect import isasyncgenfunction, isgeneratorfunction, unwrap
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import wrapt

from otel_itl.sdks.code_patch import CodePatch

logger = logging.getLogger("otel_itl")

Wrapper = Callable[[Any, Any, Any, Any], Any]
"""Called with the wrapped function, the instance it is bound to, its positional and its keyword arguments."""


class Target(NamedTuple):
    """One function of an SDK and what wraps it."""

    module: str
    path: str
    """The function's name in the module, such as `Client.request`."""
    wrapper: Wrapper
    replaces_code: bool = False
    """Patch the code of the function (see `code_patch`), rather than wrap it with wrapt."""
    is_optional: bool = False
    """Not every supported release of the SDK has the function: where it is missing, that is no loss."""
    trigger: str = ""
    """The module whose import the patch waits for; empty: the SDK's package."""


class _SwitchableWrapper:
    """A wrapper that can be switched off where it cannot be removed."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.is_active = True

    def __call__(self, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        if not self.is_active:
            return wrapped(*args, **kwargs)
        return self.target.wrapper(wrapped, instance, args, kwargs)


class PackagePatches:
    """The patches of one package, or of one of its modules.

    They are installed when that is imported, so that `instrument()` loads no SDK. Removed, in whatever order
    with those of others, they pass every call through: also where somebody holds a bound method from before. A target
    that is missing is skipped alone; one warning names all that are.

    Args:
        package: the package or module whose import they wait for.
        targets: what is wrapped.
    """

    def __init__(self, package: str, targets: Iterable[Target]) -> None:
        self._package = package
        self._targets = tuple(targets)
        self._wrappers: dict[Target, _SwitchableWrapper] = {}
        self._code_patches: dict[Target, CodePatch] = {}
        self._missing: set[Target] = set()
        self._is_wanted = False
        self._is_import_awaited = False

    @property
    def missing(self) -> list[str]:
        """The functions that the installed release of the package does not have, as `module:path`."""
        return sorted(f"{target.module}:{target.path}" for target in self._missing)

    def install(self) -> None:
        """Install the patches, now or as soon as the package is imported."""
        self._is_wanted = True
        if self._package in sys.modules:
            self._patch_all()
        elif not self._is_import_awaited:
            self._is_import_awaited = True
            wrapt.register_post_import_hook(self._patch_imported, self._package)

    def remove(self) -> None:
        """Remove the patches; one that somebody else has wrapped since stays, and passes calls through."""
        self._is_wanted = False
        for target, wrapper in self._wrappers.items():
            wrapper.is_active = False
            with suppress(Exception):
                owner, name = _find_owner(target)
                current = vars(owner).get(name)
                if _own_wrapper(current) is wrapper:
                    setattr(owner, name, current.__wrapped__)
        self._wrappers.clear()
        for patch in self._code_patches.values():
            patch.remove()

    def _patch_imported(self, _: object) -> None:
        if self._is_wanted:
            self._patch_all()

    def _patch_all(self) -> None:
        """Patch every target. Those that are missing are left out alone, with one warning that names them."""
        missing = []
        for target in self._targets:
            try:
                self._patch(target)
            except Exception:  # noqa: BLE001 - an SDK that has changed is left alone, target by target
                if target not in self._missing and not target.is_optional:
                    missing.append(target)
        if missing:
            self._missing.update(missing)
            by_module: dict[str, list[str]] = {}
            for target in missing:
                by_module.setdefault(target.module, []).append(target.path)
            named = "; ".join(f"{', '.join(paths)} in {module}" for module, paths in by_module.items())
            logger.warning("otel_itl does not find %s: what passes there is not measured.", named)

    def _patch(self, target: Target) -> None:
        """Patch one target: its code where the target asks for that and the function allows it, else by wrapt."""
        owner, name = _find_owner(target)
        if target.replaces_code:
            function = unwrap(vars(owner)[name])
            if _has_exchangeable_code(function):
                self._patch_code(target, function, owner, name)
                return
        found = next((wrapper for wrapper in _own_wrappers(vars(owner)[name]) if wrapper.target == target), None)
        if found is None:
            found = _SwitchableWrapper(target)
            wrapt.wrap_function_wrapper(owner, name, found)
        elif target not in self._wrappers:
            found.is_active = True
        self._wrappers[target] = found

    def _patch_code(self, target: Target, function: FunctionType, owner: Any, name: str) -> None:
        """Patch the code of a function, or apply the patch again that was made of it before."""
        patch = self._code_patches.get(target)
        if patch is None or patch.function is not function:
            is_method = not isinstance(owner, ModuleType) and not isinstance(vars(owner)[name], staticmethod)
            patch = self._code_patches[target] = CodePatch(function, target.wrapper, is_method=is_method)
        patch.apply()


def _has_exchangeable_code(function: object) -> bool:
    """Return whether a function is plain Python and no generator: code is exchanged for code of its kind."""
    return isinstance(function, FunctionType) and not isgeneratorfunction(function) and not isasyncgenfunction(function)


def _find_owner(target: Target) -> tuple[Any, str]:
    """Return the class or module that holds the target's function, and the function's name there."""
    *path, name = target.path.split(".")
    return reduce(getattr, path, import_module(target.module)), name


def _own_wrappers(function: Any) -> Iterator[_SwitchableWrapper]:
    """Yield our own wrappers around a function that has been wrapped, by us and perhaps by others."""
    while function is not None:
        wrapper = _own_wrapper(function)
        if wrapper is not None:
            yield wrapper
        function = getattr(function, "__wrapped__", None)


def _own_wrapper(function: Any) -> _SwitchableWrapper | None:
    wrapper = getattr(function, "_self_wrapper", None)
    return wrapper if isinstance(wrapper, _SwitchableWrapper) else None
