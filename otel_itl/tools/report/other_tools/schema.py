"""What the definition of a tool consists of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from otel_itl.tools.report.other_tools.facts import StreamFacts, StreamInRun
from otel_itl.tools.report.other_tools.formulas import Values

SAME: Final = "="
"""As the name of a figure in a summary: the same as for one stream."""

Role = Literal["ttft", "itl", "tpot", "e2e", "tokens", "speed", ""]


class TokenChunks(NamedTuple):
    """Which chunks are tokens to a tool, in words and as flags of `Kind`; no flags: every chunk is one."""

    words: str
    flags: int | None


class Percentiles(NamedTuple):
    """How a tool interpolates percentiles, in words and as a function of ascending values and a percentage."""

    words: str
    compute: Callable[[Sequence[float], int], float]


class Figure(NamedTuple):
    """One figure of a tool.

    Args:
        role: what it is in the terms of `docs/definitions.md`, or nothing. `itl` is the list of latencies of a stream.
        name: the tool's own name, with the unit added (`_ms`, `_ns`) where the tool leaves it out.
        formula: how it comes about, as reports print it: t are arrivals after the request, N the output tokens.
        pooled: its name in a summary of several streams, or `SAME`; empty: it is not in summaries.
        weight: the number of times that the value of a stream counts in a summary, given all figures of the stream.
    """

    role: Role
    name: str
    formula: str
    pooled: str = ""
    weight: Callable[[Values], float | None] = lambda _: 1

    @property
    def summary_name(self) -> str:
        """The figure's name in a summary."""
        return self.name if self.pooled == SAME else self.pooled


class RunFigure(NamedTuple):
    """One figure of a tool that exists for several streams only."""

    name: str
    compute: Callable[[Sequence[StreamInRun]], float | None]
    formula: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinition:
    """How one tool reads a stream, and how it summarizes several."""

    name: str
    version: str
    """The version whose code was read, or run on recorded streams."""
    tokens: TokenChunks
    ends: str
    """Which moment is the end of a request, in words."""
    percentiles: Percentiles
    statistics: str
    """The tool's names for the statistics of a summary, separated by blanks."""
    label: str = "{figure}.{statistic}"
    """How the tool names a statistic of a figure."""
    assumes: str = ""
    """Which of several wire forms the server used, where the tool treats them differently and a timeline records them
    alike, and the name of the definition for the other; empty: nothing is assumed."""
    empty_statistic: float | None = None
    """What the tool prints for a statistic of no values."""
    needs_token: bool = False
    """To the tool, a stream without a token is a failed request, which has no figures."""
    needs_every_chunk: bool = True
    """The tool has no figures of a timeline that leaves chunks out (thinned, or beyond the recording limit)."""
    figures: tuple[Figure, ...]
    run_figures: tuple[RunFigure, ...] = ()
    compute: Callable[[StreamFacts], Values]
    """Computes the figures of one stream, by their names."""

    def statistic_name(self, figure: Figure, statistic: str) -> str:
        """Return the tool's name for a statistic of a figure."""
        return self.label.format(figure=figure.summary_name, statistic=statistic)

    @property
    def pooled_figures(self) -> list[Figure]:
        """The figures that are in a summary."""
        return [figure for figure in self.figures if figure.pooled]

    @property
    def formulas(self) -> dict[str, str]:
        """Name of each figure, of one stream and of several → its formula in words."""
        statistics = {
            self.statistic_name(figure, name): f"{name} over all streams: {figure.formula}"
            for figure in self.pooled_figures
            for name in self.statistics.split()
        }
        of_run = {figure.name: figure.formula for figure in self.run_figures}
        return {figure.name: figure.formula for figure in self.figures} | of_run | statistics

    @property
    def roles(self) -> dict[str, str]:
        """Role → the name of the figure that has it."""
        return {figure.role: figure.name for figure in self.figures if figure.role}
