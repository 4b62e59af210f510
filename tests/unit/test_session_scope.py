"""Which session a request belongs to: the scope it is made in, the baggage, or what it says itself."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry import baggage, context

from otel_itl import session
from otel_itl.config import load
from otel_itl.recording.internal_errors import InternalErrors
from otel_itl.recording.session_scope import find_session
from otel_itl.sdks.driver import Call, Driver, StreamingCall
from otel_itl.sdks.openai import SDK
from otel_itl.sdks.stainless import RequestDescriber


def here(said: str | None = None) -> str | None:
    """The session that a request made here belongs to, which says `said` itself."""
    return find_session(said, {})


@pytest.fixture
def carried() -> Iterator[Callable[[str, object], None]]:
    """Put something into the baggage of this test."""
    tokens: list[Any] = []

    def put(name: str, value: object) -> None:
        tokens.append(context.attach(baggage.set_baggage(name, value)))

    yield put
    for token in reversed(tokens):
        context.detach(token)


# --- The scope -------------------------------------------------------------------------------------------------------


def test_without_a_scope_a_request_belongs_to_no_session() -> None:
    assert here() is None


def test_a_request_in_a_scope_belongs_to_its_session() -> None:
    with session("a"):
        assert here() == "a"


def test_after_a_scope_there_is_none() -> None:
    with session("a"):
        pass
    assert here() is None


def test_the_inner_scope_holds_and_then_the_outer_again() -> None:
    with session("a"):
        with session("b"):
            inner = here()
        assert (inner, here()) == ("b", "a")


def test_a_scope_that_is_left_by_an_exception_is_left() -> None:
    with pytest.raises(KeyError), session("a"):
        raise KeyError
    assert here() is None


def test_a_scope_decorates_a_function() -> None:
    @session("a")
    def asked() -> str | None:
        return here()

    assert (asked(), here()) == ("a", None)


@pytest.mark.parametrize("given", ["", "x" * 257, None, 7, b"a"])
def test_what_is_no_text_of_256_characters_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match=r"is not accepted: it takes a text of 1 to 256 characters\.$"), session(given):
        pass


def test_a_text_of_256_characters_is_a_session() -> None:
    with session("x" * 256):
        assert here() == "x" * 256


# --- Threads and tasks -----------------------------------------------------------------------------------------------


def in_a_thread(function: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


def test_a_scope_holds_for_its_own_thread() -> None:
    entered, asked = threading.Event(), threading.Event()

    def scoped() -> None:
        with session("a"):
            entered.set()
            asked.wait(10)

    thread = threading.Thread(target=scoped)
    thread.start()
    entered.wait(10)
    found = here()
    asked.set()
    thread.join()
    assert found is None


def test_a_thread_with_the_callers_context_is_in_the_callers_scope() -> None:
    with session("a"):
        copied = contextvars.copy_context()
        assert in_a_thread(lambda: copied.run(here)) == "a"


def test_tasks_that_are_started_in_a_scope_are_in_it() -> None:
    async def asked() -> str | None:
        await asyncio.sleep(0)
        return here()

    async def main() -> tuple[str | None, str | None]:
        with session("a"):
            task = asyncio.create_task(asked())
        return await task, here()

    assert asyncio.run(main()) == ("a", None)


def test_tasks_beside_each_other_are_each_in_their_own() -> None:
    async def asked(name: str) -> str | None:
        with session(name):
            for _ in range(5):
                await asyncio.sleep(0)
            return here()

    async def main() -> list[str | None]:
        return await asyncio.gather(*(asked(str(number)) for number in range(20)))

    assert asyncio.run(main()) == [str(number) for number in range(20)]


def test_work_that_is_handed_to_a_thread_by_asyncio_is_in_the_scope() -> None:
    async def main() -> str | None:
        with session("a"):
            return await asyncio.to_thread(here)

    assert asyncio.run(main()) == "a"


def scoped_generator() -> Iterator[str | None]:
    with session("a"):
        while True:
            yield here()


def test_a_scope_in_a_generator_that_another_thread_closes_ends_without_an_error() -> None:
    generator = scoped_generator()
    # In a context of its own: where its first half ran, the scope stays.
    contextvars.copy_context().run(next, generator)
    in_a_thread(generator.close)
    assert (list(generator), here()) == ([], None)


def test_a_scope_in_an_async_generator_that_another_task_closes_ends_without_an_error() -> None:
    async def scoped() -> AsyncIterator[str | None]:
        with session("a"):
            while True:
                yield here()

    async def main() -> tuple[str | None, list[str | None]]:
        generator = scoped()
        first = await asyncio.create_task(anext(generator))  # type: ignore[arg-type]
        await generator.aclose()  # type: ignore[attr-defined]
        return first, [found async for found in generator]

    assert asyncio.run(main()) == ("a", [])


# --- The baggage -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["session.id", "gen_ai.conversation.id"])
def test_the_baggage_says_which_session(name: str, carried: Callable[[str, object], None]) -> None:
    carried(name, "a")
    assert here() == "a"


def test_of_a_session_and_a_conversation_the_session_counts(carried: Callable[[str, object], None]) -> None:
    carried("gen_ai.conversation.id", "conversation")
    carried("session.id", "session")
    assert here() == "session"


def test_the_scope_wins_over_the_baggage(carried: Callable[[str, object], None]) -> None:
    carried("session.id", "baggage")
    with session("scope"):
        assert here() == "scope"


def test_the_baggage_wins_over_what_the_request_says_itself(carried: Callable[[str, object], None]) -> None:
    carried("session.id", "baggage")
    assert here("request") == "baggage"


def test_the_session_that_a_request_names_counts_where_no_other_is_set() -> None:
    assert here("request") == "request"


def test_what_a_peer_put_into_the_baggage_is_cut(carried: Callable[[str, object], None]) -> None:
    carried("session.id", "x" * 5_000)
    assert here() == "x" * 256


@pytest.mark.parametrize("value", ["", 7, ["a"], None])
def test_what_is_no_text_in_the_baggage_is_passed_over(value: object, carried: Callable[[str, object], None]) -> None:
    carried("session.id", value)
    carried("gen_ai.conversation.id", "conversation")
    assert here() == "conversation"


# --- What the request says -------------------------------------------------------------------------------------------


def extracted(
    session_from: Any,
    body: Any = None,
    headers: Any = None,
    default_headers: Any = None,
    errors: InternalErrors | None = None,
) -> str | None:
    """The session of a request of the openai SDK."""
    options = SimpleNamespace(url="/chat/completions", method="post", json_data=body or {}, headers=headers or {})
    client = SimpleNamespace(
        base_url=SimpleNamespace(host="api.openai.com", port=None, scheme="https"),
        default_headers=default_headers or {},
    )
    opener: Any = SimpleNamespace(
        errors=InternalErrors() if errors is None else errors,
        session_from=load({"session_from": session_from}, {}).session_from,
        read_clocks=None,
    )
    call = Call(None, client, (None, options), {"stream": True})
    described = Driver(opener).describe(StreamingCall("m", "request", RequestDescriber(SDK).describe), call)
    assert described is not None
    session_id: str | None = described._description.request.session_id
    return session_id


BODY = {"user": "u", "metadata": {"session_id": "s", "deep": {"er": "d"}}, "seed": 7}


@pytest.mark.parametrize(
    ("session_from", "expected"),
    [
        ("user", "u"),
        ("metadata.session_id", "s"),
        ("metadata.deep.er", "d"),
        ("metadata", None),
        ("metadata.nothing", None),
        ("user.nothing", None),
        ("nothing.at.all", None),
        ("seed", None),
    ],
)
def test_a_field_of_the_body_at_any_depth_says_it(session_from: str, expected: str | None) -> None:
    assert extracted(session_from, BODY) == expected


@pytest.mark.parametrize("name", ["x-session", "X-Session", " X-SESSION "])
def test_a_header_says_it_in_whatever_case(name: str) -> None:
    assert extracted(f"header:{name}", headers={"X-Session": "h"}) == "h"


def test_a_header_of_the_client_says_it() -> None:
    assert extracted("header:x-session", default_headers={"x-session": "client"}) == "client"


def test_the_header_of_a_request_wins_over_the_clients() -> None:
    assert extracted("header:x-session", headers={"X-Session": "r"}, default_headers={"x-session": "c"}) == "r"


def test_a_header_that_is_not_there_says_nothing() -> None:
    assert extracted("header:x-session", headers={"x-sessions": "h"}) is None


def test_a_function_of_body_and_headers_says_it() -> None:
    said = extracted(lambda body, headers: body["user"] + headers["x"], BODY, {"x": "h"})
    assert said == "uh"


@pytest.mark.parametrize("said", [None, 7, "", object()])
def test_what_a_function_says_that_is_no_text_is_nothing(said: object) -> None:
    assert extracted(lambda body, headers: said) is None


def test_what_a_request_says_is_cut() -> None:
    assert extracted("user", {"user": "x" * 5_000}) == "x" * 256


@pytest.mark.requirement("R16")
def test_a_function_that_fails_is_contained() -> None:
    errors = InternalErrors()
    session_id = extracted(lambda body, headers: body["nothing"], errors=errors)
    assert (session_id, errors.counts) == (None, {"callback.session_from": 1})
