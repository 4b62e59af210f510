"""Wrappers around the functions of an SDK, installed and removed by one table."""

from __future__ import annotations

import logging
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial, reduce
from importlib import import_module
from inspect import isasyncgenfunction, isgeneratorfunction, unwrap
from types import FunctionType, ModuleType
from typing import Any, TypeGuard

import wrapt

from otel_itl.sdks.code_patch import CodePatch

logger = logging.getLogger("otel_itl")

Wrapper = Callable[[Any, Any, Any, Any], Any]
"""Called with the wrapped function, the instance it is bound to, its positional and its keyword arguments."""


@dataclass(frozen=True, slots=True)
class Hook(ABC):
    """One function of an SDK that is patched: what the module of an SDK lists as `SDK`."""

    module: str
    path: str
    """The function's name in the module, such as `Client.stream_chat`."""
    replaces_code: bool = field(default=False, kw_only=True)
    """Patch the code of the function (see `code_patch`), rather than wrap it with wrapt."""
    is_optional: bool = field(default=False, kw_only=True)
    """Not every supported release of the SDK has the function: where it is missing, that is no loss."""
    is_imported_late: bool = field(default=False, kw_only=True)
    """The SDK imports the module when it first needs it, or has it in some releases only: the patch waits for it."""

    @abstractmethod
    def wrap(self, driver: Any, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        """Do what the function does while it is patched."""

    def withdraw(self, driver: Any) -> None:  # noqa: B027 - most hooks put nothing there
        """Remove what the hook has put on objects of the SDK, when the patch is removed."""


class WraptPatch:
    """One wrapper around one function, put there by wrapt; switched off where it cannot be removed.

    Args:
        owner: the class or module that holds the function.
        name: the function's name there.
        wrapper: what wraps it.
    """

    def __init__(self, owner: Any, name: str, wrapper: Wrapper) -> None:
        self._owner, self._name, self._wrapper = owner, name, wrapper
        self._is_active = False
        wrapt.wrap_function_wrapper(owner, name, self)

    def __call__(self, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        """Call the wrapper; where it is switched off, the function."""
        return self._wrapper(wrapped, instance, args, kwargs) if self._is_active else wrapped(*args, **kwargs)

    def is_around(self, function: Any) -> bool:
        """Return whether a function has been wrapped by this, and perhaps by others since."""
        while function is not None and getattr(function, "_self_wrapper", None) is not self:
            function = getattr(function, "__wrapped__", None)
        return function is not None

    def apply(self) -> None:
        """Switch the wrapper on."""
        self._is_active = True

    def remove(self) -> None:
        """Switch the wrapper off, and remove it unless somebody else has wrapped it since."""
        self._is_active = False
        current = vars(self._owner).get(self._name)
        if getattr(current, "_self_wrapper", None) is self:
            setattr(self._owner, self._name, current.__wrapped__)


class PackagePatches:
    """The patches of one package, or of one of its modules.

    They are installed when that is imported, so that `instrument()` loads no SDK. Removed, in whatever order
    with those of others, they pass every call through: also where somebody holds a bound method from before. A target
    that is missing is skipped alone; one warning names all that are.

    Args:
        package: the package or module whose import they wait for.
        hooks: what is wrapped.
        driver: what the hooks share.
    """

    def __init__(self, package: str, hooks: Iterable[Hook], driver: object) -> None:
        self._package, self._driver = package, driver
        self._hooks = tuple(hooks)
        self._patches: dict[Hook, WraptPatch | CodePatch] = {}
        self._missing: set[Hook] = set()
        self._is_wanted = False
        self._is_import_awaited = False

    @property
    def missing(self) -> list[str]:
        """The functions that the installed release of the package does not have, as `module:path`."""
        return sorted(f"{hook.module}:{hook.path}" for hook in self._missing)

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
        for patch in self._patches.values():
            with suppress(Exception):
                patch.remove()
        for hook in self._patches:
            with suppress(Exception):
                hook.withdraw(self._driver)

    def _patch_imported(self, _: object) -> None:
        if self._is_wanted:
            self._patch_all()

    def _patch_all(self) -> None:
        """Patch every hook. Those that are missing are left out alone, with one warning that names them."""
        missing = []
        for hook in self._hooks:
            try:
                self._patch(hook)
            except Exception:  # noqa: BLE001 - an SDK that has changed is left alone, target by target
                if hook not in self._missing and not hook.is_optional:
                    missing.append(hook)
        if missing:
            self._missing.update(missing)
            by_module: dict[str, list[str]] = {}
            for hook in missing:
                by_module.setdefault(hook.module, []).append(hook.path)
            named = "; ".join(f"{', '.join(paths)} in {module}" for module, paths in by_module.items())
            logger.warning("otel_itl does not find %s: what passes there is not measured.", named)

    def _patch(self, hook: Hook) -> None:
        """Patch one target: its code where the target asks for that and the function allows it, else by wrapt."""
        *path, name = hook.path.split(".")
        owner: Any = reduce(getattr, path, import_module(hook.module))
        found, patch = vars(owner)[name], self._patches.get(hook)
        wrapper = partial(hook.wrap, self._driver)
        function = unwrap(found) if hook.replaces_code else None
        if _has_exchangeable_code(function):
            if not isinstance(patch, CodePatch) or patch.function is not function:
                is_method = not isinstance(owner, ModuleType) and not isinstance(found, staticmethod)
                patch = CodePatch(function, wrapper, is_method=is_method)
        elif not isinstance(patch, WraptPatch) or not patch.is_around(found):
            patch = WraptPatch(owner, name, wrapper)
        self._patches[hook] = patch
        patch.apply()


def _has_exchangeable_code(function: object) -> TypeGuard[FunctionType]:
    """Return whether a function is plain Python and no generator: code is exchanged for code of its kind."""
    return isinstance(function, FunctionType) and not isgeneratorfunction(function) and not isasyncgenfunction(function)
