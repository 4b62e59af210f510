"""`progress`: what is emitted about a stream while it runs, and what a failure of that costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import otel_itl
from otel_itl.core import conventions as names
from otel_itl.core.progress import Progress
from otel_itl.core.timeline import SECOND, Kind
from otel_itl.recording.critical_sections import CriticalSections
from otel_itl.recording.internal_errors import InternalErrors
from otel_itl.recording.progress import MAX_CHUNKS_PER_LOOK, QUIET_NS, ProgressRounds
from otel_itl.testing import CapturedTelemetry, captured_telemetry

__all__ = ["captured_telemetry"]


class Log:
    """The arrays of a stream, as its recorder has them."""

    def __init__(self, arrived: list[int], *, is_pulling: bool = True) -> None:
        from array import array

        self.arrived = array("q", arrived)
        self.asked = array("q", [0, *arrived][: len(arrived) + is_pulling])
        self.codes = array("Q", [int(Kind.ANSWER)] * len(arrived))


class Recorder:
    """What the rounds read of a recorder."""

    def __init__(self, key: int, arrived: list[int], *, is_pulling: bool = True) -> None:
        self.key, self.requested, self.unix_ns, self.headers, self.is_over = key, 0, 7, None, False
        self.log = Log(arrived, is_pulling=is_pulling)


def rounds() -> ProgressRounds:
    made = ProgressRounds(InternalErrors(), CriticalSections())
    made.thread.wake = lambda: None  # type: ignore[method-assign] # the rounds are made by the test
    return made


def test_each_round_hands_over_the_chunks_since_the_last_one() -> None:
    recorder, seen, made = Recorder(1, [100, 200]), list[Progress](), rounds()
    made.follow(recorder, seen.append, 0.25)  # type: ignore[arg-type]
    made.make_round(300)
    recorder.log = Log([100, 200, 350])
    made.make_round(400)
    assert [(look.first, look.arrived, look.waited) for look in seen] == [(0, [100, 200], 100), (2, [350], 50)]


def test_a_held_stream_is_not_waited_for() -> None:
    recorder, seen, made = Recorder(1, [100], is_pulling=False), list[Progress](), rounds()
    made.follow(recorder, seen.append, 0.25)  # type: ignore[arg-type]
    made.make_round(300)
    assert seen[0].waited is None


def test_a_silent_stream_has_an_event_each_second() -> None:
    recorder, seen, made = Recorder(1, []), list[Progress](), rounds()
    made.follow(recorder, seen.append, 0.25)  # type: ignore[arg-type]
    for tenth in range(25):
        made.make_round(tenth * SECOND // 10)
    assert [look.looked for look in seen] == [0, QUIET_NS, 2 * QUIET_NS]


def test_a_stream_that_ended_is_followed_no_more() -> None:
    recorder, seen, made = Recorder(1, [100]), list[Progress](), rounds()
    made.follow(recorder, seen.append, 0.25)  # type: ignore[arg-type]
    recorder.is_over = True
    made.make_round(300)
    assert (seen, made._has_work()) == ([], False)


def test_a_burst_of_chunks_is_spread_over_events() -> None:
    recorder, seen, made = Recorder(1, list(range(MAX_CHUNKS_PER_LOOK + 5))), list[Progress](), rounds()
    made.follow(recorder, seen.append, 0.25)  # type: ignore[arg-type]
    made.make_round(3_000)
    made.make_round(3_001)
    assert [len(look.arrived) for look in seen] == [MAX_CHUNKS_PER_LOOK, 5]


def test_a_log_processor_that_raises_keeps_no_other_stream_from_being_shown() -> None:
    def fail(_: Progress) -> None:
        raise RuntimeError("full disk")

    first, second, seen, made = Recorder(1, [100]), Recorder(2, [100]), list[Progress](), rounds()
    made.follow(first, fail, 0.25)  # type: ignore[arg-type]
    made.follow(second, seen.append, 0.25)  # type: ignore[arg-type]
    made.make_round(300)
    assert len(seen) == 1


@pytest.fixture
def run(captured_telemetry: CapturedTelemetry) -> Iterator[Callable[..., list[dict[str, Any]]]]:
    """Streams ten chunks with these options, and returns the progress events that were emitted."""

    def stream(**options: Any) -> list[dict[str, Any]]:
        otel_itl.instrument(
            **options,
            tracer_provider=captured_telemetry.tracer_provider,
            meter_provider=captured_telemetry.meter_provider,
            logger_provider=captured_telemetry.logger_provider,
        )

        def chunks() -> Iterator[str]:
            for _ in range(10):
                time.sleep(0.02)
                yield "x"

        for _ in otel_itl.observe(chunks(), provider="test", model="m"):
            pass
        return [dict(event.attributes) for event in captured_telemetry.logs if event.event_name == names.PROGRESS_EVENT]

    yield stream
    otel_itl.uninstrument()


def test_by_default_nothing_is_emitted_about_a_stream_that_runs(run: Callable[..., list[dict[str, Any]]]) -> None:
    assert run() == []


def test_with_progress_the_events_hold_chunks_in_order_and_the_last_one_the_outcome(
    run: Callable[..., list[dict[str, Any]]],
) -> None:
    *running, last = run(progress=0.05)
    offsets = [offset for event in running for offset in event.get(names.TOKENS_OFFSETS, ())]
    assert (len(running) >= 2, offsets == sorted(offsets), len(offsets) > 0) == (True, True, True)
    assert (last[names.STREAM_OUTCOME], last[names.PROGRESS_INDEX]) == ("completed", 10)
    assert {event[names.REQUEST_MODEL] for event in [*running, last]} == {"m"}
