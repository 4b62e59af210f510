"""Whatever of ours fails while a stream ends, the span of that stream ends once and its outcome is counted once.

Every place that is passed from the first chunk on is made to fail: where the stream is read and ends, in the flush
after that, and in the collection of metrics after the flush. The next flush makes up for the failure at the latest.
"""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import nullcontext, suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

import pytest
from aftermath import badly_reported, done_to_the_next_stream, left_behind, logged, settle, silence
from callers import seen_by_caller
from faces import FACES, run
from measuring import SHARED, bare, instrument
from opentelemetry.sdk._logs import LogRecordProcessor
from opentelemetry.sdk.trace import SpanProcessor
from planting import Place, Planted, PlantedError, Watcher
from replies import broken, whole
from surfaces import CREATED
from test_planted_faults import SEAMS

from otel_itl import SLO, observe, session
from otel_itl.recording import finalizer
from otel_itl.runtime import runtime
from otel_itl.testing import capture_telemetry

if TYPE_CHECKING:
    from faces import Face
    from wires import Wire

    from otel_itl.testing import CapturedTelemetry

pytestmark = pytest.mark.requirement("R16", "R19", "R27")

CHAT: Final = CREATED[0]
LAST: Final = "recording/recorder.py:__del__"
"""Python calls it for a stream that nothing else refers to any more: where it is not run, nothing can be."""
GUARD: Final = "recording/internal_errors.py:guarded"
"""Around `on_end` of our span processor: OpenTelemetry hands a span to no other processor after one that raises."""

SESSIONS: Final = count()
"""A number for each session: what one has learned changes what is done in the next request of it."""
Arm = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Life:
    """A stream from its request to its end, and the options that it is measured with."""

    live: Callable[[Face, Arm], None]
    """Calls its argument before each step, but for the first."""
    options: dict[str, Any] = field(default_factory=dict)
    has_session: bool = True


def chat(face: Face, arm: Arm, steps: tuple[str, ...], wire: Callable[[str], Wire] = whole) -> None:
    """A stream of the openai SDK."""
    made: list[None] = []

    def before_step() -> None:
        if made:
            arm()
        made.append(None)

    seen_by_caller(CHAT, face, wire(CHAT.wire), steps, before_step=before_step)


def fail_while_stalled(face: Face, arm: Arm) -> None:
    """A stream that breaks while it is stalled."""

    def pieces() -> Iterator[str]:
        yield "one"
        make_stall()
        arm()
        raise ConnectionError

    async def apieces() -> AsyncIterator[str]:
        for piece in pieces():
            yield piece

    async def read() -> None:
        stream: Any = observe(pieces() if face == "sync" else apieces(), provider="p", model="m")
        for _ in range(2):
            with suppress(Exception):  # the stream's own, or a planted one
                next(stream) if face == "sync" else await anext(stream)

    run(face, read())


def defer_end(face: Face, arm: Arm) -> None:
    """A stream that counts as long: on an event loop its end is deferred to the finalizer's thread."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finalizer, "LONG_STREAM", 1)
        chat(face, arm, ("loop",))


def make_stall() -> None:
    """Have the watchdog find that the open streams have been silent for long, and wait for the report of that."""
    runtime.watchdog._due = now = perf_counter_ns() + 100 * 10**9
    runtime.watchdog.make_round(now)
    assert runtime.log_threads.wait_until_idle(5)


LIVES: Final = {
    "read to its end": Life(partial(chat, steps=("loop",))),
    "read to its end, of no session": Life(partial(chat, steps=("loop",)), has_session=False),
    "read to its end, with an event for each token": Life(partial(chat, steps=("loop",)), {"token_events": "each"}),
    "read to its end, with log events": Life(partial(chat, steps=("loop",)), {"token_events": "log"}),
    "read to its end, long": Life(defer_end, has_session=False),
    "closed": Life(partial(chat, steps=("pull", "pull", "close"))),
    "broken": Life(partial(chat, steps=("loop",), wire=broken)),
    "broken while stalled": Life(fail_while_stalled),
    "dropped": Life(partial(chat, steps=("pull", "pull"))),
    "dropped unread": Life(partial(chat, steps=())),
}
OBJECTIVE: Final = SLO(ttft=1.0, itl=0.1)
PROVEN: Final[set[Place]] = set()
"""Places that were made to fail already, by the same way."""


@pytest.fixture(autouse=True)
def _in_this_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What waits is finalized and recorded by the test's own flushes alone."""
    monkeypatch.setattr(finalizer, "PATIENCE_SECONDS", 0.01)
    with runtime.finalizer.thread.in_round, silence():
        yield


def live(life: Life, face: Face, arm: Arm, disarm: Arm) -> None:
    """One stream, from its request to a collection of metrics."""
    with session(f"session {next(SESSIONS)}") if life.has_session else nullcontext():
        life.live(face, arm)
    for step in (SHARED.tracer_provider.force_flush, lambda: SHARED.metrics):
        arm()
        with suppress(PlantedError):
            step()
    disarm()


