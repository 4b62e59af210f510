"""Sizes of a full run, and of a quick one, which only shows that everything runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """Numbers of rounds, streams and chunks."""

    rounds: int
    lengths: tuple[tuple[int, int], ...]
    """Lengths of the stubbed streams, each with the number of streams per round."""
    loopback_chunks: int
    loopback_streams: int
    ending_chunks: int
    memory_chunks: tuple[int, int]
    long_chunks: int
    open_streams: int
    payload_chunks: tuple[int, ...]
    counted_chunks: tuple[int, int, int]
    """Lengths of the streams whose instructions are counted: one chunk, some, and more."""


FULL = Sizes(
    rounds=21,
    lengths=((1, 30), (100, 10), (2_000, 1)),
    loopback_chunks=2_000,
    loopback_streams=1,
    ending_chunks=3_000,
    memory_chunks=(500, 2_500),
    long_chunks=1_000_000,
    open_streams=10_000,
    payload_chunks=(100, 2_000),
    counted_chunks=(1, 100, 400),
)
QUICK = Sizes(
    rounds=2,
    lengths=((1, 2), (10, 1), (40, 1)),
    loopback_chunks=40,
    loopback_streams=1,
    ending_chunks=60,
    memory_chunks=(10, 40),
    long_chunks=60,
    open_streams=20,
    payload_chunks=(10, 40),
    counted_chunks=(1, 10, 30),
)
