"""Renders the figures of another tool, together with its definitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from rich.padding import Padding
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
    make_printable,
    pluralize,
)
from otel_itl.tools.report.render.styles import STYLES
from otel_itl.tools.report.render.tables import INDENT

_MIN_CELL_WIDTH = 6
"""Columns of a latency, with the blank before it."""
_PER_SECOND: Final = {"_ms": 1_000, "_ns": 1_000_000_000}
"""Unit at the end of a figure's name → how many of it are a second."""
_COUNT = "count"
"""The statistic that is not a latency."""


def other_tool_tables(tool: str, rows: Sequence[ModelSummary]) -> Iterator[Text | Table]:
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
    yield _figure_table(definition, rows)
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


def _figure_table(definition: ToolDefinition, rows: Sequence[ModelSummary]) -> Table:
    """Return a table with a line for each figure of each model, and a column for each statistic."""
    statistics = definition.statistics.split()
    table = Table(box=None, padding=0, pad_edge=False, header_style=STYLES["head"])
    table.add_column("milliseconds")
    for statistic in statistics:
        table.add_column(statistic, width=max(len(statistic) + 1, _MIN_CELL_WIDTH), justify="right", no_wrap=True)
    for provider, of_provider in groupby(rows, key=lambda row: row.provider):
        table.add_row(Text(make_printable(provider), style=STYLES["provider"]))
        for row in of_provider:
            model = Text(make_printable(mark_model(row)))
            model.append(f", {pluralize(row.finished, 'stream')}", style=STYLES["head"])
            table.add_row(Padding(model, (0, 0, 0, INDENT)))
            figures = row.figures or {}
            for figure in definition.pooled_figures:
                name = figure.summary_name
                values = {statistic: figures[definition.statistic_name(figure, statistic)] for statistic in statistics}
                cells = [_cell(name, statistic, value) for statistic, value in values.items()]
                table.add_row(_indented(_without_unit(name)), *map(Text, cells))
            for of_run in definition.run_figures:
                table.add_row(_indented(of_run.name), Text(_plain(figures[of_run.name])))
    return table


def _indented(name: str) -> Padding:
    return Padding(Text(name, overflow="fold"), (0, 0, 0, 2 * INDENT))


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
