"""The stalls of a stream: as its span tells of them, else as its timeline shows them; and of many streams by cause."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import sub

from otel_itl.core.stall_detector import find_silences
from otel_itl.core.stalls import Cause, StallPolicy
from otel_itl.core.timeline import OUTPUT, SECOND, Timeline
from otel_itl.report.reading.span_facts import Stall
from otel_itl.report.reading.streams import Stream

POLICY = StallPolicy()
"""What streams are held against whose spans say nothing of stalls: the default."""

_IS_OUTPUT = bytes(1 if kind & OUTPUT else 0 for kind in range(256))


@dataclass(frozen=True, slots=True, kw_only=True)
class StallGroup:
    """The stalls of one phase and cause. Times are seconds."""

    phase: str | None
    cause: str | None
    """None: unknown, as for stalls that were found in timelines, and those beyond the first ten of a stream."""
    count: int
    duration: float
    """Of all of them together."""
    longest: float


def stalls_of(stream: Stream) -> Sequence[Stall]:
    """Its stalls; without a cause where its span does not tell of any."""
    return judged(stream.timeline) if stream.told.stalls is None else stream.told.stalls


def upstream_stalled(stalls: Sequence[Stall]) -> bool:
    """Whether any was the upstream's, as one without a cause may be."""
    return any(stall.cause in {None, Cause.UPSTREAM.value} for stall in stalls)


def judged(timeline: Timeline) -> list[Stall]:
    """The silences of a timeline that the default policy takes for stalls."""
    if _longest_pause(timeline) < POLICY.min_threshold:
        return []
    return [
        Stall(silence.phase.value, None, 1, silence.waited / SECOND, silence.waited / SECOND)
        for silence in find_silences(timeline, POLICY)
        # What chunks that a timeline leaves out came in is no silence.
        if not any(timeline.skipped[silence.after + 1 : silence.after + 2])
    ]


def grouped(stalls: Sequence[Stall]) -> list[StallGroup]:
    """By phase and cause, what cost most first."""
    groups: dict[tuple[str | None, str | None], list[Stall]] = {}
    for stall in stalls:
        groups.setdefault((stall.phase, stall.cause), []).append(stall)
    made = [
        StallGroup(
            phase=phase,
            cause=cause,
            count=sum(stall.count for stall in alike),
            duration=sum(stall.duration for stall in alike),
            longest=max(stall.longest for stall in alike),
        )
        for (phase, cause), alike in groups.items()
    ]
    return sorted(made, key=lambda group: (-group.duration, group.phase or "", group.cause or ""))


def _longest_pause(timeline: Timeline) -> int:
    """The longest time without output, from the request to the end: no silence is longer. Much cheaper to find."""
    came = [0, *compress(timeline.arrived, timeline.kinds.translate(_IS_OUTPUT)), timeline.end]
    pauses: Iterable[int] = map(sub, came[1:], came)
    return max(pauses)
