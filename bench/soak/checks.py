"""What a soak has to prove: each check is one line, passed or failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from bench.soak.ledger import Held, growth_mb
from bench.soak.stalls import MAX_DELAY_SECONDS, Report

MAX_GROWTH_MB: Final = 16.0
MIN_SHARE_OF_BARE: Final = 0.5
"""Fewer streams than this mean that the application is held up. The work for each stream of a few chunks costs a share
of its own where the processors are saturated: `docs/performance.md` has that figure, and it is to become smaller."""
MAX_STAYING_THREADS: Final = 2
"""Threads of the instrumentation that stay, asleep: the watchdog and the finalizer."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """What the callers of one run did."""

    seconds: float
    """How long the callers made requests."""
    in_time: int
    """Streams that ended within these seconds."""
    expected: Counter[str]
    """Streams by the outcome that has to be recorded."""
    surprises: Counter[str]
    """Errors that the upstream did not cause, by type."""
    cpu_seconds: float
    """CPU time of the process."""

    @property
    def rate(self) -> float:
        """Streams that ended per second."""
        return self.in_time / self.seconds

    @property
    def milliseconds_each(self) -> float:
        """CPU time of the process for each stream, in milliseconds."""
        return 1e3 * self.cpu_seconds / max(self.expected.total(), 1)

    @property
    def timeouts(self) -> int:
        """Errors that are timeouts."""
        return sum(number for name, number in self.surprises.items() if "Timeout" in name)

    def __add__(self, other: Run) -> Run:
        return Run(
            seconds=self.seconds + other.seconds,
            in_time=self.in_time + other.in_time,
            expected=self.expected + other.expected,
            surprises=self.surprises + other.surprises,
            cpu_seconds=self.cpu_seconds + other.cpu_seconds,
        )


@dataclass(frozen=True, kw_only=True)
class Soak:
    """What a soak found: the run without measuring, the run with it, and what was recorded of the latter."""

    bare: Run
    measured: Run
    spans: Counter[str]
    counted: Counter[str]
    open_streams: float
    own_errors: Counter[str]
    memory_mb: Sequence[float]
    silences: int
    reports: Sequence[Report]
    before: Held
    after: Held
    official: Run | None = None
    """The run with the official instrumentation; None: it is not installed."""


class Verdict(NamedTuple):
    """One check: its name, whether it passed, and the figures it rests on."""

    name: str
    is_ok: bool
    figures: str

    def __str__(self) -> str:
        return f"{'ok  ' if self.is_ok else 'FAIL'} {self.name}: {self.figures}"


def verdicts(soak: Soak) -> list[Verdict]:
    """Return all checks of a soak."""
    return [
        _books(soak),
        _own_errors(soak),
        _memory(soak),
        _stalls(soak),
        _timeouts(soak),
        _streams(soak),
        _threads(soak),
        _files(soak),
    ]


def _books(soak: Soak) -> Verdict:
    """Check that every stream that was opened was counted once and has one span, with the right outcome."""
    opened, counted, spans = soak.measured.expected, soak.counted, soak.spans
    figures = f"{opened.total()} streams opened, {counted.total()} counted, {spans.total()} spans"
    differing = [outcome for outcome in sorted({*opened, *counted, *spans}) if not (
        opened[outcome] == counted[outcome] == spans[outcome]
    )]  # fmt: skip
    figures += f", {soak.open_streams:.0f} still open"
    figures += f"; they differ for {', '.join(differing)}" if differing else ""
    return Verdict("books", not differing and not soak.open_streams, figures)


def _own_errors(soak: Soak) -> Verdict:
    """Check that nothing of the instrumentation failed."""
    figures = ", ".join(f"{number} in {place}" for place, number in soak.own_errors.items()) or "none"
    return Verdict("own errors", not soak.own_errors, figures)


def _memory(soak: Soak) -> Verdict:
    """Check that the memory did not grow."""
    growth = growth_mb(soak.memory_mb)
    figures = (
        f"{growth:+.1f} MB from the second to the last quarter (medians of resident memory; at most {MAX_GROWTH_MB:g})"
    )
    return Verdict("memory", growth <= MAX_GROWTH_MB, figures)


def _stalls(soak: Soak) -> Verdict:
    """Check that every stall was reported in time; time in which no thread gets to run is not counted."""
    excess = [report.delay - report.overdue for report in soak.reports]
    late = sum(delay > MAX_DELAY_SECONDS for delay in excess)
    missing = soak.silences - len(soak.reports)
    figures = f"{soak.silences} stalls, {missing} not reported, {late} reported too late"
    if soak.reports:
        figures += (
            f"; at worst {max(excess):.2f} s while threads ran that were due (at most {MAX_DELAY_SECONDS:g}),"
            f" {max(report.delay for report in soak.reports):.2f} s in all"
        )
    return Verdict("stalls", soak.silences > 0 and not missing and not late, figures)


def _timeouts(soak: Soak) -> Verdict:
    """Check that there are no more timeouts than without measuring."""
    bare, measured = soak.bare.timeouts, soak.measured.timeouts
    return Verdict("timeouts", measured <= bare, f"{measured} measured, {bare} bare")


def _streams(soak: Soak) -> Verdict:
    """Check that nearly as many streams get through as without measuring."""
    share = soak.measured.rate / soak.bare.rate if soak.bare.in_time else 0.0
    figures = f"{share:.0%} of bare get through (at least {MIN_SHARE_OF_BARE:.0%})"
    return Verdict("streams", share >= MIN_SHARE_OF_BARE, figures)


def _threads(soak: Soak) -> Verdict:
    """Check that no thread stays but the two of the instrumentation."""
    before, after = soak.before.threads, soak.after.threads
    figures = f"{before} before, {after} after, {MAX_STAYING_THREADS} of the instrumentation may stay"
    return Verdict("threads", after <= before + MAX_STAYING_THREADS, figures)


def _files(soak: Soak) -> Verdict:
    """Check that no file or socket is left open."""
    return Verdict(
        "files", soak.after.files <= soak.before.files, f"{soak.before.files} before, {soak.after.files} after"
    )
