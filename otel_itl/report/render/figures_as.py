"""Latency in another tool's words: what it takes for a token, its figures of each model, and how they come about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from otel_itl.core.timeline import SECOND
from otel_itl.report.other_tools import DEFINITIONS, MILLISECOND, Definition
from otel_itl.report.render.number_format import ABSENT, duration, milliseconds, plural, printable, three_digits
from otel_itl.report.render.styles import STYLES
from otel_itl.report.summary import Row

_INDENT = 2
_CELL = 6
"""Columns of a latency at least, the blank before it included."""
_UNITS = {"_ms": SECOND // MILLISECOND, "_ns": SECOND}
"""Ending of a figure's name → how many of its unit are a second."""
_COUNT = "count"
"""The statistic that is no latency."""


def in_words_of(tool: str, rows: Sequence[Row]) -> Iterable[Text | Table]:
    """The figures of rows that have those of another tool."""
    definition = DEFINITIONS[tool]
    yield from _head(definition)
    yield Text()
    yield _table(definition, rows)
    yield Text()
    yield _formulas(definition)


def figures_of(figures: Mapping[str, float | None]) -> Text:
    """The figures of one stream in a line: `ttft 240 ms, tpot 40.9 ms, output_len 21`."""
    known = ((name, value) for name, value in figures.items() if value is not None)
    return Text(", ".join(" ".join(_named(name, value)) for name, value in known))


def _head(definition: Definition) -> Iterable[Text | Table]:
    yield Text.assemble(("as ", STYLES["head"]), (definition.name, STYLES["provider"]))
    facts = {
        "formulas of": definition.version,
        "tokens": definition.counts,
        "a request ends": definition.ends,
        "percentiles": definition.percentiles,
        "streams": "those that were completed or truncated",
    }
    table = Table.grid(padding=(0, _INDENT, 0, 0))
    table.add_column(style=STYLES["head"], no_wrap=True)
    table.add_column(overflow="fold")
    for name, fact in facts.items():
        table.add_row(Text(name), Text(fact))
    yield table


def _table(definition: Definition, rows: Sequence[Row]) -> Table:
    table = Table(box=None, padding=0, pad_edge=False, header_style=STYLES["head"])
    table.add_column("milliseconds")
    for statistic in definition.statistics:
        table.add_column(statistic, width=max(len(statistic) + 1, _CELL), justify="right", no_wrap=True)
    for provider, of_provider in groupby(rows, key=lambda row: row.provider):
        table.add_row(Text(printable(provider), style=STYLES["provider"]))
        for row in of_provider:
            name = Text(printable(row.model))
            name.append(f", {plural(row.finished, 'stream')}", style=STYLES["head"])
            table.add_row(Padding(name, (0, 0, 0, _INDENT)))
            for figure, cells in _lines(definition, row.figures or {}):
                table.add_row(Padding(Text(figure, overflow="fold"), (0, 0, 0, 2 * _INDENT)), *map(Text, cells))
    return table


def _lines(definition: Definition, figures: Mapping[str, float | None]) -> Iterable[tuple[str, list[str]]]:
    for label in definition.pooled.values():
        per_second = _UNITS[_unit(label)]
        yield (
            _bare(label),
            [_cell(statistic, figures[label.format(statistic)], per_second) for statistic in definition.statistics],
        )
    for name in definition.together:
        yield name, [_plain(figures[name])]


def _named(name: str, value: float) -> tuple[str, str]:
    if name.endswith(tuple(_UNITS)):
        return _bare(name), duration(value / _UNITS[_unit(name)])
    return name, _plain(value)


def _plain(value: float | None) -> str:
    """A number of no unit: counts have no digits after the point."""
    return f"{value:,.0f}" if value is not None and value == round(value) else three_digits(value)


def _cell(statistic: str, value: float | None, per_second: int) -> str:
    if value is None:
        return ABSENT
    return _plain(value) if statistic == _COUNT else milliseconds(value / per_second)


def _unit(label: str) -> str:
    return next(unit for unit in _UNITS if label.replace(".{}", "").endswith(unit))


def _bare(label: str) -> str:
    """The name of a figure without statistic and unit: `{}_ttft_ms` and `ttft_ms.{}` are both `ttft`."""
    return label.replace(".{}", "").replace("{}_", "").removesuffix(_unit(label))


def _formulas(definition: Definition) -> Table:
    table = Table.grid(padding=(0, _INDENT, 0, 0))
    table.add_column(style=STYLES["head"], overflow="fold")
    table.add_column(overflow="fold")
    for figure, label in definition.pooled.items():
        table.add_row(Text(_bare(label)), Text(definition.formulas[figure]))
    for name, formula in definition.together.items():
        table.add_row(Text(name), Text(formula))
    table.add_row(Text("t, N"), Text("arrivals after the request; output tokens as the provider counts them"))
    return table
