"""Prints one line on the standard error for each stream that ended: what a terminal shows without any backend."""

from __future__ import annotations

import io
import os
import select
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from otel_itl.core.conventions import Where
from otel_itl.core.error_format import append_error
from otel_itl.core.timeline import Outcome
from otel_itl.export.stream_report import StreamReport
from otel_itl.recording.batch_queue import BatchQueue
from otel_itl.recording.critical_sections import CriticalSections
from otel_itl.recording.internal_errors import InternalErrors

PRINT_SECONDS: Final = 0.05
"""Seconds after which a line is printed, together with others."""
MAX_WAITING: Final = 1_000
"""Lines that may wait for a slow terminal; further ones are dropped and counted."""

WRITE_SECONDS: Final = 0.5
"""Seconds that a terminal, or the reader of a pipe, may take until it has room for a line."""

ABSENT: Final = "-"
_RED, _GREEN, _YELLOW, _BOLD, _DIM, _RESET = (f"\33[{code}m" for code in (31, 32, 33, 1, 2, 0))
_COLORS: Final = {Outcome.COMPLETED: _GREEN, Outcome.ERROR: _RED}


class _Summary(NamedTuple):
    """The figures of a line, in seconds. They keep neither the timeline nor the span of the stream."""

    name: str
    ttft: float | None
    p50: float | None
    p99: float | None
    ttft_error: float | None
    """What the figure may be less by; None: by nothing that matters."""
    p99_error: float | None
    """Likewise."""
    p99_highest: float | None
    """The figure may be as much as this; None: hardly more than it is."""
    tokens_per_second: float | None
    stalls: int
    outcome: Outcome


class SummaryLines:
    """A sink of the pipeline that prints on a thread of its own, so that a slow terminal delays no stream.

    A standard error that is closed or broken is ignored, and one that has no room for a line loses it.

    Args:
        errors: counts the lines that are dropped.
        sections: the critical sections of the process.
    """

    def __init__(self, errors: InternalErrors, sections: CriticalSections) -> None:
        self._errors = errors
        self.queue: BatchQueue[_Summary] = BatchQueue(
            "summary",
            errors,
            self._print,
            sections,
            where=Where.SUMMARY_PRINT,
            interval=PRINT_SECONDS,
            max_waiting=MAX_WAITING,
            max_batch=MAX_WAITING,
        )
        """The lines that wait to be printed."""

    def __call__(self, report: StreamReport) -> None:
        """Have the line of a stream printed. Returns at once."""
        request, measures = report.finished.request, report.measures
        self.queue.add(
            _Summary(
                request.model or request.provider,
                measures.time_to_first_token,
                measures.itl_p50,
                measures.itl_p99,
                measures.ttft_uncertainty,
                measures.itl_p99_uncertainty,
                measures.itl_p99_highest,
                measures.output_speed,
                len(report.finished.stalls),
                report.finished.timeline.outcome,
            )
        )

    def _print(self, batch: Sequence[_Summary]) -> None:
        """Print lines, each in one write; what a terminal does not take in time is dropped. Runs on the thread."""
        stream = sys.stderr
        if stream is None or stream.closed:  # as under pythonw, or in a daemon
            return
        paint = _make_painter(stream, os.environ)
        for printed, summary in enumerate(batch):
            if not _can_write(stream):
                self._errors.counts[Where.QUEUE_SUMMARY] += len(batch) - printed
                return
            with suppress(OSError, ValueError):  # the reader is gone, or another thread closes the stream just now
                _write(stream, _line(summary, paint))


def _descriptor(stream: Any) -> int | None:
    """Return the file descriptor of a standard error that is no replacement of the application's; None: it is one."""
    # A notebook replaces it by an object whose descriptor is that of the server's terminal.
    return stream.fileno() if type(stream) is io.TextIOWrapper and hasattr(select, "poll") else None


def _can_write(stream: Any) -> bool:
    """Return whether the stream takes a line within `WRITE_SECONDS`."""
    descriptor = _descriptor(stream)
    if descriptor is None:
        return True
    waiting = select.poll()
    waiting.register(descriptor, select.POLLOUT)
    return bool(waiting.poll(WRITE_SECONDS * 1_000))


def _write(stream: Any, line: str) -> None:
    """Write a line to the descriptor itself: in the stream's own buffer it would keep a full pipe's process alive."""
    descriptor = _descriptor(stream)
    if descriptor is None:
        stream.write(line)
        stream.flush()
    else:
        os.write(descriptor, line.encode(stream.encoding, "backslashreplace"))


def _make_painter(stream: Any, environ: Mapping[str, str]) -> Callable[[str, str], str]:
    """Return a function that colours a text: on a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`.

    Elsewhere it returns the text as it is. See https://no-color.org.
    """
    if stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb":
        return lambda text, color: f"{color}{text}{_RESET}"
    return lambda text, _: text


def _line(summary: _Summary, paint: Callable[[str, str], str]) -> str:
    """Format the line of a stream."""
    speed = ABSENT if summary.tokens_per_second is None else _three_digits(summary.tokens_per_second)
    stalls = f"{summary.stalls} stall" + ("" if summary.stalls == 1 else "s")
    parts = (
        paint("otel_itl", _DIM),
        paint("".join(letter if letter.isprintable() else "?" for letter in summary.name), _BOLD),
        f"{paint('TTFT', _DIM)} {_time(summary.ttft, summary.ttft_error)}",
        f"{paint('p50', _DIM)} {_time(summary.p50)}",
        f"{paint('p99', _DIM)} {_time(summary.p99, summary.p99_error, summary.p99_highest)}",
        f"{speed} {paint('tok/s', _DIM)}",
        paint(stalls, _YELLOW if summary.stalls else _DIM),
        paint(summary.outcome.value, _COLORS.get(summary.outcome, _YELLOW)),
    )
    return "  ".join(parts) + "\n"


def _time(seconds: float | None, error: float | None = None, highest: float | None = None) -> str:
    """Format a time with its unit, and what it may be less and more by: `0.16 ms`, `512 ms (-120 +60)`, `1.86 s`."""
    if seconds is None:
        return ABSENT
    above = None if highest is None else highest - seconds
    if seconds >= 1:
        return append_error(f"{_three_digits(seconds)} s", error, 1, above)
    return append_error(f"{_three_digits(seconds * 1_000)} ms", error, 1_000, above)


def _three_digits(number: float) -> str:
    """Format a number with three significant digits, and all digits before the point."""
    decimals = 2 if number < 9.995 else 1 if number < 99.95 else 0  # noqa: PLR2004 - where rounding adds a digit
    return f"{number:,.{decimals}f}"
