"""Streams with the same attributes, recorded together: for little more than what one of them alone takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import compress, repeat
from operator import is_not
from typing import Any, Final, NamedTuple, Protocol

from opentelemetry.context import Context
from opentelemetry.metrics import Counter, Histogram  # noqa: TC002 - annotations stay resolvable

from otel_itl.export.sdk_internals.bulk_recording import record_values
from otel_itl.export.stream_report import StreamReport

MAX_MERGED: Final = 64
"""More samples of one stream than this are recorded apart: sorting them in would take longer."""

Labels = Mapping[str, Any]
NO_SPAN: Final = Context()


class HasInstruments(Protocol):
    """Names the instruments that streams are recorded into, at the moment when they are: a `StreamMetrics`."""

    instruments: Any


class StreamBatch(NamedTuple):
    """Records into one instrument after another what several streams have for it.

    An exemplar refers to the span of its own stream.
    """

    metrics: HasInstruments
    """Takes the streams again where recording is interrupted."""
    instruments: Any
    """The `StreamInstruments` that take the streams."""
    labels: Labels | None
    """The attributes of the streams; None: they could not be found."""
    streams: list[StreamReport]
    """At least one; they have the same attributes, and either all of their spans are sampled or none."""
    report: Callable[[Exception], object]
    """Receives the failure of a recording; the other instruments are recorded all the same."""

    def record_values(
        self, histogram: Histogram, values: Sequence[float | None], labels: Labels, scale: float = 1
    ) -> None:
        """Record one value of each stream into a histogram.

        Args:
            histogram: an instrument of the SDK, or any other.
            values: one for each stream, none negative; None: the stream has none.
            labels: attributes of every value.
            scale: units of the values in one unit of the histogram.
        """
        streams: Sequence[StreamReport] = self.streams
        if None in values:
            is_known = list(map(is_not, values, repeat(None)))
            streams, values = list(compress(streams, is_known)), list(compress(values, is_known))
        known: list[Any] = sorted(values)
        self._record(histogram, known, labels, scale, dict(zip(values, streams, strict=True)))

    def record_samples(
        self, histogram: Histogram, samples: Sequence[Sequence[float]], labels: Labels, scale: float
    ) -> None:
        """Record several values of each stream: a sequence for each, ascending. Else as `record_values`."""
        merged: list[float] = []
        owners: dict[Any, StreamReport] = {}
        for stream, ordered in zip(self.streams, samples, strict=True):
            if len(ordered) > MAX_MERGED:
                self._record(histogram, ordered, labels, scale, stream)
            elif ordered:
                merged += ordered
                owners.update(zip(ordered, repeat(stream), strict=False))
        merged.sort()
        self._record(histogram, merged, labels, scale, owners)

    def add(self, counter: Counter, amounts: Sequence[float], labels: Labels) -> None:
        """Add an amount of each stream to a counter.

        In one call for the last stream and one for all others: an exemplar holds the amount of one stream.
        """
        counter.add(amounts[-1], labels, self.streams[-1].handle.exemplar_context)
        others = sum(amounts[:-1])
        if others:
            counter.add(others, labels, NO_SPAN)

    def _record(
        self,
        histogram: Histogram,
        ordered: Sequence[float],
        labels: Labels,
        scale: float,
        owner: StreamReport | dict[Any, StreamReport],
    ) -> None:
        """Record ascending values of one stream, or of those that a dictionary has for each value."""
        if not ordered:
            return
        try:
            if isinstance(owner, dict):
                record_values(histogram, ordered, scale, labels, contexts=_Contexts(owner))
            else:
                record_values(histogram, ordered, scale, labels, owner.handle.exemplar_context)
        except Exception as error:  # noqa: BLE001 - the guard
            self.report(error)


class _Contexts(dict[float, Context]):
    """The context of each value. It is made where an exemplar needs it: for a few values of many."""

    def __init__(self, streams: Mapping[Any, StreamReport]) -> None:
        super().__init__()
        self._streams = streams

    def __missing__(self, value: float) -> Context:
        return self._streams[value].handle.exemplar_context
