"""Stalls of real clients on real sockets: reported while they last, as what they are, and broken off if wanted."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import anthropic
import openai
import pytest

import otel_itl
from bench.lateness import SECOND, LatenessMeter
from otel_itl import Stall, StallPolicy
from otel_itl.core.decoding import decode
from otel_itl.core.stall_detector import find_silences
from otel_itl.recording.evidence import loops, of_process
from otel_itl.runtime import runtime
from otel_itl.testing import CapturedTelemetry, Script, ScriptedServer, Step, capture_telemetry, chat, faults, messages

if TYPE_CHECKING:
    from conftest import App, Instrument
    from opentelemetry.sdk.trace import ReadableSpan

THRESHOLD: Final = 0.4
SILENCE: Final = 0.9
"""Longer than the threshold and the quarter of a second in which a stall is to be reported."""
PROMPT: Final = 0.25
"""Seconds after the threshold within which a stall is reported."""
MANY: Final = 12
"""Stalls of one stream: more than are logged."""
POLICY: Final = StallPolicy(first_token=THRESHOLD, reasoning=THRESHOLD, next_token=THRESHOLD, relative=None)
DISTURBED: Final = 0.1
"""A machine that wakes a thread up so many seconds late may make a stall of its own."""
ASKED: Any = [{"role": "user", "content": "hello"}]


# --- Streams beside each other ---------------------------------------------------------------------------------------


Read = Callable[[Any], Any]
"""Reads a stream, sync or async."""


@dataclass(frozen=True)
class Scenario:
    """One stream: which client asks for it, what the server plays, and how it is read."""

    client: str
    script: Script
    read: Read


@dataclass
class Played:
    """What came of one stream."""

    name: str
    """The model that was asked for."""
    started: int
    """When it was."""
    lateness: LatenessMeter
    told: list[tuple[int, Stall]] = field(default_factory=list)
    """When `on_stall` was called, with what."""
    chunks: list[Any] = field(default_factory=list)
    error: BaseException | None = None
    span: ReadableSpan | None = None
    logs: list[Any] = field(default_factory=list)
    exchange: Any = None

    @property
    def attributes(self) -> dict[str, Any]:
        assert self.span is not None
        return dict(self.span.attributes or {})

    @property
    def stalls(self) -> list[dict[str, Any]]:
        """The stalls on the span."""
        assert self.span is not None
        return [dict(event.attributes or {}) for event in self.span.events if event.name == "itl.stall"]

    @property
    def logged(self) -> list[str]:
        """The stalls' log events."""
        return [log.event_name for log in self.logs if log.event_name.startswith("itl.stall")]

    def of_phase(self, phase: str) -> tuple[int, Stall]:
        """The one stall of this phase that was told of."""
        (found,) = [(moment, stall) for moment, stall in self.told if stall.phase.value == phase]
        return found


def exhaust(stream: Any) -> Iterator[Any]:
    yield from stream


async def aexhaust(stream: Any) -> AsyncIterator[Any]:
    async for chunk in stream:
        yield chunk


def is_async(client: str) -> bool:
    return client.startswith("async")


def call(client: Any, model: str) -> Any:
    if hasattr(client, "messages"):
        return client.messages.create(model=model, max_tokens=99, messages=ASKED, stream=True)
    return client.chat.completions.create(model=model, messages=ASKED, stream=True)


def client_of(kind: str, server: ScriptedServer, **options: Any) -> Any:
    sdk: Any = anthropic if kind.endswith("anthropic") else openai
    name = ("Async" if is_async(kind) else "") + ("Anthropic" if sdk is anthropic else "OpenAI")
    limits = {"max_connections": 4_000, "max_keepalive_connections": 4_000}
    http_client = (sdk.DefaultAsyncHttpxClient if is_async(kind) else sdk.DefaultHttpxClient)(
        verify=False, limits=sdk.DEFAULT_CONNECTION_LIMITS.__class__(**limits)
    )
    url = server.anthropic_url if sdk is anthropic else server.openai_url
    given = {"api_key": "none", "max_retries": 0, "timeout": 20.0, **options}
    return getattr(sdk, name)(base_url=url, http_client=http_client, **given)


