"""Latency samples that are kept in nanoseconds and read in seconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from otel_itl.core.timeline import SECOND


@dataclass(frozen=True, slots=True)
class LatencySamples(Sequence[float]):
    """Ascending latency samples: a read-only view in seconds over a sequence of nanoseconds.

    A stream's end hands thousands of samples to histograms, objectives and sessions; those read `nanoseconds`, so that
    no sample is converted for them. Pool samples over streams, never their percentiles.

    Args:
        nanoseconds: the samples, ascending. It is not copied and must not change any more.
    """

    nanoseconds: Sequence[float]

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.nanoseconds)

    @overload
    def __getitem__(self, index: int) -> float: ...

    @overload
    def __getitem__(self, index: slice) -> LatencySamples: ...

    def __getitem__(self, index: int | slice) -> float | LatencySamples:
        """Return one sample in seconds, or a view over a slice of them."""
        if isinstance(index, slice):
            return LatencySamples(self.nanoseconds[index])
        return self.nanoseconds[index] / SECOND

    def __iter__(self) -> Iterator[float]:
        """Yield each sample in seconds."""
        return (nanoseconds / SECOND for nanoseconds in self.nanoseconds)
