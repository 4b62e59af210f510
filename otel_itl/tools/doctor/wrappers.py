"""Find who else has wrapped the functions of an SDK: other instrumentations, by wrapt, by `__wrapped__`, by code."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final

from wrapt import FunctionWrapper

_OWN: Final = "otel_itl"
_WITHOUT_CALLS: Final = ".types"
"""The part of an SDK that holds data classes alone: thousands, and none of them is wrapped."""
_HARMLESS: Final = frozenset(
    {_OWN, "wrapt", "pydantic", "pydantic_core", "typing_extensions", *sys.stdlib_module_names}
)
"""Packages by which SDKs decorate functions of their own."""
MAX_LISTED: Final = 6
"""Functions that are named for each wrapper."""


def find_wrappers(package: str) -> dict[str, list[str]]:
    """Return the packages that wrap functions of an imported SDK, and for each the first few functions."""
    found: dict[str, list[str]] = {}
    for owner, name, value in _functions(package):
        for origin in dict.fromkeys(_origins(value, package.partition(".")[0])):
            functions = found.setdefault(origin, [])
            label = f"{owner}.{name}"
            if len(functions) < MAX_LISTED and label not in functions:
                functions.append(label)
    return found


def _functions(package: str) -> Iterator[tuple[str, str, Any]]:
    """Yield owner, name and value of what the classes and modules of a package define."""
    for module_name, module in list(sys.modules.items()):
        is_part = module_name == package or module_name.startswith(f"{package}.")
        if not is_part or _WITHOUT_CALLS in module_name or not isinstance(module, ModuleType):
            continue
        for name, value in list(vars(module).items()):
            # By the type: looking for an attribute makes a lazy object of the SDK load what it stands for.
            if issubclass(type(value), type):
                if value.__module__ == module_name:
                    yield from (
                        (value.__qualname__, attribute, found) for attribute, found in list(vars(value).items())
                    )
            elif issubclass(type(value), FunctionType | FunctionWrapper):
                yield module_name, name, value


def _origins(value: Any, top: str) -> Iterator[str]:
    """Yield the packages of the wrappers around a function, from the outside."""
    for _ in range(16):  # a chain that leads back to itself ends, too
        if value is None:
            return
        with suppress(Exception):  # an object of whatever class may raise whatever it likes
            module = _module_of_wrapper(value, top)
            if module is not None and module.partition(".")[0] not in {top, *_HARMLESS}:
                yield module
        value = _wrapped(value)


def _wrapped(value: Any) -> Any:
    """Return what a wrapper wraps; None: it is no wrapper. An object of wrapt is an instance of what it wraps, too."""
    if issubclass(type(value), FunctionWrapper | staticmethod | classmethod):
        return value.__wrapped__
    return vars(value).get("__wrapped__") if isinstance(value, FunctionType) else None


def _module_of_wrapper(value: Any, top: str) -> str | None:
    """Return the module of the wrapper that `value` is; None: it is no wrapper."""
    wrapper = getattr(value, "_self_wrapper", None) if issubclass(type(value), FunctionWrapper) else None
    if wrapper is not None:
        function = getattr(wrapper, "__func__", wrapper)
        return str(getattr(function, "__module__", None) or type(wrapper).__module__)
    if not isinstance(value, FunctionType):
        return None
    # `functools.wraps` copies `__module__`; the globals are those of the module in which the wrapper is written.
    if hasattr(value, "__wrapped__"):
        return str(value.__globals__.get("__name__", ""))
    return _module_of_code(value, top)


def _module_of_code(function: FunctionType, top: str) -> str | None:
    """Return the package whose code a function of the SDK runs, if its code was exchanged; else None."""
    if str(function.__globals__.get("__name__", "")).partition(".")[0] != top:
        return None
    parts = Path(function.__code__.co_filename).parts
    home = getattr(sys.modules.get(top), "__file__", None)
    if not home or len(parts) < 2 or function.__code__.co_filename.startswith(str(Path(home).parent)):  # noqa: PLR2004
        return None
    for marker in ("site-packages", "dist-packages"):
        if marker in parts:
            return parts[parts.index(marker) + 1]
    return _OWN if _OWN in parts else Path(function.__code__.co_filename).stem
