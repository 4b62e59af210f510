"""OpenAI Responses over WebSockets: one span for each response, whichever way it ends, and nothing changed."""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import os
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final
from weakref import ref

import pytest
from measuring import bare, instrument, measured, timeline_of, wait_for_a_span
from opentelemetry import trace

import otel_itl
from otel_itl.core.timeline import Outcome
from otel_itl.runtime import runtime
from otel_itl.sdks.responses_websocket import ResponsesWire
from otel_itl.sdks.websocket_connections import Handshake
from otel_itl.testing import CapturedTelemetry, Script, ScriptedServer, capture_telemetry, faults, responses

openai: Any = pytest.importorskip("openai")
websockets: Any = pytest.importorskip("websockets", minversion="13")

of_sdk: Any = pytest.importorskip("openai.resources.responses.responses")
if not hasattr(of_sdk.Responses, "connect"):
    pytest.skip("this release of openai does not speak Responses over WebSockets", allow_module_level=True)

# websockets 17.1 and later, of what openai does.
pytestmark = pytest.mark.filterwarnings("ignore:connect\\(\\) must be used as a context manager:DeprecationWarning")


class Connection:
    """A connection of one of the two clients, awaited in either case."""

    def __init__(self, connection: Any) -> None:
        self.of_sdk = connection
        self.wire = connection._connection

    async def _settle(self, result: Any) -> Any:
        return await result if inspect.isawaitable(result) else result

    async def create(self, model: str = "gpt-x", **options: Any) -> None:
        await self._settle(self.of_sdk.response.create(model=model, input="hello", **options))

    async def steer(self, parent: str) -> None:
        await self._settle(self.of_sdk.response.steer(input="rather that", previous_response_id=parent))

    async def recv(self) -> Any:
        return await self._settle(self.of_sdk.recv())

    async def until(self, kind: str) -> list[Any]:
        """Receive up to and including the first event of a type."""
        events = [await self.recv()]
        while events[-1].type != kind:
            events.append(await self.recv())
        return events

    async def close(self) -> None:
        await self._settle(self.of_sdk.close())


Run = Callable[[Callable[[Connection], Awaitable[Any]]], Any]


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest, server: ScriptedServer) -> Run:
    """Run a scenario with a connection of the client; a failure of the connection's own is the scenario's to notice."""

    @asynccontextmanager
    async def connected() -> AsyncIterator[Connection]:
        if request.param == "sync":
            client = openai.OpenAI(base_url=server.openai_url, api_key="none")
            with client, client.responses.connect() as connection:
                yield Connection(connection)
        else:
            client = openai.AsyncOpenAI(base_url=server.openai_url, api_key="none")
            async with client, client.responses.connect() as connection:
                yield Connection(connection)

    def run(scenario: Callable[[Connection], Awaitable[Any]]) -> Any:
        async def main() -> Any:
            async with connected() as connection:
                return await scenario(connection)

        return asyncio.run(main())

    run.__name__ = f"run_{request.param}"
    return run


@pytest.fixture
def telemetry() -> Iterator[CapturedTelemetry]:
    with measured() as captured:
        yield captured


@contextmanager
def measured_with(**options: Any) -> Iterator[CapturedTelemetry]:
    bare()
    with capture_telemetry() as captured:
        instrument(captured, **options)
        yield captured
        bare()


def outcomes(telemetry: CapturedTelemetry) -> list[str]:
    return [span.attributes["itl.stream.outcome"] for span in telemetry.spans]


async def ask(connection: Connection) -> list[Any]:
    await connection.create()
    return await connection.until("response.completed")


# --- What is recorded ------------------------------------------------------------------------------------------------


def test_a_response_is_a_span(run: Run, telemetry: CapturedTelemetry, server: ScriptedServer) -> None:
    server.always(responses.reply(["Hel", "lo", "!"], first=0.05, gaps=0.2))
    run(lambda connection: _ask_with(connection, temperature=0.5))
    (span,) = telemetry.spans
    assert span.name == "chat gpt-x"
    assert span.kind is trace.SpanKind.CLIENT
    found = {name: span.attributes.get(name) for name in EXPECTED}
    assert found == {**EXPECTED, "server.port": server.port}
    assert span.attributes["itl.time_to_first_token"] >= 0.05
    assert span.attributes["itl.latency.max"] >= 0.1


