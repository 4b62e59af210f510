"""Newline-delimited JSON: the wire of Ollama, and of Cohere's first API."""

from __future__ import annotations


def encode_line(_: str, data: bytes) -> bytes:
    """Encode an event, which has no name on this wire, as a line."""
    return data + b"\n"
