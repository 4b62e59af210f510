"""The guard around our own code: its failures are counted, logged once per kind, and never reach the application."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any, ParamSpec, TypeVar

logger = logging.getLogger("otel_itl")

P = ParamSpec("P")
T = TypeVar("T")
D = TypeVar("D")


class InternalErrors:
    """Counts failures of our own code, and logs the first failure of each identifier.

    The text of an exception is neither logged nor kept: it may quote a prompt.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """Number of failures by identifier (`itl.self.where` of the metric `itl.self.errors`)."""
        self._unlogged: deque[tuple[str, str, str]] = deque()  # at most one entry per identifier

    def report(self, where: str, error: BaseException) -> None:
        """Count a failure and log it if it is the first of its identifier.

        Args:
            where: a short stable identifier of the failed step, such as `stream.end`.
            error: what was raised.
        """
        self.note(where, error)
        self.log_noted()

    def note(self, where: str, error: BaseException) -> None:
        """Count a failure without logging it: safe inside the garbage collector. `log_noted` logs it later."""
        self.counts[where] += 1
        if self.counts[where] == 1:
            self._unlogged.append((where, type(error).__qualname__, locate(error)))

    def count_dropped(self, queue: str) -> None:
        """Count one item that a full queue dropped. Takes no lock and logs nothing.

        Args:
            queue: the identifier of the queue, such as `queue.abandoned`.
        """
        self.counts[queue] += 1

    @property
    def has_noted(self) -> bool:
        """Whether failures were noted that are not logged yet."""
        return bool(self._unlogged)

    def log_noted(self) -> None:
        """Log the failures that were noted and not logged yet."""
        with suppress(Exception):  # a log handler of the application may fail as well
            while self._unlogged:
                logger.warning(
                    "otel_itl failed in %s (%s at %s): the stream goes on, this measurement may be incomplete. "
                    "Logged once.",
                    *self._unlogged.popleft(),
                )


def never_raises(
    where: str, default: D, *, in_finalizer: bool = False
) -> Callable[[Callable[P, T]], Callable[P, T | D]]:
    """Guard a method: where it raises an `Exception`, the failure is reported and the caller gets `default`.

    It is reported to the `errors` of the method's object, which are `InternalErrors`.

    Args:
        where: the identifier that the failure is counted under.
        default: what the caller gets instead.
        in_finalizer: the method runs inside the garbage collector, where nothing may be logged.
    """

    def guard(method: Callable[P, T]) -> Callable[P, T | D]:
        """Put the guard around a method of an object that has `errors`."""

        @wraps(method)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> T | D:
            try:
                return method(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - the guard
                guarded_object: Any = args[0]
                errors: InternalErrors = guarded_object.errors
                (errors.note if in_finalizer else errors.report)(where, error)
                return default

        return guarded

    return guard


def locate(error: BaseException) -> str:
    """Return file and line where an exception was raised, without reading the file."""
    traceback = error.__traceback__
    if traceback is None:
        return "an unknown place"
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return f"{traceback.tb_frame.f_code.co_filename}:{traceback.tb_lineno}"
