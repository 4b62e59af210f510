"""Keeps the exit status of a program that Ctrl-C has ended, whatever runs while the interpreter ends."""

from __future__ import annotations

import atexit
import sys
from contextlib import suppress
from types import TracebackType


def keep_exit_by_interrupt() -> None:
    """Have a program that an unhandled KeyboardInterrupt ends die by SIGINT, also after what we do at exit.

    CPython notes such an interrupt, and ends the process by SIGINT when all is done: a shell ends its loop then. But it
    drops the note with every `exec()` of a text, which is how named tuples and data classes are made: by any import at
    exit. Functions for the exit run last registered first, so this is to be called before others are registered.
    """
    atexit.register(_note_interrupt_again)


def _note_interrupt_again() -> None:
    """Have CPython note an unhandled KeyboardInterrupt again, if one has ended the program."""
    if _is_ended_by_interrupt():
        # The note is made where the text of an `exec()` ends by KeyboardInterrupt, also where that is caught.
        with suppress(KeyboardInterrupt):
            exec("raise KeyboardInterrupt", {})  # noqa: S102 - a constant


def _is_ended_by_interrupt() -> bool:
    """Return whether an unhandled KeyboardInterrupt has ended the main program.

    `sys.last_type` is that of an interactive console in the program as well, whose traceback begins further in; and
    after `python -i`, the console decides how the process ends.
    """
    traceback: TracebackType | None = getattr(sys, "last_traceback", None)
    return (
        getattr(sys, "last_type", None) is KeyboardInterrupt
        and traceback is not None
        and traceback.tb_frame.f_back is None
        and not sys.flags.inspect
        and not hasattr(sys, "ps1")
    )
