"""Sessions over real sockets: every request knows its place in one, wherever its stream is read."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import pytest
from opentelemetry import baggage, context

import otel_itl
from otel_itl import session
from otel_itl.testing import CapturedTelemetry, ScriptedServer, chat

if TYPE_CHECKING:
    from conftest import Clients, Instrument
    from opentelemetry.sdk.trace import ReadableSpan

SESSION: Final = "a-session-that-no-metric-names"
ASKED: Any = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(process=True) as running:
        yield running


@pytest.fixture(autouse=True)
def _measured(server: ScriptedServer, instrument: Instrument) -> None:
    server.clear()
    instrument()


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def by_index(captured: CapturedTelemetry) -> list[ReadableSpan]:
    """The spans of a session in the order of its requests."""
    return sorted(captured.spans, key=lambda span: attributes(span)["itl.session.request.index"])


def linked(spans: list[ReadableSpan]) -> list[list[int]]:
    """Which spans each links to, by their place."""
    places = {span.get_span_context().span_id: place for place, span in enumerate(spans)}
    return [[places[link.context.span_id] for link in span.links] for span in spans]


def test_a_request_says_which_session_it_belongs_to_and_its_place_in_it(
    clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    with session(SESSION):
        clients.chat()
        clients.messages()
    said = [
        (found["session.id"], found["itl.session.request.index"]) for found in map(attributes, captured_telemetry.spans)
    ]
    assert said == [(SESSION, 1), (SESSION, 2)]


def test_each_request_links_to_the_one_before(clients: Clients, captured_telemetry: CapturedTelemetry) -> None:
    with session(SESSION):
        for _ in range(3):
            clients.chat()
    assert linked(by_index(captured_telemetry)) == [[], [0], [1]]


def test_sessions_do_not_know_of_each_other(clients: Clients, captured_telemetry: CapturedTelemetry) -> None:
    for name in ("a", "b", "a"):
        with session(name):
            clients.chat()
    said = [
        (found["session.id"], found["itl.session.request.index"]) for found in map(attributes, captured_telemetry.spans)
    ]
    assert (said, linked(captured_telemetry.spans)) == ([("a", 1), ("b", 1), ("a", 2)], [[], [], [0]])


def test_without_a_session_nothing_is_said_of_one(clients: Clients, captured_telemetry: CapturedTelemetry) -> None:
    clients.chat()
    (span,) = captured_telemetry.spans
    assert ([name for name in attributes(span) if "session" in name], list(span.links)) == ([], [])


def test_what_the_session_has_spent_is_summed_up(
    clients: Clients, server: ScriptedServer, captured_telemetry: CapturedTelemetry
) -> None:
    server.always(chat.reply(3, gaps=0.02))
    with session(SESSION):
        for _ in range(3):
            clients.chat()
    spent = [attributes(span)["itl.session.decode.duration"] for span in by_index(captured_telemetry)]
    assert [later > sooner for sooner, later in pairwise(spent)] == [True, True]


def test_the_stalls_of_a_session_are_counted(
    clients: Clients, server: ScriptedServer, captured_telemetry: CapturedTelemetry
) -> None:
    server.play(chat.reply(2), chat.reply(2, gaps=2.1), chat.reply(2))
    with session(SESSION):
        for _ in range(3):
            clients.chat()
    assert [attributes(span)["itl.session.stall.count"] for span in by_index(captured_telemetry)] == [0, 1, 1]


@pytest.mark.requirement("R71")
def test_a_stream_that_is_read_after_its_scope_belongs_to_the_session(
    clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    with session(SESSION):
        stream = clients.openai().chat.completions.create(model="gpt-4o", messages=ASKED, stream=True)
    with session("another"):
        list(stream)
    assert [attributes(span)["session.id"] for span in captured_telemetry.spans] == [SESSION]


@pytest.mark.requirement("R71")
def test_a_stream_that_another_thread_reads_belongs_to_the_session(
    clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    with session(SESSION):
        stream = clients.openai().chat.completions.create(model="gpt-4o", messages=ASKED, stream=True)
    thread = threading.Thread(target=list, args=(stream,))
    thread.start()
    thread.join()
    assert [attributes(span)["session.id"] for span in captured_telemetry.spans] == [SESSION]


@pytest.mark.requirement("R71")
def test_an_async_stream_that_another_task_reads_belongs_to_the_session(
    clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    async def exhaust(stream: Any) -> None:
        async for _ in stream:
            pass

    async def main() -> None:
        async with clients.async_openai() as client:
            with session(SESSION):
                stream = await client.chat.completions.create(model="gpt-4o", messages=ASKED, stream=True)
            await asyncio.create_task(exhaust(stream))

    asyncio.run(main())
    assert [attributes(span)["session.id"] for span in captured_telemetry.spans] == [SESSION]


def test_threads_beside_each_other_are_each_in_their_own_session(
    clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    client = clients.openai()

    def work(name: str) -> None:
        for _ in range(3):
            with session(name):
                clients.chat(client, model=f"model-{name}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, map(str, range(8))))
    said = [attributes(span) for span in captured_telemetry.spans]
    found = sorted((one["session.id"], one["gen_ai.request.model"], one["itl.session.request.index"]) for one in said)
    assert found == [(str(name), f"model-{name}", index) for name in range(8) for index in (1, 2, 3)]


def test_tasks_of_one_session_have_places_of_their_own(clients: Clients, captured_telemetry: CapturedTelemetry) -> None:
    async def ask(client: Any) -> None:
        async for _ in await client.chat.completions.create(model="gpt-4o", messages=ASKED, stream=True):
            pass

    async def main() -> None:
        async with clients.async_openai() as client:
            with session(SESSION):
                await asyncio.gather(*(ask(client) for _ in range(8)))

    asyncio.run(main())
    said = [attributes(span) for span in by_index(captured_telemetry)]
    assert [(one["session.id"], one["itl.session.request.index"]) for one in said] == [
        (SESSION, index) for index in range(1, 9)
    ]


def test_the_baggage_of_a_caller_says_the_session(clients: Clients, captured_telemetry: CapturedTelemetry) -> None:
    token = context.attach(baggage.set_baggage("session.id", SESSION))
    try:
        clients.chat()
    finally:
        context.detach(token)
    assert [attributes(span)["session.id"] for span in captured_telemetry.spans] == [SESSION]


@pytest.mark.parametrize(
    ("session_from", "options"),
    [
        ("user", {"user": SESSION}),
        ("metadata.session_id", {"extra_body": {"metadata": {"session_id": SESSION}}}),
        ("header:X-Session", {"extra_headers": {"x-session": SESSION}}),
    ],
)
def test_a_request_itself_says_the_session(
    session_from: str,
    options: dict[str, Any],
    clients: Clients,
    instrument: Instrument,
    captured_telemetry: CapturedTelemetry,
) -> None:
    otel_itl.uninstrument()
    instrument(session_from=session_from)
    clients.chat(**options)
    assert [attributes(span)["session.id"] for span in captured_telemetry.spans] == [SESSION]


@pytest.mark.requirement("R59")
def test_no_metric_names_a_session(clients: Clients, captured_telemetry: CapturedTelemetry) -> None:
    with session(SESSION):
        clients.chat()
    points = [point for points in captured_telemetry.metrics.values() for point in points]
    assert (len(points) > 0, SESSION in repr(points)) == (True, False)


FAST, SLOW = 0.004, 0.016
"""Seconds between tokens."""


@pytest.fixture
def degraded(clients: Clients, server: ScriptedServer, captured_telemetry: CapturedTelemetry) -> CapturedTelemetry:
    """A session of twelve fast requests and at most twenty slow ones."""
    client = clients.openai()
    with session(SESSION):
        server.always(chat.reply(25, gaps=FAST))
        for _ in range(12):
            clients.chat(client)
        server.always(chat.reply(25, gaps=SLOW))
        for _ in range(20):
            clients.chat(client)
            if degradations(captured_telemetry):
                break
    return captured_telemetry


def degradations(captured: CapturedTelemetry) -> list[Any]:
    return [log for log in captured.logs if log.event_name == "itl.session.degraded"]


def test_a_session_that_becomes_slower_is_told_of_beside_the_span_of_that_request(degraded: CapturedTelemetry) -> None:
    log = degradations(degraded)[-1]
    (span,) = [span for span in degraded.spans if span.get_span_context().span_id == log.span_id]
    names = ("session.id", "itl.session.request.index", "itl.session.degradation.scope")
    said = attributes(span)
    ratio = "itl.session.latency.ratio"
    assert [log.severity_text, *(log.attributes[name] for name in names), round(log.attributes[ratio], 6)] == [
        "WARN",
        *(said[name] for name in (*names, ratio)),
    ]


def test_the_span_of_a_request_says_that_its_session_has_degraded(degraded: CapturedTelemetry) -> None:
    said = attributes(by_index(degraded)[-1])
    assert (said["itl.session.degraded"], said["itl.session.latency.ratio"] > 1.5) == (True, True)


def test_a_caller_that_begins_to_read_late_hides_no_degradation(
    clients: Clients, server: ScriptedServer, captured_telemetry: CapturedTelemetry
) -> None:
    """The first token's arrival is hidden from it, and nearly every gap is exact all the same."""
    client = clients.openai()
    with session(SESSION):
        for _ in range(2):
            server.play(chat.reply(30, first=0.01, gaps=0.01))
            stream = client.chat.completions.create(model="gpt-4o", messages=ASKED, stream=True)
            time.sleep(0.05)  # the caller's own work
            list(stream)
    last = attributes(by_index(captured_telemetry)[-1])
    assert (last["itl.consumer.bound"], "itl.session.latency.ratio" in last) == (True, True)


def test_a_stream_belongs_to_the_session_in_which_it_is_asked_for_wherever_its_request_is_sent(
    captured_telemetry: CapturedTelemetry,
) -> None:
    def observed(model: str) -> Any:
        return otel_itl.observe((part for part in "ab"), provider="test", model=model, sent="first_pull")

    with session(SESSION):
        inside = observed("inside")
    outside = observed("outside")
    with session(SESSION):
        list(outside)
    list(inside)
    shown = [
        (found["gen_ai.request.model"], found.get("session.id")) for found in map(attributes, captured_telemetry.spans)
    ]
    assert shown == [("outside", None), ("inside", SESSION)]