EXPECTED: Final = {
    "gen_ai.provider.name": "openai",
    "gen_ai.request.temperature": 0.5,
    "gen_ai.usage.output_tokens": 3,
    "gen_ai.response.finish_reasons": ("completed",),
    "itl.output_chunk.count": 3,
    "itl.stream.outcome": "completed",
    "server.address": "127.0.0.1",
    "server.port": None,
}


async def _ask_with(connection: Connection, **options: Any) -> None:
    await connection.create(**options)
    await connection.until("response.completed")


def test_each_response_of_a_connection_is_a_span(run: Run, telemetry: CapturedTelemetry) -> None:
    async def scenario(connection: Connection) -> None:
        for _ in range(3):
            await ask(connection)

    run(scenario)
    assert outcomes(telemetry) == ["completed"] * 3
    assert len({span.attributes["gen_ai.response.id"] for span in telemetry.spans}) == 3


def test_the_parent_is_the_span_of_the_caller_that_asks(run: Run, telemetry: CapturedTelemetry) -> None:
    tracer = telemetry.tracer_provider.get_tracer("application")

    async def scenario(connection: Connection) -> None:
        with tracer.start_as_current_span("turn"):
            await connection.create()
        await connection.until("response.completed")

    run(scenario)
    turn, response = sorted(telemetry.spans, key=lambda span: span.name != "turn")
    assert response.parent.span_id == turn.context.span_id


def skip_a_queue_of_one_message(run: Run) -> None:
    """Skip where nothing is read ahead: a consumer that holds hides arrivals there."""
    if run.__name__ == "run_sync" and int(websockets.__version__.partition(".")[0]) < FIRST_QUEUE:
        pytest.skip("this release of websockets has a queue of one message")


FIRST_QUEUE: Final = 14


def test_a_consumer_that_holds_does_not_hide_an_arrival(
    run: Run, telemetry: CapturedTelemetry, server: ScriptedServer
) -> None:
    skip_a_queue_of_one_message(run)
    server.always(responses.reply(8, first=0.02, gaps=[0.02, 0.02, 0.2, 0.02, 0.02, 0.02, 0.02]))

    async def scenario(connection: Connection) -> None:
        await ask(connection)  # the SDK makes its types
        await connection.create()
        kind = ""
        while kind != "response.completed":
            kind = (await connection.recv()).type
            await asyncio.sleep(0.06)

    run(scenario)
    sent = server.exchanges[1].output_times_ns
    timeline = timeline_of(telemetry.spans[1])
    arrived = [moment for moment, kind in zip(timeline.arrived, timeline.kinds, strict=True) if kind & 7]
    spread = [at - of for at, of in zip(arrived, sent, strict=True)]
    assert max(spread) - min(spread) < 200_000_000  # of the 0.3 s and more that the consumer held
    assert telemetry.spans[1].attributes["itl.consumer.duration"] < 0.05


def test_a_queue_that_was_full_leaves_arrivals_open(telemetry: CapturedTelemetry, server: ScriptedServer) -> None:
    server.always(responses.reply(60, gaps=0.001))

    async def main() -> None:
        client = openai.AsyncOpenAI(base_url=server.openai_url, api_key="none")
        async with client, client.responses.connect() as connection:
            await connection.response.create(model="gpt-x", input="hello")
            await asyncio.sleep(0.3)
            while (await connection.recv()).type != "response.completed":
                pass

    asyncio.run(main())
    (span,) = telemetry.spans
    attributes = span.attributes
    assert attributes["itl.latency.imputed"] + attributes["itl.latency.excluded"] > 10
    assert attributes["itl.consumer.duration"] > 0.1


lanes_and_steers = pytest.mark.skipif(
    not hasattr(getattr(of_sdk, "ResponsesResponseResource", None), "steer"),
    reason="this release of openai has neither lanes nor steers",
)


