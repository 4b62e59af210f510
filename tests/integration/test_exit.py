"""When the process goes away, or becomes two: nothing is lost, nothing is told twice, nothing is printed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from otel_itl.testing import ScriptedServer, chat, responses

if TYPE_CHECKING:
    from conftest import App, Finished, Receiver

pytestmark = pytest.mark.skipif(
    sys.version_info[:3] == (3, 13, 0),
    reason="CPython 3.13.0 crashes when it exits with an open stream of the openai client, instrumented or not",
)

BEGIN = """
import otel_itl

otel_itl.instrument()

import openai

ASKED = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "stream": True}
"""
PROGRAMS = {
    "sync": """
client = openai.OpenAI()
stream = client.chat.completions.create(**ASKED)
next(stream), next(stream)
""",
    "async": """
import asyncio

async def main():
    global client, stream
    client = openai.AsyncOpenAI()
    stream = await client.chat.completions.create(**ASKED)
    await anext(stream), await anext(stream)

asyncio.run(main())
""",
    "async, loop left open": """
import asyncio

async def main():
    global client, stream
    client = openai.AsyncOpenAI()
    stream = await client.chat.completions.create(**ASKED)
    await anext(stream), await anext(stream)

loop = asyncio.new_event_loop()
loop.run_until_complete(main())
""",
    "daemon thread": """
import threading

begun = threading.Event()

def read():
    for number, chunk in enumerate(openai.OpenAI().chat.completions.create(**ASKED)):
        if number:
            begun.set()

threading.Thread(target=read, daemon=True).start()
begun.wait()
""",
    "WebSocket, sync": """
connection = openai.OpenAI().responses.connect().enter()
connection.response.create(model="websocket", input="hello")
while connection.recv().type != "response.output_text.delta":
    pass
""",
    "WebSocket, async": """
import asyncio

async def main():
    global client, connection
    client = openai.AsyncOpenAI()
    connection = await client.responses.connect().enter()
    await connection.response.create(model="websocket", input="hello")
    while (await connection.recv()).type != "response.output_text.delta":
        pass

loop = asyncio.new_event_loop()
loop.run_until_complete(main())
""",
    "dropped just before": """
stream = openai.OpenAI().chat.completions.create(**ASKED)
next(stream), next(stream)
del stream
""",
}

try:
    import openai.types.responses.responses_client_event  # noqa: F401 - only whether it is there
except ImportError:  # this release of openai does not speak Responses over WebSockets
    PROGRAMS = {name: program for name, program in PROGRAMS.items() if "WebSocket" not in name}


@pytest.fixture(scope="module")
def exits(
    start_app: Callable[..., App], receivers: Callable[..., Receiver]
) -> Iterator[dict[str, tuple[Finished, Receiver]]]:
    """Each program with its receiver, two at a time."""
    with ScriptedServer() as server:
        server.always(chat.reply(400, gaps=0.1), model="m")
        server.always(responses.reply(400, gaps=0.1), model="websocket")
        finished: dict[str, tuple[Finished, Receiver]] = {}
        names = list(PROGRAMS)
        for pair in (names[start : start + 2] for start in range(0, len(names), 2)):
            started = []
            for name in pair:
                receiver = receivers()
                started.append((name, start_app(BEGIN + PROGRAMS[name], server, receiver), receiver))
            finished |= {name: (app.wait(), receiver) for name, app, receiver in started}
        yield finished


@pytest.mark.requirement("R28")
@pytest.mark.parametrize("program", list(PROGRAMS))
def test_a_stream_that_is_open_when_the_interpreter_exits_is_exported_as_abandoned(
    program: str, exits: dict[str, tuple[Finished, Receiver]]
) -> None:
    _, receiver = exits[program]
    outcomes = [receiver.plain(span.attributes)["itl.stream.outcome"] for span in receiver.spans]
    assert outcomes == ["abandoned"]


@pytest.mark.requirement("R28")
@pytest.mark.parametrize("program", list(PROGRAMS))
def test_the_exit_with_an_open_stream_counts_it_in_the_metrics(
    program: str, exits: dict[str, tuple[Finished, Receiver]]
) -> None:
    _, receiver = exits[program]
    assert [point.as_int for point in receiver.points("itl.client.stream.outcomes")] == [1]


@pytest.mark.requirement("R28")
@pytest.mark.parametrize("program", [program for program in PROGRAMS if program != "async"])
def test_the_exit_with_an_open_stream_prints_nothing_more(
    program: str, exits: dict[str, tuple[Finished, Receiver]]
) -> None:
    app, receiver = exits[program]
    assert (app.stdout, app.stderr) == ("", receiver.setup_notice)


@pytest.mark.requirement("R28")
def test_the_end_of_a_loop_with_an_open_stream_prints_nothing_more_of_ours(
    exits: dict[str, tuple[Finished, Receiver]],
) -> None:
    """As it closes, asyncio ends the generators of the HTTP client all at once; with or without us, some complain."""
    app, receiver = exits["async"]
    more = app.stderr.replace(receiver.setup_notice, "", 1)
    assert [word for word in ("otel_itl", "opentelemetry", "record_async_iterator") if word in more] == []


@pytest.mark.requirement("R28")
def test_a_program_that_ends_right_after_its_stream_exports_it(
    start_app: Callable[..., App], server: ScriptedServer, receiver: Receiver
) -> None:
    app = start_app(BEGIN + "list(openai.OpenAI().chat.completions.create(**ASKED))", server, receiver).wait()
    (span,) = receiver.spans
    (point,) = receiver.points("itl.client.stream.outcomes")
    outcome = receiver.plain(span.attributes)["itl.stream.outcome"]
    assert (outcome, point.as_int, app.stderr) == ("completed", 1, receiver.setup_notice)


@pytest.mark.requirement("R28")
def test_providers_of_a_second_instrumentation_get_what_is_open_at_exit(
    start_app: Callable[..., App], server: ScriptedServer, receiver: Receiver
) -> None:
    server.always(chat.reply(400, gaps=0.1))
    start_app(
        """
        import otel_itl
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        def provider():
            made = TracerProvider()
            made.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
            return made

        otel_itl.instrument(tracer_provider=provider())
        list(otel_itl.observe(["first"], provider="test", model="first"))
        otel_itl.uninstrument()
        otel_itl.instrument(tracer_provider=provider())
        stream = otel_itl.observe(iter(["a", "b"]), provider="test", model="second")
        next(stream)
        """,
        server,
        receiver,
    ).wait()
    assert sorted(span.name for span in receiver.spans) == ["chat first", "chat second"]


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

FORKING = """
import os, sys, warnings

