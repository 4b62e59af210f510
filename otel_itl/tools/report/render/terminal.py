"""The terminal or file that a report is printed to: its width, and the characters that it can show."""

from __future__ import annotations

import os
from typing import IO, NamedTuple

from rich.console import Console, RenderableType

from otel_itl.tools.report.render.timeline_chart import ASCII, UNICODE, Glyphs

_FALLBACK_WIDTH = 80
"""Columns of a terminal that reports a width of 0."""


class _PipeConsole(Console):
    """A console that raises BrokenPipeError where its reader has gone, as any file does, instead of SystemExit."""

    def on_broken_pipe(self) -> None:
        """Raise what is being handled."""
        raise BrokenPipeError


class Terminal(NamedTuple):
    """Where a report is printed, and the characters for its drawings."""

    console: Console
    glyphs: Glyphs

    @property
    def is_plain(self) -> bool:
        """Only ASCII can be shown, and no colour."""
        return self.glyphs is ASCII


def open_terminal(file: IO[str] | None = None, width: int | None = None) -> Terminal:
    """Return the terminal for a file (None: standard output).

    Colour and block characters are for terminals that can show them, unless `NO_COLOR` is set; everything else gets
    ASCII. `FORCE_COLOR` treats any file as a terminal, and `COLUMNS` sets the width.
    """
    console = _PipeConsole(file=file, width=width, highlight=False, soft_wrap=False)
    if console.width < 1:
        console.width = _FALLBACK_WIDTH
    utf8 = console.encoding.lower().replace("-", "") == "utf8"
    if console.is_terminal and not console.is_dumb_terminal and utf8 and not os.environ.get("NO_COLOR"):
        return Terminal(console, UNICODE)
    plain = Console(
        file=file, width=width or console.width, highlight=False, color_system=None, force_terminal=False, emoji=False
    )
    return Terminal(plain, ASCII)


def print_to(terminal: Terminal, content: RenderableType) -> None:
    """Print something; to a plain terminal without the blanks that fill a line up."""
    if not terminal.is_plain:
        terminal.console.print(content)
        terminal.console.file.flush()
        return
    with terminal.console.capture() as captured:
        terminal.console.print(content)
    lines = captured.get().splitlines()
    terminal.console.file.write("".join(f"{line.rstrip()}\n" for line in lines))
    terminal.console.file.flush()  # a pipe gets a line when it is printed, not when the buffer is full
