"""What the export needs of the guard around our own code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class ErrorReporter(Protocol):
    """Counts and logs failures of the instrumentation itself, so that none of them reaches the application."""

    @property
    def counts(self) -> Mapping[str, int]:
        """How many failures there were, by the step that failed: a value of `conventions.Where`."""

    def report(self, where: str, error: BaseException) -> None:
        """Count a failure, and log the first of its step."""
