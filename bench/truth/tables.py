"""Turns runs into Markdown tables: how often a tool was right, and how large its errors were."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bench.truth.figures import FIGURES, Measured
from bench.truth.scenarios import Scenario
from bench.truth.tools import NAIVE, OFFICIAL, OURS

TOOLS = (OURS, OFFICIAL, NAIVE)
GOAL = ("mean", "p99")
"""The figures of the goal."""
NONE = "-"

Runs = Mapping[str, Sequence[Measured]]
"""The runs of one scenario, by tool."""


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table with aligned columns."""
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join("| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in lines) + "\n"


def summary(results: Sequence[tuple[Scenario, Runs]]) -> str:
    """Return a table of how often mean and p99 were right."""
    header = [
        "scenario",
        "what happens",
        "cannot be known",
        *(f"{tool}: {figure}" for tool in TOOLS for figure in GOAL),
    ]
    return table(header, (_summary_row(scenario, runs) for scenario, runs in results))


def _summary_row(scenario: Scenario, runs: Runs) -> list[str]:
    unknowable = ", ".join(figure for figure in FIGURES if figure not in scenario.knowable) or NONE
    if scenario.impossible:
        return [scenario.name, f"not run: {scenario.impossible}", *[NONE] * (1 + len(TOOLS) * len(GOAL))]
    shares = (_share(runs.get(tool, ()), figure) for tool in TOOLS for figure in GOAL)
    return [scenario.name, scenario.about, unknowable, *shares]


def _share(runs: Sequence[Measured], figure: str) -> str:
    return f"{sum(run.right(figure) for run in runs)} of {len(runs)}" if runs else NONE


def details(results: Sequence[tuple[Scenario, Runs]]) -> str:
    """Return a table of each figure in milliseconds, with its error."""
    rows = [row for scenario, runs in results if not scenario.impossible for row in _detail_rows(scenario, runs)]
    return table(["scenario", "measured by", "TTFT", "mean ITL", "p50", "p99", "max", "flags"], rows)


def _detail_rows(scenario: Scenario, runs: Runs) -> Iterable[list[str]]:
    true = [_true(runs[OURS], figure, scenario) for figure in FIGURES]
    yield [scenario.name, "truth", *true, ""]
    for tool in TOOLS:
        measured = [_measured(runs[tool], figure) if tool in runs else NONE for figure in FIGURES]
        yield ["", tool, *measured, _flags(runs[tool]) if tool == OURS else ""]


def _true(runs: Sequence[Measured], figure: str, scenario: Scenario) -> str:
    value = _number(getattr(_middle(runs, figure).true, figure))
    return value if figure in scenario.knowable else f"({value})"


def _measured(runs: Sequence[Measured], figure: str) -> str:
    """Return the figure of the run with the median error, that error, and how often it was right, if not always."""
    middle = _middle(runs, figure)
    value, error = getattr(middle.measured, figure), middle.error(figure)
    text = "absent" if value is None or error is None else f"{_number(value)} {_signed(error)}"
    right = sum(run.right(figure) for run in runs)
    return text if right == len(runs) else f"{text}, {right}/{len(runs)}"


def _middle(runs: Sequence[Measured], figure: str) -> Measured:
    def off(run: Measured) -> float:
        error = run.error(figure)
        return float("inf") if error is None else abs(error)

    return sorted(runs, key=off)[(len(runs) - 1) // 2]


def _flags(runs: Sequence[Measured]) -> str:
    flags = []
    for flag in ("imputed", "excluded"):
        counts = sorted(getattr(run, flag) for run in runs)
        if counts[-1]:
            flags.append(f"{counts[0]}…{counts[-1]} {flag}" if counts[0] < counts[-1] else f"{counts[0]} {flag}")
    bound = sum(bool(run.consumer_bound) for run in runs)
    if bound:
        flags.append("consumer-bound" if bound == len(runs) else f"consumer-bound {bound}/{len(runs)}")
    return ", ".join(flags)


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}" if value >= 100 else f"{value:.2f}"


def _signed(error: float) -> str:
    return f"{error:+.0f}" if abs(error) >= 100 else f"{error:+.1f}" if abs(error) >= 10 else f"{error:+.2f}"