@lanes_and_steers
def test_lanes_are_told_apart(run: Run, telemetry: CapturedTelemetry, server: ScriptedServer) -> None:
    server.play(responses.reply(3, gaps=0.05), model="slow")
    server.play(responses.reply(20, gaps=0.005), model="fast")

    async def scenario(connection: Connection) -> None:
        await connection.create("slow", stream_id="a")
        await connection.create("fast", stream_id="b")
        for _ in range(2):
            await connection.until("response.completed")

    run(scenario)
    chunks = {s.attributes["gen_ai.request.model"]: s.attributes["itl.output_chunk.count"] for s in telemetry.spans}
    assert chunks == {"slow": 3, "fast": 20}


def test_the_lanes_of_the_sdks_own_session_are_told_apart(telemetry: CapturedTelemetry, server: ScriptedServer) -> None:
    sessions: Any = pytest.importorskip("openai.lib.responses_websocket")
    server.play(responses.reply(3, gaps=0.05), model="slow")
    server.play(responses.reply(20, gaps=0.005), model="fast")

    async def ask_in(session: Any, model: str) -> None:
        lane = session.lane(model)
        await lane.send({"type": "response.create", "model": model, "input": "hello"})
        await lane.get_final_response()

    async def main() -> None:
        client = openai.AsyncOpenAI(base_url=server.openai_url, api_key="none")
        limits = {"max_lanes": 8, "max_events_per_lane": 128, "max_events": 512}
        bytes_of = {"max_bytes_per_lane": 1 << 24, "max_bytes": 1 << 25}
        async with client, client.responses.connect() as connection:
            budgets = sessions.ResponsesWebSocketLimits(**limits, **bytes_of)
            async with sessions.AsyncResponsesWebSocketSession(connection, limits=budgets) as session:
                await asyncio.gather(ask_in(session, "slow"), ask_in(session, "fast"))

    asyncio.run(main())
    chunks = {s.attributes["gen_ai.request.model"]: s.attributes["itl.output_chunk.count"] for s in telemetry.spans}
    assert chunks == {"slow": 3, "fast": 20}


def test_session_from_gets_the_event_and_the_headers_of_the_handshake(run: Run, server: ScriptedServer) -> None:
    def session_from(body: Any, headers: Any) -> str:
        return f"{body['metadata']['session']} {headers['Authorization']}"

    with measured_with(session_from=session_from) as telemetry:
        run(lambda connection: _ask_with(connection, metadata={"session": "s1"}))
    assert telemetry.spans[0].attributes["session.id"] == "s1 Bearer none"


def test_a_stall_is_reported_while_it_lasts(run: Run, server: ScriptedServer) -> None:
    server.always(responses.reply(3, gaps=[0.01, 0.8]))
    seen = threading.Event()
    with measured_with(stall="next_token=200ms", on_stall=lambda _: seen.set()) as telemetry:

        async def scenario(connection: Connection) -> bool:
            await connection.create()
            await connection.until("response.output_text.delta")
            await connection.until("response.output_text.delta")
            await asyncio.to_thread(seen.wait, 5)
            was_running = not telemetry.spans
            await connection.until("response.completed")
            return was_running

        assert run(scenario)
    assert telemetry.spans[0].attributes["itl.stall.count"] == 1


def test_the_connection_has_events_with_its_totals(run: Run, telemetry: CapturedTelemetry) -> None:
    async def scenario(connection: Connection) -> None:
        await ask(connection)
        await ask(connection)

    run(scenario)
    opened, closed = [log for log in telemetry.logs if log.event_name.startswith("itl.connection.")]
    assert (opened.event_name, closed.event_name) == ("itl.connection.opened", "itl.connection.closed")
    assert closed.attributes["itl.connection.responses"] == 2
    assert closed.attributes["itl.connection.messages"] > 10
    assert closed.attributes["itl.connection.bytes"] > 1000
    assert closed.attributes["itl.connection.duration"] > 0


# --- How a response ends ---------------------------------------------------------------------------------------------

