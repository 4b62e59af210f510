"""Turns what was sent in a round, and what was measured of it, into what a sweep records; judges whether it counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final

from otel_itl.compare.requests import reduce_stream
from otel_itl.core.percentiles import percentile
from otel_itl.core.slo import Objectives
from otel_itl.report.reading.streams import StoredStream
from otel_itl.report.stalls import collect_stalls
from otel_itl.sweep.attempts import Attempt, Round
from otel_itl.sweep.brakes import RoundEnd
from otel_itl.sweep.flight import Flight
from otel_itl.sweep.rounds import RoundLoad
from otel_itl.sweep.self_check import MAX_HOST_SHARE, DriverFigures, find_driver_limit, find_tail

UNKNOWN_CAUSE: Final = "unknown"
MIN_SHARE_OF_STEADY: Final = 0.5
"""A round that was cut short counts if at least this share of its steady part was driven."""


def make_attempts(
    flights: Sequence[Flight], streams: Mapping[Flight, StoredStream], began: float, objectives: Objectives | None
) -> list[Attempt]:
    """Record requests that have ended.

    Args:
        flights: the requests.
        streams: what was measured of them.
        began: when the sweep began, on the clock of the event loop.
        objectives: whose ITL objective the gaps are judged by; None: there is none.
    """
    return [_make_attempt(flight, streams.get(flight), began, objectives) for flight in flights]


def _make_attempt(flight: Flight, stream: StoredStream | None, began: float, objectives: Objectives | None) -> Attempt:
    """Record one request; None as its stream: it never began."""
    causes: Counter[str] = Counter()
    error = flight.error
    if stream is not None:
        for stall in collect_stalls(stream):
            causes[stall.cause or UNKNOWN_CAUSE] += stall.count
        if error is not None:
            error = stream.span_facts.error_type or error
    return Attempt(
        level=flight.level,
        round=flight.round,
        is_steady=flight.is_steady,
        scheduled=flight.scheduled - began,
        sent=None if flight.sent is None else flight.sent - began,
        ended=None if flight.ended is None else flight.ended - began,
        request=None if stream is None else reduce_stream(stream, objectives),
        status=flight.status,
        error=error,
        stall_causes=causes,
        is_bound=stream is not None and _is_bound(stream),
    )


def _is_bound(stream: StoredStream) -> bool:
    """Return whether this machine held a stream up for so long that its figures are not the endpoint's.

    What the host delays the one event loop of a sweep by is in all of its streams, whether or not one had a chunk to
    read. So the sum over a stream, by which a report finds host-bound ones, would set nearly all aside here; its share
    counts, as for the round.
    """
    delay, duration = stream.span_facts.host_delay or 0.0, stream.measures.duration
    return stream.measures.is_consumer_bound or delay > MAX_HOST_SHARE * duration


def judge_round(load: RoundLoad, attempts: Sequence[Attempt], began: float, planned: float) -> Round:
    """Record a round, and judge whether it counts.

    Args:
        load: what was sent.
        attempts: the same, measured.
        began: when the sweep began, on the clock of the event loop.
        planned: how long its steady part was to last (s).
    """
    steady = [attempt for attempt in attempts if attempt.is_steady]
    figures = DriverFigures(_find_schedule_delay(steady), load.check.loop_lag, load.check.host_delay)
    waits = sorted(wait for attempt in steady if (wait := attempt.time_to_first_token) is not None)
    limit = find_driver_limit(figures, waits, _find_gap(steady), _find_bound_share(steady))
    void = _find_void(load, planned)
    start, end = load.steady_from, load.steady_until
    return Round(
        level=load.level,
        round=load.number,
        rate=load.rate,
        steady_from=0.0 if start is None else start - began,
        steady_until=0.0 if end is None else end - began,
        concurrency=load.concurrency,
        max_concurrency=load.max_concurrency,
        **figures._asdict(),
        void=void or limit,
        is_driver_bound=void is None and limit is not None,
    )


def _find_void(load: RoundLoad, planned: float) -> str | None:
    """Return why a round counts for nothing, whatever this machine did, in one clause; None: it counts."""
    if load.end is RoundEnd.RATE_LIMITED:
        return load.reason
    if load.steady_from is None or load.steady_until is None:
        return f"it ended in its warm-up: {load.reason}"
    is_cut_short = not load.is_complete and load.end is None
    if is_cut_short and load.steady_until - load.steady_from < MIN_SHARE_OF_STEADY * planned:
        return f"it was cut short: {load.reason}"
    return None


def _find_bound_share(attempts: Sequence[Attempt]) -> float:
    """Return the share of the streams that this machine held up; 0 where there is none."""
    streams = [attempt for attempt in attempts if attempt.request is not None and attempt.error is None]
    return sum(attempt.is_bound for attempt in streams) / len(streams) if streams else 0.0


def _find_schedule_delay(attempts: Sequence[Attempt]) -> float:
    """Return the 99th percentile of how late requests were sent, in seconds; 0 where none was."""
    return find_tail(attempt.sent - attempt.scheduled for attempt in attempts if attempt.sent is not None)


def _find_gap(attempts: Sequence[Attempt]) -> float | None:
    """Return the median gap between tokens, in seconds; None: there is none."""
    gaps = sorted(chain.from_iterable(attempt.request.gaps for attempt in attempts if attempt.request is not None))
    return percentile(gaps, 50) if gaps else None