warnings.simplefilter("ignore", DeprecationWarning)
client = openai.OpenAI()
stream = client.chat.completions.create(**ASKED)
next(stream), next(stream)
child = os.fork()
if not child:
    del stream
    list(openai.OpenAI().chat.completions.create(**ASKED | {"model": "child"}))
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
stream.close()
"""


@pytest.fixture(scope="module")
def forked(start_app: Callable[..., App], receivers: Callable[..., Receiver]) -> Iterator[tuple[Finished, Receiver]]:
    """A process that forks while it streams; the child makes a stream of its own, and both exit."""
    with ScriptedServer() as server:
        server.always(chat.reply(400, gaps=0.1), model="m")
        server.always(chat.reply(3), model="child")
        receiver = receivers()
        yield start_app(BEGIN + FORKING, server, receiver).wait(), receiver


@forks
@pytest.mark.requirement("R69")
def test_a_stream_that_is_open_over_a_fork_is_exported_once_by_the_parent(
    forked: tuple[Finished, Receiver],
) -> None:
    _, receiver = forked
    outcomes = [
        receiver.plain(span.attributes)["itl.stream.outcome"] for span in receiver.spans if span.name == "chat m"
    ]
    assert outcomes == ["closed"]


@forks
@pytest.mark.requirement("R69")
def test_a_stream_of_the_child_is_exported_once(forked: tuple[Finished, Receiver]) -> None:
    _, receiver = forked
    outcomes = [
        receiver.plain(span.attributes)["itl.stream.outcome"] for span in receiver.spans if span.name == "chat child"
    ]
    assert outcomes == ["completed"]


@forks
@pytest.mark.requirement("R69")
def test_each_side_of_a_fork_counts_its_own_stream(forked: tuple[Finished, Receiver]) -> None:
    _, receiver = forked
    last = {
        (
            receiver.plain(point.attributes)["gen_ai.request.model"],
            receiver.plain(point.attributes)["itl.stream.outcome"],
        ): point.as_int
        for request in receiver.requests
        for part in getattr(request, "resource_metrics", ())
        for scope in part.scope_metrics
        for metric in scope.metrics
        if metric.name == "itl.client.stream.outcomes"
        for point in metric.sum.data_points
    }
    assert last == {("m", "closed"): 1, ("child", "completed"): 1}


@forks
@pytest.mark.requirement("R69")
def test_a_fork_prints_nothing_more(forked: tuple[Finished, Receiver]) -> None:
    app, receiver = forked
    assert app.stderr == receiver.setup_notice
