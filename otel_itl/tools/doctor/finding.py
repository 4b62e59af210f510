"""A finding of the doctor: what is fine, what is worth knowing, and what is not fine, with its remedy."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class State(str, Enum):
    """How a finding is to be taken."""

    FINE = "fine"
    NOTE = "note"
    WRONG = "wrong"


class Check(NamedTuple):
    """One finding."""

    topic: str
    name: str
    state: State
    finding: str
    """What was found, without a full stop."""
    remedy: str | None = None
    """What to do; there is one exactly where the state is `wrong`."""


Finding = tuple[str, State, str, str | None]
"""A check without its topic."""


def fine(name: str, finding: str) -> Finding:
    """Return a finding that is as it should be."""
    return name, State.FINE, finding, None


def note(name: str, finding: str) -> Finding:
    """Return a finding that is worth knowing."""
    return name, State.NOTE, finding, None


def wrong(name: str, finding: str, remedy: str) -> Finding:
    """Return a finding that is not fine, with what to do."""
    return name, State.WRONG, finding, remedy