ENDS: Final[dict[str, tuple[Script, str, str, str | None]]] = {
    "failed": (Script([responses.created(), responses.failed()]), "response.failed", "error", "server_error"),
    "error": (Script([responses.created(), responses.error()]), "error", "error", "server_error"),
    "refused": (faults.status(400, kind="invalid_request_error"), "error", "error", "invalid_request_error"),
    "incomplete": (
        Script([responses.created(), responses.text("Hi"), responses.incomplete("max_output_tokens")]),
        "response.incomplete",
        "completed",
        None,
    ),
}


@pytest.mark.parametrize("end", ENDS)
def test_an_event_ends_a_response(run: Run, telemetry: CapturedTelemetry, server: ScriptedServer, end: str) -> None:
    script, event, outcome, error_type = ENDS[end]
    server.always(script)

    async def scenario(connection: Connection) -> None:
        await connection.create()
        await connection.until(event)

    run(scenario)
    (span,) = telemetry.spans
    assert (span.attributes["itl.stream.outcome"], span.attributes.get("error.type")) == (outcome, error_type)


@pytest.mark.parametrize(
    ("fault", "outcome", "error_type"),
    [
        (faults.close_frame(1000), "truncated", None),
        (faults.close_frame(1011), "error", "websocket_closed_1011"),
        (faults.close(), "error", "websocket_closed_1006"),
        (faults.reset(), "error", "websocket_closed_1006"),
    ],
)
def test_a_connection_that_is_lost_ends_its_responses(
    run: Run, telemetry: CapturedTelemetry, server: ScriptedServer, fault: Any, outcome: str, error_type: str | None
) -> None:
    server.always(Script([responses.created(), responses.text("Hi"), fault]))

    async def scenario(connection: Connection) -> None:
        await connection.create()
        with suppress(websockets.ConnectionClosed):
            while True:
                await connection.recv()

    run(scenario)
    (span,) = telemetry.spans
    assert (span.attributes["itl.stream.outcome"], span.attributes.get("error.type")) == (outcome, error_type)


def test_the_caller_closes_the_connection(run: Run, telemetry: CapturedTelemetry, server: ScriptedServer) -> None:
    server.always(Script([responses.created(), responses.text("Hi"), faults.hold()]))

    async def scenario(connection: Connection) -> None:
        await connection.create()
        await connection.until("response.output_text.delta")
        await connection.close()

    run(scenario)
    (span,) = telemetry.spans
    assert span.attributes["itl.stream.outcome"] == "closed"
    assert span.status.is_unset


def test_a_response_that_nobody_reads_is_recorded(run: Run, telemetry: CapturedTelemetry) -> None:
    skip_a_queue_of_one_message(run)

    async def scenario(connection: Connection) -> None:
        await connection.create()
        await wait_for_a_span(telemetry)

    run(scenario)
    assert outcomes(telemetry) == ["completed"]


def test_a_reader_that_gives_up_ends_nothing(telemetry: CapturedTelemetry, server: ScriptedServer) -> None:
    server.always(responses.reply(2, first=0.2))

    async def main() -> None:
        client = openai.AsyncOpenAI(base_url=server.openai_url, api_key="none")
        async with client, client.responses.connect() as connection:
            await connection.response.create(model="gpt-x", input="hello")
            given_up, kind = 0, ""
            while kind != "response.completed":
                try:
                    kind = (await asyncio.wait_for(connection.recv(), 0.02)).type
                except asyncio.TimeoutError:
                    given_up += 1
            assert given_up

    asyncio.run(main())
    assert outcomes(telemetry) == ["completed"]


@lanes_and_steers
def test_a_steered_response_is_interrupted_and_its_successor_recorded(
    run: Run, telemetry: CapturedTelemetry, server: ScriptedServer
) -> None:
    server.play(Script([responses.created(), responses.text("Hi"), faults.hold()]), responses.reply(2))

    async def scenario(connection: Connection) -> None:
        await connection.create()
        events = await connection.until("response.output_text.delta")
        await connection.steer(events[0].response.id)
        await connection.until("response.completed")

    run(scenario)
    assert outcomes(telemetry) == ["interrupted", "completed"]
    interrupted, successor = telemetry.spans
    assert interrupted.status.is_unset
    assert interrupted.attributes["gen_ai.response.finish_reasons"] == ("steered",)
    assert successor.attributes["gen_ai.request.model"] == "gpt-x"


