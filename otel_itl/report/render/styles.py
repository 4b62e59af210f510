"""The colours of a terminal report."""

from __future__ import annotations

STYLES = {
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
