"""The one rule of which streams are set aside from a figure, and the count of them that every tool shows.

A figure that is pooled over streams is meant to be the upstream's. A stream is set aside from it, and counted:

* if the figure is not known to half of itself, because the caller, its process or its machine was busy
  (`Measures.is_known`: the rule of the metrics); or if the span says that the stream is caller-bound, and its token
  events do not show by how much its figures may be wrong;
* if a proxy or a server on the way buffered it, and the figure is of the time between chunks: that is the buffer's.
  TTFT remains, which is what the caller waited for. TPOT remains if the bursts agree on one pace, and it is that pace
  to a tenth. Instead of the others there is the pace from burst to burst (`Measures.buffered_pace`).

A tool shows how many are set aside, and why, by `certainty.describe_known`. What is set aside is not a random part of
the streams: above `MAX_SET_ASIDE_SHARE` no tool may conclude anything from those that are left.
"""

from __future__ import annotations

from array import array
from collections import Counter
from statistics import median
from typing import Final

from otel_itl.core.measures import DECIDED_SHARE, Measures
from otel_itl.tools.report.certainty import Cause, Known, Uncertain, find_error, find_uncertainty_cause
from otel_itl.tools.report.reading.streams import StoredStream

MAX_SET_ASIDE_SHARE: Final = 0.1
"""Of more than this share of a model's streams, those that are left may be faster, or slower, than all are."""

_KEPT_IF_BUFFERED: Final = frozenset(
    {"duration", "time_to_first_chunk", "time_to_first_token", "time_to_first_answer_token", "time_to_last_token"}
)
"""Times from the request: fields of `Measures` that are the caller's wait, whatever a buffer on the way did."""
_PACES: Final = frozenset({"time_per_output_token", "time_per_output_chunk", "output_speed"})
_GAPS: Final = "itl_"


def find_set_aside_cause(stream: StoredStream, figure: str) -> Cause | None:
    """Return why a stream is set aside from a figure; None: it is in it.

    Args:
        stream: that has the figure.
        figure: a field of `Measures`; any of the ITL, such as `itl_p99`, stands for all ITL samples.
    """
    measures = stream.measures
    if measures.is_buffered and not _is_kept_if_buffered(measures, figure):
        return Cause.BUFFERED
    if stream.span_facts.is_consumer_bound and not measures.is_consumer_bound and not measures.bounds:
        return Cause.BLOCKED
    return None if _is_known(measures, figure) else find_uncertainty_cause(stream)


class KnownCollector:
    """Collects how well one figure of several streams is known, and which of them are set aside from it.

    Args:
        figure: a field of `Measures` that is a time; with `itl_p99` the ITL samples are pooled.
    """

    def __init__(self, figure: str) -> None:
        self._figure = figure
        self._streams = 0
        self._errors: dict[Cause, array[float]] = {}
        self._set_aside: Counter[Cause] = Counter()

    def add(self, stream: StoredStream) -> bool:
        """Add a stream that has the figure; returns whether it is pooled, which it is if it is not set aside."""
        cause = find_set_aside_cause(stream, self._figure)
        if cause is not None:
            self._set_aside[cause] += 1
        error = self._find_error(stream.measures, is_set_aside=cause is not None)
        if error is not None and cause is not Cause.BUFFERED:
            self._errors.setdefault(find_uncertainty_cause(stream), array("d")).append(error)
        self._streams += cause is None
        return cause is None

    def add_all(self, other: KnownCollector) -> None:
        """Add the streams of another collector of the same figure."""
        self._streams += other._streams
        self._set_aside += other._set_aside
        for cause, errors in other._errors.items():
            self._errors.setdefault(cause, array("d")).extend(errors)

    def summary(self) -> Known:
        """Summarize the streams that were added."""
        by_count = sorted(self._errors.items(), key=lambda item: -len(item[1]))
        uncertain = (Uncertain(cause, len(errors), median(errors), max(errors)) for cause, errors in by_count)
        set_aside = {cause.value: count for cause, count in self._set_aside.most_common() if count}
        return Known(self._streams, tuple(uncertain), set_aside or None)

    def _find_error(self, measures: Measures, *, is_set_aside: bool) -> float | None:
        """Return the seconds by which the figure may be wrong; None: by next to nothing, or nothing bounds it."""
        errors = (find_error(measures, self._figure), find_error(measures, self._figure, is_above=True))
        if not is_set_aside or not measures.bounds:
            return max(filter(None, errors), default=None)
        figure = self._figure if self._figure in measures.bounds else "itl_mean"
        return max(filter(None, errors), default=measures.bounds[figure].width if figure in measures.bounds else None)


def _is_known(measures: Measures, figure: str) -> bool:
    """Return whether a figure is known to half of itself; those of the ITL are if the mean of the samples is."""
    if figure.startswith(_GAPS):
        return not measures.itl_samples or bool(measures.upstream_samples)
    return measures.is_known(figure)


def _is_kept_if_buffered(measures: Measures, figure: str) -> bool:
    """Return whether a figure of a buffered stream is not the buffer's."""
    if figure not in _PACES:
        return figure in _KEPT_IF_BUFFERED
    chunk, pace = measures.time_per_output_chunk, measures.buffered_pace
    return chunk is not None and pace is not None and abs(chunk - pace) <= DECIDED_SHARE * pace
