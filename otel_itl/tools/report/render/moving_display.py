"""A display that overwrites itself while something runs, and is gone afterwards."""

from __future__ import annotations

from types import TracebackType
from typing import TypeVar

from rich.live import Live

from otel_itl.tools.report.render.terminal import Terminal

_Display = TypeVar("_Display", bound="MovingDisplay")


class MovingDisplay:
    """What lasts as long as its `with` block. Only a terminal with colours has one.

    Args:
        terminal: where it is shown.
        is_shown: False: show nothing.
    """

    def __init__(self, terminal: Terminal, *, is_shown: bool) -> None:
        # Colours may be forced into a file, but a display that overwrites itself may not.
        moves = is_shown and not terminal.is_plain and terminal.console.file.isatty()
        self._live = Live(console=terminal.console, auto_refresh=False, transient=True) if moves else None

    def __enter__(self: _Display) -> _Display:  # noqa: PYI019 - `Self` is in typing from 3.11 on
        """Start the display."""
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Remove the display."""
        if self._live is not None:
            self._live.stop()
