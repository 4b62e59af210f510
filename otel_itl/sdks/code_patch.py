"""Exchange the code of a function, so that every caller comes through a wrapper, bound methods held before included.

Used for the base client's `request` alone: another instrumentation may have taken hold of it before (in a wrapper, in
an attribute of a subclass, as a bound method), and may put it back later. Whatever it does then leads here, and is
outside of the wrapper. See docs/adr/0009-a-hook-inside-the-function.md.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import iscoroutinefunction, signature
from types import CodeType, FunctionType, MethodType
from typing import Any, Final

_PLACEHOLDER: Final = "the code patch"
"""The constant of a stub that is replaced by the `CodePatch`."""


class CodePatch:
    """One wrapper inside one function; switched off where it cannot be removed.

    Args:
        function: a plain or a coroutine function; it may be the function of a method.
        wrapper: called with the function, the instance, the positional and the keyword arguments.
        is_method: the first argument of the function is the instance that `wrapper` gets.
    """

    def __init__(
        self, function: FunctionType, wrapper: Callable[[Any, Any, Any, Any], Any], *, is_method: bool
    ) -> None:
        self.function = function
        self._wrapper = wrapper
        self._is_method = is_method
        self._original_code = function.__code__
        self._original = _copy_function(function)
        self._patched_code = _make_code(self, function)
        self._is_active = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Do what the function does while it is patched."""
        if not self._is_active:
            return self._original(*args, **kwargs)
        if not self._is_method or not args:
            return self._wrapper(self._original, None, args, kwargs)
        return self._wrapper(MethodType(self._original, args[0]), args[0], args[1:], kwargs)

    def apply(self) -> None:
        """Switch the wrapper on, and exchange the code unless that was done before."""
        self._is_active = True
        if self.function.__code__ is self._original_code:
            shown = signature(self.function)
            self.function.__code__ = self._patched_code
            self.function.__dict__.setdefault("__signature__", shown)

    def remove(self) -> None:
        """Switch the wrapper off, and restore the code unless somebody else has exchanged it since."""
        self._is_active = False
        if self.function.__code__ is self._patched_code:
            self.function.__code__ = self._original_code
            self.function.__dict__.pop("__signature__", None)


def _copy_function(function: FunctionType) -> FunctionType:
    """Make a second function with the same code, for the wrapper to call."""
    made = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__ = function.__qualname__
    return made


def _make_code(patch: CodePatch, function: FunctionType) -> CodeType:
    """Make code that calls the patch with whatever the function is called with."""
    code = (_async_stub if iscoroutinefunction(function) else _stub).__code__
    constants: Any = tuple(patch if constant == _PLACEHOLDER else constant for constant in code.co_consts)
    # What a function closes over has to fit its code, used or not.
    return code.replace(co_name=function.__name__, co_consts=constants, co_freevars=function.__code__.co_freevars)


def _stub(*args: Any, **kwargs: Any) -> Any:
    patch: Any = "the code patch"
    return patch(*args, **kwargs)


async def _async_stub(*args: Any, **kwargs: Any) -> Any:
    patch: Any = "the code patch"
    return await patch(*args, **kwargs)
