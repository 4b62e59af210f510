"""The live display of streams."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass

import pytest
from rich.console import Console

from otel_itl.tools.report.render.progress import Progress
from otel_itl.tools.report.render.terminal import Terminal
from otel_itl.tools.report.render.timeline_chart import ASCII, UNICODE, Glyphs


@dataclass
class Lane:
    provider: str
    model: str
    total: int = 4
    done: int = 0
    chunks: int = 0


class TerminalFile(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def lane() -> Lane:
    return Lane("openai", "smooth-1")


def shown(lane: Lane, file: io.StringIO, glyphs: Glyphs, *chunks: int) -> str:
    """What the display shows last, after an update for each number of chunks."""
    console = Console(file=file, force_terminal=True, color_system=None, width=80, height=20, _environ={})
    with Progress([lane], Terminal(console, glyphs)) as progress:
        for more in chunks:
            lane.chunks += more
            progress.update()
        text = file.getvalue()
    return re.split(r"\x1b\[\?25l|\x1b\[2K", text)[-1]


def test_what_arrives_is_drawn_as_it_comes(lane: Lane) -> None:
    assert re.search(r"smooth-1 +▂▄▆█ █ +0/4", shown(lane, TerminalFile(), UNICODE, 2, 4, 6, 8, 0, 80))


def test_streams_and_chunks_are_counted(lane: Lane) -> None:
    lane.done = 3
    assert "3 of 4 streams done, 1 open, 1,540 chunks" in shown(lane, TerminalFile(), UNICODE, 1_540)


def test_a_plain_terminal_has_no_display(lane: Lane) -> None:
    assert shown(lane, TerminalFile(), ASCII, 5) == ""


def test_a_file_has_no_display_even_in_colour(lane: Lane) -> None:
    assert shown(lane, io.StringIO(), UNICODE, 5) == ""
