"""A hook inside a function: its code is exchanged for a detour, so that every caller comes through it.

Another instrumentation may have taken hold of a function before (in a wrapper, in an attribute of a subclass, as a
bound method), and may put it back later. Whatever it does then leads here, and is outside of the hook.
See docs/adr/0009-a-hook-inside-the-function.md.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction, signature
from types import CodeType, FunctionType, MethodType
from typing import Any, Final, TypeGuard

_PLACE: Final = "the detour"
"""The constant of a stub that a detour takes the place of."""


def takes(function: object) -> TypeGuard[FunctionType]:
    """Whether a function may have a detour: code is exchanged for code of its kind, and a generator's would be late."""
    return isinstance(function, FunctionType) and not isgeneratorfunction(function) and not isasyncgenfunction(function)


class CodePatch:
    """One wrapper inside one function; switched off where it cannot be taken out.

    Args:
        function: it may be the function of a method.
        is_method: its first argument is the instance that `wrapper` is told of.
        wrapper: called with the function, the instance, the positional and the keyword arguments.
    """

    def __init__(
        self, function: FunctionType, wrapper: Callable[[Any, Any, Any, Any], Any], *, is_method: bool
    ) -> None:
        self.function = function
        self._wrapper = wrapper
        self._is_method = is_method
        self._genuine = function.__code__
        self._twin = _twin(function)
        self._code = _code(self, function)
        self._active = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Do what the function does now."""
        if not self._active:
            return self._twin(*args, **kwargs)
        if not self._is_method or not args:
            return self._wrapper(self._twin, None, args, kwargs)
        return self._wrapper(MethodType(self._twin, args[0]), args[0], args[1:], kwargs)

    def put_in(self) -> None:
        """Switch on, and put in unless it is still there, perhaps within the code of somebody else."""
        self._active = True
        if self.function.__code__ is self._genuine:
            shown = signature(self.function)
            self.function.__code__ = self._code
            self.function.__dict__.setdefault("__signature__", shown)

    def take_out(self) -> None:
        """Switch off, and take out unless somebody else's code has it."""
        self._active = False
        if self.function.__code__ is self._code:
            self.function.__code__ = self._genuine
            self.function.__dict__.pop("__signature__", None)


def _twin(function: FunctionType) -> FunctionType:
    """The same function once more, for the detour to call."""
    made = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__ = function.__qualname__
    return made


def _code(detour: CodePatch, function: FunctionType) -> CodeType:
    """Code for a function that calls the detour with whatever it is called with."""
    code = (_astub if iscoroutinefunction(function) else _stub).__code__
    constants: Any = tuple(detour if constant == _PLACE else constant for constant in code.co_consts)
    # What a function closes over has to fit its code, used or not.
    return code.replace(co_name=function.__name__, co_consts=constants, co_freevars=function.__code__.co_freevars)


def _stub(*args: Any, **kwargs: Any) -> Any:
    detour: Any = "the detour"
    return detour(*args, **kwargs)


async def _astub(*args: Any, **kwargs: Any) -> Any:
    detour: Any = "the detour"
    return await detour(*args, **kwargs)
