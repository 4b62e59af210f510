"""Describes the stream with the longest inter-token latency of all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import compress, pairwise
from typing import NamedTuple

from otel_itl.core.arrivals import find_arrivals
from otel_itl.core.gaps import split_by_choice
from otel_itl.core.timeline import SECOND, Timeline
from otel_itl.tools.report.other_tools import figures_as
from otel_itl.tools.report.reading.streams import StoredStream


class ChunkGap(NamedTuple):
    """Two successive output chunks: the arrivals of the first and the second, in nanoseconds after the request."""

    start: int
    end: int
    position: int
    """Number of the second among the output chunks, from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstStream:
    """The stream with the longest inter-token latency."""

    stream: StoredStream
    longest: float
    """That latency, in seconds."""
    gap: ChunkGap | None
    """Its place in the stream; None: it is imputed, and lies between no two chunks that were observed."""
    figures: Mapping[str, float | None] | None = None
    """The stream's figures as another tool defines them; None: not asked for."""


def describe_worst(stream: StoredStream, tool: str | None) -> WorstStream:
    """Describe a stream that has at least one gap; `tool`: the tool whose figures are computed in place of ours."""
    longest = longest_latency(stream)
    return WorstStream(
        stream=stream,
        longest=longest / SECOND,
        gap=_find_gap(stream.timeline, longest),
        figures=None if tool is None else figures_as(stream.timeline, tool).figures,
    )


def longest_latency(stream: StoredStream) -> float:
    """Return the longest ITL sample (ns) of a stream that has any."""
    return stream.measures.itl_samples.nanoseconds[-1]


def _find_gap(timeline: Timeline, longest: float) -> ChunkGap | None:
    """Find the gap that a sample (ns) comes from."""
    arrivals = find_arrivals(timeline).latest
    for selected in split_by_choice(timeline, timeline.output_flags):
        indexes = list(compress(range(len(timeline)), selected))
        for position, (before, after) in enumerate(pairwise(indexes), start=2):
            start, end = arrivals[before], arrivals[after]
            tokens = timeline.tokens[after] if timeline.tokens else 1
            if longest in {end - start, (end - start) / (tokens or 1)}:
                return ChunkGap(start, end, position)
    return None
