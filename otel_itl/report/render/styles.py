"""What is coloured how in a terminal."""

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
