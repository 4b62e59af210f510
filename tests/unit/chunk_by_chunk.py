"""What the end of a stream computes on whole columns, computed number by number: the reference that does not change."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import sqrt

from otel_itl.core.timeline import Timeline

MICROSECOND = 1_000
KIND, TOKENS, CHOICE = 0xFF, 0xFFFFFF, 0xFF


def round_offsets(moments: Sequence[int], requested: int) -> array[int]:
    """Moments as nanoseconds after the request, rounded down to microseconds."""
    return array("q", [(moment - requested) // MICROSECOND * MICROSECOND for moment in moments])


def unpack(codes: Sequence[int]) -> tuple[bytes, array[int], bytes]:
    """Kinds, token counts and choices of chunk codes; token counts and choices are empty where all are 0."""
    tokens = array("I", [code >> 8 & TOKENS for code in codes])
    choices = bytes([code >> 32 & CHOICE for code in codes])
    kinds = bytes([code & KIND for code in codes])
    return kinds, tokens if any(tokens) else array("I"), choices if any(choices) else b""


def to_microseconds(timeline: Timeline) -> tuple[list[int], list[int]]:
    """When each chunk arrived, and how long the consumer waited for it."""
    offsets = [arrived // MICROSECOND for arrived in timeline.arrived]
    pairs = zip(timeline.arrived, timeline.asked, strict=True)
    return offsets, [(arrived - asked) // MICROSECOND for arrived, asked in pairs]


def stddev(samples: Sequence[int]) -> float:
    """Population standard deviation, from exact sums of integers."""
    count, total = len(samples), sum(samples)
    variance = (count * sum(sample * sample for sample in samples) - total * total) / (count * count)
    return sqrt(max(variance, 0))
