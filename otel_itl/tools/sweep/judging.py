"""Adds to the requests of a round what was measured of them, and judges whether the round counts."""

from __future__ import annotations

from itertools import chain
from typing import Final

from otel_itl.core.percentiles import percentile
from otel_itl.core.slo import Objectives
from otel_itl.tools.compare.requests import reduce_stream
from otel_itl.tools.report.certainty import Cause
from otel_itl.tools.report.reading.streams import StoredStream
from otel_itl.tools.report.stalls import collect_stalls
from otel_itl.tools.sweep.brakes import RoundEnd
from otel_itl.tools.sweep.records import DueRequest, Round
from otel_itl.tools.sweep.self_check import describe_driver_limit, find_tail, is_held_up

UNKNOWN_CAUSE: Final = "unknown"
MIN_SHARE_OF_STEADY: Final = 0.5
"""A round that was cut short counts if at least this share of its steady part was driven."""


def add_stream(request: DueRequest, stream: StoredStream, objectives: Objectives | None) -> None:
    """Add to a request what was measured of its stream.

    Args:
        request: the request, which is changed.
        stream: its stream.
        objectives: the ITL objective that the gaps are judged by; None: there is none.
    """
    request.measured = reduce_stream(stream, objectives)
    for stall in collect_stalls(stream):
        request.stall_causes[stall.cause or UNKNOWN_CAUSE] += stall.count
    duration = stream.measures.duration
    if request.error is not None:
        request.error = stream.span_facts.error_type or request.error
    elif is_held_up(stream.span_facts.host_delay, duration):
        request.held_up_by = Cause.HOST
    elif is_held_up(stream.measures.consumer_time, duration):
        request.held_up_by = Cause.CONSUMER


def judge_round(one: Round, planned: float) -> None:
    """Judge whether a round counts, and note it in the round.

    Args:
        one: the round, whose requests are measured.
        planned: how long its steady part was to last (s).
    """
    steady = [request for request in one.requests if request.is_steady]
    one.schedule_delay_p99 = find_tail(request.sent - request.due for request in steady if request.sent is not None)
    waits = sorted(wait for request in steady if (wait := request.time_to_first_token) is not None)
    gaps = sorted(chain.from_iterable(request.measured.gaps for request in steady if request.measured is not None))
    streams = [request for request in steady if request.measured is not None and request.error is None]
    held_up = sum(request.is_held_up for request in streams) / len(streams) if streams else 0.0
    limit = describe_driver_limit(one, waits, percentile(gaps, 50) if gaps else None, held_up)
    one.is_failing = one.end is RoundEnd.FAILING and not one.is_complete
    if one.is_failing:
        limit = None  # that requests failed is known, whatever their latencies are worth
    one.void_reason = _find_void_reason(one, planned)
    one.is_driver_bound = one.void_reason is None and limit is not None
    one.void_reason = one.void_reason or limit


def _find_void_reason(one: Round, planned: float) -> str | None:
    """Return why a round counts for nothing, whatever this machine did, in one clause; None: it counts."""
    if one.end is RoundEnd.RATE_LIMITED:
        return one.reason
    if one.steady_from is None:
        return f"it ended in its warm-up: {one.reason}"
    is_cut_short = not one.is_complete and one.end in {None, RoundEnd.LIMITED}
    if is_cut_short and one.seconds < MIN_SHARE_OF_STEADY * planned:
        return f"it was cut short: {one.reason}"
    return None
