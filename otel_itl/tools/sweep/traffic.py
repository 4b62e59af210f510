"""What recorded telemetry shows of the traffic: its peak, when requests came, and how long prompts and answers were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from otel_itl.core.conventions import USAGE_INPUT_TOKENS
from otel_itl.core.timeline import SECOND
from otel_itl.tools.command_error import CommandError
from otel_itl.tools.report.reading.skipped_input import SkippedInput
from otel_itl.tools.report.reading.streams import StoredStream, read_streams
from otel_itl.tools.report.selection import find_attribute
from otel_itl.tools.sweep.concurrency import most_open

MAX_LENGTHS: Final = 10_000
"""Pairs of lengths that are kept, evenly chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """The requests of some files. Times are seconds."""

    peak: int
    """Streams open at a time, at most."""
    inter_arrivals: tuple[float, ...]
    """Between each request and the next, in their order."""
    lengths: tuple[tuple[int, int], ...]
    """Input and output tokens of requests of which both are known."""


def read_traffic(sources: Sequence[str], skipped: SkippedInput) -> Traffic:
    """Read what telemetry files show of the traffic.

    Args:
        sources: paths of files; `-` is standard input.
        skipped: receives what cannot be used.

    Raises:
        UnreadableSourceError: a file cannot be read.
        CommandError: there is no request.
    """
    found = sorted(map(_reduce, read_streams(sources, skipped)))
    if not found:
        raise CommandError(f"no request is recorded in {', '.join(sources)}.")
    lengths = [(one.input_tokens, one.output_tokens) for one in found if one.input_tokens and one.output_tokens]
    return Traffic(
        peak=most_open((one.start, one.end) for one in found),
        inter_arrivals=tuple(later.start - earlier.start for earlier, later in pairwise(found)),
        lengths=tuple(lengths[:: len(lengths) // MAX_LENGTHS + 1]),
    )


class _RecordedRequest(NamedTuple):
    """One request. Times are Unix times in seconds."""

    start: float
    end: float
    input_tokens: int
    """0: not known."""
    output_tokens: int


def _reduce(stream: StoredStream) -> _RecordedRequest:
    """Reduce a stream to its times and lengths."""
    start = stream.timeline.request_unix_ns / SECOND
    tokens = find_attribute(stream.span_facts.attributes, USAGE_INPUT_TOKENS) or ""
    input_tokens = int(tokens) if tokens.isdecimal() else 0
    return _RecordedRequest(start, start + stream.timeline.end / SECOND, input_tokens, stream.measures.token_count)
