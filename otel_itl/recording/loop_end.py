"""Recognizes that an event loop ends right after a generator was dropped: it cancels the task that was to close it."""

from __future__ import annotations

import asyncio


def is_close_cancelled(error: BaseException) -> bool:
    """Return whether an event loop that ends has thrown `error` into the generator that runs, which was dropped.

    The loop closes a dropped generator in a task of its own. A task that is cancelled before its first step throws the
    cancellation into the generator, in place of the closing.
    """
    if not isinstance(error, asyncio.CancelledError):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:  # another library's event loop
        return False
    return task is not None and type(task.get_coro()).__name__ == "async_generator_athrow"
