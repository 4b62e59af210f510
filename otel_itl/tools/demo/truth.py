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
    compared: list[tuple[float, float]] = []
    by_request = sorted(streams, key=lambda stream: stream.timeline.request_unix_ns)
    for model in models:
        measured = [stream for stream in by_request if stream.model == model]
        served = [exchange for exchange in exchanges if exchange.model == model]
        for stream, exchange in zip(measured, served, strict=False):
            first, measures = exchange.first_output_ns, stream.measures
            if stream.timeline.outcome is not Outcome.COMPLETED or first is None:
                continue
            if measures.time_to_first_token is None or measures.itl_p99 is None:
                continue
            gaps = sorted(after - before for before, after in pairwise(exchange.output_times_ns))
            ttft = abs(measures.time_to_first_token - (first - exchange.arrived_ns) / SECOND)
            compared.append((ttft, abs(measures.itl_p99 - percentile(gaps, 99) / SECOND)))
    return Deviation(len(compared), *map(max, zip(*compared, strict=True))) if compared else None
