"""Adds to the requests of a round what was measured of them, and judges whether the round counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

from otel_itl.core.percentiles import percentile
from otel_itl.core.slo import Objectives
from otel_itl.tools.compare.requests import reduce_stream
from otel_itl.tools.report.certainty import Cause
from otel_itl.tools.report.reading.streams import StoredStream
from otel_itl.tools.report.stalls import collect_stalls
from otel_itl.tools.sweep.brakes import INTERRUPTED, RoundEnd
from otel_itl.tools.sweep.records import DueRequest, Round

UNKNOWN_CAUSE: Final = "unknown"
MIN_SHARE_OF_STEADY: Final = 0.5
"""A round that was cut short counts if at least this share of its steady part was driven."""
MAX_SHARE_OF_TTFT: Final = 0.1
"""Requests that are sent late by this share of the median TTFT make the TTFT of the tail, which counts from when they
were due, this machine's own."""
MIN_SCHEDULE_DELAY: Final = 0.02
"""Seconds: a smaller p99 is in no figure of interest. The timers of a busy event loop are some milliseconds late."""
MAX_SHARE_OF_GAP: Final = 0.5
"""A loop that is late by this share of the median gap reads chunks in bursts."""
MIN_LOOP_LAG: Final = 0.01
"""Seconds: a smaller p99 is charged to the reader, stream by stream, when gaps are measured."""
MAX_HOST_SHARE: Final = 0.1
"""Share of the steady part in which this process was ready to run and another had the CPU."""
MAX_HELD_UP_SHARE: Final = 0.1
"""Share of the steady streams that this machine held up. They are set aside, and more of the slow ones are than of the
fast ones: where there are many, those that are left look faster than the endpoint is."""
MIN_IN_TAIL: Final = 3


def add_stream(request: DueRequest, stream: StoredStream, objectives: Objectives | None) -> None:
    """Add to a request what was measured of its stream.

    Args:
        request: the request, which is changed.
        stream: its stream.
        objectives: the ITL objective that the gaps are judged by; None: there is none.
    """
    request.measured = reduce_stream(stream, objectives)
    request.is_buffered = stream.measures.is_buffered
    for stall in collect_stalls(stream):
        request.stall_causes[stall.cause or UNKNOWN_CAUSE] += stall.count
    duration = stream.measures.duration
    if request.error is not None:
        request.error = stream.span_facts.error_type or request.error
    elif is_held_up(stream.span_facts.host_delay, duration):
        request.held_up_by, request.held_up = Cause.HOST, stream.span_facts.host_delay or 0.0
    elif is_held_up(stream.measures.consumer_time, duration):
        request.held_up_by, request.held_up = Cause.CONSUMER, stream.measures.consumer_time


def judge_round(one: Round, planned: float) -> None:
    """Judge whether a round counts, and note it in the round.

    Args:
        one: the round, whose requests are measured.
        planned: how long its steady part was to last (s).
    """
    if one.reason == INTERRUPTED:
        _end_before_cut_off(one)
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


def _end_before_cut_off(one: Round) -> None:
    """End the steady part of a round before the first request that Ctrl-C cut off.

    To leave only those out that were cut off would be to leave the slowest out.
    """
    cut_off = min(
        (request.due for request in one.requests if request.is_steady and request.ended is None), default=None
    )
    if cut_off is not None:
        one.steady_until, one.is_complete = cut_off, False
        for request in one.requests:
            request.is_steady &= request.due < one.steady_until


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


def is_held_up(delay: float | None, duration: float) -> bool:
    """Return whether a stream was held up for so long that its figures are not the endpoint's.

    What delays the one event loop of a sweep is in all of its streams, whether or not one had a chunk to read. So the
    bounds by which a stream is called host-bound or consumer-bound elsewhere would set nearly all aside here; the share
    of its duration counts, as for the round.

    Args:
        delay: how long the reader of the stream waited for a CPU, or held the stream (s); None: not known.
        duration: of the stream (s).
    """
    return (delay or 0.0) > MAX_HOST_SHARE * duration


def find_tail(values: Iterable[float]) -> float:
    """Return the 99th percentile, or of fewer than 300 values the third largest: one pause is no lack of capacity."""
    ordered = sorted(values)
    if len(ordered) < MIN_IN_TAIL:
        return 0.0
    return min(percentile(ordered, 99), ordered[-MIN_IN_TAIL])


def describe_driver_limit(
    one: Round, first_tokens: Sequence[float], gap: float | None, held_up_share: float
) -> str | None:
    """Return why this machine, not the endpoint, was the limit of a round, in one clause; None: it was not.

    Args:
        one: the round, with how well this machine drove it.
        first_tokens: TTFT of the steady streams, in seconds, ascending.
        gap: median gap between their tokens, in seconds; None: not known.
        held_up_share: share of the steady streams that this machine held up.
    """
    first_token = percentile(first_tokens, 50) if first_tokens else 0.0
    reason = None
    if one.schedule_delay_p99 > max(MIN_SCHEDULE_DELAY, MAX_SHARE_OF_TTFT * first_token):
        reason = f"1 in 100 requests was sent {one.schedule_delay_p99 * 1e3:.0f} ms late or later"
    elif one.loop_lag_p99 > max(MIN_LOOP_LAG, MAX_SHARE_OF_GAP * (gap or 0.0)):
        reason = f"the event loop was {one.loop_lag_p99 * 1e3:.0f} ms late, 1 in 100 times"
    elif one.host_delay_share > MAX_HOST_SHARE:
        reason = f"this process waited for a CPU {one.host_delay_share:.0%} of the time"
    elif held_up_share > MAX_HELD_UP_SHARE:
        reason = f"it held up {held_up_share:.0%} of the streams"
    return None if reason is None else f"this machine could not drive more: {reason}"
