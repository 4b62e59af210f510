"""The colours of a terminal report."""

from __future__ import annotations

from typing import Final

from otel_itl.core.timeline import Outcome

FAILURES: Final = frozenset({Outcome.ERROR.value, Outcome.TRUNCATED.value})
"""The outcomes that are shown in red."""
STYLES: Final = {
    "reasoning": "magenta",
    "answer": "green",
    "tool": "cyan",
    "first token": "yellow",
    "longest gap": "bold red",
    "outcome": "red",
    "head": "dim",
    "provider": "bold",
}
"""What is shown → its style, in rich's words."""
