"""The middleware for ASGI and WSGI: which session the requests belong to that an application makes while it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import pytest

from otel_itl import ASGISessionMiddleware, WSGISessionMiddleware, session
from otel_itl.recording.session_scope import find_session


def here() -> str | None:
    """The session of a request that is made here."""
    return find_session(None, {})


# --- ASGI -----------------------------------------------------------------------------------------------------------


def asgi(headers: Any, kind: str = "http", **options: str) -> tuple[str | None, str | None]:
    """The session in an application, and after it."""
    seen: list[str | None] = []

    async def app(*_: Any) -> None:
        await asyncio.sleep(0)
        seen.append(here())

    async def main() -> tuple[str | None, str | None]:
        await ASGISessionMiddleware(app, **options)({"type": kind, "headers": headers}, None, None)
        return seen[0], here()

    return asyncio.run(main())


@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_a_header_names_the_session_of_an_asgi_request(kind: str) -> None:
    assert asgi([(b"host", b"h"), (b"x-session-id", b"a")], kind) == ("a", None)


def test_the_header_may_have_another_name_in_whatever_case() -> None:
    assert asgi([(b"X-Chat", b"a"), (b"x-session-id", b"b")], session_header="x-CHAT") == ("a", None)


@pytest.mark.parametrize(
    "headers", [None, [], [(b"host", b"h")], [(b"x-session-id", b"")], ["text"], [(b"x-session-id", 7)]]
)
def test_an_asgi_request_without_the_header_has_no_session(headers: Any) -> None:
    assert asgi(headers) == (None, None)


@pytest.mark.parametrize("value", [b"x" * 257, b"a\nb", b"\x00"])
def test_a_header_that_is_no_id_names_none(value: bytes) -> None:
    assert asgi([(b"x-session-id", value)]) == (None, None)


def test_two_asgi_requests_at_once_are_each_in_their_own_session() -> None:
    seen: list[tuple[str, str | None]] = []

    async def app(scope: Any, *_: Any) -> None:
        for _turn in range(5):
            await asyncio.sleep(0)
            seen.append((scope["path"], here()))

    async def main() -> None:
        middleware = ASGISessionMiddleware(app)
        scopes = [{"type": "http", "path": id_, "headers": [(b"x-session-id", id_.encode())]} for id_ in "ab"]
        await asyncio.gather(*(middleware(scope, None, None) for scope in scopes))

    asyncio.run(main())
    assert (set(seen), len(seen)) == ({("a", "a"), ("b", "b")}, 10)


def test_the_scope_in_an_application_wins_over_its_header() -> None:
    async def app(*_: Any) -> None:
        with session("inner"):
            assert here() == "inner"

    scope = {"type": "http", "headers": [(b"x-session-id", b"outer")]}
    asyncio.run(ASGISessionMiddleware(app)(scope, None, None))


# --- WSGI -----------------------------------------------------------------------------------------------------------


def wsgi(app: Any, **environ: str) -> tuple[list[bytes], str | None]:
    """What a server gets from an application, which the validator of the standard library checks; the session after."""
    environ["QUERY_STRING"] = ""
    setup_testing_defaults(environ)
    body = validator(WSGISessionMiddleware(validator(app)))(environ, lambda *_: bytes.__len__)
    parts = list(body)
    body.close()
    return parts, here()


def answer(start_response: Any) -> bytes:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return str(here()).encode()


def test_a_header_names_the_session_of_a_wsgi_request() -> None:
    assert wsgi(lambda _, start: [answer(start)], HTTP_X_SESSION_ID="a") == ([b"a"], None)


def test_the_parts_of_a_wsgi_body_are_made_in_the_session_and_the_server_is_in_none_between_them() -> None:
    between: list[str | None] = []

    def app(_: Any, start: Any) -> Iterator[bytes]:
        first = answer(start)

        def parts() -> Iterator[bytes]:
            yield first
            yield str(here()).encode()

        return parts()

    environ: dict[str, Any] = {"HTTP_X_SESSION_ID": "a"}
    parts = [(part, between.append(here()))[0] for part in WSGISessionMiddleware(app)(environ, lambda *_: None)]
    assert (parts, between) == ([b"a", b"a"], [None, None])


def test_a_wsgi_body_is_closed_in_the_session() -> None:
    closed: list[str | None] = []

    class Body:
        def __iter__(self) -> Iterator[bytes]:
            return iter([b"part"])

        def close(self) -> None:
            closed.append(here())

    def app(_: Any, start: Any) -> Iterable[bytes]:
        answer(start)
        return Body()

    wsgi(app, HTTP_X_SESSION_ID="a")
    assert closed == ["a"]


@pytest.mark.parametrize("environ", [{}, {"HTTP_X_SESSION_ID": "x" * 257}])
def test_the_body_of_a_request_without_a_session_is_the_applications_own(environ: Any) -> None:
    body = iter([b"part"])
    assert WSGISessionMiddleware(lambda *_: body)(environ, None) is body


# --- Its name -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("middleware", [ASGISessionMiddleware, WSGISessionMiddleware])
@pytest.mark.parametrize("name", ["", "two words", "x:y", "-", None, 7])
def test_what_is_no_name_of_a_header_is_refused(middleware: Any, name: Any) -> None:
    with pytest.raises(ValueError, match=r"is not accepted: it takes the name of a header such as x-session-id\.$"):
        middleware(None, session_header=name)
