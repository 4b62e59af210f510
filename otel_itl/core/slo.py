"""Service-level objectives for time to first token and inter-token latency, by model, and the result of each stream.

"p99 ITL is at most X" *is* "at most 1 % of the gaps are longer than X": counted, it is exact, whatever the histogram.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from otel_itl.core.fluidity import fluidity_index
from otel_itl.core.measures import Measures
from otel_itl.core.timeline import SECOND, Outcome, Timeline

CUSTOM: Final = "custom"
"""Profile name of an objective that is none of `PROFILES`."""
MAX_NAME_LENGTH: Final = 64
MAX_SECONDS: Final[Mapping[str, float]] = {"ttft": 100.0, "itl": 5.0}
"""Objectives are shorter than this: a longer one is a number of milliseconds, given by mistake. A TTFT of 100 ms and an
ITL of 5 ms are the shortest that anybody asks for, and no reader waits 100 s for a token, or 5 s for each."""
_MAX_TTFT_BESIDE_MILLISECONDS: Final = 10.0
"""A TTFT from this on (s) is taken for milliseconds, too, where the ITL beside it is."""
_BUILT_IN: Final = {"chat": (0.5, 0.1), "code": (0.5, 0.03), "agent": (2.0, 0.015), "batch": (None, None)}
"""Name → objectives for TTFT and ITL, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SLO:
    """An objective for the streams of a model. Times are seconds; None: no objective for that figure.

    Args:
        ttft: time to first token, below 100 s.
        itl: inter-token latency, below 5 s.
        target: the share of tokens, and of streams, that has to meet it.
        profile: its name in the telemetry.

    Raises:
        ValueError: a time that is not positive, no finite number or so long that milliseconds were meant, or a target
            that is not between 0 and 1.
    """

    ttft: float | None = None
    itl: float | None = None
    target: float = 0.99
    profile: str = CUSTOM

    def __post_init__(self) -> None:
        self._check_times()
        if not (_is_number(self.target) and 0 < self.target < 1):
            message = f"SLO(target={self.target!r}) is not accepted: it takes a share between 0 and 1, such as 0.99."
            raise ValueError(message)
        profile: object = self.profile
        if not isinstance(profile, str) or not 0 < len(profile) <= MAX_NAME_LENGTH:
            message = f"SLO(profile={profile!r}) is not accepted: it takes a name of 1 to {MAX_NAME_LENGTH} characters."
            raise ValueError(message)
        if self.profile in _BUILT_IN and (self.ttft, self.itl) != _BUILT_IN[self.profile]:
            message = f"SLO(profile={profile!r}) is not accepted: that is the name of a built-in objective."
            raise ValueError(message)

    def _check_times(self) -> None:
        """Refuse a TTFT or an ITL that is no number of seconds in its range.

        Raises:
            MillisecondsError: a thousandth of what was given would be accepted.
            ValueError: it would not.
        """
        times = {name: value for name in MAX_SECONDS if (value := getattr(self, name)) is not None}
        for name, value in times.items():
            if not (_is_number(value) and 0 < value < MAX_SECONDS[name] * 1_000):
                message = (
                    f"SLO({name}={value!r}) is not accepted: it takes seconds above 0 and below "
                    f"{MAX_SECONDS[name]:g}, or None for no objective."
                )
                raise ValueError(message)
        if any(value >= MAX_SECONDS[name] for name, value in times.items()):
            raise MillisecondsError(times)


class MillisecondsError(ValueError):
    """An objective was given in milliseconds. `reason` is what is wrong with it, as one sentence.

    Args:
        given: `ttft` or `itl` → the number that was given.
    """

    def __init__(self, given: Mapping[str, float]) -> None:
        limits = {**MAX_SECONDS, "ttft": _MAX_TTFT_BESIDE_MILLISECONDS}
        meant = {name: f"{value / 1_000 if value >= limits[name] else value:g}" for name, value in given.items()}
        suggestion = "/".join(meant.values()) if len(meant) > 1 else "".join(f"{k}={v}" for k, v in meant.items())
        self.reason = f"times are in seconds: did you mean {suggestion}?"
        arguments = ", ".join(f"{name}={value!r}" for name, value in given.items())
        super().__init__(f"SLO({arguments}) is not accepted: {self.reason}")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


PROFILES: Final[Mapping[str, SLO]] = {
    name: SLO(ttft=ttft, itl=itl, profile=name) for name, (ttft, itl) in _BUILT_IN.items()
}
"""The built-in objectives: `chat`, a reader's pace; `code`, MLPerf interactive, 8B; `agent`, MLPerf interactive,
gpt-oss-120b; `batch`, no objective."""