def aftermath(place: Place, life: Life, face: Face) -> Iterator[str]:
    """What is wrong after a fault in one place."""
    settle()
    planted = Planted(place)
    with logged() as lines, logged("opentelemetry") as complaints:
        live(life, face, planted.arm, planted.disarm)
        gc.collect()
        SHARED.tracer_provider.force_flush()
    if not planted.fired:  # it depends on what time has passed
        return
    spans, outcomes = SHARED.spans, SHARED.metrics.get("itl.client.stream.outcomes", ())
    if len(spans) != 1:
        yield f"{len(spans)} spans have ended"
    if sum(point.value for point in outcomes) != 1:
        yield f"{sum(point.value for point in outcomes)} outcomes are counted"
    yield from complaints
    yield from left_behind()
    if place.function not in SEAMS:
        yield from badly_reported(lines)
    yield from done_to_the_next_stream()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", LIVES)
def test_a_stream_that_meets_a_fault_at_its_end_is_reported_once(name: str, face: Face) -> None:
    life = LIVES[name]
    bare()
    instrument(SHARED, slo=OBJECTIVE, **life.options)
    live(life, face, lambda: None, lambda: None)  # what is done once is done
    settle()
    watcher = Watcher()
    live(life, face, watcher.arm, watcher.disarm)
    found: dict[str, list[str]] = {}
    for place in watcher.places:
        is_exempt = place.function == LAST or (place.function == GUARD and not place.callers)
        if is_exempt or place in PROVEN:
            continue
        PROVEN.add(place)
        # A context of its own: what a fault leaves there is not left to the next one.
        wrong = copy_context().run(lambda place: list(aftermath(place, life, face)), place)
        if wrong:
            found.setdefault(str(place), []).extend(wrong)
    assert found == {}


# --- Steps that always fail ------------------------------------------------------------------------------------------

STEPS: Final = (
    "recording.evidence.of_stream.find_lateness",
    "recording.finalizer.finish_stream",
    "recording.open_streams.OpenStreams.remove",
    "recording.recorder.StreamRecorder.leave_loop",
    "recording.stall_monitor.StreamStallMonitor.finish",
    "export.pipeline.measure",
    "export.pipeline.evaluate",
    "export.pipeline._end_session_request",
    "export.pipeline.end_span",
    "export.span.SpanSink.__call__",
    "export.span.add_events",
    "export.stream_log.EndLog.__call__",
    "export.pending_streams.PendingStreams.hold_bound",
    "export.instruments.StreamInstruments.labels_of",
    "export.instruments.StreamInstruments.record",
    "export.stream_batch.record_values",
    "export.stream_batch.StreamBatch.record_values",
    "export.stream_batch.StreamBatch.record_samples",
    "export.stream_report.set_span_in_context",
    "export.span.set_checked_attributes",
)
OUTCOMES: Final = {"read to its end": "completed", "closed": "closed", "broken": "error", "dropped": "abandoned"}


def fail(*_: object, **__: object) -> None:
    raise PlantedError


def ends(telemetry: CapturedTelemetry) -> tuple[int, list[tuple[str, float]]]:
    """How many spans have ended, and how often each outcome was counted."""
    telemetry.tracer_provider.force_flush()
    points = telemetry.metrics.get("itl.client.stream.outcomes", ())
    return len(telemetry.spans), [(point.attributes["itl.stream.outcome"], point.value) for point in points]


@pytest.mark.parametrize("face", [pytest.param("sync"), pytest.param("async", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", OUTCOMES)
@pytest.mark.parametrize("step", STEPS)
def test_a_stream_is_reported_once_where_a_step_of_its_report_always_fails(
    step: str, name: str, face: Face, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare()
    instrument(SHARED, slo=OBJECTIVE)
    settle()
    monkeypatch.setattr(f"otel_itl.{step}", fail)
    with logged():
        live(LIVES[name], face, lambda: None, lambda: None)
    assert ends(SHARED) == (1, [(OUTCOMES[name], 1)])


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_stream_is_counted_where_a_span_processor_of_the_application_fails(name: str) -> None:
    class Failing(SpanProcessor):
        on_end = fail

    bare()
    with capture_telemetry() as captured, logged():
        captured.tracer_provider.add_span_processor(Failing())
        instrument(captured)
        LIVES[name].live("sync", lambda: None)
        seen = ends(captured)
        bare()
    assert seen == (1, [(OUTCOMES[name], 1)])


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_stream_is_counted_where_a_log_processor_of_the_application_fails(name: str) -> None:
    class Failing(LogRecordProcessor):
        on_emit = fail

        def shutdown(self) -> None:
            """Do nothing."""

        def force_flush(self, timeout_millis: int = 30_000) -> bool:
            return True

    bare()
    with capture_telemetry() as captured, logged():
        captured.logger_provider.add_log_record_processor(Failing())
        instrument(captured, token_events="log")
        LIVES[name].live("sync", lambda: None)
        seen = ends(captured)
        bare()
    assert seen == (1, [(OUTCOMES[name], 1)])
