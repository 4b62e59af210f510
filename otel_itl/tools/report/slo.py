"""Counts how many streams and gaps met their SLO: the one on their spans, or one given for the report."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
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


class _Key(NamedTuple):
    """The SLO that streams are counted under."""

    profile: str
    ttft: float | None
    itl: float | None
    target: float | None


class _Judged(NamedTuple):
    """One stream that was judged."""

    is_met: bool
    gaps: int
    gaps_met: int
    fluidity: float | None


class _MetCustom(NamedTuple):
    """A stream that met a custom SLO, whose objectives are on the spans of streams that missed it, and on no others."""

    slo: tuple[str, str, str]
    """Provider, model and profile."""
    samples: Sequence[float]
    """ITL samples (ns), ascending."""
    fluidity: float | None


class SLOCollector:
    """Judges streams one after the other.

    Args:
        given: the SLOs to judge all streams by; None: the ones on their spans.
    """

    def __init__(self, given: Objectives | None = None) -> None:
        self._given = given
        self._judged: dict[_Key, list[_Judged]] = {}
        self._met_custom: list[_MetCustom] = []
        self._custom_keys: dict[tuple[str, str, str], _Key] = {}
        self._not_known: Counter[_Key] = Counter()
        self._not_known_custom: Counter[tuple[str, str, str]] = Counter()

    def add(self, stream: StoredStream, stalls: Sequence[StallFacts]) -> Verdict | None:
        """Judge a stream, which has these stalls.

        Returns:
            Whether it met its SLO; None: it has none, or there is too little to judge by.
        """
        if self._given is not None:
            slo = self._given.for_model(stream.model)
            return None if slo is None else self._judge(slo, stream, None, has_stalled=has_upstream_stall(stalls))
        return None if stream.span_facts.slo is None else self._add_by_span(stream, stream.span_facts.slo)

    def summaries(self) -> list[SLOSummary]:
        """Return a summary for each SLO, ordered by profile."""
        judged = {key: list(streams) for key, streams in self._judged.items()}
        for slo, samples, fluidity in self._met_custom:
            key = self._find_custom_key(slo)
            judged.setdefault(key, []).append(_judge_custom(key, samples, fluidity, is_met=True))
        not_known = self._not_known.copy()
        for slo, count in self._not_known_custom.items():
            not_known[self._find_custom_key(slo)] += count
        ordered = sorted(
            {*judged, *not_known}, key=lambda key: (key.profile, key.ttft or 0, key.itl or 0, key.target or 0)
        )
        return [_summary(key, judged.get(key, []), not_known[key]) for key in ordered]

    def _find_custom_key(self, slo: tuple[str, str, str]) -> _Key:
        return self._custom_keys.get(slo, _Key(slo[-1], None, None, None))

    def _add_by_span(self, stream: StoredStream, facts: SLOFacts) -> Verdict | None:
        """Judge a stream by the SLO on its span; the objectives of a custom SLO may become known later."""
        profile = PROFILES.get(facts.profile)
        if profile is not None:
            return self._judge(profile, stream, facts, has_stalled=False)
        custom = (stream.provider, stream.model, facts.profile)
        samples = stream.measures.itl_samples.nanoseconds
        verdict = read_verdict(stream)
        if verdict is Verdict.NOT_KNOWN:
            self._not_known_custom[custom] += 1
        elif verdict is Verdict.MET:
            self._met_custom.append(_MetCustom(custom, samples, facts.fluidity))
        elif verdict is Verdict.MISSED:
            key = _Key(facts.profile, facts.ttft, facts.itl, None)
            self._custom_keys[custom] = key
            self._judged.setdefault(key, []).append(_judge_custom(key, samples, facts.fluidity, is_met=False))
        return verdict

    def _judge(self, slo: SLO, stream: StoredStream, facts: SLOFacts | None, *, has_stalled: bool) -> Verdict | None:
        """Judge a stream by an SLO of known objectives; `facts`: what its span has of the same SLO."""
        slo_result = evaluate(slo, stream.timeline, stream.measures, is_stalled=has_stalled)
        is_met = slo_result.is_met if facts is None or facts.is_met is None else facts.is_met
        key = _Key(slo.profile, slo.ttft, slo.itl, slo.target)
        if is_met is None:
            if not stream.measures.bounds:
                return None
            self._not_known[key] += 1
            return Verdict.NOT_KNOWN
        fluidity = None if facts is None else facts.fluidity
        gaps = slo_result.tokens_met + slo_result.tokens_missed
        self._judged.setdefault(key, []).append(_Judged(is_met, gaps, slo_result.tokens_met, fluidity))
        return Verdict.MET if is_met else Verdict.MISSED


def _judge_custom(key: _Key, samples: Sequence[float], fluidity: float | None, *, is_met: bool) -> _Judged:
    within = 0 if key.itl is None else bisect_right(samples, round(key.itl * SECOND))
    return _Judged(is_met, len(samples), within, fluidity)


def _summary(key: _Key, streams: Sequence[_Judged], not_known: int) -> SLOSummary:
    """Sum up the streams that were judged by one SLO."""
    fluidity = [stream.fluidity for stream in streams if stream.fluidity is not None]
    return SLOSummary(
        **key._asdict(),
        streams=len(streams),
        streams_met=sum(stream.is_met for stream in streams),
        gaps=None if key.itl is None else sum(stream.gaps for stream in streams),
        gaps_met=None if key.itl is None else sum(stream.gaps_met for stream in streams),
        fluidity=fmean(fluidity) if fluidity else None,
        streams_not_known=not_known,
    )