class Stage:
    """Plays scenarios, all at once: each silence takes its time, and they need not wait for each other."""

    def __init__(self, server: ScriptedServer, telemetry: CapturedTelemetry, **options: Any) -> None:
        self._server = server
        self._telemetry = telemetry
        self._options = options
        self.pools: dict[str, int] = {}
        """Connections that each client's pool has left."""
        self.metrics: dict[str, list[Any]] = {}

    def play(
        self, scenarios: dict[str, Scenario], on_stall: Callable[[Stall], object] = lambda stall: None
    ) -> dict[str, Played]:
        """What came of each; again where the machine was disturbed, which the third time is what it is."""
        for _ in range(3):
            played = self._play(scenarios, on_stall)
            if next(iter(played.values())).lateness.worst() < DISTURBED:
                break
        return played

    def _play(self, scenarios: dict[str, Scenario], on_stall: Callable[[Stall], object]) -> dict[str, Played]:
        self._server.clear()
        self._telemetry.clear()
        lateness = LatenessMeter()
        played: dict[str, Played] = {}

        def told(stall: Stall) -> None:
            played[stall.request.model or ""].told.append((time.perf_counter_ns(), stall))
            on_stall(stall)

        with instrumented(self._telemetry, on_stall=told, **self._options), lateness:
            for name, scenario in scenarios.items():
                self._server.play(scenario.script, model=name)
            for name in scenarios:
                played[name] = Played(name, time.perf_counter_ns(), lateness)
            self._run(scenarios, played)
        self.metrics = self._telemetry.metrics
        for span in self._telemetry.spans:
            name = (span.attributes or {})["gen_ai.request.model"]
            if name in played:
                played[str(name)].span = span
        for log in self._telemetry.logs:
            if log.attributes.get("gen_ai.request.model") in played:
                played[log.attributes["gen_ai.request.model"]].logs.append(log)
        for exchange in self._server.exchanges:
            if exchange.json["model"] in played:
                played[exchange.json["model"]].exchange = exchange
        return played

    def _run(self, scenarios: dict[str, Scenario], played: dict[str, Played]) -> None:
        names = [name for name, scenario in scenarios.items() if not is_async(scenario.client)]
        clients = {kind: client_of(kind, self._server) for kind in {scenarios[name].client for name in names}}
        for client in clients.values():
            list(call(client, "warm"))
        with ThreadPoolExecutor(len(scenarios) + 1) as pool:
            done = [
                pool.submit(read_into, played[name], scenarios[name], clients[scenarios[name].client]) for name in names
            ]
            done.append(pool.submit(asyncio.run, self._arun(scenarios, played)))
        for one in done:
            one.result()
        self._close(clients)

    async def _arun(self, scenarios: dict[str, Scenario], played: dict[str, Played]) -> None:
        names = [name for name, scenario in scenarios.items() if is_async(scenario.client)]
        clients = {kind: client_of(kind, self._server) for kind in {scenarios[name].client for name in names}}
        for client in clients.values():
            [chunk async for chunk in await call(client, "warm")]
        reads = [aread_into(played[name], scenarios[name], clients[scenarios[name].client]) for name in names]
        await asyncio.gather(*reads)
        for closing in self._close(clients):
            await closing

    def _close(self, clients: dict[str, Any]) -> list[Any]:
        self.pools |= {kind: busy(client) for kind, client in clients.items()}
        return [client.close() for client in clients.values()]


def read_into(mine: Played, scenario: Scenario, client: Any) -> None:
    mine.started = time.perf_counter_ns()
    try:
        for chunk in scenario.read(call(client, mine.name)):
            mine.chunks.append(chunk)
    except Exception as error:
        mine.error = error


async def aread_into(mine: Played, scenario: Scenario, client: Any) -> None:
    """The async face of `read_into`."""
    mine.started = time.perf_counter_ns()
    try:
        async for chunk in scenario.read(await call(client, mine.name)):
            mine.chunks.append(chunk)
    except Exception as error:
        mine.error = error


def busy(client: Any) -> int:
    """Connections in the client's pool that are neither idle nor closed."""
    connections = client._client._transport._pool.connections
    return sum(not (connection.is_idle() or connection.is_closed()) for connection in connections)


@contextmanager
def instrumented(telemetry: CapturedTelemetry, **options: Any) -> Iterator[None]:
    otel_itl.instrument(
        tracer_provider=telemetry.tracer_provider,
        meter_provider=telemetry.meter_provider,
        logger_provider=telemetry.logger_provider,
        **options,
    )
    try:
        yield
    finally:
        otel_itl.uninstrument()


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(process=True) as running:
        yield running


Results = dict[str, Played]
CLIENTS: Final = ("openai", "async_openai", "anthropic", "async_anthropic")
READS: Final[dict[str, Read]] = {kind: aexhaust if is_async(kind) else exhaust for kind in CLIENTS}


def reply(client: str, *arguments: Any, reasoning: int = 0, **options: Any) -> Script:
    if client.endswith("anthropic"):
        return messages.reply(*arguments, thinking=reasoning, **options)
    return chat.reply(*arguments, reasoning=reasoning, **options)


def end(client: str, tokens: int, after: float = 0.0) -> list[Step]:
    """What follows the last token."""
    if client.endswith("anthropic"):
        return [messages.block_stop(after=after), messages.finish(output=tokens), messages.stop()]
    return [chat.finish(after=after), chat.done()]


PLACES: Final[dict[str, tuple[str, Callable[[str], Script]]]] = {
    "before the headers": ("first_token", lambda client: replace(reply(client, 2), headers_delay=SILENCE)),
    "before the first token": ("first_token", lambda client: reply(client, 2, first=SILENCE)),
    "in mid-stream": ("decode", lambda client: reply(client, 3, gaps=[0.0, SILENCE])),
    "after reasoning": ("reasoning", lambda client: reply(client, 1, reasoning=1, gaps=[SILENCE])),
    "after the last token": ("decode", lambda client: reply(client, 2).cut() + end(client, 2, SILENCE)),
}
"""Where a stream may be silent → the phase, and a script."""


def drops(client: str) -> Script:
    return reply(client, 2).cut() + faults.reset(after=SILENCE)


def closes(stream: Any) -> Iterator[Any]:
    """Leave the stream when something that is no output has come."""
    for chunk in stream:
        yield chunk
        if chunk.choices and chunk.choices[0].delta.content is None:
            stream.close()
            return


async def acancels(stream: Any) -> AsyncIterator[Any]:
    """Give up on a stream after a while."""
    while True:
        yield await asyncio.wait_for(anext(stream), SILENCE)


def sleeps(stream: Any) -> Iterator[Any]:
    """Take a while for each chunk."""
    for chunk in stream:
        yield chunk
        time.sleep(SILENCE)


