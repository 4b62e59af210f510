"""Values for histograms, of several streams: recorded together, for little more than what one value alone takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any, Final

from opentelemetry.context import Context  # noqa: TC002 - annotations stay resolvable
from opentelemetry.metrics import Histogram
from opentelemetry.trace import get_current_span

from otel_itl.export.sdk_internals.bulk_recording import record_values

MAX_MERGED: Final = 64
"""More values of one stream than this are recorded apart: sorting them in would take longer."""

Labels = Mapping[str, Any]
_Key = tuple[Histogram, float, frozenset[tuple[str, Any]], bool]
"""What values that are recorded together have in common: the histogram, the scale, the attributes, and whether the span
of their stream is sampled, so that they may become exemplars."""


class HistogramBatch:
    """Collects what streams record into histograms, and records it at once. One thread uses it.

    Args:
        report: receives the failure of a recording; the other histograms are recorded all the same.
    """

    def __init__(self, report: Callable[[Exception], object]) -> None:
        self._report = report
        self._waiting: dict[_Key, list[tuple[float, Context]]] = {}
        # What the values of one stream have in common is found once, not for each of its instruments.
        self._context: Context | None = None
        self._is_sampled = False
        self._labels: Labels | None = None
        self._label_set: frozenset[tuple[str, Any]] = frozenset()

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
        if not ordered:
            return
        if len(ordered) > MAX_MERGED:
            record_values(histogram, ordered, scale, labels, context)
            return
        if context is not self._context:
            self._is_sampled = get_current_span(context).get_span_context().trace_flags.sampled
            self._context = context
        if labels is not self._labels:
            self._label_set = frozenset(labels.items())
            self._labels = labels
        key = (histogram, scale, self._label_set, self._is_sampled)
        self._waiting.setdefault(key, []).extend(zip(ordered, repeat(context), strict=False))

    def record(self) -> None:
        """Record what was added."""
        while self._waiting:
            (histogram, scale, labels, _), values = self._waiting.popitem()
            try:
                values.sort(key=itemgetter(0))
                contexts = dict(values)
                ordered = [value for value, _ in values]
                record_values(histogram, ordered, scale, dict(labels), contexts=contexts)
            except Exception as error:  # noqa: BLE001 - the guard
                self._report(error)
