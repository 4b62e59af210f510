"""Where a report is shown: how wide it is, and which characters may be used there."""

from __future__ import annotations

import os
from typing import IO, NamedTuple

from rich.console import Console, RenderableType

from otel_itl.report.render import timeline_chart as strip
from otel_itl.report.render.timeline_chart import Glyphs

_FALLBACK_WIDTH = 80
"""Columns of a terminal that says it has none."""


class Screen(NamedTuple):
    """Where a report goes, and the characters that may be used there."""

    console: Console
    glyphs: Glyphs

    @property
    def plain(self) -> bool:
        """Nothing but ASCII, and no colour."""
        return self.glyphs is strip.ASCII


def screen(file: IO[str] | None = None, width: int | None = None) -> Screen:
    """The screen for a file (standard output).

    Colour and block characters are for terminals that can show them, unless `NO_COLOR` is set; `FORCE_COLOR` makes a
    terminal of anything, `COLUMNS` says how wide it is. All else gets ASCII.
    """
    console = Console(file=file, width=width, highlight=False, soft_wrap=False)
    if console.width < 1:
        console.width = _FALLBACK_WIDTH
    utf8 = console.encoding.lower().replace("-", "") == "utf8"
    if console.is_terminal and not console.is_dumb_terminal and utf8 and not os.environ.get("NO_COLOR"):
        return Screen(console, strip.UNICODE)
    plain = Console(
        file=file, width=width or console.width, highlight=False, color_system=None, force_terminal=False, emoji=False
    )
    return Screen(plain, strip.ASCII)


def put(shown: RenderableType, to: Screen) -> None:
    """Print something; where it is plain, without the blanks that fill a line up."""
    if not to.plain:
        to.console.print(shown)
        return
    with to.console.capture() as captured:
        to.console.print(shown)
    lines = captured.get().splitlines()
    to.console.file.write("".join(f"{line.rstrip()}\n" for line in lines))
