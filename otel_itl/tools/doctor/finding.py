"""A finding of the doctor: what is fine, what is worth knowing, and what is not fine, with its remedy."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final, NamedTuple


class State(str, Enum):
    """How a finding is to be taken."""

    FINE = "fine"
    NOTE = "note"
    WRONG = "wrong"


SCHEMA_VERSION: Final = 1
_SUBJECTS: Final = frozenset({"program", "streams", "scripted stream"})
"""The topics that are what their findings are about."""


class Check(NamedTuple):
    """One finding."""

    topic: str
    name: str
    state: State
    finding: str
    """What was found, without a full stop."""
    remedy: str | None = None
    """What to do; there is one exactly where the state is `wrong`."""

    @property
    def subject(self) -> str:
        """What the finding is about, for a reader who has not read its topic."""
        return self.topic if self.topic in _SUBJECTS else self.name


Finding = tuple[str, State, str, str | None]
"""A check without its topic."""


def put_wrong_first(checks: Iterable[Check]) -> list[Check]:
    """Return findings with those first that are not fine; else in their order."""
    return sorted(checks, key=lambda check: check.state is not State.WRONG)


def fine(name: str, finding: str) -> Finding:
    """Return a finding that is as it should be."""
    return name, State.FINE, finding, None


def note(name: str, finding: str) -> Finding:
    """Return a finding that is worth knowing."""
    return name, State.NOTE, finding, None


def wrong(name: str, finding: str, remedy: str) -> Finding:
    """Return a finding that is not fine, with what to do."""
    return name, State.WRONG, finding, remedy


def checks_to_json(trace_id: str | None, checks: Sequence[Check]) -> str:
    """Return the findings as JSON, whose schema docs/doctor.md has."""
    return json.dumps(
        {
            "schema_version": SCHEMA_VERSION,
            "is_fine": all(check.state is not State.WRONG for check in checks),
            "trace_id": trace_id,
            "checks": [{**check._asdict(), "state": check.state.value} for check in checks],
        },
        indent=2,
        ensure_ascii=False,
    )
