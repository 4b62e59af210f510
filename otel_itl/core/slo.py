"""Service-level objectives: for time to first token and inter-token latency, by model; and what a stream makes of them.

"p99 ITL is at most X" *is* "at most 1 % of the gaps are longer than X": counted, it is exact, whatever the histogram.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from otel_itl.core.measures import SECOND, Measures
from otel_itl.core.timeline import Outcome, Timeline

CUSTOM: Final = "custom"
LONGEST_NAME: Final = 64
_BUILT_IN: Final = {"chat": (0.5, 0.1), "code": (0.5, 0.03), "agent": (2.0, 0.015), "batch": (None, None)}
"""Name → objectives for TTFT and ITL, in seconds."""
LONGEST: Final = 1e9
"""Seconds that an objective may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SLO:
    """An objective. Times are seconds; None: no objective.

    Args:
        ttft: time to first token.
        itl: inter-token latency.
        target: the share of tokens, and of streams, that is to meet it.
        profile: its name, as telemetry gives it.

    Raises:
        ValueError: a time that is not positive or no finite number, or a target that is not between 0 and 1.
    """

    ttft: float | None = None
    itl: float | None = None
    target: float = 0.99
    profile: str = CUSTOM

    def __post_init__(self) -> None:
        for name in ("ttft", "itl"):
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and 0 < value <= LONGEST):
                message = (
                    f"SLO({name}={value!r}) is not accepted: it takes seconds above 0 and up to {LONGEST:g}, or None "
                    "for no objective."
                )
                raise ValueError(message)
        if not (_is_number(self.target) and 0 < self.target < 1):
            message = f"SLO(target={self.target!r}) is not accepted: it takes a share between 0 and 1, such as 0.99."
            raise ValueError(message)
        named: object = self.profile
        if not isinstance(named, str) or not 0 < len(named) <= LONGEST_NAME:
            message = f"SLO(profile={named!r}) is not accepted: it takes a name of 1 to {LONGEST_NAME} characters."
            raise ValueError(message)
        if self.profile in _BUILT_IN and (self.ttft, self.itl) != _BUILT_IN[self.profile]:
            message = f"SLO(profile={named!r}) is not accepted: that name is taken by an objective of ours."
            raise ValueError(message)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


PROFILES: Final[Mapping[str, SLO]] = {
    name: SLO(ttft=ttft, itl=itl, profile=name) for name, (ttft, itl) in _BUILT_IN.items()
}
"""Whose attention is protected: `chat` a reader's pace; `code` MLPerf interactive, 8B; `agent` MLPerf interactive,
gpt-oss-120b; `batch` nobody's."""


@dataclass(frozen=True, slots=True)
class Objectives:
    """Which objective holds for which model: the first pattern that fits (`*` and `?` as in file names)."""

    by_model: tuple[tuple[str, SLO], ...] = ()

    def __str__(self) -> str:
        """For people."""
        return ",".join(f"{pattern}={slo.profile}" for pattern, slo in self.by_model) or "off"

    def of(self, model: str | None) -> SLO | None:
        """The objective for a model; None: there is none."""
        return next((slo for pattern, slo in self.by_model if fnmatchcase(model or "", pattern)), None)

    def edges(self, field: str) -> set[float]:
        """The distinct `ttft` or `itl` objectives: a histogram is to have an edge at each."""
        return {edge for _, slo in self.by_model if (edge := getattr(slo, field)) is not None}


class Verdict(NamedTuple):
    """What one stream makes of its objective. None: there is nothing to judge."""

    slo: SLO
    tokens_met: int
    """Gaps within the ITL objective."""
    tokens_missed: int
    stream_met: bool | None
    """The first token came in time, and the upstream did not stall."""

    @property
    def missed(self) -> bool:
        """The objective was not met: too many slow gaps for the target, a late first token, or a stall."""
        tokens = self.tokens_met + self.tokens_missed
        # Rounded, for in binary 10 % of 10 is less than 1.
        return self.stream_met is False or self.tokens_missed > round((1 - self.slo.target) * tokens, 6)


def judge(slo: SLO, timeline: Timeline, measures: Measures, *, stalled: bool) -> Verdict:
    """Hold a stream that ended against its objective."""
    met = missed = 0
    if slo.itl is not None:
        met = bisect_right(measures.samples, round(slo.itl * SECOND))
        missed = len(measures.samples) - met
    return Verdict(slo, met, missed, _stream_met(slo, timeline, measures, stalled=stalled))


def _stream_met(slo: SLO, timeline: Timeline, measures: Measures, *, stalled: bool) -> bool | None:
    if slo.ttft is None and slo.itl is None:
        return None
    if stalled:
        return False
    if slo.ttft is None:
        return True
    if measures.time_to_first_token is not None:
        return measures.time_to_first_token <= slo.ttft
    if measures.output_chunk_count:
        return None
    # Nobody got a token. Who left in time cannot know whether it would have come.
    failed = timeline.outcome in {Outcome.ERROR, Outcome.TRUNCATED}
    return False if failed or (timeline.outcome is not Outcome.COMPLETED and measures.duration > slo.ttft) else None
