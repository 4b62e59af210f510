"""One integer per chunk: its kind, its token count and its choice, packed for an array and unpacked for a timeline."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final, NamedTuple

_KIND_MASK: Final = 0xFF
_TOKENS_SHIFT: Final = 8
_TOKENS_MASK: Final = 0xFFFFFF
_CHOICE_SHIFT: Final = 32


class UnpackedCodes(NamedTuple):
    """What the chunk codes of one stream hold, one entry per chunk."""

    kinds: bytes
    tokens: array[int]
    """Empty where no chunk has a token count."""
    choices: bytes
    """Empty where every chunk belongs to the first choice."""


def chunk_code(kind: int, tokens: int = 0, choice: int = 0) -> int:
    """Pack what a chunk carried into one integer.

    Args:
        kind: flags of `Kind`.
        tokens: tokens in the chunk; 0: unknown. Capped at 2**24 - 1.
        choice: index of the choice that the chunk belongs to. Capped at 255.
    """
    return kind | min(tokens, _TOKENS_MASK) << _TOKENS_SHIFT | min(choice, 0xFF) << _CHOICE_SHIFT


def unpack_codes(codes: Sequence[int]) -> UnpackedCodes:
    """Split chunk codes into kinds, token counts and choices."""
    try:
        return UnpackedCodes(bytes(codes), array("I"), b"")
    except ValueError:  # some code holds more than a kind
        pass
    tokens = array("I", [number >> _TOKENS_SHIFT & _TOKENS_MASK for number in codes])
    choices = bytes([number >> _CHOICE_SHIFT & _KIND_MASK for number in codes])
    return UnpackedCodes(
        kinds=bytes([number & _KIND_MASK for number in codes]),
        tokens=tokens if any(tokens) else array("I"),
        choices=choices if any(choices) else b"",
    )
