"""Counts how many streams and gaps met their SLO: the one on their spans, or one given for the report."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import fmean
from typing import NamedTuple

from otel_itl.core.slo import PROFILES, SLO, Objectives, evaluate
from otel_itl.core.timeline import SECOND
from otel_itl.tools.report.reading.span_facts import SLOFacts, StallFacts
from otel_itl.tools.report.reading.streams import StoredStream
from otel_itl.tools.report.stalls import has_upstream_stall


class Verdict(str, Enum):
    """Whether a stream met its SLO."""

    MET = "met"
    MISSED = "missed"
    NOT_KNOWN = "not known"
    """The bounds of a figure contain the objective."""


def read_verdict(stream: StoredStream) -> Verdict | None:
    """Return whether a stream met the SLO on its span; None: it has none, or there is too little to judge by."""
    facts = stream.span_facts.slo
    if facts is None:
        return None
    if facts.is_met is not None:
        return Verdict.MET if facts.is_met else Verdict.MISSED
    if stream.measures.bounds:
        return Verdict.NOT_KNOWN
    # Up to 0.1 a span had no verdict where the SLO was met.
    return Verdict.MET if stream.measures.output_chunk_count else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SLOSummary:
    """How many streams and gaps met one SLO. Times are seconds; None: no such objective, or it is unknown."""

    profile: str
    ttft: float | None
    itl: float | None
    target: float | None
    streams: int
    """Streams that could be judged."""
    streams_met: int
    """Of these, the ones that met the SLO: TTFT, no stall of the upstream, and enough gaps for the target."""
    gaps: int | None
    gaps_met: int | None
    """Gaps within the ITL objective."""
    fluidity: float | None = None
    """Mean fluidity index of the streams whose spans carry one."""
    streams_not_known: int = 0
    """Further streams, of which it is not known, as the bounds of a figure contain the objective."""
    streams_not_judged: int = 0
    """Streams beside all of these: no token came in the time that the caller gave them."""


class _Key(NamedTuple):
    """The SLO that streams are counted under."""

    profile: str
    ttft: float | None
    itl: float | None
    target: float | None


_Custom = tuple[str, str, str]
"""Provider, model and profile of a custom SLO, whose objectives are on the spans of streams that missed it alone."""


class _Judged(NamedTuple):
    """One stream that was judged."""

    slo: _Key | _Custom
    verdict: Verdict
    fluidity: float | None
    gaps: tuple[int, int]
    """How many are judged, and how many are within the ITL objective."""
    bounds: tuple[Sequence[float], Sequence[float]] | None = None
    """The least and the most that its gaps can be (ns), ascending, where the objective is found later; else None."""

    def count_gaps(self, itl: float | None) -> tuple[int, int]:
        """Return how many gaps are certainly within an ITL objective or beyond it, and how many are within."""
        if self.bounds is None or itl is None:
            return self.gaps
        lowest, highest = self.bounds
        met = bisect_right(highest, round(itl * SECOND))
        return met + len(lowest) - bisect_right(lowest, round(itl * SECOND)), met


class SLOCollector:
    """Judges streams one after the other.

    Args:
        given: the SLOs to judge all streams by; None: the ones on their spans.
    """

    def __init__(self, given: Objectives | None = None) -> None:
        self._given = given
        self._judged: list[_Judged] = []
        self._not_judged: Counter[_Key] = Counter()
        self._custom_keys: dict[_Custom, _Key] = {}

    def add(self, stream: StoredStream, stalls: Sequence[StallFacts]) -> Verdict | None:
        """Judge a stream, which has these stalls.

        Returns:
            Whether it met its SLO; None: it has none, or there is too little to judge by.
        """
        facts = stream.span_facts.slo
        if self._given is not None:
            slo = self._given.for_model(stream.model)
            judged = None if slo is None else _judge(slo, stream, None, has_stalled=has_upstream_stall(stalls))
            if slo is not None and slo.ttft is not None and judged is None:
                self._not_judged[_find_key(slo)] += 1
        elif facts is None:
            return None
        elif facts.profile in PROFILES:
            judged = _judge(PROFILES[facts.profile], stream, facts, has_stalled=False)
        else:
            judged = self._judge_by_custom(stream, facts)
        if judged is None:
            return None
        self._judged.append(judged)
        return judged.verdict

    def summaries(self) -> list[SLOSummary]:
        """Return a summary for each SLO, ordered by profile."""
        groups: defaultdict[_Key, list[_Judged]] = defaultdict(list)
        for judged in self._judged:
            slo = judged.slo
            groups[
                slo if isinstance(slo, _Key) else self._custom_keys.get(slo, _Key(slo[-1], None, None, None))
            ].append(judged)
        keys = {*groups, *self._not_judged}
        ordered = sorted(keys, key=lambda key: (key.profile, key.ttft or 0, key.itl or 0, key.target or 0))
        return [_summarize(key, groups[key], self._not_judged[key]) for key in ordered]

    def _judge_by_custom(self, stream: StoredStream, facts: SLOFacts) -> _Judged | None:
        """Judge a stream by the custom SLO on its span, whose objectives may become known later."""
        verdict, slo = read_verdict(stream), (stream.provider, stream.model, facts.profile)
        if verdict is None:
            return None
        bounds = stream.measures.sample_bounds
        if verdict is not Verdict.MISSED:
            return _Judged(slo, verdict, facts.fluidity, (0, 0), bounds)
        self._custom_keys[slo] = key = _Key(facts.profile, facts.ttft, facts.itl, None)
        return _Judged(key, verdict, facts.fluidity, (0, 0), bounds)


def _judge(slo: SLO, stream: StoredStream, facts: SLOFacts | None, *, has_stalled: bool) -> _Judged | None:
    """Judge a stream by an SLO of known objectives; `facts`: what its span has of the same SLO."""
    slo_result = evaluate(slo, stream.timeline, stream.measures, is_stalled=has_stalled)
    is_met = slo_result.is_met if facts is None or facts.is_met is None else facts.is_met
    if is_met is None and not stream.measures.bounds:
        return None
    verdict = Verdict.NOT_KNOWN if is_met is None else Verdict.MET if is_met else Verdict.MISSED
    gaps = (slo_result.tokens_met + slo_result.tokens_missed, slo_result.tokens_met)
    return _Judged(_find_key(slo), verdict, None if facts is None else facts.fluidity, gaps)


def _find_key(slo: SLO) -> _Key:
    return _Key(slo.profile, slo.ttft, slo.itl, slo.target)


def _summarize(key: _Key, judged: Sequence[_Judged], not_judged: int) -> SLOSummary:
    """Sum up the streams that were judged by one SLO, and count those that were not."""
    known = [stream for stream in judged if stream.verdict is not Verdict.NOT_KNOWN]
    fluidity = [stream.fluidity for stream in known if stream.fluidity is not None]
    gaps = [stream.count_gaps(key.itl) for stream in known]
    return SLOSummary(
        **key._asdict(),
        streams=len(known),
        streams_met=sum(stream.verdict is Verdict.MET for stream in known),
        gaps=None if key.itl is None else sum(count for count, _ in gaps),
        gaps_met=None if key.itl is None else sum(within for _, within in gaps),
        fluidity=fmean(fluidity) if fluidity else None,
        streams_not_known=len(judged) - len(known),
        streams_not_judged=not_judged,
    )
