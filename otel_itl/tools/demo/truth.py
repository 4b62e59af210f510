"""Compares what was measured with what the scripted server sent, and when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from otel_itl.core.percentiles import percentile
from otel_itl.core.timeline import SECOND, Outcome
from otel_itl.testing import Exchange
from otel_itl.tools.report.reading.streams import StoredStream


@dataclass(frozen=True, slots=True)
class Deviation:
    """The largest differences between telemetry and truth, in seconds."""

    streams: int
    time_to_first_token: float
    itl_p99: float


def compare_with_truth(
    streams: Iterable[StoredStream], exchanges: Sequence[Exchange], models: set[str]
) -> Deviation | None:
    """Compare the completed streams of these models, whose requests followed one another.

    The true TTFT is the time from the request's arrival at the server to the sending of the first output event; the
    true p99 is that of the times between the sendings of output events.

    Returns:
        None where no stream of these models was completed.
    """
    compared = 0
    ttft = p99 = 0.0
    by_model: dict[str, list[StoredStream]] = {model: [] for model in models}
    for stream in streams:
        if stream.model in by_model:
            by_model[stream.model].append(stream)
    for model, measured in by_model.items():
        measured.sort(key=lambda stream: stream.timeline.request_unix_ns)
        served = [exchange for exchange in exchanges if exchange.model == model]
        for stream, exchange in zip(measured, served, strict=False):
            first, sent = exchange.first_output_ns, exchange.output_times_ns
            measures = stream.measures
            if (
                stream.timeline.outcome is not Outcome.COMPLETED
                or first is None
                or measures.time_to_first_token is None
                or measures.itl_p99 is None
            ):
                continue
            compared += 1
            gaps = sorted(after - before for before, after in pairwise(sent))
            ttft = max(ttft, abs(measures.time_to_first_token - (first - exchange.arrived_ns) / SECOND))
            p99 = max(p99, abs(measures.itl_p99 - percentile(gaps, 99) / SECOND))
    return Deviation(compared, ttft, p99) if compared else None
