"""Prints findings to a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

from rich.console import Group
from rich.table import Table
from rich.text import Text

from otel_itl.tools.doctor.finding import Check, State
from otel_itl.tools.report.render.terminal import Terminal, print_to

_MARKS: Final = {State.FINE: ("✓", "ok"), State.NOTE: ("·", "-"), State.WRONG: ("✗", "NO")}
"""State → its mark, and the one for a terminal of ASCII."""
_NOT_FINE: Final = "not fine"
"""The heading of what is wrong, of whatever topic."""
_STYLES: Final = {State.FINE: "green", State.NOTE: "dim", State.WRONG: "bold red"}


def print_checks(checks: Sequence[Check], terminal: Terminal) -> None:
    """Print what is not fine, each remedy under its finding; the other findings by topic; a last line that sums up."""
    parts: list[Any] = []
    for topic, members in groupby(checks, lambda check: _NOT_FINE if check.state is State.WRONG else check.topic):
        parts += [Text(f"\n{topic}", style="bold"), _table(list(members), terminal)]
    wrong = sum(check.state is State.WRONG for check in checks)
    summary = "all is fine" if not wrong else f"{wrong} {'thing is' if wrong == 1 else 'things are'} not fine"
    parts.append(Text(f"\n{summary}", style=_STYLES[State.WRONG if wrong else State.FINE]))
    print_to(terminal, Group(*parts))


def _table(checks: Sequence[Check], terminal: Terminal) -> Table:
    """Return the lines of one topic."""
    table = Table.grid(padding=(0, 1), expand=False)
    table.add_column(no_wrap=True)
    arrow = "->" if terminal.is_plain else "→"
    for check in checks:
        mark = Text(f"  {_MARKS[check.state][terminal.is_plain]}", style=_STYLES[check.state])
        if check.remedy is None:
            table.add_row(mark, check.name, Text(check.finding))
        else:
            table.add_row(mark, Text(f"{check.subject}: {check.finding}"))
            table.add_row("", Text(f"{arrow} {check.remedy}", style="yellow"))
    return table
