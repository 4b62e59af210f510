"""The five figures of a measurement, and how far they may be from the truth."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, NamedTuple

FIGURES: Final = ("ttft", "mean", "p50", "p99", "max")
"""The fields of `Figures`, in order."""
ABSOLUTE_MS, RELATIVE = 0.5, 0.01
"""The goal: as near to the truth as this, or this part of it."""

_MS = 1e6


@dataclass(frozen=True)
class Stream:
    """What is known of one stream: by its server, or by a tool. Times are nanoseconds."""

    ttft: float | None
    samples: Sequence[float] = ()
    """The time between successive tokens, or what the tool takes for it."""
    imputed: int = 0
    excluded: int = 0
    consumer_bound: bool = False


class Figures(NamedTuple):
    """What a table shows, in milliseconds; None is absent."""

    ttft: float | None
    mean: float | None
    p50: float | None
    p99: float | None
    max: float | None


@dataclass(frozen=True)
class Measured:
    """What a tool says of the streams of one run, beside the truth of that run."""

    said: Figures
    true: Figures
    imputed: int = 0
    excluded: int = 0
    consumer_bound: int = 0
    knowable: frozenset[str] = field(default=frozenset(FIGURES))

    @property
    def flagged(self) -> bool:
        """The tool says itself that its figures are not all of the stream."""
        return bool(self.imputed or self.excluded or self.consumer_bound)

    def error(self, figure: str) -> float | None:
        """How far off a figure is, in milliseconds; None where it is absent."""
        said, true = getattr(self.said, figure), getattr(self.true, figure)
        return None if said is None or true is None else said - true

    def right(self, figure: str) -> bool:
        """A knowable figure is near the truth; one that cannot be known is absent, flagged, or near all the same.

        Flags are of the gaps between tokens: a TTFT that cannot be known has to be absent.
        """
        error, true = self.error(figure), getattr(self.true, figure)
        if error is not None and abs(error) <= max(ABSOLUTE_MS, RELATIVE * true):
            return True
        return figure not in self.knowable and (error is None or (self.flagged and figure != "ttft"))


def compared(said: Sequence[Stream], true: Sequence[Stream], knowable: frozenset[str]) -> Measured:
    """One run: what a tool says of its streams, and what they were."""
    return Measured(
        figures(said),
        figures(true),
        imputed=sum(stream.imputed for stream in said),
        excluded=sum(stream.excluded for stream in said),
        consumer_bound=sum(stream.consumer_bound for stream in said),
        knowable=knowable,
    )


def figures(streams: Iterable[Stream]) -> Figures:
    """Samples are pooled over streams; TTFT is their median, absent where that is absent."""
    streams = list(streams)
    # An unknown TTFT sorts last, so that half of them known is the least that gives a median.
    first = sorted(float("inf") if stream.ttft is None else stream.ttft for stream in streams)
    ttft = statistics.median_high(first) if first else float("inf")
    samples = sorted(chain.from_iterable(stream.samples for stream in streams))
    known = None if ttft == float("inf") else ttft / _MS
    if len(samples) < 2:
        return Figures(known, None, None, None, None)
    # Interpolates linearly between closest ranks, as `otel_itl` and numpy do; not ours, so that it is a check as well.
    percentiles = statistics.quantiles(samples, n=100, method="inclusive")
    return Figures(
        known, statistics.fmean(samples) / _MS, percentiles[49] / _MS, percentiles[98] / _MS, samples[-1] / _MS
    )