def test_a_connection_that_is_dropped_abandons_its_responses(
    telemetry: CapturedTelemetry, server: ScriptedServer
) -> None:
    server.always(Script([responses.created(), responses.text("Hi"), faults.hold()]))

    async def main() -> None:
        client = openai.AsyncOpenAI(base_url=server.openai_url, api_key="none")
        connection = await client.responses.connect().enter()
        await connection.response.create(model="gpt-x", input="hello")
        while (await connection.recv()).type != "response.output_text.delta":
            pass
        connection._connection.transport.abort()

    asyncio.run(main())
    gc.collect()
    otel_itl.flush()
    (span,) = telemetry.spans
    assert span.attributes["itl.stream.outcome"] in {"error", "abandoned"}


def test_uninstrumenting_abandons_and_gives_the_connection_its_own_functions_back(
    run: Run, server: ScriptedServer
) -> None:
    server.always(Script([responses.created(), responses.text("Hi"), faults.hold()]))

    async def scenario(connection: Connection) -> tuple[list[str], list[str]]:
        await connection.create()
        await connection.until("response.output_text.delta")
        before = _replaced(connection)
        otel_itl.uninstrument()
        return before, _replaced(connection)

    with measured() as telemetry:
        assert run(scenario)[1] == []
    assert outcomes(telemetry) == ["abandoned"]


def _replaced(connection: Connection) -> list[str]:
    objects = (connection.wire, connection.wire.recv_messages)
    return [name for one in objects for name, value in vars(one).items() if "otel_itl" in _module_of(value)]


def _module_of(value: Any) -> str:
    code = getattr(value, "__code__", None)
    return "" if code is None else code.co_filename


# --- What does not change --------------------------------------------------------------------------------------------


def test_the_caller_gets_what_it_gets_without(run: Run, server: ScriptedServer) -> None:
    bare()

    def received() -> list[Any]:
        server.clear()
        server.always(responses.reply(["Hel", "lo"]))
        events = run(ask)
        return [(type(event), {**event.to_dict(), "response": None, "item": None}) for event in events]

    without = received()
    with measured():
        assert received() == without


def test_what_the_caller_sends_is_sent_as_it_is(run: Run, telemetry: CapturedTelemetry, server: ScriptedServer) -> None:
    async def scenario(connection: Connection) -> None:
        sent = connection.wire.send(json.dumps({"type": "response.create", "model": "m", "input": "ü"}))
        if inspect.isawaitable(sent):
            await sent
        await connection.until("response.completed")

    run(scenario)
    assert server.exchanges[0].json == {"type": "response.create", "model": "m", "input": "ü"}


ODD: Final = [
    *(b"", b"response. {", b'["response."]', b"7", b"response.\xff\xfe", b'{"response.":' * 20_000),
    b'{"type": 7, "response": [], "item": 8, "delta": {}, "stream_id": []}',
    b'{"type": "response.created", "response": 7, "stream_id": {}}',
    b'{"type": "response.steer", "previous_response_id": []}',
]


@pytest.mark.parametrize("message", ODD)
def test_an_odd_message_is_no_failure_and_belongs_to_no_response(
    telemetry: CapturedTelemetry, server: ScriptedServer, message: bytes
) -> None:
    wire = ResponsesWire(runtime.installer.driver, Handshake(f"{server.openai_url}/responses", {}))
    wire.send('{"type": "response.create", "model": "m"}').is_sent = True
    assert wire.send(message) is None
    wire.receive(message, 1)
    wire.end(Outcome.CLOSED, 1000)
    assert outcomes(telemetry) == ["closed"]


def test_sending_on_a_connection_that_is_closed_raises_as_without(run: Run, telemetry: CapturedTelemetry) -> None:
    async def scenario(connection: Connection) -> None:
        await connection.close()
        with pytest.raises(Exception):  # noqa: B017, PT011 - of the SDK or of websockets, by their releases
            await connection.create()

    run(scenario)
    assert outcomes(telemetry) in (["error"], [])  # some releases of openai raise before they send


