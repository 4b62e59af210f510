"""Renders the figures of another tool, together with its definitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from rich.table import Table
from rich.text import Text

from otel_itl.tools.report.model_summary import ModelSummary
from otel_itl.tools.report.other_tools import TOOLS
from otel_itl.tools.report.other_tools.schema import ToolDefinition
from otel_itl.tools.report.render.model_tables import mark_model
from otel_itl.tools.report.render.number_format import (
    format_duration,
    format_milliseconds,
    format_three_digits,
    pluralize,
)
from otel_itl.tools.report.render.styles import STYLES
from otel_itl.tools.report.render.tables import INDENT, Column, NamedTable
from otel_itl.tools.report.render.terminal import Terminal

_MIN_CELL_WIDTH = 6
"""Columns of a latency, with the blank before it."""
_PER_SECOND: Final = {"_ms": 1_000, "_ns": 1_000_000_000}
"""Unit at the end of a figure's name → how many of it are a second."""
_COUNT = "count"
"""The statistic that is not a latency."""


def other_tool_tables(
    tool: str, rows: Sequence[ModelSummary], terminal: Terminal
) -> Iterator[Text | Table | NamedTable]:
    """Yield what the tool counts and how, its figures of each model, and the formulas of these."""
    definition = TOOLS[tool]
    yield Text.assemble(("as ", STYLES["head"]), (definition.name, STYLES["provider"]))
    yield _two_columns(
        {
            "formulas of": definition.version,
            **({"assumed": definition.assumes} if definition.assumes else {}),
            "tokens": definition.tokens.words,
            "a request ends": definition.ends,
            "percentiles": definition.percentiles.words,
            "streams": "those that were completed or truncated",
        }
    )
    yield Text()
    yield _figure_table(definition, rows, terminal)
    yield Text()
    yield _two_columns(
        {
            **{_without_unit(figure.summary_name): figure.formula for figure in definition.pooled_figures},
            **{figure.name: figure.formula for figure in definition.run_figures},
            "t, N": "arrivals after the request; output tokens as the provider counts them",
        }
    )


def figures_line(figures: Mapping[str, float | None]) -> Text:
    """Return the figures of one stream in a line: `ttft 240 ms, tpot 40.9 ms, output_len 21`."""
    known = ((name, value) for name, value in figures.items() if value is not None)
    return Text(", ".join(f"{_without_unit(name)} {_with_unit(name, value)}" for name, value in known))


def _figure_table(definition: ToolDefinition, rows: Sequence[ModelSummary], terminal: Terminal) -> NamedTable:
    """Return a table with a line for each figure of each model, and a column for each statistic."""
    statistics = definition.statistics.split()
    lines = {(row.provider, row.name): list(_figure_lines(definition, statistics, row)) for row in rows}
    names = [name for of_row in lines.values() for name, _ in of_row]
    cells = [cells for of_row in lines.values() for _, cells in of_row]
    columns = [
        Column(statistic, max(_MIN_CELL_WIDTH, len(statistic) + 1, *(len(line[index]) + 1 for line in cells)))
        for index, statistic in enumerate(statistics)
    ]
    table = NamedTable(names, terminal, columns, "milliseconds")
    for provider, of_provider in groupby(rows, key=lambda row: row.provider):
        table.add_group(provider)
        for row in of_provider:
            table.add_group(f"  {mark_model(row)}, {pluralize(row.finished, 'stream')}")
            for name, line in lines[row.provider, row.name]:
                table.add_row(name, *line)
    return table


def _figure_lines(
    definition: ToolDefinition, statistics: Sequence[str], row: ModelSummary
) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the name of each figure of a model, and its cells; a figure of the whole run has one."""
    figures = row.figures or {}
    for figure in definition.pooled_figures:
        values = {statistic: figures[definition.statistic_name(figure, statistic)] for statistic in statistics}
        cells = [_cell(figure.summary_name, statistic, value) for statistic, value in values.items()]
        yield f"  {_without_unit(figure.summary_name)}", cells
    for of_run in definition.run_figures:
        yield f"  {of_run.name}", [_plain(figures[of_run.name]), *[""] * (len(statistics) - 1)]


def _cell(name: str, statistic: str, value: float | None) -> str:
    if value is None or statistic == _COUNT:
        return _plain(value)
    return format_milliseconds(value / _PER_SECOND[_unit(name)])


def _with_unit(name: str, value: float) -> str:
    unit = _unit(name)
    return format_duration(value / _PER_SECOND[unit]) if unit else _plain(value)


def _plain(value: float | None) -> str:
    """Format a number without unit: counts have no decimals."""
    return f"{value:,.0f}" if value is not None and value == round(value) else format_three_digits(value)


def _unit(name: str) -> str:
    """Return the unit at the end of a figure's name; empty where it has none."""
    return next((unit for unit in _PER_SECOND if name.endswith(unit)), "")


def _without_unit(name: str) -> str:
    return name.removesuffix(_unit(name))


def _two_columns(rows: Mapping[str, str]) -> Table:
    """Return a table of names and explanations."""
    table = Table.grid(padding=(0, INDENT, 0, 0))
    table.add_column(style=STYLES["head"], overflow="fold")
    table.add_column(overflow="fold")
    for name, words in rows.items():
        table.add_row(Text(name), Text(words))
    return table
