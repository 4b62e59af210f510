"""A stream that cannot be opened for recording, or is being opened at `uninstrument()`: its span ends, and it flows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final

import openai
import pytest
from opentelemetry.context import attach, detach, set_value
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.trace import set_span_in_context

import otel_itl
import otel_itl.export.span
import otel_itl.runtime
from otel_itl.core.sessions import TrackedRequest
from otel_itl.export.other_instrumentations import FOREIGN_INFERENCE
from otel_itl.export.pipeline import Pipeline
from otel_itl.export.span import SpanStarter
from otel_itl.export.stand_ins import StandIns
from otel_itl.recording.recorder import StreamRecorder
from otel_itl.runtime import runtime
from otel_itl.sdks import driver, http_clients
from otel_itl.testing import CapturedTelemetry, ScriptedServer

if TYPE_CHECKING:
    from conftest import Instrument

ASKED: Final[Any] = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "stream": True}
CHUNKS: Final = 6
PATIENCE: Final = 5.0
"""Seconds within which a span ends that the finalizer's thread has to end, whatever else the machine does."""

STEPS: Final[dict[str, tuple[Any, str]]] = {
    "mark the enclosing span": (SpanStarter, "_mark_enclosing"),
    "look for recorded metrics": (otel_itl.export.span, "metrics_recorded_within"),
    "link the next request": (TrackedRequest, "set_link"),
    "make the handle": (otel_itl.runtime, "SpanHandle"),
    "make the recorder": (otel_itl.runtime, "StreamRecorder"),
    "connect the recorder": (StreamRecorder, "report_to"),
    "register": (runtime.open_streams, "add"),
    "make the monitor": (otel_itl.runtime, "StreamStallMonitor"),
    "wake the watchdog": (runtime.watchdog.thread, "wake"),
    "help the finalizer": (runtime.finalizer, "help"),
    "record the headers": (StreamRecorder, "record_headers"),
    "add an owner": (StreamRecorder, "add_owner"),
    "make the aborter": (http_clients, "HTTPAborter"),
    "watch the body": (driver, "watch_body"),
}
"""What is done from the start of the span to the first chunk → the owner and the name of the function that does it."""
BEFORE_THE_SPAN: Final = {"help the finalizer", "make the handle", "look for recorded metrics"}
"""Steps that are done just before the span starts: where they fail, there is none."""


class PlantedError(Exception):
    """A failure that was planted."""


