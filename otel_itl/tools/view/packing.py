"""Packs a stream's drawn chunks into a few short lists, which the page's `packed.js` reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from math import floor, log10
from operator import sub
from typing import Any

from otel_itl.core.timeline import MICROSECOND
from otel_itl.tools.view.moments import DrawnChunks

MIN_DRAWN_HOLD = 1_000_000
"""A hold below this (ns) is not drawn: it cannot have hidden an arrival that matters."""

BINS_PER_DECADE = 200
"""As in the page's `samples.js`."""


def pack_chunks(drawn: DrawnChunks, choices: bytes = b"", since: int = 0) -> dict[str, Any]:
    """Pack drawn chunks, with microseconds as the resolution.

    Args:
        drawn: the chunks.
        choices: the choice of each; empty: all are of the first.
        since: the moment of the chunk before them, in microseconds after the request.

    Returns:
        `n`: the number of chunks; `d`: the differences of their moments; `k`: codes as runs; and where they are not
        trivial `w`: shares as runs, `c`: choices as runs, `h`: start and length of each hold.
    """
    moments = [round(moment / MICROSECOND) for moment in drawn.moments]
    packed: dict[str, Any] = {
        "n": len(moments),
        "d": list(map(sub, moments, [since, *moments])),
        "k": encode_runs(drawn.codes),
    }
    if any(share != 1 for share in drawn.shares):
        packed["w"] = encode_runs(drawn.shares)
    if any(choices):
        packed["c"] = encode_runs(choices)
    holds = [
        number
        for asked, hold in zip(drawn.asked, drawn.holds, strict=True)
        if hold >= MIN_DRAWN_HOLD
        for number in ((asked - hold) // MICROSECOND, hold // MICROSECOND)
    ]
    if holds:
        packed["h"] = holds
    return packed


def pack_samples(samples: Iterable[float]) -> list[int]:
    """Pack ascending latency samples (ns) into runs of the page's bins, 200 for each power of ten from 1 µs on."""
    bins = (floor(log10(size / MICROSECOND) * BINS_PER_DECADE) + 1 if size >= MICROSECOND else 0 for size in samples)
    return encode_runs(list(bins))


def encode_runs(values: Sequence[int] | bytes) -> list[int]:
    """Encode values as runs: `[value, count, value, count, …]`."""
    return [number for value, run in groupby(values) for number in (value, sum(1 for _ in run))]