EMPTIES: Final = chat.reply(2).cut() + [chat.empty(after=SILENCE / 3) for _ in range(3)] + end("openai", 2)
PINGS: Final = messages.reply(2).cut() + [messages.ping(after=SILENCE / 3) for _ in range(3)] + end("anthropic", 2)
COMMENTS: Final = chat.reply(2).cut() + [chat.ping(after=SILENCE / 3) for _ in range(3)] + end("openai", 2)
OTHERS: Final[dict[str, Scenario]] = {
    **{f"dropped, {kind}": Scenario(kind, drops(kind), READS[kind]) for kind in CLIENTS},
    "closed by the caller": Scenario("openai", chat.reply(2).cut() + chat.empty(after=SILENCE), closes),
    "cancelled": Scenario("async_openai", reply("openai", 2, first=2 * SILENCE), acancels),
    "consumer asleep": Scenario("openai", chat.reply(2), sleeps),
    "empty chunks": Scenario("openai", EMPTIES, exhaust),
    **{f"pings, {kind}": Scenario(kind, PINGS, READS[kind]) for kind in CLIENTS[2:]},
    "comments": Scenario("openai", COMMENTS, exhaust),
    "many": Scenario("openai", chat.reply(MANY + 1, gaps=THRESHOLD + 0.1), exhaust),
    "neither, openai": Scenario("openai", chat.reply(2).cut(), exhaust),
    "no terminator, openai": Scenario("openai", chat.reply(2).cut() + chat.finish(), exhaust),
    "no finish reason, openai": Scenario("openai", chat.reply(2).cut() + chat.done(), exhaust),
    "neither, anthropic": Scenario("anthropic", messages.reply(2).cut(), exhaust),
    "no terminator, anthropic": Scenario("anthropic", messages.reply(2).cut() + messages.finish(output=2), exhaust),
    "no finish reason, anthropic": Scenario("anthropic", messages.reply(2).cut() + messages.stop(), exhaust),
}
SILENT: Final = {
    f"{place}, {kind}": Scenario(kind, script(kind), READS[kind])
    for place, (_, script) in PLACES.items()
    for kind in CLIENTS
}


@pytest.fixture(scope="module")
def stage(server: ScriptedServer) -> Iterator[Stage]:
    with capture_telemetry(temporality="delta") as telemetry:
        yield Stage(server, telemetry, stall=POLICY)


@pytest.fixture(scope="module")
def played(stage: Stage) -> Results:
    """What came of every scenario in which nothing is broken off."""
    found = stage.play({**SILENT, **OTHERS})
    assert runtime.errors.counts == {}
    return found


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("client", CLIENTS)
class TestASilence:
    """One that is longer than the threshold, wherever it is in the stream."""

    @pytest.mark.requirement("R44")
    def test_is_reported_in_time(self, client: str, place: str, played: Results) -> None:
        phase, _ = PLACES[place]
        mine = played[f"{place}, {client}"]
        moment, _ = mine.of_phase(phase)
        bound = THRESHOLD + PROMPT + mine.lateness.worst()
        assert (moment - silent_since(mine, place)) / 1e9 <= bound

    @pytest.mark.requirement("R44")
    def test_is_reported_while_it_lasts(self, client: str, place: str, played: Results) -> None:
        phase, _ = PLACES[place]
        mine = played[f"{place}, {client}"]
        moment, stall = mine.of_phase(phase)
        assert (moment < silent_until(mine, place), stall.end) == (True, None)

    @pytest.mark.requirement("R48")
    def test_says_in_which_phase_and_whose_it_is(self, client: str, place: str, played: Results) -> None:
        phase, _ = PLACES[place]
        mine = played[f"{place}, {client}"]
        (event,) = [event for event in mine.stalls if event["itl.stall.phase"] == phase]
        about = ("itl.stall.cause", "itl.stall.alive", "itl.stall.threshold", "itl.stall.end")
        ends = "completed" if place == "after the last token" else "recovered"
        assert [event[name] for name in about] == ["upstream", False, THRESHOLD, ends]

    @pytest.mark.requirement("R51")
    def test_lasts_as_long_as_the_server_was_silent(self, client: str, place: str, played: Results) -> None:
        phase, _ = PLACES[place]
        mine = played[f"{place}, {client}"]
        (event,) = [event for event in mine.stalls if event["itl.stall.phase"] == phase]
        true = (silent_until(mine, place) - silent_since(mine, place)) / 1e9
        assert event["itl.stall.duration"] == pytest.approx(true, abs=0.05 + 2 * mine.lateness.worst())

    def test_is_summed_up_on_the_span(self, client: str, place: str, played: Results) -> None:
        mine = played[f"{place}, {client}"]
        durations = [event["itl.stall.duration"] for event in mine.stalls]
        assert [mine.attributes[f"itl.stall.{name}"] for name in ("count", "total_duration", "max")] == [
            len(durations),
            pytest.approx(sum(durations)),
            max(durations),
        ]

    def test_is_logged_when_it_begins_and_when_it_ends(self, client: str, place: str, played: Results) -> None:
        mine = played[f"{place}, {client}"]
        assert mine.logged == ["itl.stall.started", "itl.stall.ended"] * len(mine.stalls)

    def test_is_logged_beside_the_streams_span(self, client: str, place: str, played: Results) -> None:
        mine = played[f"{place}, {client}"]
        assert mine.span is not None
        assert {log.span_id for log in mine.logs} == {mine.span.get_span_context().span_id}


def silent_since(mine: Played, place: str) -> int:
    """When the server fell silent."""
    if place.endswith(("the headers", "the first token")):
        return mine.started
    return [sent.complete_ns for sent in before_the_silence(mine, place)][-1]


def silent_until(mine: Played, place: str) -> int:
    """When it said something again; after the headers alone it goes on being silent."""
    sent = mine.exchange.sent
    if place == "before the headers":
        return int(mine.exchange.headers_ns)
    if place == "before the first token":
        return int(mine.exchange.first_output_ns)
    return int(sent[len(before_the_silence(mine, place))].at_ns)


def before_the_silence(mine: Played, place: str) -> list[Any]:
    outputs = {"in mid-stream": 2, "after reasoning": 1, "after the last token": 2}[place]
    sent = mine.exchange.sent
    places = [index for index, event in enumerate(sent) if event.output]
    # Between reasoning and an answer the messages API closes a block and opens another: that is no output.
    return list(sent[: places[outputs] if outputs < len(places) else places[-1] + 1])