class Processor(SpanProcessor):
    """Collects the names of our spans that end, and calls a function when one starts."""

    def __init__(self) -> None:
        self.ended: list[str] = []
        self.call_on_start: Callable[[], object] = lambda: None

    def on_start(self, span: Span, parent_context: Any = None) -> None:
        """Call the function, if the span is ours."""
        if _is_ours(span):
            self.call_on_start()

    def on_end(self, span: ReadableSpan) -> None:
        """Collect the name of a span of ours."""
        if _is_ours(span):
            self.ended.append(span.name)

    def wait(self, count: int = 1) -> list[str]:
        """Return the names of the spans that ended, when they are as many and no stream is open; flushes nothing."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if len(self.ended) >= count and not runtime.open_streams and not runtime.finalizer.pending:
                break
            time.sleep(0.01)
        return self.ended


def _is_ours(span: Any) -> bool:
    return bool(span.instrumentation_scope.name == "otel_itl")


@pytest.fixture
def processor(captured_telemetry: CapturedTelemetry) -> Processor:
    made = Processor()
    captured_telemetry.tracer_provider.add_span_processor(made)
    return made


Ask = Callable[..., int]


@pytest.fixture(params=["sync", "async"])
def ask(request: pytest.FixtureRequest, server: ScriptedServer) -> Ask:
    """Stream a chat completion to its end; returns the number of its chunks.

    `before` and `after` are called just before the request is sent and when the response's headers are there.
    """
    options: dict[str, Any] = {"base_url": server.openai_url, "api_key": "none", "max_retries": 0}

    def stream(before: Callable[[], object] = int, after: Callable[[], object] = int) -> int:
        hooks = {"request": [lambda _: before()], "response": [lambda _: after()]}
        http_client = openai.DefaultHttpxClient(verify=False, event_hooks=hooks)
        with openai.OpenAI(http_client=http_client, **options) as client:
            return len(list(client.chat.completions.create(**ASKED)))

    async def astream(before: Callable[[], object] = int, after: Callable[[], object] = int) -> int:
        async def hook_before(_: object) -> None:
            before()

        async def hook_after(_: object) -> None:
            after()

        hooks = {"request": [hook_before], "response": [hook_after]}
        http_client = openai.DefaultAsyncHttpxClient(verify=False, event_hooks=hooks)
        async with openai.AsyncOpenAI(http_client=http_client, **options) as client:
            return len([chunk async for chunk in await client.chat.completions.create(**ASKED)])

    if request.param == "async":
        return lambda *hooks: asyncio.run(astream(*hooks))
    return lambda *hooks: copy_context().run(stream, *hooks)  # what a fault leaves current stays in the copy


# --- A step that fails ----------------------------------------------------------------------------------------------


@pytest.fixture(params=["as it begins", "as it returns"])
def plant(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, str], list[str]]:
    """Have a function fail; returns a list that it adds its name to when it does."""

    def plant(owner: Any, name: str) -> list[str]:
        genuine = getattr(owner, name)
        failed: list[str] = []

        def fail(*args: Any, **kwargs: Any) -> Any:
            failed.append(name)
            if request.param == "as it returns":
                genuine(*args, **kwargs)
            raise PlantedError

        monkeypatch.setattr(owner, name, fail)
        return failed

    return plant


@pytest.mark.requirement("R16")
@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_fails_while_a_stream_is_opened_leaves_the_stream_whole(
    step: str, plant: Callable[[Any, str], list[str]], ask: Ask, instrument: Instrument
) -> None:
    instrument()
    failed = plant(*STEPS[step])
    with otel_itl.session("s"):
        assert (ask(), failed) == (CHUNKS, [STEPS[step][1]])


@pytest.mark.requirement("R16")
@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_fails_while_a_stream_is_opened_leaves_a_span_that_ends_once(
    step: str, plant: Callable[[Any, str], list[str]], ask: Ask, instrument: Instrument, processor: Processor
) -> None:
    instrument()
    plant(*STEPS[step])
    expected = [] if step in BEFORE_THE_SPAN else ["chat m"]
    with otel_itl.session("s"):
        ask()
    assert (processor.wait(len(expected)), len(runtime.open_streams), runtime.finalizer.pending) == (expected, 0, 0)


@pytest.mark.requirement("R16")
@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_fails_while_a_stream_is_opened_is_counted_once(
    step: str, plant: Callable[[Any, str], list[str]], ask: Ask, instrument: Instrument
) -> None:
    instrument()
    plant(*STEPS[step])
    with otel_itl.session("s"):
        ask()
    assert runtime.errors.counts.total() == 1


@contextmanager
def span_in_charge(telemetry: CapturedTelemetry) -> Iterator[Any]:
    """Start a span as an instrumentation that is in charge of a request does."""
    span = telemetry.tracer_provider.get_tracer("theirs").start_span("theirs")
    token = attach(set_value(FOREIGN_INFERENCE, object(), set_span_in_context(span)))
    try:
        yield span
    finally:
        detach(token)


@pytest.mark.requirement("R16")
def test_a_span_in_charge_that_cannot_be_followed_is_left_as_it_was(
    plant: Callable[[Any, str], list[str]], ask: Ask, instrument: Instrument, captured_telemetry: CapturedTelemetry
) -> None:
    instrument()
    plant(Pipeline, "follow_foreign_span")
    with span_in_charge(captured_telemetry) as span:
        chunks = ask()
    changed = {"end"} & vars(span).keys()
    span.end()
    assert (chunks, changed, [ended.name for ended in captured_telemetry.spans]) == (CHUNKS, set(), ["theirs"])


# --- `uninstrument()` meanwhile -------------------------------------------------------------------------------------


MOMENTS: Final = ["when its span starts", "before the request is sent", "when the headers are there"]


@pytest.fixture(params=MOMENTS)
def ask_and_uninstrument(
    request: pytest.FixtureRequest, ask: Ask, instrument: Instrument, processor: Processor
) -> Callable[[], int]:
    """Stream a chat completion while `uninstrument()` is called; returns the number of its chunks."""
    instrument()
    if request.param == "when its span starts":
        processor.call_on_start = otel_itl.uninstrument
        return ask
    if request.param == "before the request is sent":
        return lambda: ask(otel_itl.uninstrument)
    return lambda: ask(int, otel_itl.uninstrument)


@pytest.mark.requirement("R66")
def test_uninstrument_while_a_stream_is_opened_leaves_the_stream_whole(ask_and_uninstrument: Callable[[], int]) -> None:
    assert ask_and_uninstrument() == CHUNKS


@pytest.mark.requirement("R66")
def test_uninstrument_while_a_stream_is_opened_leaves_a_span_that_ends_once(
    ask_and_uninstrument: Callable[[], int], processor: Processor
) -> None:
    ask_and_uninstrument()
    assert (processor.wait(), len(runtime.open_streams), runtime.finalizer.pending) == (["chat m"], 0, 0)


@pytest.mark.requirement("R66")
def test_uninstrument_while_a_stream_is_opened_ends_its_recording_as_abandoned(
    ask_and_uninstrument: Callable[[], int], processor: Processor, captured_telemetry: CapturedTelemetry
) -> None:
    ask_and_uninstrument()
    processor.wait()
    points = captured_telemetry.metrics["itl.client.stream.outcomes"]
    assert [(point.attributes["itl.stream.outcome"], point.value) for point in points] == [("abandoned", 1)]


@pytest.mark.requirement("R66")
def test_uninstrument_before_the_first_stream_has_its_providers_makes_no_exporters(
    ask: Ask, instrument: Instrument, monkeypatch: pytest.MonkeyPatch, captured_telemetry: CapturedTelemetry
) -> None:
    made: list[str] = []
    monkeypatch.setattr(otel_itl.runtime, "is_suppressed", otel_itl.uninstrument)
    monkeypatch.setattr(StandIns, "read_environment", lambda _: made.append("exporters"))
    instrument()
    assert (ask(), made, captured_telemetry.spans) == (CHUNKS, [], [])
