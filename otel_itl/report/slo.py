"""How many streams and gaps met their objective: the one of their spans, or one that is given."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from otel_itl.core.slo import PROFILES, SLO, Objectives, evaluate
from otel_itl.core.timeline import SECOND
from otel_itl.report.reading.span_facts import Objective, Stall
from otel_itl.report.reading.streams import Stream
from otel_itl.report.stalls import upstream_stalled


@dataclass(frozen=True, slots=True, kw_only=True)
class Attainment:
    """What became of one objective. Times are seconds; None: there is no such objective, or nobody told."""

    profile: str
    ttft: float | None
    itl: float | None
    target: float | None
    streams: int
    """Those that there was something to judge of."""
    streams_met: int
    """Of these, those that met the objective: TTFT, no stall of the upstream, and enough gaps for the target."""
    gaps: int | None
    gaps_met: int | None
    """Gaps within the ITL objective."""


class _Key(NamedTuple):
    profile: str
    ttft: float | None
    itl: float | None
    target: float | None


class _Custom(NamedTuple):
    """A stream that met an objective which only the spans of streams that missed it tell."""

    objective: tuple[str, str, str]
    """Provider, model and profile."""
    samples: Sequence[float]


class Attainments:
    """Held against objectives, one stream after the other.

    Args:
        given: the objectives; None: those that the spans name.
    """

    def __init__(self, given: Objectives | None = None) -> None:
        self._given = given
        self._counts: dict[_Key, Counter[str]] = {}
        self._waiting: list[_Custom] = []
        self._custom: dict[tuple[str, str, str], _Key] = {}

    def add(self, stream: Stream, stalls: Sequence[Stall]) -> None:
        """Take a stream in."""
        if self._given is not None:
            slo = self._given.for_model(stream.model)
            if slo is not None:
                self._judge(slo, stream, met=None, stalled=upstream_stalled(stalls))
        elif stream.told.objective is not None:
            self._take(stream, stream.told.objective)

    def rows(self) -> list[Attainment]:
        """One for each objective, by profile."""
        for objective, samples in self._waiting:
            key = self._custom.get(objective, _Key(objective[-1], None, None, None))
            self._count(key, samples, met=True)
        self._waiting.clear()
        ordered = sorted(self._counts, key=lambda key: (key.profile, key.ttft or 0, key.itl or 0, key.target or 0))
        return [_row(key, self._counts[key]) for key in ordered]

    def _take(self, stream: Stream, objective: Objective) -> None:
        named = (stream.provider, stream.model, objective.profile)
        profile = PROFILES.get(objective.profile)
        if profile is not None:
            self._judge(profile, stream, met=objective.met, stalled=False)
        elif objective.met:
            if stream.measures.time_to_first_token is not None or stream.measures.itl_samples.nanoseconds:
                self._waiting.append(_Custom(named, stream.measures.itl_samples.nanoseconds))
        else:
            key = _Key(objective.profile, objective.ttft, objective.itl, None)
            self._custom[named] = key
            self._count(key, stream.measures.itl_samples.nanoseconds, met=False)

    def _judge(self, slo: SLO, stream: Stream, *, met: bool | None, stalled: bool) -> None:
        verdict = evaluate(slo, stream.timeline, stream.measures, is_stalled=stalled)
        gaps = verdict.tokens_met + verdict.tokens_missed
        if verdict.is_stream_met is None and not gaps:
            return
        met = not verdict.is_missed if met is None else met
        counts = self._counts.setdefault(_Key(slo.profile, slo.ttft, slo.itl, slo.target), Counter())
        counts.update(streams=1, streams_met=int(met), gaps=gaps, gaps_met=verdict.tokens_met)

    def _count(self, key: _Key, samples: Sequence[float], *, met: bool) -> None:
        within = 0 if key.itl is None else bisect_right(samples, round(key.itl * SECOND))
        counts = self._counts.setdefault(key, Counter())
        counts.update(streams=1, streams_met=int(met), gaps=len(samples), gaps_met=within)


def _row(key: _Key, counts: Counter[str]) -> Attainment:
    gaps, gaps_met = (None, None) if key.itl is None else (counts["gaps"], counts["gaps_met"])
    return Attainment(
        **key._asdict(), streams=counts["streams"], streams_met=counts["streams_met"], gaps=gaps, gaps_met=gaps_met
    )
