"""Finds the stalls of a stored stream, from its span or else from its timeline, and groups them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import sub

from otel_itl.core.stall_detector import find_silences
from otel_itl.core.stalls import Cause, StallPolicy
from otel_itl.core.timeline import OUTPUT, SECOND, Timeline
from otel_itl.tools.report.reading.span_facts import StallFacts
from otel_itl.tools.report.reading.streams import StoredStream

DEFAULT_POLICY = StallPolicy()
"""The thresholds for streams whose spans carry no stall count."""

_IS_OUTPUT = bytes(1 if kind & OUTPUT else 0 for kind in range(256))


@dataclass(frozen=True, slots=True, kw_only=True)
class StallGroup:
    """The stalls of one phase and cause. Times are seconds."""

    phase: str | None
    cause: str | None
    """None: unknown, as for stalls found in timelines, and for those of a stream beyond the first ten."""
    count: int
    duration: float
    """Of all of them together."""
    longest: float


def collect_stalls(stream: StoredStream) -> Sequence[StallFacts]:
    """Return the stalls on the stream's span, or those in its timeline where the span carries no stall count."""
    facts = stream.span_facts.stalls
    return derive_stalls(stream.timeline) if facts is None else facts


def derive_stalls(timeline: Timeline) -> list[StallFacts]:
    """Return the silences of a timeline that exceed the default thresholds; their cause is unknown."""
    if _longest_pause(timeline) < DEFAULT_POLICY.min_threshold:
        return []
    return [
        StallFacts(
            silence.phase.value,
            None,
            1,
            silence.waited / SECOND,
            silence.waited / SECOND,
            start=silence.since / SECOND,
            is_alive=silence.is_alive,
        )
        for silence in find_silences(timeline, DEFAULT_POLICY)
        # A gap that contains thinned-out chunks is not a stall.
        if not any(timeline.skipped[silence.after + 1 : silence.after + 2])
    ]


def has_upstream_stall(stalls: Sequence[StallFacts]) -> bool:
    """Return whether any stall is the upstream's; one without a cause counts as such."""
    return any(stall.cause in {None, Cause.UPSTREAM.value} for stall in stalls)


def group_stalls(stalls: Sequence[StallFacts]) -> list[StallGroup]:
    """Group stalls by phase and cause, the longest total first."""
    groups: dict[tuple[str | None, str | None], list[StallFacts]] = {}
    for stall in stalls:
        groups.setdefault((stall.phase, stall.cause), []).append(stall)
    made = [
        StallGroup(
            phase=phase,
            cause=cause,
            count=sum(stall.count for stall in members),
            duration=sum(stall.duration for stall in members),
            longest=max(stall.longest for stall in members),
        )
        for (phase, cause), members in groups.items()
    ]
    return sorted(made, key=lambda group: (-group.duration, group.phase or "", group.cause or ""))


def _longest_pause(timeline: Timeline) -> int:
    """Return the longest time (ns) without output. No silence is longer, and this is much cheaper to compute."""
    moments = [0, *compress(timeline.arrived, timeline.kinds.translate(_IS_OUTPUT)), timeline.end]
    pauses: Iterable[int] = map(sub, moments[1:], moments)
    return max(pauses)
