"""What other tools' figures are computed from: the facts of one stream, and those of several streams together.

Times are nanoseconds, and moments count from the request; None is absent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, compress, pairwise
from math import nan
from typing import Final, NamedTuple

from otel_itl.core.timeline import OUTPUT, SECOND, Kind, Timeline

ANSWER_OR_TOOL: Final = int(Kind.ANSWER | Kind.TOOL)
UNKNOWN: Final = nan
"""The tool has a number here that a timeline does not contain. Arithmetic propagates it; it is reported as None."""


class StreamFacts:
    """What the figures of one stream are computed from: moments in nanoseconds after the request, and counts.

    Args:
        timeline: of the stream.
        token_flags: flags of `Kind`, of which each chunk that is a token to the tool has one; None: every chunk is one.
    """

    def __init__(self, timeline: Timeline, token_flags: int | None) -> None:
        self.timeline = timeline
        self.moments = list(timeline.arrived) if token_flags is None else self._find_arrivals(token_flags)
        """Arrival of each token."""

    @property
    def first_token(self) -> int | None:
        """Arrival of the first token."""
        return self.moments[0] if self.moments else None

    @property
    def second_token(self) -> int | None:
        """Arrival of the second token."""
        return self.moments[1] if len(self.moments) > 1 else None

    @property
    def last_token(self) -> int | None:
        """Arrival of the last token."""
        return self.moments[-1] if self.moments else None

    @property
    def gaps(self) -> list[int]:
        """Times between successive tokens."""
        return [after - before for before, after in pairwise(self.moments)]

    @property
    def first_answer(self) -> int | None:
        """Arrival of the first answer or tool chunk."""
        return min(self._find_arrivals(ANSWER_OR_TOOL), default=None)

    @property
    def finish(self) -> int | None:
        """Arrival of the finish chunk, or of the last output chunk where that is later or alone."""
        return max(self._find_arrivals(OUTPUT | Kind.FINISH), default=None)

    @property
    def last_chunk(self) -> int | None:
        """Arrival of the last chunk of any kind."""
        return self.timeline.arrived[-1] if self.timeline.arrived else None

    @property
    def end(self) -> int:
        """The `[DONE]` line where the SDK stops there, else the end of the connection: a timeline has one of them."""
        return self.timeline.end

    @property
    def usage(self) -> int | None:
        """Output tokens as the provider counts them."""
        return self.timeline.output_tokens

    @property
    def tokens(self) -> float:
        """As `usage`, for a tool that counts the text with its own tokenizer where the provider does not count."""
        return UNKNOWN if self.timeline.output_tokens is None else self.timeline.output_tokens

    def count_chunks_but_usage(self) -> int:
        """Return the number of chunks of any kind but usage."""
        return sum(kind != Kind.USAGE for kind in self.timeline.kinds)

    def count_decode_chunks(self) -> int:
        """Return the number of chunks from the first token on, without usage and pings; 0 without a token."""
        chunks = zip(self.timeline.arrived, self.timeline.kinds, strict=True)
        first = self.timeline.end + 1 if self.first_token is None else self.first_token
        return sum(moment >= first and kind not in {Kind.USAGE, Kind.PING} for moment, kind in chunks)

    def _find_arrivals(self, flags: int) -> list[int]:
        """Return the arrivals of the chunks with any of these flags."""
        return list(compress(self.timeline.arrived, (kind & flags for kind in self.timeline.kinds)))


class StreamInRun(NamedTuple):
    """One of several streams, as a tool reads it."""

    timeline: Timeline
    ttft: int | None
    """None: the stream does not count."""
    itl: Sequence[float]
    """The tool's list of latencies."""


def busiest_second(streams: Sequence[StreamInRun]) -> float:
    """Return the most tokens in one second; seconds are counted from the first request."""
    start = min(stream.timeline.request_unix_ns for stream in streams)
    seconds: Counter[float] = Counter()
    for timeline, ttft, itl in streams:
        if ttft is not None:
            moments = accumulate([timeline.request_unix_ns - start + ttft, *itl])
            seconds.update(moment // SECOND for moment in moments)
    return float(max(seconds.values(), default=0))


def longest_gap(streams: Sequence[StreamInRun]) -> float | None:
    """Return the longest latency of all streams; None without any."""
    return max((gap for stream in streams for gap in stream.itl), default=None)


def request_rate(streams: Sequence[StreamInRun]) -> float | None:
    """Return streams per second, from the first request to the last end; None where these are one moment."""
    start = min(stream.timeline.request_unix_ns for stream in streams)
    duration = max(stream.timeline.request_unix_ns + stream.timeline.end for stream in streams) - start
    return len(streams) * SECOND / duration if duration > 0 else None