@dataclass(frozen=True, slots=True)
class Objectives:
    """The objective of each model: that of the first pattern that matches (`*` and `?` as in file names)."""

    by_model: tuple[tuple[str, SLO], ...] = ()

    def __str__(self) -> str:
        """Return the patterns with the names of their objectives, for people to read."""
        return ",".join(f"{pattern}={slo.profile}" for pattern, slo in self.by_model) or "off"

    def for_model(self, model: str | None) -> SLO | None:
        """Return the objective for the streams of a model; None: it has none."""
        return next((slo for pattern, slo in self.by_model if fnmatchcase(model or "", pattern)), None)

    def edges(self, field: str) -> set[float]:
        """Return the distinct `ttft` or `itl` objectives (seconds), so that a histogram can have an edge at each."""
        return {edge for _, slo in self.by_model if (edge := getattr(slo, field)) is not None}


class SLOResult(NamedTuple):
    """How one stream met its objective."""

    slo: SLO
    tokens_met: int
    """Gaps that are certainly within the ITL objective."""
    tokens_missed: int
    """Gaps that are certainly beyond the ITL objective."""
    is_stream_met: bool | None
    """The first token came in time and the upstream did not stall; None: not certain, or there is no objective."""
    fluidity: float | None = None
    """The fluidity index; None: the objective lacks a TTFT or an ITL, or arrivals are not known."""
    tokens_uncertain: int = 0
    """Gaps that are known to within bounds that contain the ITL objective."""

    @property
    def is_missed(self) -> bool:
        """The objective was certainly missed: by too many slow gaps for the target, a late first token, or a stall."""
        return self.is_stream_met is False or self.tokens_missed > self._allowed_misses

    @property
    def is_met(self) -> bool | None:
        """The objective was met as a whole, by the first token and by the gaps; None: there is too little to judge by.

        That is a stream whose bounds contain the limit, and without a TTFT objective also a stream without a gap.
        """
        if self.is_missed:
            return False
        has_evidence = self.slo.ttft is not None or self.tokens_met + self.tokens_missed > 0
        is_certain = self.tokens_missed + self.tokens_uncertain <= self._allowed_misses
        return True if self.is_stream_met and has_evidence and is_certain else None

    @property
    def _allowed_misses(self) -> float:
        """How many gaps may be beyond the objective by its target. Rounded, for in binary 10 % of 10 is less than 1."""
        return round((1 - self.slo.target) * (self.tokens_met + self.tokens_missed + self.tokens_uncertain), 6)


def evaluate(slo: SLO, timeline: Timeline, measures: Measures, *, is_stalled: bool) -> SLOResult:
    """Evaluate a stream that ended against its objective.

    Args:
        slo: the objective for the stream's model.
        timeline: the stream.
        measures: the measures of the timeline.
        is_stalled: the upstream stalled; a stall that the caller's own event loop or process caused does not count.
    """
    met = missed = uncertain = 0
    fluidity = None
    if slo.itl is not None:
        itl_objective = round(slo.itl * SECOND)
        count, lowest, highest = len(measures.itl_samples), *measures.sample_bounds
        met = bisect_right(highest, itl_objective)
        missed = count - bisect_right(lowest, itl_objective)
        uncertain = count - met - missed
        if slo.ttft is not None:
            ttft_objective = max(round(slo.ttft * SECOND), 1)
            fluidity = fluidity_index(timeline, ttft_objective, max(itl_objective, 1), measures=measures)
    is_stream_met = _is_stream_met(slo, timeline, measures, is_stalled=is_stalled)
    return SLOResult(slo, met, missed, is_stream_met, fluidity, tokens_uncertain=uncertain)


def _is_stream_met(slo: SLO, timeline: Timeline, measures: Measures, *, is_stalled: bool) -> bool | None:
    """Return whether the first token came in time and nothing stalled; None: not known, or there is no objective."""
    if slo.ttft is None and slo.itl is None:
        return None
    if is_stalled:
        return False
    if slo.ttft is None:
        return True
    ttft = measures.find_bounds("time_to_first_token")
    if ttft is not None:
        return True if ttft.highest <= slo.ttft else False if ttft.lowest > slo.ttft else None
    # There was no token. A caller that left within the objective's time cannot know whether it would have come.
    is_failed = timeline.outcome in {Outcome.ERROR, Outcome.TRUNCATED}
    return False if is_failed or (timeline.outcome is not Outcome.COMPLETED and measures.duration > slo.ttft) else None
