"""`session()`: which session the requests of a piece of code belong to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from typing import Final

from opentelemetry import baggage

from otel_itl.conventions import CONVERSATION_ID, SESSION_ID
from otel_itl.core.request import Request

LONGEST_ID: Final = 256
_session: ContextVar[str | None] = ContextVar("otel_itl_session", default=None)


@contextmanager
def session(session_id: str) -> Iterator[None]:
    """Requests that are made in this scope belong to the session, wherever and whenever their streams are read.

    It holds for the thread or the task, and for the tasks that are started in it. `session.id` or
    `gen_ai.conversation.id` in OpenTelemetry's baggage says the same, across processes.

    Args:
        session_id: `session.id` of the spans. Metrics never carry it.

    Raises:
        ValueError: no text, or more than 256 characters of it.
    """
    given: object = session_id
    if not isinstance(given, str) or not 0 < len(session_id) <= LONGEST_ID:
        message = f"session({session_id!r}) is not accepted: it takes a text of 1 to {LONGEST_ID} characters."
        raise ValueError(message)
    former = _session.set(session_id)
    try:
        yield
    finally:
        with suppress(ValueError):  # a generator that another task closes has no scope to restore
            _session.reset(former)


def in_session(request: Request) -> Request:
    """The request with the session of the code that makes it, which wins over what the request says itself."""
    said: tuple[object, ...] = (_session.get(), *map(baggage.get_baggage, (SESSION_ID, CONVERSATION_ID)))
    found = next((value for value in said if isinstance(value, str) and value), None)
    return request if found is None else replace(request, session_id=found[:LONGEST_ID])
