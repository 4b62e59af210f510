"""Shows streams while they run: how many are done, and the chunks that arrive now."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import groupby
from typing import Protocol

from rich.console import Group
from rich.table import Table
from rich.text import Text

from otel_itl.tools.report.render.moving_display import MovingDisplay
from otel_itl.tools.report.render.number_format import make_printable, pluralize
from otel_itl.tools.report.render.styles import STYLES
from otel_itl.tools.report.render.terminal import Terminal

REFRESH_INTERVAL = 0.1
"""Seconds between two calls of `update`; each adds one column of arrivals."""

_ARRIVAL_COLUMNS = 40
_FULL_COLUMN = 8
"""Chunks between two updates that fill a column."""


class Lane(Protocol):
    """One model and its requests, which run one after the other. The numbers grow while they are shown."""

    provider: str
    model: str
    total: int
    done: int
    chunks: int


class Progress(MovingDisplay):
    """A display of lanes that lasts as long as its `with` block. Only a terminal with colours has one.

    Args:
        lanes: what is shown; `update` reads their numbers.
        terminal: where it is shown.
        shown: False: show nothing, as for `--quiet`.
    """

    def __init__(self, lanes: Sequence[Lane], terminal: Terminal, *, shown: bool = True) -> None:
        super().__init__(terminal, is_shown=shown)
        self._lanes = sorted(lanes, key=lambda lane: (lane.provider, lane.model))
        self._glyphs = terminal.glyphs
        columns = max(min(_ARRIVAL_COLUMNS, terminal.console.width - 44), 0)
        self._arrivals = [deque([0] * columns, columns) for _ in self._lanes]
        self._chunks = [0 for _ in self._lanes]

    def update(self) -> None:
        """Show the lanes as they are now."""
        if self._live is None:
            return
        for index, lane in enumerate(self._lanes):
            self._arrivals[index].append(lane.chunks - self._chunks[index])
            self._chunks[index] = lane.chunks
        self._live.update(Group(self._table(), self._totals()), refresh=True)

    def _table(self) -> Table:
        """Return a table with a line for each lane."""
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style=STYLES["head"])
        table.add_column("")
        table.add_column("arriving now", no_wrap=True)
        table.add_column("streams", justify="right")
        table.add_column("chunks", justify="right")
        for provider, of_provider in groupby(enumerate(self._lanes), key=lambda numbered: numbered[1].provider):
            table.add_row(Text(make_printable(provider), style=STYLES["provider"]))
            for index, lane in of_provider:
                table.add_row(
                    Text(f"  {make_printable(lane.model)}"),
                    Text(self._drawn(self._arrivals[index]), style=STYLES["answer"]),
                    Text(f"{lane.done}/{lane.total}", style=STYLES["head"] if lane.done == lane.total else ""),
                    Text(f"{lane.chunks:,}"),
                )
        return table

    def _totals(self) -> Text:
        done, total = sum(lane.done for lane in self._lanes), sum(lane.total for lane in self._lanes)
        open_now = sum(lane.done < lane.total for lane in self._lanes)
        chunks = sum(self._chunks)
        return Text(f"{done} of {pluralize(total, 'stream')} done, {open_now} open, {pluralize(chunks, 'chunk')}")

    def _drawn(self, arrivals: Sequence[int]) -> str:
        levels = self._glyphs.levels
        heights = [min(-(-count * len(levels) // _FULL_COLUMN), len(levels)) for count in arrivals]
        return "".join(levels[height - 1] if height else " " for height in heights)