# --- How it ends -----------------------------------------------------------------------------------------------------


def last(mine: Played) -> list[Any]:
    """How the last stall ended, and what the stream's outcome was."""
    return [mine.stalls[-1]["itl.stall.end"], mine.attributes["itl.stream.outcome"]]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_connection_that_is_dropped_ends_the_stall_as_an_error(client: str, played: Results) -> None:
    assert last(played[f"dropped, {client}"]) == ["error", "error"]


def test_a_caller_that_closes_the_stream_ends_the_stall(played: Results) -> None:
    assert last(played["closed by the caller"]) == ["closed", "closed"]


def test_a_caller_that_gives_up_ends_the_stall_as_cancelled(played: Results) -> None:
    assert last(played["cancelled"]) == ["cancelled", "cancelled"]


@pytest.mark.requirement("R45")
def test_a_consumer_that_sleeps_over_each_chunk_sees_no_stall(played: Results) -> None:
    mine = played["consumer asleep"]
    assert (mine.told, mine.attributes["itl.stall.count"]) == ([], 0)


# --- Alive -----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R47")
@pytest.mark.parametrize("name", ["pings, anthropic", "pings, async_anthropic", "empty chunks"])
def test_a_stream_that_pings_is_alive_without_progress(name: str, played: Results) -> None:
    assert [stall["itl.stall.alive"] for stall in played[name].stalls] == [True]


@pytest.mark.requirement("R47")
def test_comments_that_the_sdk_shows_to_nobody_are_no_sign_of_life(played: Results) -> None:
    assert [stall["itl.stall.alive"] for stall in played["comments"].stalls] == [False]


# --- Many of one stream ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("R51")
def test_every_stall_of_a_stream_is_counted(played: Results) -> None:
    """As many as its own record shows."""
    mine = played["many"]
    assert mine.span is not None
    recorded = decode([(event.name, event.timestamp, event.attributes or {}) for event in mine.span.events])
    durations = [silence.waited / 1e9 for silence in find_silences(recorded, POLICY)]
    assert [mine.attributes["itl.stall.count"], mine.attributes["itl.stall.total_duration"]] == [
        len(durations),
        pytest.approx(sum(durations), abs=1e-4),
    ]


def test_ten_of_a_stream_are_logged_and_shown(played: Results) -> None:
    mine = played["many"]
    assert (mine.logged.count("itl.stall.started"), mine.logged.count("itl.stall.ended"), len(mine.stalls)) == (
        10,
        10,
        10,
    )


@pytest.mark.requirement("R51")
@pytest.mark.parametrize("metric", ["itl.client.stalls", "itl.client.stall.duration"])
def test_the_metrics_count_every_one(metric: str, stage: Stage, played: Results) -> None:
    points = stage.metrics[metric]
    counted = {}
    for point in points:
        name = point.attributes["gen_ai.request.model"]
        counted[name] = counted.get(name, 0) + (point.value if metric.endswith("stalls") else point.count)
    assert counted == {name: count for name, mine in played.items() if (count := mine.attributes["itl.stall.count"])}


@pytest.mark.requirement("R51")
def test_the_histogram_has_the_time_of_every_one(stage: Stage, played: Results) -> None:
    total = sum(mine.attributes.get("itl.stall.total_duration", 0) for mine in played.values())
    assert sum(point.value for point in stage.metrics["itl.client.stall.duration"]) == pytest.approx(total)


# --- Truncation ------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R52")
@pytest.mark.parametrize("sdk", ["openai", "anthropic"])
def test_a_stream_without_finish_reason_or_terminator_is_truncated_and_logged(sdk: str, played: Results) -> None:
    mine = played[f"neither, {sdk}"]
    logged = [(log.event_name, log.severity_text) for log in mine.logs]
    assert (mine.attributes["itl.stream.outcome"], logged) == ("truncated", [("itl.stream.truncated", "WARN")])


@pytest.mark.requirement("R52")
@pytest.mark.parametrize("omitted", ["no terminator", "no finish reason"])
@pytest.mark.parametrize("sdk", ["openai", "anthropic"])
def test_a_provider_that_omits_one_of_the_two_is_not_flagged(sdk: str, omitted: str, played: Results) -> None:
    mine = played[f"{omitted}, {sdk}"]
    assert (mine.attributes["itl.stream.outcome"], mine.logs) == ("completed", [])


# --- Breaking off ----------------------------------------------------------------------------------------------------


LONG: Final = 5.0
"""Nobody waits for so long: a stream that is not broken off fails its test by then."""


def breaking_off(prefix: str) -> dict[str, Scenario]:
    """A silence in each place from which a stream can be broken off."""
    scripts = {
        "mid-stream": lambda kind: reply(kind, 3, gaps=[0.0, LONG]),
        "after the finish reason": lambda kind: (
            reply(kind, 2).cut()
            + ([chat.finish()] if kind.endswith("openai") else [messages.finish(output=2)])
            + faults.hold()
        ),
    }
    return {
        f"{prefix}, {place}, {kind}": Scenario(kind, script(kind), READS[kind])
        for place, script in scripts.items()
        for kind in CLIENTS
    }


@pytest.fixture(scope="module")
def called(server: ScriptedServer) -> tuple[Stage, Results]:
    """Streams that who is told of their stalls breaks off."""
    with capture_telemetry(temporality="delta") as telemetry:
        stage = Stage(server, telemetry, stall=POLICY)
        return stage, stage.play(breaking_off("called"), on_stall=lambda stall: aborted.append(stall.abort()))


