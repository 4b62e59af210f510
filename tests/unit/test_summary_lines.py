"""The line on the standard error for each stream that ended, and a standard error that is slow, closed or broken."""

from __future__ import annotations

import io
import sys
from array import array
from typing import Any

import pytest

from otel_itl.core.measures import measure
from otel_itl.core.request import Request
from otel_itl.core.stream import ALONE, FinishedStream, ResponseInfo
from otel_itl.core.timeline import Kind, Outcome, Timeline
from otel_itl.export.stream_report import SpanHandle, StreamReport
from otel_itl.export.summary_lines import SummaryLines
from otel_itl.recording.critical_sections import CriticalSections
from otel_itl.recording.internal_errors import InternalErrors

MS = 1_000_000


class Terminal(io.StringIO):
    """A standard error that is a terminal."""

    def isatty(self) -> bool:
        return True


class Broken(io.StringIO):
    """A standard error without a reader."""

    def write(self, _: str) -> int:
        raise BrokenPipeError


def report(
    model: str | None = "gpt-5-mini",
    arrived: tuple[int, ...] = (420, 440, 462),
    outcome: Outcome = Outcome.COMPLETED,
    late_ms: tuple[int, ...] = (),
) -> StreamReport:
    """A stream whose chunks arrived so many milliseconds after its request; of five tokens."""
    arrivals = [moment * MS for moment in arrived]
    timeline = Timeline(
        request_unix_ns=0,
        asked=array("q", [0, *arrivals[:-1]]) if arrivals else array("q"),
        arrived=array("q", arrivals),
        kinds=bytes([Kind.ANSWER]) * len(arrivals),
        end=1_000 * MS,
        outcome=outcome,
        output_tokens=5,
        lateness=array("q", [each * MS for each in late_ms]),
    )
    request = Request(operation="chat", provider="openai", model=model)
    finished = FinishedStream(request, ResponseInfo(), timeline, ALONE, None)
    return StreamReport(SpanHandle(), finished, measure(timeline), None, None)


def printed(stream: Any, *reports: StreamReport, monkeypatch: pytest.MonkeyPatch) -> InternalErrors:
    """Print the lines of some streams on a standard error; returns the failures that were counted."""
    errors = InternalErrors()
    monkeypatch.setattr(sys, "stderr", stream)
    lines = SummaryLines(errors, CriticalSections())
    for each in reports:
        lines(each)
    lines.queue.flush(10)
    return errors


def test_a_line_has_the_figures_of_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    # Gaps of 20 and 22 ms: p50 21, p99 21.98. 4 tokens after the first in 42 ms: 95.2 tok/s.
    stream = io.StringIO()
    printed(stream, report(), monkeypatch=monkeypatch)
    assert stream.getvalue() == (
        "otel_itl  gpt-5-mini  TTFT 420 ms  p50 21.0 ms  p99 22.0 ms  95.2 tok/s  0 stalls  completed\n"
    )


def test_what_a_figure_may_be_less_by_is_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    printed(stream, report(late_ms=(120, 0, 0)), monkeypatch=monkeypatch)
    assert "TTFT 420 ms (-120)  " in stream.getvalue()


def test_a_figure_that_is_not_known_is_a_dash_and_a_stream_without_a_model_has_its_provider(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = io.StringIO()
    printed(stream, report(model=None, arrived=(), outcome=Outcome.ERROR), monkeypatch=monkeypatch)
    assert stream.getvalue() == "otel_itl  openai  TTFT -  p50 -  p99 -  - tok/s  0 stalls  error\n"


def test_from_a_second_on_times_are_in_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    printed(stream, report(arrived=(1_860, 1_870, 1_880)), monkeypatch=monkeypatch)
    assert "TTFT 1.86 s  p50 10.0 ms" in stream.getvalue()


@pytest.mark.parametrize(
    ("environ", "is_colored"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)], ids=str
)
def test_a_line_is_coloured_on_a_terminal_unless_that_is_refused(
    environ: dict[str, str], is_colored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    stream = Terminal()
    printed(stream, report(), monkeypatch=monkeypatch)
    assert ("\33[" in stream.getvalue()) is is_colored


def test_a_model_s_name_does_not_control_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    printed(stream, report(model="m\33[2J\n"), monkeypatch=monkeypatch)
    assert "m?[2J?" in stream.getvalue()


def closed() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize("stream", [None, closed(), Broken()], ids=["none", "closed", "broken"])
def test_a_standard_error_that_takes_nothing_is_ignored(stream: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert printed(stream, report(), monkeypatch=monkeypatch).counts == {}
