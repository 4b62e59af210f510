"""Evaluates the definitions of tools over timelines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from math import isnan
from types import CodeType
from typing import Any, Final, NamedTuple

from otel_itl.core.timeline import Timeline
from otel_itl.tools.report.other_tools.definitions import TOOLS
from otel_itl.tools.report.other_tools.quantities import (
    RUN_QUANTITIES,
    STATISTICS,
    STREAM_QUANTITIES,
    UNKNOWN,
    StreamFacts,
    StreamInRun,
)
from otel_itl.tools.report.other_tools.schema import Figure, ToolDefinition

MILLISECOND: Final = 1_000_000
FUNCTIONS: Final[dict[str, Any]] = {
    "__builtins__": {},
    "otherwise": lambda value, default: default if value is None else value,
    "when": lambda condition, value: None if condition is None else value,
    "positive": lambda value: None if value is None or value <= 0 else value,
    "after_first": lambda count: None if count is None or count <= 1 else count - 1,
    "ratio": lambda part, whole: None if part is None or not whole else part / whole,
}
"""`otherwise(x, d)`: x, but d where x is absent; `when(c, x)`: x, but absent where c is; `positive(x)`: x, but absent
where it is 0; `after_first(n)`: n - 1, but absent where n is 1 or 0; `ratio(a, b)`: a / b, as an argument of these."""


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
        figure.name: _convert_result(figure, stream.value(figure.name))
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
    for figure in definition.run_figures:
        figures[figure.name] = _convert_result(figure, RUN_QUANTITIES[figure.value](run) if run else None)
    return figures


def evaluate(expression: str, names: Any) -> Any:
    """Compute an expression of Python, with what `names` returns for each name, and with `FUNCTIONS`.

    It is absent (None) where an operand of an operator is, and where it divides by zero.
    """
    try:
        return eval(_compiled(expression), FUNCTIONS, names)  # noqa: S307 - the expressions are those of our table
    except (TypeError, ZeroDivisionError):
        return None


@cache
def _compiled(expression: str) -> CodeType:
    return compile(expression, "<definition>", "eval")


class _ToolStream:
    """One stream as one tool reads it. Times are nanoseconds."""

    def __init__(self, definition: ToolDefinition, timeline: Timeline) -> None:
        self._facts = StreamFacts(timeline, definition.tokens.flags)
        self._roles = definition.roles
        self._expressions = {figure.name: figure.value for figure in definition.figures}
        left_out = bool(timeline.unrecorded) or any(timeline.skipped)
        self.is_complete = not (left_out and definition.needs_every_chunk)
        self._has_figures = self.is_complete and (bool(self._facts.tokens) or not definition.needs_token)

    def __getitem__(self, name: str) -> Any:
        """Return a figure or a quantity of the stream; raises KeyError where there is none of this name."""
        expression = self._expressions.get(name)
        return STREAM_QUANTITIES[name](self._facts) if expression is None else evaluate(expression, self)

    def value(self, expression: str) -> Any:
        """Evaluate an expression; None where the tool has no figures of the stream."""
        return evaluate(expression, self) if self._has_figures else None

    @property
    def itl(self) -> Sequence[float]:
        """The tool's list of latencies; empty where it keeps none."""
        return (self.value(self._roles["itl"]) if "itl" in self._roles else None) or ()

    def pooled(self, figure: Figure) -> list[float]:
        """Return the values that the stream contributes to a summary, in the unit of the figure's name."""
        values = self.itl if figure.role == "itl" else [self.value(figure.name)]
        weight = int(self.value(figure.weight) or 0)
        return [_convert_unit(figure, value) for value in values if value is not None] * weight

    def in_run(self) -> StreamInRun:
        """Return what the quantities of several streams are computed from."""
        return StreamInRun(self._facts.timeline, self.value(self._roles["ttft"]), self.itl)


def _definition(tool: str) -> ToolDefinition:
    if tool not in TOOLS:
        raise ValueError(f"no definition of {tool!r} is known. Known are: {', '.join(TOOLS)}.")
    return TOOLS[tool]


def _convert_unit(figure: Figure, value: float) -> float:
    """Convert nanoseconds to milliseconds if the figure's name has that unit; keep any other value."""
    return value / MILLISECOND if "ms" in figure.name.split("_") else value


def _convert_result(figure: Figure, value: float | None) -> float | None:
    """Convert the unit of a value; return None where it is absent or unknown."""
    return None if value is None or isnan(value) else _convert_unit(figure, value)


def _statistic(definition: ToolDefinition, name: str, values: Sequence[float]) -> float | None:
    """Compute one statistic of ascending values; None where one of them is unknown."""
    if not values:
        return definition.empty_statistic
    if any(map(isnan, values)):
        return None
    if name in STATISTICS:
        return STATISTICS[name](values)
    return definition.percentiles.compute(values, 50 if name == "median" else int(name.removeprefix("p")))