aborted: list[bool] = []


@pytest.fixture(scope="module")
def configured(server: ScriptedServer) -> tuple[Stage, Results]:
    """Streams that are broken off by the policy."""
    with capture_telemetry(temporality="delta") as telemetry:
        stage = Stage(server, telemetry, stall=replace(POLICY, abort_after=2 * THRESHOLD))
        return stage, stage.play(breaking_off("configured"))


@pytest.fixture(scope="module", params=["called", "configured"])
def broken(request: pytest.FixtureRequest) -> tuple[str, Stage, Results]:
    stage, played = request.getfixturevalue(request.param)
    return request.param, stage, played


BREAKABLE: Final = ("mid-stream", "after the finish reason")


@pytest.mark.parametrize("place", BREAKABLE)
@pytest.mark.parametrize("client", CLIENTS)
class TestAStreamThatIsBrokenOff:
    @pytest.mark.requirement("R49")
    def test_ends_with_the_sdks_own_timeout_error(
        self, client: str, place: str, broken: tuple[str, Stage, Results]
    ) -> None:
        how, _, played = broken
        sdk: Any = anthropic if client.endswith("anthropic") else openai
        error = played[f"{how}, {place}, {client}"].error
        assert (type(error), "The stream was aborted" in str(error)) == (sdk.APITimeoutError, True)

    @pytest.mark.requirement("R49")
    def test_is_closed_for_the_server(self, client: str, place: str, broken: tuple[str, Stage, Results]) -> None:
        how, _, played = broken
        exchange = played[f"{how}, {place}, {client}"].exchange.wait_done()
        assert (exchange.closed_early, (exchange.ended_ns - exchange.arrived_ns) / 1e9 < LONG) == (True, True)

    @pytest.mark.requirement("R49")
    def test_leaves_no_connection_in_use(self, client: str, place: str, broken: tuple[str, Stage, Results]) -> None:
        _, stage, _ = broken
        assert stage.pools[client] == 0

    @pytest.mark.requirement("R50")
    def test_delivers_what_had_come(self, client: str, place: str, broken: tuple[str, Stage, Results]) -> None:
        how, _, played = broken
        mine = played[f"{how}, {place}, {client}"]
        sent = [event for event in mine.exchange.sent if event.kind not in {"ping", "done"}]
        assert len(mine.chunks) == len(sent)

    def test_is_an_error_of_the_span(self, client: str, place: str, broken: tuple[str, Stage, Results]) -> None:
        how, _, played = broken
        mine = played[f"{how}, {place}, {client}"]
        assert [mine.attributes["error.type"], *last(mine)] == ["APITimeoutError", "error", "error"]


@pytest.mark.requirement("R49")
@pytest.mark.usefixtures("called")
def test_who_breaks_a_stream_off_hears_that_it_was() -> None:
    assert set(aborted) == {True}


@pytest.mark.requirement("R49")
def test_a_policy_breaks_off_when_its_time_has_come_and_not_before(configured: tuple[Stage, Results]) -> None:
    _, played = configured
    mine = [played[f"configured, mid-stream, {client}"] for client in CLIENTS]
    durations = [stall["itl.stall.duration"] for one in mine for stall in one.stalls[-1:]]
    latest = 2 * THRESHOLD + PROMPT + mine[0].lateness.worst()
    assert [duration for duration in durations if not 2 * THRESHOLD <= duration <= latest] == []


@pytest.mark.requirement("R49")
def test_by_default_a_stall_is_observed_and_nothing_else(played: Results) -> None:
    assert [name for name in SILENT if played[name].error is not None] == []


class Kept(list[Stall]):
    """The stalls that were told of."""

    def first(self) -> Stall:
        """Wait for the first."""
        eventually(lambda: len(self) > 0)
        return self[0]


