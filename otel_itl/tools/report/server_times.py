"""Sums up the times that servers report of their own work, beside what a caller measured of the same streams."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from otel_itl.core.percentiles import percentile
from otel_itl.tools.report.reading.streams import StoredStream


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTimes:
    """The streams of one provider and model with server times. Medians in seconds; None: on none of the streams."""

    streams: int
    """How many there are, from 1."""
    load: float | None
    """Loading the model."""
    prompt: float | None
    """Evaluating the prompt."""
    decode: float | None
    """Generating the output."""
    first_byte: float | None
    """From the request to the first byte of the response."""
    total: float | None
    """The whole request."""
    time_to_first_token: float | None
    """Measured here."""
    decode_time: float
    """From the first output chunk to the last, measured here."""
    duration: float
    """From the request to the end of the stream, measured here."""


class ServerTimesCollector:
    """Collects the server times of one provider and model."""

    def __init__(self) -> None:
        self._streams = 0
        self._seconds: defaultdict[str, list[float]] = defaultdict(list)

    def add(self, stream: StoredStream) -> None:
        """Add a stream, if its server has reported a time."""
        reported, measures = stream.span_facts.server_durations, stream.measures
        if not reported:
            return
        self._streams += 1
        measured = {
            "time_to_first_token": measures.time_to_first_token,
            "decode_time": stream.timeline.output_duration,
            "duration": measures.duration,
        }
        for name, seconds in {**reported, **measured}.items():
            if seconds is not None:
                self._seconds[name].append(seconds)

    def summary(self) -> ServerTimes | None:
        """Sum up the streams that were added; None: there are none."""
        if not self._streams:
            return None
        return ServerTimes(
            streams=self._streams,
            load=self._median("load"),
            prompt=self._median("prompt"),
            decode=self._median("decode"),
            first_byte=self._median("first_byte"),
            total=self._median("total"),
            time_to_first_token=self._median("time_to_first_token"),
            decode_time=self._median("decode_time") or 0.0,
            duration=self._median("duration") or 0.0,
        )

    def _median(self, name: str) -> float | None:
        """Return the median of what was collected under a name; None: nothing was."""
        seconds = self._seconds.get(name)
        return percentile(sorted(seconds), 50) if seconds else None
