"""Computes the figures of other tools, of one stream and of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan
from typing import Final, NamedTuple

from otel_itl.core.timeline import Timeline
from otel_itl.tools.report.other_tools.definitions import TOOLS
from otel_itl.tools.report.other_tools.facts import UNKNOWN, StreamFacts, StreamInRun
from otel_itl.tools.report.other_tools.schema import Figure, ToolDefinition
from otel_itl.tools.report.other_tools.statistics import STATISTICS

MILLISECOND: Final = 1_000_000


class ToolFigures(NamedTuple):
    """The figures of one stream as one tool defines them."""

    figures: Mapping[str, float | None]
    """By the tool's own names. None: the tool has no such number, or a timeline does not contain it."""
    itl: Sequence[float]
    """The tool's inter-token (or inter-chunk) latencies in milliseconds: in order of time, but those of `otel_itl`
    ascending. Empty where the tool keeps no such list."""


def figures_as(timeline: Timeline, tool: str) -> ToolFigures:
    """Compute the figures of one stream as another tool defines them.

    A timeline that leaves chunks out (thinned, or beyond the recording limit) has figures of `otel_itl` only.

    Args:
        timeline: a stream of any outcome; the tools themselves leave failed requests out.
        tool: one of `TOOLS`.

    Raises:
        ValueError: `tool` is not in `TOOLS`.
    """
    definition = _definition(tool)
    stream = _ToolStream(definition, timeline)
    figures = {
        figure.name: _convert_result(figure.name, stream.values.get(figure.name))
        for figure in definition.figures
        if figure.role != "itl"
    }
    itl = [latency / MILLISECOND for latency in stream.itl]
    return ToolFigures(figures, itl)


def summary_as(timelines: Sequence[Timeline], tool: str) -> dict[str, float | None]:
    """Compute the figures of several streams together, by the names that another tool's summary of a run has for them.

    A figure that is unknown for one of the streams is None: leaving that stream out would give another number.

    Raises:
        ValueError: `tool` is not in `TOOLS`.
    """
    definition = _definition(tool)
    streams = [_ToolStream(definition, timeline) for timeline in timelines]
    complete = all(stream.is_complete for stream in streams)
    figures: dict[str, float | None] = {}
    for figure in definition.pooled_figures:
        values = sorted(value for stream in streams for value in stream.pooled(figure)) if complete else [UNKNOWN]
        for statistic in definition.statistics.split():
            figures[definition.statistic_name(figure, statistic)] = _statistic(definition, statistic, values)
    run = [stream.in_run() for stream in streams] if complete and definition.run_figures else []
    for one in definition.run_figures:
        figures[one.name] = _convert_result(one.name, one.compute(run) if run else None)
    return figures


class _ToolStream:
    """One stream as one tool reads it. Times are nanoseconds."""

    def __init__(self, definition: ToolDefinition, timeline: Timeline) -> None:
        facts = StreamFacts(timeline, definition.tokens.flags)
        left_out = bool(timeline.unrecorded) or any(timeline.skipped)
        self._timeline = timeline
        self._roles = definition.roles
        self.is_complete = not (left_out and definition.needs_every_chunk)
        has_figures = self.is_complete and (bool(facts.moments) or not definition.needs_token)
        self.values = definition.compute(facts) if has_figures else {}
        """The tool's figures, by their names; empty where the tool has none of the stream."""

    @property
    def itl(self) -> Sequence[float]:
        """The tool's list of latencies; empty where it keeps none."""
        return self.values.get(self._roles.get("itl", "")) or ()

    def pooled(self, figure: Figure) -> list[float]:
        """Return the values that the stream contributes to a summary, in the unit of the figure's name."""
        if not self.values:
            return []
        values = self.itl if figure.role == "itl" else [self.values[figure.name]]
        weight = int(figure.weight(self.values) or 0)
        return [_convert_unit(figure.name, value) for value in values if value is not None] * weight

    def in_run(self) -> StreamInRun:
        """Return what the figures of several streams are computed from."""
        return StreamInRun(self._timeline, self.values.get(self._roles["ttft"]), self.itl)


def _definition(tool: str) -> ToolDefinition:
    if tool not in TOOLS:
        raise ValueError(f"no definition of {tool!r} is known. Known are: {', '.join(TOOLS)}.")
    return TOOLS[tool]


def _convert_unit(name: str, value: float) -> float:
    """Convert nanoseconds to milliseconds if the name of the figure has that unit; keep any other value."""
    return value / MILLISECOND if "ms" in name.split("_") else value


def _convert_result(name: str, value: float | None) -> float | None:
    """Convert the unit of a value; return None where it is absent or unknown."""
    return None if value is None or isnan(value) else _convert_unit(name, value)


def _statistic(definition: ToolDefinition, name: str, values: Sequence[float]) -> float | None:
    """Compute one statistic of ascending values; None where one of them is unknown."""
    if not values:
        return definition.empty_statistic
    if any(map(isnan, values)):
        return None
    if name in STATISTICS:
        return STATISTICS[name](values)
    return definition.percentiles.compute(values, 50 if name == "median" else int(name.removeprefix("p")))
