"""Turns what was sent in a round, and what was measured of it, into what a sweep records; judges whether it counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final

from otel_itl.core.percentiles import percentile
from otel_itl.core.slo import Objectives
from otel_itl.tools.compare.requests import reduce_stream
from otel_itl.tools.report.certainty import Cause
from otel_itl.tools.report.reading.streams import StoredStream
from otel_itl.tools.report.stalls import collect_stalls
from otel_itl.tools.sweep.brakes import RoundEnd
from otel_itl.tools.sweep.flight import Flight
from otel_itl.tools.sweep.records import DueRequest, Round
from otel_itl.tools.sweep.rounds import RoundRecord
from otel_itl.tools.sweep.self_check import DriverFigures, describe_driver_limit, find_tail, is_held_up

UNKNOWN_CAUSE: Final = "unknown"
MIN_SHARE_OF_STEADY: Final = 0.5
"""A round that was cut short counts if at least this share of its steady part was driven."""


def make_requests(
    flights: Sequence[Flight], streams: Mapping[Flight, StoredStream], began: float, objectives: Objectives | None
) -> list[DueRequest]:
    """Record requests that were sent and have ended.

    Args:
        flights: the requests.
        streams: what was measured of them.
        began: when the sweep began, on the clock of the event loop.
        objectives: the ITL objective that the gaps are judged by; None: there is none.
    """
    sent = (flight for flight in flights if flight.sent is not None)
    return [_make_request(flight, streams.get(flight), began, objectives) for flight in sent]


def _make_request(
    flight: Flight, stream: StoredStream | None, began: float, objectives: Objectives | None
) -> DueRequest:
    """Make the record of one request, given what was measured of its stream; None: the stream never began."""
    causes: Counter[str] = Counter()
    error = flight.error
    if stream is not None:
        for stall in collect_stalls(stream):
            causes[stall.cause or UNKNOWN_CAUSE] += stall.count
        if error is not None:
            error = stream.span_facts.error_type or error
    return DueRequest(
        level=flight.level,
        round=flight.round,
        is_steady=flight.is_steady,
        due=flight.due - began,
        sent=None if flight.sent is None else flight.sent - began,
        ended=None if flight.ended is None else flight.ended - began,
        measured=None if stream is None else reduce_stream(stream, objectives),
        status=flight.status,
        error=error,
        detail=flight.detail,
        stall_causes=causes,
        held_up_by=None if stream is None or flight.error is not None else _find_cause(stream),
    )


def _find_cause(stream: StoredStream) -> Cause | None:
    """Return what held a stream up for so long that its figures are not the endpoint's; None: nothing did."""
    if is_held_up(stream.span_facts.host_delay, stream.measures.duration):
        return Cause.HOST
    return Cause.CONSUMER if is_held_up(stream.measures.consumer_time, stream.measures.duration) else None


def judge_round(record: RoundRecord, requests: Sequence[DueRequest], began: float, planned: float) -> Round:
    """Record a round, and judge whether it counts.

    Args:
        record: what was sent.
        requests: the same requests, measured.
        began: when the sweep began, on the clock of the event loop.
        planned: how long its steady part was to last (s).
    """
    steady = [request for request in requests if request.is_steady]
    figures = DriverFigures(_find_schedule_delay(steady), record.check.loop_lag_p99, record.check.host_delay_share)
    waits = sorted(wait for request in steady if (wait := request.time_to_first_token) is not None)
    limit = describe_driver_limit(figures, waits, _find_gap(steady), _find_held_up_share(steady))
    is_failing = record.end is RoundEnd.FAILING and not record.is_complete
    if is_failing:
        limit = None  # that requests failed is known, whatever their latencies are worth
    void_reason = _find_void_reason(record, planned)
    start, end = record.steady_from, record.steady_until
    return Round(
        level=record.level,
        round=record.number,
        rate=record.rate,
        steady_from=0.0 if start is None else start - began,
        steady_until=0.0 if end is None else end - began,
        concurrency=record.concurrency,
        max_concurrency=record.max_concurrency,
        **figures._asdict(),
        void_reason=void_reason or limit,
        is_driver_bound=void_reason is None and limit is not None,
        is_failing=is_failing,
    )


def _find_void_reason(record: RoundRecord, planned: float) -> str | None:
    """Return why a round counts for nothing, whatever this machine did, in one clause; None: it counts."""
    if record.end is RoundEnd.RATE_LIMITED:
        return record.reason
    if record.steady_from is None or record.steady_until is None:
        return f"it ended in its warm-up: {record.reason}"
    is_cut_short = not record.is_complete and record.end in {None, RoundEnd.LIMITED}
    if is_cut_short and record.steady_until - record.steady_from < MIN_SHARE_OF_STEADY * planned:
        return f"it was cut short: {record.reason}"
    return None


def _find_held_up_share(requests: Sequence[DueRequest]) -> float:
    """Return the share of the streams that this machine held up; 0 where there is none."""
    streams = [request for request in requests if request.measured is not None and request.error is None]
    return sum(request.is_held_up for request in streams) / len(streams) if streams else 0.0


def _find_schedule_delay(requests: Sequence[DueRequest]) -> float:
    """Return the 99th percentile of how late requests were sent, in seconds; 0 where none was."""
    return find_tail(request.sent - request.due for request in requests if request.sent is not None)


def _find_gap(requests: Sequence[DueRequest]) -> float | None:
    """Return the median gap between tokens, in seconds; None: there is none."""
    gaps = sorted(chain.from_iterable(request.measured.gaps for request in requests if request.measured is not None))
    return percentile(gaps, 50) if gaps else None
