"""Prints findings: to a terminal, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

from rich.console import Group
from rich.table import Table
from rich.text import Text

from otel_itl.tools.doctor.finding import Check, State
from otel_itl.tools.report.render.terminal import Terminal, print_to

SCHEMA_VERSION: Final = 1

_MARKS: Final = {State.FINE: ("✓", "ok"), State.NOTE: ("·", "-"), State.WRONG: ("✗", "NO")}
"""State → its mark, and the one for a terminal of ASCII."""
_STYLES: Final = {State.FINE: "green", State.NOTE: "dim", State.WRONG: "bold red"}


def print_checks(checks: Sequence[Check], terminal: Terminal) -> None:
    """Print the findings by topic, each remedy under its finding, and a last line that sums up."""
    parts: list[Any] = []
    for topic, members in groupby(checks, lambda check: check.topic):
        parts += [Text(f"\n{topic}", style="bold"), _table(list(members), terminal)]
    wrong = sum(check.state is State.WRONG for check in checks)
    summary = "all is fine" if not wrong else f"{wrong} {'thing is' if wrong == 1 else 'things are'} not fine"
    parts.append(Text(f"\n{summary}", style=_STYLES[State.WRONG if wrong else State.FINE]))
    print_to(terminal, Group(*parts))


def checks_to_json(trace_id: str | None, checks: Sequence[Check]) -> str:
    """Return the findings as JSON, whose schema docs/doctor.md has."""
    return json.dumps(
        {
            "schema_version": SCHEMA_VERSION,
            "is_fine": all(check.state is not State.WRONG for check in checks),
            "trace_id": trace_id,
            "checks": [{**check._asdict(), "state": check.state.value} for check in checks],
        },
        indent=2,
        ensure_ascii=False,
    )


def _table(checks: Sequence[Check], terminal: Terminal) -> Table:
    """Return the lines of one topic."""
    table = Table.grid(padding=(0, 1), expand=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in checks:
        style = _STYLES[check.state]
        mark = _MARKS[check.state][terminal.is_plain]
        table.add_row(Text(f"  {mark}", style=style), check.name, Text(check.finding))
        if check.remedy is not None:
            arrow = "->" if terminal.is_plain else "→"
            table.add_row("", "", Text(f"{arrow} {check.remedy}", style="yellow"))
    return table
