"""Finds the session that a request belongs to: that of its scope, `session()`, or what else names one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Final

from opentelemetry import baggage

from otel_itl.core.conventions import CONVERSATION_ID, SESSION_ID
from otel_itl.recording.kept_sessions import (
    MAX_ID_LENGTH,
    find_field_session,
    find_kept_session,
    is_made_for_run,
)

_BAGGAGE_KEYS: Final = (SESSION_ID, CONVERSATION_ID, "langfuse_session_id")
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


def find_session(request_session: str | None, body: Mapping[str, Any]) -> str | None:
    """Return the session of a request that is made here; None: it belongs to none. Never raises.

    The scope wins over the baggage, that over the request, that over what is kept in context.

    Args:
        request_session: what `session_from`, or `observe()`, names.
        body: the parameters of the request, of which a field may name the session where nothing else does.
    """
    return (
        _session.get()
        or _find_in_baggage()
        or request_session
        or find_kept_session()
        or (find_field_session(body) if body else None)
    )


def _find_in_baggage() -> str | None:
    """Return the session that the baggage carries, cut to the longest that is accepted; None: there is none."""
    carried = baggage.get_all()
    found = (carried.get(key) for key in _BAGGAGE_KEYS) if carried else ()
    ids = (value[:MAX_ID_LENGTH] for value in found if isinstance(value, str) and value)
    return next((session_id for session_id in ids if not is_made_for_run(session_id)), None)
