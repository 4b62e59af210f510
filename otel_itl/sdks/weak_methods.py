"""Methods of a WebSocket connection that do not keep it alive."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any
from weakref import ref


def bind_weakly(owner: Any, name: str) -> Callable[..., Any]:
    """Return a method of an object without a reference to that, so that both are freed as they were."""
    function, found = inspect.getattr_static(type(owner), name), ref(owner)

    @wraps(inspect.unwrap(function))
    def call(*args: Any, **kwargs: Any) -> Any:
        """Call the method of the object, if that is still there."""
        instance = found()
        if instance is not None:
            return function.__get__(instance, type(instance))(*args, **kwargs)
        # The caller has kept the function alone. What is open is held by its transport or its thread: this was closed.
        if name == "send":
            raise import_module("websockets.exceptions").ConnectionClosedError(None, None)
        return _return_none() if inspect.iscoroutinefunction(function) else None

    call.__signature__ = inspect.signature(getattr(owner, name))  # type: ignore[attr-defined]  # that of a method
    return call


async def _return_none() -> None:
    """Do nothing."""
