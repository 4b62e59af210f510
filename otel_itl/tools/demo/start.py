"""The demo's start: a line that moves before anything that takes long is imported, and Ctrl-C at any moment."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Final

from otel_itl.tools.exit_codes import INTERRUPTED

_INTERVAL_SECONDS: Final = 0.1
_SPINNER: Final = "|/-\\"
_CLEAR_LINE: Final = "\r\x1b[K"
_SHOW_CURSOR: Final = "\x1b[?25h"


class StartLine:
    """One line on standard error that names the step of the start and how long it has taken, and moves meanwhile.

    Nothing is shown where standard error is no terminal. On a terminal that cannot clear a line, each step is a line.

    Args:
        is_shown: False: show nothing, as for `--quiet`.
    """

    def __init__(self, *, is_shown: bool) -> None:
        self._is_shown = is_shown and sys.stderr is not None and sys.stderr.isatty()
        self._can_clear = os.environ.get("TERM", "dumb") != "dumb"
        self._text = ""
        self._began = monotonic()
        self._lock = threading.RLock()  # a signal handler stops the line, maybe in the middle of `show`
        self._stopped = threading.Event()

    def show(self, text: str) -> None:
        """Show a step; the first one starts the line."""
        with self._lock:
            is_first, self._text = not self._text, text
            if not self._is_shown or self._stopped.is_set():
                return
            self._write("" if self._can_clear else f"{text} ...\n")
            if is_first and self._can_clear:
                threading.Thread(target=self._move, daemon=True).start()

    def stop(self) -> None:
        """Remove the line. Nothing is shown any more."""
        with self._lock:
            if self._is_shown and self._text and self._can_clear and not self._stopped.is_set():
                os.write(2, _CLEAR_LINE.encode())
            self._stopped.set()

    def show_cursor(self) -> None:
        """Show the cursor, which a display that is cut off has left hidden."""
        if self._is_shown and self._can_clear:
            os.write(2, _SHOW_CURSOR.encode())

    def _move(self) -> None:
        """Show the line again and again, until it is stopped. Runs on a thread."""
        while not self._stopped.wait(_INTERVAL_SECONDS):
            with self._lock:
                if not self._stopped.is_set():
                    self._write("")

    def _write(self, line: str) -> None:
        """Write a line, or the text with what moves; straight to the terminal, as a signal handler may do it."""
        seconds = monotonic() - self._began
        spinner = _SPINNER[int(seconds / _INTERVAL_SECONDS) % len(_SPINNER)]
        with suppress(OSError):  # the terminal is gone
            os.write(2, (line or f"{_CLEAR_LINE}{spinner} {self._text}, {seconds:.0f} s").encode())


class Interrupts:
    """Handles Ctrl-C from the demo's first moment to the end of the process; what it does changes as the demo goes on.

    A `KeyboardInterrupt` would come out wherever the program happens to be: in an import that catches everything, in a
    finalizer, between starting a process and remembering it.

    Args:
        line: is stopped before a sentence is printed.
    """

    def __init__(self, line: StartLine) -> None:
        self.is_requested = False
        """Ctrl-C was pressed while streams were measured."""
        self.clean_up: Callable[[], object] = lambda: None
        """Called where the process ends by Ctrl-C."""
        self._line = line

    def call(self, react: Callable[[], object]) -> None:
        """Have Ctrl-C call a function from here on. Outside of the main thread, this does nothing."""
        with suppress(ValueError):
            signal.signal(signal.SIGINT, lambda *_: react())

    def end_process(self, before: str = "") -> None:
        """Have Ctrl-C end the process from here on, with a sentence that names what it came `before`, if given."""
        self.call(lambda: self._leave(f"otel-itl demo: interrupted before {before}.\n" if before else ""))

    def request_end(self) -> None:
        """Note that Ctrl-C was pressed while streams were measured; the next one ends the process without a report."""
        self.is_requested = True
        self.end_process("the report was made")

    def _leave(self, sentence: str) -> None:
        """Clean up, print a sentence and end the process, whatever its threads are doing."""
        self._line.stop()
        with suppress(Exception):
            self.clean_up()
        with suppress(OSError):
            self._line.show_cursor()
            os.write(2, sentence.encode())
        os._exit(INTERRUPTED)
