"""Recognizes the signature of reasoning: by it a chunk shows that the stream did not carry the reasoning itself."""

from __future__ import annotations

from typing import Any, Final

MIN_LENGTH: Final = 100
"""Characters. A signature of Anthropic's holds the whole reasoning, encrypted: it has hundreds of characters, and more.
Servers of other models that speak this format send none, or an id or a checksum of up to 64, and stream the reasoning
itself."""


def is_signature(value: Any) -> bool:
    """Return whether a field of a chunk is the signature of reasoning of which only a summary is shown, or nothing."""
    return isinstance(value, (str, bytes)) and len(value) >= MIN_LENGTH
