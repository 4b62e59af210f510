"""Draws one stream over time, in plain characters: the chunks that arrived, and the gaps between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import NamedTuple

from otel_itl.core.timeline import Kind, Timeline

MILLISECOND = 1_000_000
TICK_COLUMNS = 10
"""Ticks are this far apart, or further."""

_LANES = (("answer", Kind.ANSWER), ("tool", Kind.TOOL), ("reasoning", Kind.REASONING))
_DRAWN = ("reasoning", "answer", "tool")


class Glyphs(NamedTuple):
    """The characters of a drawing."""

    levels: str
    """From the fewest chunks in a column to the most."""
    rule: str
    tick: str
    left: str
    right: str
    span: str
    point: str


UNICODE = Glyphs(levels="▁▂▃▄▅▆▇█", rule="─", tick="┼", left="╰", right="╯", span="─", point="▲")
ASCII = Glyphs(levels=".:=#", rule="-", tick="+", left="|", right="|", span="-", point="^")


class Mark(NamedTuple):
    """A label for the time between two moments, in nanoseconds after the request."""

    name: str
    start: int
    end: int
    text: str


class Label(NamedTuple):
    """A mark as it is drawn: its column and its text."""

    name: str
    column: int
    text: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """Rows of equal width, from top to bottom."""

    lanes: Sequence[tuple[str, str]]
    """A row for each kind of output that occurs: `reasoning`, `answer` or `tool`, and the characters of its columns."""
    rule: str
    ticks: str
    unit: str
    labels: Sequence[Sequence[Label]]
    """Rows of labels that do not overlap."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps moments (nanoseconds after the request) to columns."""

    start: int
    end: int
    width: int

    def column(self, moment: int) -> int:
        """Return the column that a moment falls into."""
        place = (moment - self.start) * self.width // max(self.end - self.start, 1)
        return min(max(place, 0), self.width - 1)


def draw_timeline(timeline: Timeline, scale: Scale, marks: Sequence[Mark] = (), glyphs: Glyphs = UNICODE) -> Drawing:
    """Draw the part of a stream that lies on a scale.

    Each column stands for an equal time, and is the higher the more output chunks arrived in it: a gap is as wide as it
    is long. A mark is drawn under the columns that lie wholly between its ends.
    """
    columns: dict[str, list[int]] = {}
    for moment, kind in zip(timeline.arrived, timeline.kinds, strict=True):
        lane = next((name for name, flag in _LANES if kind & flag), None)
        if lane is not None and scale.start <= moment <= scale.end:
            columns.setdefault(lane, [0] * scale.width)[scale.column(moment)] += 1
    most = max((max(counts) for counts in columns.values()), default=0)
    rule, ticks, unit = _axis(scale, glyphs)
    return Drawing(
        lanes=[(name, _bars(columns[name], most, glyphs.levels)) for name in _DRAWN if name in columns],
        rule=rule,
        ticks=ticks,
        unit=unit,
        labels=_label_rows(scale, marks, glyphs),
    )


def _bars(counts: Sequence[int], most: int, levels: str) -> str:
    # One chunk alone is half a column: full ones are for columns that hold more.
    per_level = max(most, 2) / len(levels)
    return "".join(levels[ceil(count / per_level) - 1] if count else " " for count in counts)


def _axis(scale: Scale, glyphs: Glyphs) -> tuple[str, str, str]:
    """Return the rule, the numbers under its ticks, and their unit."""
    step = _round_step((scale.end - scale.start) * TICK_COLUMNS / scale.width)
    unit, units = ("s", 1_000 * MILLISECOND) if step >= 1_000 * MILLISECOND else ("ms", MILLISECOND)
    rule, ticks = [glyphs.rule] * scale.width, [" "] * scale.width
    for moment in range(-(-scale.start // step) * step, scale.end, step):
        column = scale.column(moment)
        number = f"{moment / units:,.6g}" if moment % units else f"{moment // units:,}"
        rule[column] = glyphs.tick
        if column + len(number) <= scale.width:
            ticks[column : column + len(number)] = number
    return "".join(rule), "".join(ticks), unit


def _round_step(minimum: float) -> int:
    """Return the smallest of 1, 2 or 5 times a power of ten that is not below `minimum`."""
    power = 10 ** max(floor(log10(max(minimum, 1.0))), 0)
    return next(int(power * factor) for factor in (1, 2, 5, 10) if power * factor >= minimum)


def _label_rows(scale: Scale, marks: Sequence[Mark], glyphs: Glyphs) -> list[list[Label]]:
    """Place the labels of marks in as few rows as possible."""
    rows: list[list[Label]] = []
    for mark in marks:
        label = _label(mark, scale, glyphs)
        for row in rows:
            if all(_are_apart(label, other) for other in row):
                row.append(label)
                break
        else:
            rows.append([label])
    return [sorted(row, key=lambda label: label.column) for row in rows]


def _are_apart(label: Label, other: Label) -> bool:
    first, second = sorted((label, other), key=lambda one: one.column)
    return first.column + len(first.text) < second.column


def _label(mark: Mark, scale: Scale, glyphs: Glyphs) -> Label:
    """Return a bracket with the text inside it, or beside it where there is no room."""
    # The mark's ends are chunks; a column that holds one is not empty.
    first = scale.column(mark.start) + 1 if mark.start > scale.start else 0
    room = scale.column(mark.end) - first
    if room >= len(mark.text) + 4:
        text = f" {mark.text} ".center(room - 2, glyphs.span)
        return Label(mark.name, first, glyphs.left + text + glyphs.right)
    if room <= 1:
        first, tip = scale.column(mark.end), glyphs.point
    else:
        tip = glyphs.left + glyphs.span * (room - 2) + glyphs.right
    if first + len(tip) + 1 + len(mark.text) <= scale.width:
        return Label(mark.name, first, f"{tip} {mark.text}")
    return Label(mark.name, max(first - len(mark.text) - 1, 0), f"{mark.text} {tip}")
