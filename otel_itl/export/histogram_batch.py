"""Values for histograms, of several streams: recorded together, for little more than what one value alone takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

from opentelemetry.context import Context  # noqa: TC002 - annotations stay resolvable
from opentelemetry.metrics import Histogram  # noqa: TC002 - annotations stay resolvable
from opentelemetry.trace import get_current_span

from otel_itl.export.sdk_internals.bulk_recording import record_values

MAX_MERGED: Final = 64
"""More values of one stream than this are recorded apart: sorting them in would take longer."""

Labels = Mapping[str, Any]


class _Key(NamedTuple):
    """What values that are recorded together have in common."""

    histogram: Histogram
    scale: float
    labels: frozenset[tuple[str, Any]]
    is_sampled: bool
    """The span of the stream is sampled: the value may become an exemplar."""


class HistogramBatch:
    """Collects what streams record into histograms, and records it at once. One thread uses it.

    Args:
        report: receives the failure of a recording; the other histograms are recorded all the same.
    """

    def __init__(self, report: Callable[[Exception], object]) -> None:
        self._report = report
        self._waiting: dict[_Key, list[tuple[float, Context]]] = {}

    def add(
        self, histogram: Histogram, ordered: Sequence[float], scale: float, labels: Labels, context: Context
    ) -> None:
        """Add values of one stream, to be recorded by `record()`; more than `MAX_MERGED` are recorded at once.

        Values for the same histogram with the same labels are recorded together, those of sampled spans apart.

        Args:
            histogram: an instrument of the SDK, or any other.
            ordered: ascending values, none negative.
            scale: units of the values in one unit of the histogram.
            labels: attributes of every value.
            context: holds the span that exemplars refer to.
        """
        if len(ordered) > MAX_MERGED:
            record_values(histogram, ordered, scale, labels, context)
            return
        is_sampled = get_current_span(context).get_span_context().trace_flags.sampled
        key = _Key(histogram, scale, frozenset(labels.items()), is_sampled)
        self._waiting.setdefault(key, []).extend([(value, context) for value in ordered])

    def record(self) -> None:
        """Record what was added."""
        while self._waiting:
            key, values = self._waiting.popitem()
            try:
                values.sort(key=itemgetter(0))
                contexts = dict(values)
                ordered = [value for value, _ in values]
                record_values(key.histogram, ordered, key.scale, dict(key.labels), contexts=contexts)
            except Exception as error:  # noqa: BLE001 - the guard
                self._report(error)
