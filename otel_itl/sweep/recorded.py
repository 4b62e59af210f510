"""Reads the traffic that a sweep is to repeat: its peak, when its requests came, and how long they were."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from otel_itl import conventions as names
from otel_itl.core.timeline import SECOND
from otel_itl.report.reading.lines import check_readable, display_name
from otel_itl.report.reading.skipped_input import SkippedInput
from otel_itl.report.reading.streams import StoredStream, read_streams
from otel_itl.report.render.number_format import pluralize

DEFAULT_PROMPT_TOKENS: Final = 256
"""Length of prompts whose input tokens were not recorded."""
MIN_STREAMS: Final = 10


class NoTrafficError(Exception):
    """A file has too few streams to be repeated; the message is one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTraffic:
    """Recorded streams, reduced to what a sweep repeats of them."""

    peak: float
    """The most streams that were open at a time."""
    inter_arrivals: tuple[float, ...]
    """Seconds between two requests, in order of time."""
    lengths: tuple[tuple[int, int], ...]
    """Input and output tokens of each request."""


def read_traffic(source: str) -> RecordedTraffic:
    """Read the traffic of a file of telemetry, of all its models together.

    Raises:
        UnreadableSourceError: it cannot be read.
        NoTrafficError: it has fewer than `MIN_STREAMS` streams.
    """
    check_readable(source)
    streams = list(read_streams([source], SkippedInput(), names.USAGE_INPUT_TOKENS))
    if len(streams) < MIN_STREAMS:
        found = pluralize(len(streams), "stream")
        raise NoTrafficError(f"{display_name(source)} has {found}: at least {MIN_STREAMS} are needed to repeat them.")
    spans = sorted((stream.timeline.request_unix_ns, _end_of(stream)) for stream in streams)
    return RecordedTraffic(
        peak=float(_find_peak(spans)),
        inter_arrivals=tuple((later - earlier) / SECOND for (earlier, _), (later, _) in pairwise(spans)),
        lengths=tuple((_input_tokens(stream), max(stream.measures.token_count, 1)) for stream in streams),
    )


def _end_of(stream: StoredStream) -> int:
    """Return when a stream ended, in Unix nanoseconds."""
    return stream.timeline.request_unix_ns + stream.timeline.end


def _find_peak(spans: Iterable[tuple[int, int]]) -> int:
    """Return the most streams that were open at a time, given when each began and ended."""
    changes = sorted(change for begin, end in spans for change in ((begin, 1), (end, -1)))
    most = count = 0
    for _, change in changes:  # of a moment, those that end come first
        count += change
        most = max(most, count)
    return most


def _input_tokens(stream: StoredStream) -> int:
    """Return the input tokens of a stream; the default, where they were not recorded."""
    try:
        return max(int(stream.group or ""), 1)
    except ValueError:
        return DEFAULT_PROMPT_TOKENS