def eventually(fact: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait until it comes true."""
    deadline = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.005)


BEHIND: Final = 50


@pytest.mark.requirement("R50")
@pytest.mark.parametrize("client", CLIENTS)
def test_what_the_caller_has_not_read_yet_is_delivered_before_the_error(
    client: str, server: ScriptedServer, instrument: Instrument
) -> None:
    """The stream stalls and goes on; then the caller falls behind, and it is broken off."""
    told = Kept()
    instrument(stall=StallPolicy(next_token=0.2, relative=None), on_stall=told.append)
    server.clear()
    server.play(reply(client, BEHIND + 3, gaps=[0.0, 0.5, *[0.0] * BEHIND]).cut() + faults.hold())
    read, error = (abehind if is_async(client) else behind)(client_of(client, server), server, told)
    sdk: Any = anthropic if client.endswith("anthropic") else openai
    assert (read, type(error)) == (BEHIND, sdk.APITimeoutError)


def fall_behind(server: ScriptedServer, told: Kept) -> None:
    eventually(lambda: len(server.exchanges[0].output_times_ns) == BEHIND + 3)
    # What is still on its way when the connection is shut down is lost.
    time.sleep(0.2)
    # That stall is over, so that who was told of it can do nothing any more.
    assert told.first().abort() is False
    (probe,) = runtime.open_streams.recorders()
    assert probe.abort() is True


def has_output(chunk: Any) -> bool:
    if hasattr(chunk, "choices"):
        return any(choice.delta.content for choice in chunk.choices)
    return str(chunk.type) == "content_block_delta"


def behind(client: Any, server: ScriptedServer, told: Kept) -> tuple[int, BaseException | None]:
    """How many tokens are read after the stream is broken off, and what comes then."""
    read = 0
    with client, call(client, "m") as stream:
        try:
            for chunk in stream:
                read += has_output(chunk)
                if read == 3 and has_output(chunk):
                    fall_behind(server, told)
        except Exception as error:
            return read - 3, error
    return read - 3, None


def abehind(client: Any, server: ScriptedServer, told: Kept) -> tuple[int, BaseException | None]:
    """The async face of `behind`."""

    async def reading() -> tuple[int, BaseException | None]:
        read = 0
        async with client, await call(client, "m") as stream:
            try:
                async for chunk in stream:
                    read += has_output(chunk)
                    if read == 3 and has_output(chunk):
                        fall_behind(server, told)
            except Exception as error:
                return read - 3, error
        return read - 3, None

    return asyncio.run(reading())


# --- While it lasts --------------------------------------------------------------------------------------------------


def states(telemetry: CapturedTelemetry) -> dict[str, float]:
    """Streams that are open now, by state."""
    return {
        point.attributes["itl.stream.state"]: point.value
        for point in telemetry.metrics.get("itl.client.stream.count", ())
    }


def test_streams_that_have_stalled_are_counted_apart_while_it_lasts(
    server: ScriptedServer, instrument: Instrument, captured_telemetry: CapturedTelemetry
) -> None:
    instrument(stall=StallPolicy(next_token=0.2, relative=None))
    server.clear()
    server.play(chat.reply(2, gaps=0.9))
    seen: list[dict[str, float]] = []
    with client_of("openai", server) as client:
        stream = call(client, "m")
        next(stream)
        seen.append(states(captured_telemetry))
        thread = threading.Thread(target=list, args=(stream,))
        thread.start()
        eventually(lambda: states(captured_telemetry) == {"active": 0, "stalled": 1})
        thread.join()
    seen.append(states(captured_telemetry))
    assert seen == [{"active": 1, "stalled": 0}, {"active": 0, "stalled": 0}]


def test_a_stall_is_counted_when_it_begins(
    server: ScriptedServer, instrument: Instrument, captured_telemetry: CapturedTelemetry
) -> None:
    counted: list[list[float]] = []

    def count(_: Stall) -> None:
        counted.append([point.value for point in captured_telemetry.metrics["itl.client.stalls"]])

    instrument(stall=StallPolicy(next_token=0.2, relative=None), on_stall=count)
    server.clear()
    server.play(chat.reply(2, gaps=0.6))
    with client_of("openai", server) as client:
        list(call(client, "m"))
    assert counted == [[1]]


def test_a_stream_that_is_observed_is_watched_too(
    instrument: Instrument, captured_telemetry: CapturedTelemetry
) -> None:
    told = Kept()
    instrument(stall=StallPolicy(next_token=0.2, relative=None), on_stall=told.append)

    def slow() -> Iterator[str]:
        yield "a"
        time.sleep(0.6)
        yield "b"

    list(otel_itl.observe(slow(), provider="mistral_ai", model="m"))
    (span,) = captured_telemetry.spans
    stalls = [(span.attributes or {})["itl.stall.count"], *(stall.phase.value for stall in told)]
    assert (stalls, told[0].abort()) == ([1, "decode"], False)


def test_calls_of_on_stall_that_wait_are_dropped_by_uninstrument(instrument: Instrument) -> None:
    called: list[str | None] = []
    is_called, may_return = threading.Event(), threading.Event()

    def block(stall: Stall) -> None:
        called.append(stall.request.model)
        is_called.set()
        may_return.wait(10)

    def slow() -> Iterator[str]:
        yield "a"
        may_return.wait(10)

    instrument(stall=StallPolicy(next_token=0.1, relative=None), on_stall=block)
    readers = [
        threading.Thread(target=list, args=(otel_itl.observe(slow(), provider="p", model=model),)) for model in "ab"
    ]
    for reader in readers:
        reader.start()
    assert is_called.wait(10)
    eventually(lambda: len(runtime.callback_threads._waiting) == 1)
    otel_itl.uninstrument()
    may_return.set()
    for reader in readers:
        reader.join()
    assert (runtime.callback_threads.wait_until_idle(10), len(called)) == (True, 1)


# --- Whose it is -----------------------------------------------------------------------------------------------------


def causes(span: ReadableSpan) -> list[Any]:
    return [(event.attributes or {})["itl.stall.cause"] for event in span.events if event.name == "itl.stall"]


@pytest.mark.parametrize("client", ["async_openai", "async_anthropic"])
def test_a_stall_of_a_blocked_event_loop_is_the_loops(
    client: str, server: ScriptedServer, instrument: Instrument, captured_telemetry: CapturedTelemetry
) -> None:
    """The server sends a token every 20 ms, and the loop runs nothing for 0.7 s while the next is awaited."""
    instrument(stall=StallPolicy(next_token=0.3, relative=None))
    server.clear()
    server.play(reply(client, 60, gaps=0.02))

    async def block() -> None:
        await asyncio.sleep(0.1)
        time.sleep(0.7)  # noqa: ASYNC251 - the point

    async def reading() -> None:
        async with client_of(client, server) as made:
            stream = await call(made, "m")
            blocking = asyncio.create_task(block())
            async for _ in stream:
                pass
            await blocking

    asyncio.run(reading())
    (span,) = captured_telemetry.spans
    assert causes(span) == ["event_loop"]


@pytest.mark.parametrize("abort_after", [None, 2.0], ids=["observed", "aborted"])
def test_keep_alives_behind_a_block_are_no_output_when_the_loop_has_read_them(
    abort_after: float | None,
    captured_telemetry: CapturedTelemetry,
    instrument: Instrument,
    server: ScriptedServer,
) -> None:
    """The block lasts when the silence reaches its threshold: until then it may have hidden a token."""
    instrument(stall=StallPolicy(next_token=1.0, relative=None, abort_after=abort_after))
    server.clear()
    silence = [chat.ping(after=0.2) for _ in range(20)]
    server.play(chat.reply(4, gaps=[0.05, 0.05, 0.05]).insert(2, *silence))

    async def reading() -> float:
        async with client_of("async_openai", server) as made:
            stream = await call(made, "m")
            async for chunk in stream:
                if chunk.choices and chunk.choices[0].delta.content:
                    break
            began = time.perf_counter()
            asyncio.get_running_loop().call_later(0.3, time.sleep, 1.0)
            try:
                async for _ in stream:
                    pass
            except openai.APITimeoutError:
                assert abort_after is not None
            return time.perf_counter() - began

    seconds = asyncio.run(reading())
    (span,) = captured_telemetry.spans
    assert (causes(span), seconds < 3.8) == (["upstream"], abort_after is not None)


@pytest.mark.parametrize("first", [1.3, 2.05])
def test_a_block_over_a_first_token_that_took_long_is_in_its_error(
    first: float, captured_telemetry: CapturedTelemetry, instrument: Instrument, server: ScriptedServer
) -> None:
    instrument()
    server.clear()
    server.play(chat.reply(25, first=first, gaps=0.02))

    async def reading() -> None:
        async with client_of("async_openai", server) as made:
            asyncio.get_running_loop().call_later(first - 0.05, time.sleep, 0.2)
            async for _ in await call(made, "m"):
                pass

    asyncio.run(reading())
    attributes = captured_telemetry.spans[0].attributes or {}
    least = attributes["itl.time_to_first_token"] - attributes.get("itl.time_to_first_token.uncertainty", 0.0)
    (exchange,) = server.exchanges
    assert least <= (exchange.output_times_ns[0] - exchange.arrived_ns) / 1e9 + 0.03


def test_while_a_stream_is_silent_the_watchdog_wakes_up_for_its_rounds_alone(
    instrument: Instrument, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its event loop has a timer, which runs in the thread that reads the stream."""
    monkeypatch.setattr(of_process, "NAP_SECONDS", 10.0)  # else shorter naps, while other threads compute
    naps: list[float] = []
    elapsed = 0.0
    begin_nap = runtime.evidence.begin_nap
    monkeypatch.setattr(runtime.evidence, "begin_nap", lambda seconds: naps.append(seconds) or begin_nap(seconds))
    sooner = tuple((since // 10, seconds) for since, seconds in loops.SILENT_TIMERS)
    monkeypatch.setattr(loops, "SILENT_TIMERS", sooner)
    instrument()

    async def answer() -> AsyncIterator[str]:
        nonlocal elapsed
        for _ in range(20):
            yield "x"
            await asyncio.sleep(0.02)
        await asyncio.sleep(1.5)
        naps.clear()
        began = time.perf_counter()
        await asyncio.sleep(2.0)
        elapsed = time.perf_counter() - began

    async def reading() -> None:
        async for _ in otel_itl.observe(answer(), provider="p", model="m"):
            pass

    asyncio.run(reading())
    assert 0 < len(naps) <= elapsed / 0.1


STOPPED = """
import json, os, sys, time
import otel_itl
from bench.lateness import SECOND, LatenessMeter
from otel_itl.testing import capture_telemetry
import openai

ASKED = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "stream": True}
with capture_telemetry() as telemetry:
    otel_itl.instrument(
        tracer_provider=telemetry.tracer_provider,
        meter_provider=telemetry.meter_provider,
        logger_provider=telemetry.logger_provider,
        stall=otel_itl.StallPolicy(next_token=0.5, relative=None),
        slo=otel_itl.SLO(ttft=5, itl=4),
    )
    client = openai.OpenAI()
    list(client.chat.completions.create(**ASKED))
    for chunk in client.chat.completions.create(**ASKED):
        if chunk.choices and chunk.choices[0].delta.content:
            print("token", flush=True)
    span = telemetry.spans[-1]
    causes = [event.attributes["itl.stall.cause"] for event in span.events if event.name == "itl.stall"]
    met = {point.attributes["itl.slo.met"]: point.value for point in telemetry.metrics["itl.client.slo.streams"]}
    print(json.dumps([causes, span.attributes.get("itl.latency.max"), met[False]]), flush=True)
"""
SUSPENDED: Final = 1.5


@pytest.mark.requirement("R70")
@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="processes cannot be suspended here")
@pytest.mark.parametrize("rest", [0, 40], ids=["the stream is over when it wakes up", "the stream goes on"])
def test_a_process_that_was_suspended_sees_a_stall_of_its_own_and_no_latency(
    rest: int, server: ScriptedServer, start_app: Callable[..., App]
) -> None:
    """Suspended in mid-stream; what the server sends meanwhile is there when it wakes up."""
    server.clear()
    server.play(chat.reply(2), chat.reply(15 + rest, gaps=[0.2] * 5 + [0.05] * (9 + rest)))
    app = start_app(STOPPED, server)
    process = app._process
    assert process.stdout is not None
    for _ in range(5):
        process.stdout.readline()
    # It prints a token before it asks for the next. Tokens come when the watchdog makes a round: this is between two.
    time.sleep(0.05)
    process.send_signal(signal.SIGSTOP)
    time.sleep(SUSPENDED)
    process.send_signal(signal.SIGCONT)
    stalls, slowest, missed = json.loads(app.wait().stdout.splitlines()[-1])
    # Of its last second and a half nothing is known, but for the pace before and after.
    assert (stalls, slowest < SUSPENDED / 2, missed) == (["process"], True, 0)


FORKED = """
import json, os, threading, time
import otel_itl
from bench.lateness import SECOND, LatenessMeter
from otel_itl.testing import capture_telemetry
import openai

ASKED = {"messages": [{"role": "user", "content": "hello"}], "stream": True}
told = []

def read(model):
    for _ in openai.OpenAI().chat.completions.create(model=model, **ASKED):
        pass

with capture_telemetry() as telemetry:
    otel_itl.instrument(
        tracer_provider=telemetry.tracer_provider,
        meter_provider=telemetry.meter_provider,
        logger_provider=telemetry.logger_provider,
        stall=otel_itl.StallPolicy(next_token=0.5, relative=None),
        on_stall=lambda stall: told.append(stall.request.model),
    )
    read("warm")
    parents = openai.OpenAI().chat.completions.create(model="parent", **ASKED)
    first = next(parents), next(parents)
    reading, writing = os.pipe()
    waiting = threading.Thread(target=list, args=(parents,))
    waiting.start()
    child = os.fork()
    if not child:
        read("child")
        os.write(writing, json.dumps(told).encode())
        os._exit(0)
    waiting.join()
    os.waitpid(child, 0)
    print(json.dumps([json.loads(os.read(reading, 10_000)), told]))
"""


@pytest.mark.requirement("R46")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
def test_a_child_of_a_prefork_server_watches_its_own_streams(
    server: ScriptedServer, start_app: Callable[..., App]
) -> None:
    server.clear()
    for model in ("parent", "child"):
        server.play(chat.reply(2, gaps=1.2), model=model)
    app = start_app(FORKED, server, launcher=(sys.executable, "-W", "ignore"))
    assert json.loads(app.wait().stdout) == [["child"], ["parent"]]


# --- Beside the official instrumentation -----------------------------------------------------------------------------


def test_a_span_of_the_official_instrumentation_gets_the_stalls(
    server: ScriptedServer, instrument: Instrument, captured_telemetry: CapturedTelemetry
) -> None:
    theirs = pytest.importorskip("opentelemetry.instrumentation.genai.openai").OpenAIInstrumentor()
    theirs.instrument(
        tracer_provider=captured_telemetry.tracer_provider,
        meter_provider=captured_telemetry.meter_provider,
        logger_provider=captured_telemetry.logger_provider,
    )
    try:
        instrument(stall=StallPolicy(next_token=0.2, relative=None))
        server.clear()
        server.play(chat.reply(2, gaps=0.6))
        with client_of("openai", server) as client:
            list(call(client, "m"))
    finally:
        theirs.uninstrument()
    (span,) = captured_telemetry.spans
    logged = {log.span_id for log in captured_telemetry.logs if (log.event_name or "").startswith("itl.stall")}
    assert ((span.attributes or {})["itl.stall.count"], causes(span), logged) == (
        1,
        ["upstream"],
        {span.get_span_context().span_id},
    )


# --- Many at once ----------------------------------------------------------------------------------------------------

STREAMS: Final = 2_000
CONNECTED: Final = 200
"""Of these many come over connections of their own: an HTTP client's pool takes a minute to open 2,000."""
STALLING: Final = 50
CROWD: Final = StallPolicy(first_token=None, next_token=3.0, relative=None)


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.requirement("R44")
def test_of_two_thousand_open_streams_those_that_stall_are_reported_each_in_time(
    server: ScriptedServer, instrument: Instrument, captured_telemetry: CapturedTelemetry
) -> None:
    """200 of an SDK's client, of which fifty fall silent when all are open, and 1,800 generators of this process."""
    told: dict[str, list[int]] = {}

    def on_stall(stall: Stall) -> None:
        told.setdefault(stall.request.model or "", []).append(time.perf_counter_ns())

    instrument(stall=CROWD, on_stall=on_stall)
    server.clear()
    server.always(chat.reply(100, gaps=1.0))
    for name in SILENT_ONES:
        server.always(chat.reply(1).cut() + faults.hold(), model=name)
    with LatenessMeter() as meter:
        asked = asyncio.run(crowd(server))
    points = captured_telemetry.metrics["itl.client.stalls"]
    counted = sum(point.value for point in points if point.attributes["gen_ai.request.model"] in asked)
    # A machine that is busy for three seconds makes the others wait as well.
    reports = {name: len(moments) for name, moments in told.items() if name in asked}
    assert (reports, counted) == (dict.fromkeys(asked, 1), STALLING)
    due = {name: moment + 3 * SECOND for name, moment in asked.items()}
    late = [(told[name][0] - moment) / SECOND - meter.overdue(moment, told[name][0]) for name, moment in due.items()]
    assert max(late) <= PROMPT


SILENT_ONES: Final = [f"silent-{number}" for number in range(STALLING)]


async def flow(stream: AsyncIterator[Any]) -> None:
    async for _ in stream:
        pass


async def tick() -> AsyncIterator[str]:
    while True:
        yield "tick"
        await asyncio.sleep(1.0)


async def crowd(server: ScriptedServer) -> dict[str, int]:
    """Open the streams, and wait until some have been silent for long enough; when each of those was waited for."""
    asked: dict[str, int] = {}
    ready = asyncio.Event()

    async def fall_silent(name: str, stream: AsyncIterator[Any]) -> None:
        async for chunk in stream:
            if has_output(chunk):
                await ready.wait()
                asked[name] = time.perf_counter_ns()

    async with client_of("async_openai", server, timeout=100.0) as client:
        tasks = []
        for name in [*SILENT_ONES, *["flowing"] * (CONNECTED - STALLING)]:
            stream = await call(client, name)
            tasks.append(asyncio.create_task(flow(stream) if name == "flowing" else fall_silent(name, stream)))
        for _ in range(STREAMS - CONNECTED):
            tasks.append(asyncio.create_task(flow(otel_itl.observe(tick(), provider="none", model="flowing"))))
            await asyncio.sleep(0)
        ready.set()
        await asyncio.sleep(3.0 + 1.5)
        assert (len(runtime.open_streams), [task for task in tasks if task.done()]) == (STREAMS, [])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return asked
