"""One integer per chunk: its kind, its token count and its choices, packed for an array and unpacked for a timeline."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

SEVERAL: Final = 0x80
"""The flag of a choice byte that stands for several choices, with a bit for each of the first seven. Without any of
these, the chunk belongs to every choice."""
MAX_CHOICE: Final = SEVERAL - 1
_MASKED_CHOICES: Final = 7
_KIND_MASK: Final = 0xFF
_TOKENS_SHIFT: Final = 8
_TOKENS_MASK: Final = 0xFFFFFF
_CHOICE_SHIFT: Final = 32
_CODE_BYTES: Final = array("Q").itemsize
_COUNT_BYTES: Final = array("I").itemsize


class UnpackedCodes(NamedTuple):
    """What the chunk codes of one stream hold, one entry per chunk."""

    kinds: bytes
    tokens: array[int]
    """Empty where no chunk has a token count."""
    choices: bytes
    """A choice byte each, as `choice_byte()` makes it; empty where every chunk belongs to the first choice alone."""


def chunk_code(kind: int, tokens: int = 0, choice: int = 0) -> int:
    """Pack what a chunk carried into one integer.

    Args:
        kind: flags of `Kind`.
        tokens: tokens in the chunk, of each choice where it has several; 0: unknown. Capped at 2**24 - 1.
        choice: the index of a choice up to `MAX_CHOICE`, or what `choice_byte()` returns.
    """
    if not choice and tokens <= _TOKENS_MASK:  # as nearly always
        return kind | tokens << _TOKENS_SHIFT
    return kind | min(tokens, _TOKENS_MASK) << _TOKENS_SHIFT | min(choice, 0xFF) << _CHOICE_SHIFT


def choice_byte(choices: Collection[int]) -> int:
    """Return the byte for the choices of which a chunk has output: the index of one, a set of several."""
    if len(choices) <= 1:
        return min(max(choices, default=0), MAX_CHOICE)
    if max(choices) >= _MASKED_CHOICES:
        return SEVERAL
    return sum((1 << choice for choice in choices), SEVERAL)


def choices_in(byte: int) -> frozenset[int]:
    """Return the choices that a choice byte stands for; empty: every choice."""
    if byte < SEVERAL:
        return frozenset((byte,))
    return frozenset(choice for choice in range(_MASKED_CHOICES) if byte >> choice & 1)


def unpack_codes(codes: Sequence[int]) -> UnpackedCodes:
    """Split chunk codes into kinds, token counts and choices."""
    if max(codes, default=0) <= _KIND_MASK:  # as most are
        return UnpackedCodes(bytes([*codes]), array("I"), b"")
    packed = codes if isinstance(codes, array) else array("Q", codes)
    if sys.byteorder == "big":
        packed = packed[:]
        packed.byteswap()
    octets = packed.tobytes()
    kinds, choices = octets[::_CODE_BYTES], octets[_CHOICE_SHIFT // 8 :: _CODE_BYTES]
    counts = bytearray(_COUNT_BYTES * len(kinds))
    for position in range(_COUNT_BYTES - 1):
        counts[position::_COUNT_BYTES] = octets[_TOKENS_SHIFT // 8 + position :: _CODE_BYTES]
    tokens = array("I")
    if counts != bytes(len(counts)):
        tokens.frombytes(counts)
        if sys.byteorder == "big":
            tokens.byteswap()
    return UnpackedCodes(kinds, tokens, choices if choices != bytes(len(choices)) else b"")