def test_another_path_is_left_alone(telemetry: CapturedTelemetry) -> None:
    from websockets.sync.client import connect
    from websockets.sync.server import serve

    with serve(lambda connection: connection.send(connection.recv()), "127.0.0.1", 0) as other:
        thread = threading.Thread(target=other.serve_forever, daemon=True)
        thread.start()
        port = other.socket.getsockname()[1]
        with connect(f"ws://127.0.0.1:{port}/chat") as connection:
            connection.send('{"type": "response.create"}')
            assert connection.recv() == '{"type": "response.create"}'
            assert vars(connection).keys().isdisjoint({"send", "close"})
        other.shutdown()
        thread.join()
    assert telemetry.spans == []


def test_the_signatures_are_those_of_the_connection(run: Run) -> None:
    async def scenario(connection: Connection) -> list[str]:
        functions = (connection.wire.send, connection.wire.close, connection.wire.recv_messages.put)
        return [f"{inspect.signature(function)} {inspect.iscoroutinefunction(function)}" for function in functions]

    bare()
    without = run(scenario)
    with measured():
        assert run(scenario) == without


def test_a_function_that_outlives_its_connection_behaves_as_without(run: Run) -> None:
    async def scenario(connection: Connection) -> tuple[Any, Any]:
        await connection.close()
        if (thread := getattr(connection.wire, "recv_events_thread", None)) is not None:
            await asyncio.to_thread(thread.join)
        return connection.wire.send, connection.wire.close

    async def call(function: Any, *args: Any) -> Any:
        try:
            result = function(*args)
            return await result if inspect.isawaitable(result) else result
        except websockets.ConnectionClosed:
            return "closed"

    def after() -> tuple[Any, Any]:
        send, close = run(scenario)
        gc.collect()
        return asyncio.run(call(send, "hello")), asyncio.run(call(close))

    bare()
    without = after()
    with measured():
        assert after() == without == ("closed", None)


