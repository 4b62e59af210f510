"""Judges whether this machine could drive the load: else a round shows this machine's limits, not the endpoint's."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from otel_itl.core.percentiles import percentile
from otel_itl.tools.sweep.records import Round

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


class SelfCheck:
    """Measures the event loop's lag and the delay by the host over the steady part of one round.

    Args:
        read_delay: returns how long this thread has waited for a CPU (ns); None: the system does not show it.
    """

    def __init__(self, read_delay: Callable[[], int] | None) -> None:
        self._read_delay = read_delay or (lambda: 0)
        self._began: tuple[float, int] | None = None
        self._lags = array("d")
        self.host_delay_share = 0.0
        """Share of the steady part in which this thread waited for a CPU."""

    @property
    def loop_lag_p99(self) -> float:
        """99th percentile of the lags of the event loop, in seconds; see `find_tail`."""
        return find_tail(self._lags)

    def begin(self, now: float) -> None:
        """Note the start of the steady part."""
        self._began = (now, self._read_delay())

    def note_lag(self, seconds: float) -> None:
        """Note how late the event loop woke up a task; outside of the steady part it does not count."""
        if self._began is not None:
            self._lags.append(max(seconds, 0.0))

    def end(self, now: float) -> None:
        """Note the end of the steady part."""
        if self._began is None:
            return
        began, delay = self._began
        self._began = None
        if now > began:
            self.host_delay_share = (self._read_delay() - delay) / 1e9 / (now - began)


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
