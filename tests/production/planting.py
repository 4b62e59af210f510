"""Faults planted in our own functions: which are called is found out by watching, and any of them is made to raise."""

from __future__ import annotations

import dis
import inspect
import sys
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any, Final, NamedTuple

import otel_itl

PACKAGE: Final = str(Path(otel_itl.__file__).parent)
_SUSPENDS: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class PlantedError(Exception):
    """A failure that was planted."""


class Place(NamedTuple):
    """Where a fault is planted: in a function of ours, as it is called or as it returns."""

    code: CodeType
    event: str
    """`call` or `return`."""
    callers: tuple[CodeType, ...]
    """The functions of ours that led there, from the one that another package called: what may stop the fault."""

    def __str__(self) -> str:
        """Module and function, as in `recording/recorder.py:end_exhausted (call)`."""
        return f"{self.function} ({self.event})"

    @property
    def function(self) -> str:
        """Module and function."""
        return f"{self.code.co_filename[len(PACKAGE) + 1 :]}:{self.code.co_name}"


class Watcher:
    """Collects the places that this thread passes."""

    def __init__(self) -> None:
        self.places: dict[Place, None] = {}

    def arm(self) -> None:
        """Collect from now on."""

        def watch(frame: Any, event: str, _: object) -> None:
            code = frame.f_code
            # What suspends itself returns time and again: it is made to fail at its beginning.
            events = {"call"} if code.co_flags & _SUSPENDS else {"call", "return"}
            if event in events and _is_ours(code) and _at_its_beginning(frame, event):
                self.places[Place(code, event, _callers(frame))] = None

        sys.setprofile(watch)

    def disarm(self) -> None:
        """Collect no more."""
        sys.setprofile(None)


class Planted:
    """A fault in one place. Python drops a profile function that has raised, so that it is armed again and again."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.fired = 0

    def arm(self) -> None:
        """The place fails the next time that this thread comes there."""
        code, wanted, callers = self.place

        def watch(frame: Any, event: str, _: object) -> None:
            if frame.f_code is not code or event != wanted:
                return
            if _at_its_beginning(frame, event) and _callers(frame) == callers:
                self.fired += 1
                raise PlantedError("planted")

        sys.setprofile(watch)

    def disarm(self) -> None:
        """The place does not fail."""
        sys.setprofile(None)


def _is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith(PACKAGE) and "/testing/" not in code.co_filename


def _callers(frame: Any) -> tuple[CodeType, ...]:
    found = []
    while (frame := frame.f_back) is not None and _is_ours(frame.f_code):
        found.append(frame.f_code)
    return tuple(reversed(found))


def _at_its_beginning(frame: Any, event: str) -> bool:
    """A generator is called each time that it goes on, its closing included."""
    return event == "return" or not frame.f_code.co_flags & _SUSPENDS or frame.f_lasti <= _beginning(frame.f_code)


@cache
def _beginning(code: CodeType) -> int:
    """Where a frame stands when it begins: at its first RESUME, from Python 3.11 on."""
    return next((step.offset for step in dis.get_instructions(code) if step.opname == "RESUME"), -1)
