"""`session()`: the session that the requests of a scope belong to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from typing import Final

from opentelemetry import baggage

from otel_itl.core.conventions import CONVERSATION_ID, SESSION_ID
from otel_itl.core.request import Request

MAX_ID_LENGTH: Final = 256
_session: ContextVar[str | None] = ContextVar("otel_itl_session", default=None)


@contextmanager
def session(session_id: str) -> Iterator[None]:
    """Assign the requests that are made in this scope to a session, wherever and whenever their streams are read.

    It holds for the thread or the task, and for the tasks that are started in it. `session.id` or
    `gen_ai.conversation.id` in OpenTelemetry's baggage says the same, across processes.

    Args:
        session_id: `session.id` of the spans. Metrics never carry it.

    Raises:
        ValueError: no text, or more than 256 characters of it.
    """
    given: object = session_id
    if not isinstance(given, str) or not 0 < len(session_id) <= MAX_ID_LENGTH:
        message = f"session({session_id!r}) is not accepted: it takes a text of 1 to {MAX_ID_LENGTH} characters."
        raise ValueError(message)
    former = _session.set(session_id)
    try:
        yield
    finally:
        with suppress(ValueError):  # a generator that another task closes has no scope to restore
            _session.reset(former)


def apply_session(request: Request) -> Request:
    """Return the request with the session of the scope that makes it, which wins over one that the request names."""
    scope, carried = _session.get(), baggage.get_all()
    if scope is None and not carried:
        return request
    candidates = (scope, *map(carried.get, (SESSION_ID, CONVERSATION_ID)))
    found = next((value for value in candidates if isinstance(value, str) and value), None)
    return request if found is None else replace(request, session_id=found[:MAX_ID_LENGTH])
