"""Prints, at the end of a run, how many tests were skipped and which command runs them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pytest

CAUSES: Final = (
    (re.compile("not on this machine"), "a program that is not on this machine"),
    (
        re.compile("not installed|could not import|openai|anthropic|opentelemetry", re.IGNORECASE),
        "another package or another release of one",
    ),
    (
        re.compile("python|interpreter|fork|platform|system|suspended|clock", re.IGNORECASE),
        "another Python or operating system",
    ),
    (re.compile("busy"), "a machine that is less busy"),
)
"""What in the reason of a skip shows what the test needs. The first that matches counts."""
OTHER_CAUSE: Final = "another package or another release of one"


def cause_of(reason: str) -> str:
    """Return what a skipped test needs, given the reason that it was skipped for."""
    return next((cause for pattern, cause in CAUSES if pattern.search(reason)), OTHER_CAUSE)


def summary_lines(reasons: Iterable[str]) -> list[str]:
    """Return at most three lines about the skipped tests, given the reason of each; none when there are none."""
    counts = Counter(cause_of(reason) for reason in reasons)
    if not counts:
        return []
    needs = ", ".join(f"{count} need {cause}" for cause, count in counts.most_common())
    return [
        f"skipped: {counts.total()} tests; {needs}",
        "run them: bash .ci/run",
        "list every reason: python -m pytest -rs",
    ]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the lines. pytest calls this before it prints its own last line."""
    for line in summary_lines(str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", ())):
        terminalreporter.write_line(line)
