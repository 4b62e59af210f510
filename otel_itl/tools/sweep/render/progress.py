"""Shows how far a sweep has come, on standard error."""

from __future__ import annotations

import sys
from typing import Final

from rich.text import Text

from otel_itl.tools.report.render.moving_display import MovingDisplay
from otel_itl.tools.report.render.number_format import make_printable, pluralize
from otel_itl.tools.report.render.terminal import open_terminal
from otel_itl.tools.sweep.progress import Phase, Progress
from otel_itl.tools.sweep.render.words import format_level

_MINUTE: Final = 60


class ProgressDisplay(MovingDisplay):
    """A line that moves on a terminal, and else a line for each round, for as long as its `with` block lasts.

    Args:
        is_shown: False: show nothing, as for `--json`.
    """

    def __init__(self, *, is_shown: bool) -> None:
        super().__init__(open_terminal(sys.stderr), is_shown=is_shown)
        self._is_shown = is_shown
        self._last = ""

    def show(self, progress: Progress) -> None:
        """Show how far the sweep is."""
        if self._live is not None:
            self._live.update(Text(describe_progress(progress)), refresh=True)
            return
        line = describe_round(progress)
        if self._is_shown and line != self._last:
            self._last = line
            print(f"{line}, {describe_time_left(progress)}", file=sys.stderr, flush=True)


def describe_round(progress: Progress) -> str:
    """Return the round that runs: `1.5x, round 5 of 15`."""
    if progress.phase is Phase.CALIBRATION:
        return progress.phase.words
    number = min(progress.rounds_over + 1, progress.rounds_planned)
    return f"{format_level(progress.level)}, round {number} of {progress.rounds_planned}"


def describe_progress(progress: Progress) -> str:
    """Return in one line what the sweep does, what it has sent, and when it will end."""
    where = describe_round(progress)
    if progress.stopping is not None:
        where += f", ending: {make_printable(progress.stopping)}"
    elif progress.phase is not Phase.CALIBRATION:
        where += f" {progress.phase.words}"
    counts = [f"{progress.open:,} open", f"{progress.requests:,} sent"]
    if progress.errors:
        counts.append(f"{progress.errors:,} failed")
    if progress.cost is not None:
        counts.append(f"cost {progress.cost:,.2f}")
    return f"{where}: {', '.join(counts)}; {describe_time_left(progress)}"


def describe_time_left(progress: Progress) -> str:
    """Return an estimate of how long the sweep still takes."""
    return f"about {describe_seconds(progress.seconds_left)} left"


def describe_seconds(seconds: float) -> str:
    """Return a time of a length that people wait: `40 s`, `6 min`."""
    if seconds < 2 * _MINUTE:
        return f"{seconds:.0f} s"
    return pluralize(round(seconds / _MINUTE), "min").removesuffix("s")