def test_a_queue_that_is_read_while_it_fills_is_not_taken_for_full(
    telemetry: CapturedTelemetry, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    if int(websockets.__version__.partition(".")[0]) < FIRST_QUEUE:
        pytest.skip("this release of websockets has a queue of one message")
    server.always(Script([*responses.reply(40).steps[:17], faults.hold()]))  # one more than the queue's limit
    is_full, is_noted, hold = threading.Event(), threading.Event(), ResponsesWire.pause

    def pause(wire: ResponsesWire) -> None:
        is_full.set()
        time.sleep(0.1)  # the consumer reads meanwhile
        hold(wire)
        is_noted.set()

    monkeypatch.setattr(ResponsesWire, "pause", pause)
    client = openai.OpenAI(base_url=server.openai_url, api_key="none")
    with client, client.responses.connect() as connection:
        connection.response.create(model="gpt-x", input="hello")
        assert is_full.wait(5)
        for _ in range(17):
            connection.recv()
        assert is_noted.wait(5)
        (recorder,) = runtime.open_streams.recorders()
        assert recorder.log.is_pulling


def test_responses_that_could_not_be_asked_for_do_not_pile_up(server: ScriptedServer) -> None:
    with measured() as telemetry:
        wire = ResponsesWire(runtime.installer.driver, Handshake(f"{server.openai_url}/responses", {}))
        for _ in range(5):
            asked = wire.send('{"type": "response.create", "model": "m"}')
            asked.recorder.end_failed(ConnectionError())
        assert len(wire._open) == 1
    assert outcomes(telemetry) == ["error"] * 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_leaves_the_connection_to_its_parent(
    run: Run, telemetry: CapturedTelemetry, server: ScriptedServer
) -> None:
    server.always(Script([responses.created(), responses.text("Hi"), faults.hold()]))

    async def scenario(connection: Connection) -> list[Any]:
        await connection.create()
        await connection.until("response.output_text.delta")
        wire = next(iter(runtime.installer.driver.followers))()._wire
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            try:
                wire.end(Outcome.CLOSED, 1000)
                facts = [_replaced(connection), outcomes(telemetry)]
                os.write(writing, json.dumps(facts).encode())
            finally:
                os._exit(0)
        await asyncio.to_thread(os.waitpid, child, 0)
        return json.loads(os.read(reading, 999))

    assert run(scenario) == [[], []]
    assert outcomes(telemetry) == ["closed"]


def test_memory_is_flat_over_a_session_of_many_responses(telemetry: CapturedTelemetry, server: ScriptedServer) -> None:
    """Of 2,000 responses, the wire keeps nothing: it is fed as a connection feeds it, without one."""
    driver = runtime.installer.driver
    wire = ResponsesWire(driver, Handshake(f"{server.openai_url}/responses", {}))

    def answer(number: int) -> None:
        wire.send('{"type": "response.create", "model": "m", "input": "hello"}').is_sent = True
        about = {"id": f"resp_{number}", "status": "completed"}
        item = {"type": "response.output_item.added", "item": {"id": f"item_{number}"}}
        delta = {"type": "response.output_text.delta", "delta": "Hi", "item_id": f"item_{number}"}
        begin, end = ({"type": f"response.{kind}", "response": about} for kind in ("created", "completed"))
        for event in (begin, item, delta, end):
            wire.receive(json.dumps(event).encode(), driver.read_clocks().clock_ns)

    def held(numbers: range) -> int:
        for number in numbers:
            answer(number)
        otel_itl.flush()
        telemetry.clear()
        gc.collect()
        return len(gc.get_objects())

    before = held(range(200))
    assert held(range(200, 2_200)) - before < 200
    assert (wire._open, wire._steers, len(runtime.open_streams)) == ([], {}, 0)


def test_a_connection_is_freed_with_what_follows_it(telemetry: CapturedTelemetry, server: ScriptedServer) -> None:
    server.always(responses.reply(3))

    def session() -> ref[Any]:
        client = openai.OpenAI(base_url=server.openai_url, api_key="none")
        with client, client.responses.connect() as connection:
            for _ in range(3):
                connection.response.create(model="gpt-x", input="hello")
                while connection.recv().type != "response.completed":
                    pass
            (follower,) = runtime.installer.driver.followers - before
            return follower

    before = set(runtime.installer.driver.followers)
    follower = session()
    deadline = time.monotonic() + 10  # the client's thread ends
    while follower() is not None and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    assert follower not in runtime.installer.driver.followers


@pytest.fixture(autouse=True)
def _nothing_failed() -> Iterator[None]:
    before = dict(runtime.errors.counts)
    yield
    time.sleep(0)
    assert dict(runtime.errors.counts) == before


ODD_MESSAGES: Final = (
    *("not json", "[]", "null", '{"type": 5}', '{"type":"response.create"', '"response.create"', "", "response." * 99),
    *('{"type":"response.create"}', '{"type":"response.create","response":[1]}', b"\x00\xff", b""),
)
FRAGMENTS: Final = (["frag", "ments"], [b"a", b"b"])


@pytest.fixture
def echo_url() -> Iterator[str]:
    """A connection that sends back whatever it gets, at the path of Responses."""

    def echo(connection: Any) -> None:
        for message in connection:
            connection.send(message)

    sync_server = pytest.importorskip("websockets.sync.server")
    with sync_server.serve(echo, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}/v1/responses"
        server.shutdown()
        thread.join()


@pytest.mark.usefixtures("telemetry")
def test_messages_of_any_kind_pass_as_they_are(echo_url: str) -> None:
    from websockets.sync.client import connect

    with connect(echo_url) as connection:
        for message in (*ODD_MESSAGES, *FRAGMENTS):
            connection.send(message)
        received = [connection.recv() for _ in (*ODD_MESSAGES, *FRAGMENTS)]
    assert received == [*ODD_MESSAGES, "fragments", b"ab"]


@pytest.mark.usefixtures("telemetry")
def test_messages_of_any_kind_pass_a_loop_as_they_are(echo_url: str) -> None:
    from websockets.asyncio.client import connect

    async def exchange() -> list[Any]:
        async with connect(echo_url) as connection:
            for message in (*ODD_MESSAGES, *FRAGMENTS):
                await connection.send(message)
            return [await connection.recv() for _ in (*ODD_MESSAGES, *FRAGMENTS)]

    assert asyncio.run(exchange()) == [*ODD_MESSAGES, "fragments", b"ab"]
