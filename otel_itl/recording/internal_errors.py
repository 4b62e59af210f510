"""The fence around our own code: a failure of ours is counted and logged once, and never reaches the application."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import ParamSpec, TypeVar

logger = logging.getLogger("otel_itl")

P = ParamSpec("P")
T = TypeVar("T")
D = TypeVar("D")

failures: Counter[str] = Counter()
"""How many failures were contained, by where they happened."""

_untold: deque[tuple[str, str, str]] = deque()


def report_error(where: str, error: BaseException) -> None:
    """Count a failure of ours and log the first of its kind.

    The text of the exception stays out of the log: it may quote what the user wrote.
    """
    note_error(where, error)
    tell()


def note_error(where: str, error: BaseException) -> None:
    """Count a failure of ours where nothing may be called, as in the garbage collector; `tell` logs it later."""
    failures[where] += 1
    if failures[where] == 1:
        _untold.append((where, type(error).__qualname__, _place(error)))


def tell() -> None:
    """Log the failures that were noted."""
    # What an application hangs into its logging may fail as well, and this is the fence.
    with suppress(Exception):
        while _untold:
            logger.warning(
                "otel_itl failed in %s (%s at %s): the stream goes on, this measurement may be incomplete. "
                "Logged once.",
                *_untold.popleft(),
            )


def never_raises(
    where: str, default: D, contain: Callable[[str, BaseException], None] = report_error
) -> Callable[[Callable[P, T]], Callable[P, T | D]]:
    """Put a function behind the fence: where it fails, its caller gets `default`."""

    def fence(function: Callable[P, T]) -> Callable[P, T | D]:
        @wraps(function)
        def behind_fence(*args: P.args, **kwargs: P.kwargs) -> T | D:
            try:
                return function(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - the fence
                contain(where, error)
                return default

        return behind_fence

    return fence


def _place(error: BaseException) -> str:
    """File and line, without reading the file."""
    traceback = error.__traceback__
    if traceback is None:
        return "an unknown place"
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return f"{traceback.tb_frame.f_code.co_filename}:{traceback.tb_lineno}"
