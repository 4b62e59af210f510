"""Sums up the streams whose chunks came in bursts: how many there are, and what is known of their pace."""

from __future__ import annotations

from dataclasses import dataclass

from otel_itl.core.measures import Measures


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferedStreams:
    """The buffered streams of one provider and model: their pace is that of a proxy or of a server that batches."""

    streams: int
    """How many there are, from 1."""
    burst_ratio: float
    """Share of their output chunks that arrived together with their predecessor."""
    pace: float | None
    """Mean time (s) between output chunks from burst to burst; None: known of none of them."""


class BufferingCollector:
    """Collects the buffered streams of one provider and model."""

    def __init__(self) -> None:
        self._streams = 0
        self._chunks = 0
        self._chunks_in_bursts = 0.0
        self._paced_time = 0.0
        self._paced_gaps = 0.0

    def add(self, measures: Measures) -> None:
        """Add a stream if it is buffered."""
        if not measures.is_buffered:
            return
        self._streams += 1
        self._chunks += measures.output_chunk_count
        self._chunks_in_bursts += (measures.burst_ratio or 0.0) * measures.output_chunk_count
        if measures.buffered_pace and measures.decode_time:
            self._paced_time += measures.decode_time
            self._paced_gaps += measures.decode_time / measures.buffered_pace

    def summary(self) -> BufferedStreams | None:
        """Sum up the streams that were added; None: none of them is buffered."""
        if not self._streams:
            return None
        return BufferedStreams(
            streams=self._streams,
            burst_ratio=self._chunks_in_bursts / self._chunks,
            pace=self._paced_time / self._paced_gaps if self._paced_gaps else None,
        )
