"""The five figures of a measurement, and how far from the truth they may be."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, NamedTuple

FIGURES: Final = ("ttft", "mean", "p50", "p99", "max")
"""The fields of `Figures`, in order."""
ABSOLUTE_MS, RELATIVE = 0.5, 0.01
"""The goal: at most this far from the truth, in milliseconds or as a share of it."""

_MS = 1e6


@dataclass(frozen=True)
class Stream:
    """Times (ns) of one stream, by its server or by a tool."""

    ttft: float | None
    samples: Sequence[float] = ()
    """Times between successive tokens, or those that the tool uses for them."""
    imputed: int = 0
    excluded: int = 0
    consumer_bound: bool = False


class Figures(NamedTuple):
    """The figures of a table, in milliseconds; None is absent."""

    ttft: float | None
    mean: float | None
    p50: float | None
    p99: float | None
    max: float | None


@dataclass(frozen=True)
class Measured:
    """The figures of a tool for one run, and the truth of that run."""

    measured: Figures
    true: Figures
    imputed: int = 0
    excluded: int = 0
    consumer_bound: int = 0
    knowable: frozenset[str] = field(default=frozenset(FIGURES))

    @property
    def flagged(self) -> bool:
        """Whether the tool flags that its figures do not cover the whole stream."""
        return bool(self.imputed or self.excluded or self.consumer_bound)

    def error(self, figure: str) -> float | None:
        """Return the error of a figure in milliseconds; None where the figure is absent."""
        measured, true = getattr(self.measured, figure), getattr(self.true, figure)
        return None if measured is None or true is None else measured - true

    def right(self, figure: str) -> bool:
        """Return whether a figure is near the truth or, where it cannot be known, absent or flagged.

        The flags are about the gaps between tokens: a TTFT that cannot be known has to be absent.
        """
        error, true = self.error(figure), getattr(self.true, figure)
        if error is not None and abs(error) <= max(ABSOLUTE_MS, RELATIVE * true):
            return True
        return figure not in self.knowable and (error is None or (self.flagged and figure != "ttft"))


def compared(measured: Sequence[Stream], true: Sequence[Stream], knowable: frozenset[str]) -> Measured:
    """Return the figures of one run of a tool, beside the truth."""
    return Measured(
        figures(measured),
        figures(true),
        imputed=sum(stream.imputed for stream in measured),
        excluded=sum(stream.excluded for stream in measured),
        consumer_bound=sum(stream.consumer_bound for stream in measured),
        knowable=knowable,
    )


def figures(streams: Iterable[Stream]) -> Figures:
    """Return the figures of several streams: samples are pooled, the TTFT is the median."""
    streams = list(streams)
    # An unknown TTFT sorts last: the median is known where at least half of them are.
    first = sorted(float("inf") if stream.ttft is None else stream.ttft for stream in streams)
    ttft = statistics.median_high(first) if first else float("inf")
    samples = sorted(chain.from_iterable(stream.samples for stream in streams))
    known = None if ttft == float("inf") else ttft / _MS
    if len(samples) < 2:
        return Figures(known, None, None, None, None)
    # Interpolates linearly between closest ranks, as `otel_itl` and numpy do; independent of ours, as a check.
    percentiles = statistics.quantiles(samples, n=100, method="inclusive")
    return Figures(
        known, statistics.fmean(samples) / _MS, percentiles[49] / _MS, percentiles[98] / _MS, samples[-1] / _MS
    )
