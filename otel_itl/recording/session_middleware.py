"""Middleware for ASGI and WSGI: what an application asks of models belongs to the session that a header names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from otel_itl.recording.kept_sessions import as_session_id
from otel_itl.recording.session_scope import session

SESSION_HEADER: Final = "x-session-id"


class ASGISessionMiddleware:
    """Assigns what an ASGI application does for an HTTP request or a WebSocket to the session that a header names.

    It does what `with otel_itl.session(...)` around the application would do. A request without the header, or with a
    value that is no id, goes through untouched.

    Args:
        app: the application.
        session_header: the name of the header, in whatever case.

    Raises:
        ValueError: `session_header` is not the name of a header.
    """

    def __init__(self, app: Callable[..., Awaitable[None]], session_header: str = SESSION_HEADER) -> None:
        self.app = app
        self._name = _check_name(session_header).encode()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        """Have the application answer, in the scope of the session."""
        with _scope_of(self._find_value(scope)):
            await self.app(scope, receive, send)

    def _find_value(self, scope: MutableMapping[str, Any]) -> str:
        """Return the value of the header; empty where there is none. Never raises."""
        try:
            values = (value for name, value in scope.get("headers") or () if name.lower() == self._name)
            return str(next(values, b"").decode("latin-1"))
        except Exception:  # noqa: BLE001 - a server that does not keep to ASGI
            return ""


class WSGISessionMiddleware:
    """Does what `ASGISessionMiddleware` does for a WSGI application, also while its body is made part by part."""

    def __init__(self, app: Callable[..., Iterable[bytes]], session_header: str = SESSION_HEADER) -> None:
        self.app = app
        self._name = "HTTP_" + _check_name(session_header).upper().replace("-", "_")

    def __call__(self, environ: MutableMapping[str, Any], start_response: Any) -> Iterable[bytes]:
        """Have the application answer, in the scope of the session."""
        session_id = environ.get(self._name, "")
        with _scope_of(session_id):
            body = self.app(environ, start_response)
        # The length of a list is its server's to know.
        return body if isinstance(body, (list, tuple)) or as_session_id(session_id) is None else _Body(body, session_id)


class _Body:
    """The body of a response: each of its parts is made in the scope of a session."""

    def __init__(self, body: Iterable[bytes], session_id: str) -> None:
        self._body, self._session_id = body, session_id
        self._parts: Iterator[bytes] | None = None

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        with session(self._session_id):
            if self._parts is None:
                self._parts = iter(self._body)
            return next(self._parts)

    def close(self) -> None:
        """Close the body, as its server asks for at the end of the response."""
        close = getattr(self._body, "close", None)
        if close is not None:
            with session(self._session_id):
                close()


def _scope_of(value: str) -> AbstractContextManager[None]:
    """Return the scope of the session that a header names; one that changes nothing where it is no id."""
    session_id = as_session_id(value)
    return nullcontext() if session_id is None else session(session_id)


def _check_name(session_header: object) -> str:
    """Return the name of a header, in lower case.

    Raises:
        ValueError: it is none.
    """
    if isinstance(session_header, str) and session_header.isascii() and session_header.replace("-", "").isalnum():
        return session_header.lower()
    message = f"session_header={session_header!r} is not accepted: it takes the name of a header such as x-session-id."
    raise ValueError(message)
