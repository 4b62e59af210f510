"""Reduces streams to what may explain their latency, one observation each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from scipy import stats

from otel_itl.core.arrivals import Arrivals, find_arrivals
from otel_itl.core.gaps import Gaps, find_gaps
from otel_itl.core.measures import Measures
from otel_itl.core.timeline import SECOND, Timeline
from otel_itl.tools.explain.attribute_reader import AttributeReader
from otel_itl.tools.explain.findings import Target
from otel_itl.tools.report.reading.streams import StoredStream
from otel_itl.tools.report.set_aside import KnownCollector

FIGURES: Final = {Target.TTFT: "time_to_first_token", Target.ITL: "itl_mean"}
"""The fields of `Measures` by which streams are set aside, and their errors are counted."""

MAX_PARTS = 6
"""Parts of equal length into which the gaps of one answer are divided."""
MIN_PART_GAPS = 16
"""Gaps of the shortest part; an answer with fewer than two parts has no position."""
TRIMMED = 0.1
"""Share of the gaps at either end that a typical gap leaves out: stalls and merged chunks have their own report."""
HIDDEN_GAP = 0.25
"""A chunk that may have come earlier by more than this share of the mean gap has hidden gaps."""
MAX_HIDDEN = 0.05
"""Share of the chunks of an answer with hidden gaps, above which the answer has no position."""
MIN_LEFT = 0.1
"""Least share of a part of an answer that is left with the least that it can take: what is compared are logarithms."""


Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
_Curve = tuple[tuple[float, float], ...]
_Part = tuple[int, int, float]
"""A part of an answer: its first gap, the one after its last, and its typical gap in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One stream. Times are seconds; None is what cannot be known."""

    model: str
    """`PROVIDER / MODEL`."""
    session: str
    """Id of its session; of the stream itself where it belongs to none."""
    start_ns: int
    """Unix time of the request."""
    duration: float
    tokens: int
    """Output tokens."""
    ttft: float | None = None
    itl: float | None = None
    """Typical gap (trimmed mean)."""
    parts: _Curve = ()
    """For each part of the answer, its middle in output tokens and its typical gap; empty for a short answer."""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    tokens_per_chunk: float | None = None
    attempts: int | None = None
    server: str | None = None
    response_model: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Attributes of the span and its resource that have few values."""
    bounds: tuple[Observation, Observation] | None = None
    """The same with the least that its latencies can be, and with the most; None: they are exact.

    With the least the answer becomes faster from part to part, with the most slower, as far as its parts allow.
    """


Collectors = Mapping[Target, KnownCollector]
"""How well each latency is known, and which streams are set aside from it."""


def make_collectors() -> Collectors:
    """Return a collector for each latency."""
    return {target: KnownCollector(figure) for target, figure in FIGURES.items()}


@dataclass(slots=True, kw_only=True)
class Observations:
    """The streams of an explanation."""

    used: list[Observation] = field(default_factory=list)
    """All streams. One that is set aside from a latency does not have it, and counts for the own load all the same."""
    instances: set[str] = field(default_factory=set)
    """Processes that made the requests."""
    known: dict[str, Collectors] = field(default_factory=dict)
    """Model → how well its latencies are known."""
    by: str | None = None
    """The one attribute that is to be examined; None: all that have few values."""
    many_valued: set[str] = field(default_factory=set)
    """Attributes that have too many values to be kept."""

    @property
    def are_exact(self) -> bool:
        """All latencies are known exactly."""
        return all(one.bounds is None for one in self.used)

    def at_end(self, end: int) -> Observations:
        """Return the same with the least (0) or the most (1) that all latencies can be."""
        return replace(self, used=[one if one.bounds is None else one.bounds[end] for one in self.used])


def observe_streams(streams: Iterable[StoredStream], by: str | None = None) -> Observations:
    """Reduce streams, in any order, to observations; the streams themselves are not kept.

    Args:
        streams: the streams.
        by: the one attribute that is to be examined; None: all that have few values.
    """
    reader = AttributeReader(by)
    found = Observations(by=by, many_valued=reader.many)
    for stream in streams:
        if stream.span_facts.instance is not None:
            found.instances.add(stream.span_facts.instance)
        one = _observe(stream, reader.read(stream.span_facts.attributes))
        known = found.known.setdefault(one.model, make_collectors())
        for target, figure in FIGURES.items():
            if getattr(stream.measures, figure) is not None and not known[target].add(stream):
                one = _set_aside(one, target)
        found.used.append(one)
    return found


def _set_aside(one: Observation, target: Target) -> Observation:
    """Return an observation without a latency, the bounds of it included."""
    bounds = None if one.bounds is None else (_set_aside(one.bounds[0], target), _set_aside(one.bounds[1], target))
    if target is Target.TTFT:
        return replace(one, ttft=None, bounds=bounds)
    return replace(one, itl=None, parts=(), bounds=bounds)


def _observe(stream: StoredStream, attributes: Mapping[str, str]) -> Observation:
    """Reduce one stream."""
    measures, timeline, facts = stream.measures, stream.timeline, stream.span_facts
    arrivals = find_arrivals(timeline)
    choices = list(find_gaps(timeline, arrivals))
    gaps = np.array(choices[0].samples if len(choices) == 1 else [], dtype=float) / SECOND
    parts = [] if _has_hidden_gaps(timeline, arrivals, gaps) else list(_find_parts(gaps))
    observation = Observation(
        model=f"{stream.provider} / {stream.model}",
        session=stream.span_facts.session_id
        or stream.trace_id + stream.span_id
        or f"{stream.where} {timeline.request_unix_ns}",
        start_ns=timeline.request_unix_ns,
        duration=measures.duration,
        tokens=measures.token_count,
        ttft=measures.time_to_first_token,
        itl=_typical(gaps) if len(gaps) >= MIN_PART_GAPS else None,
        parts=tuple(((first + last) / 2, typical) for first, last, typical in parts),
        prompt_tokens=timeline.input_tokens,
        cached_tokens=facts.cached_input_tokens,
        tokens_per_chunk=measures.tokens_per_chunk if measures.has_reported_token_count else None,
        attempts=timeline.attempts,
        server=facts.server,
        response_model=facts.response_model,
        attributes=attributes,
    )
    if not measures.bounds:
        return observation
    tilted = _tilt_parts(timeline, arrivals, choices[0], parts) if parts else ((), ())
    least, most = (_bound(observation, measures, end, tilted[end]) for end in (0, 1))
    return replace(observation, bounds=(least, most))


def _has_hidden_gaps(timeline: Timeline, arrivals: Arrivals, gaps: Floats) -> bool:
    """Return whether the caller hid too many gaps of an answer to compare those late in it with early ones.

    A blocked event loop turns the gaps of a block into a long one and several of next to nothing. Their typical gap is
    then the block's, wherever in the answer it is.
    """
    if not len(gaps) or not len(arrivals.earliest):
        return False
    is_output = np.frombuffer(timeline.output_flags, dtype=bool)
    hidden = np.asarray(arrivals.latest, dtype=float) - np.asarray(arrivals.earliest, dtype=float)
    is_hidden = hidden[is_output] > HIDDEN_GAP * float(np.mean(gaps)) * SECOND
    return bool(is_hidden.mean() > MAX_HIDDEN)


def _bound(observation: Observation, measures: Measures, end: int, parts: _Curve) -> Observation:
    """Return an observation with the least (0) or the most (1) that its latencies can be, and with these parts.

    Gaps all shrink or grow as far as their mean can.
    """
    ttft, mean = measures.find_bounds("time_to_first_token"), measures.find_bounds("itl_mean")
    share = mean[end] / measures.itl_mean if mean is not None and measures.itl_mean else 1.0
    return replace(
        observation,
        ttft=None if ttft is None else ttft[end] or None,
        itl=None if observation.itl is None else observation.itl * share or None,
        parts=parts,
    )


def _tilt_parts(timeline: Timeline, arrivals: Arrivals, gaps: Gaps, parts: Sequence[_Part]) -> tuple[_Curve, _Curve]:
    """Return the parts of an answer as fast, and as slow, towards its end as its arrivals allow.

    The typical gap of a part changes as the time that the part takes. The slope over the parts is the least where the
    answer begins and ends as early as it can have and everything between comes as late as it can have; and conversely.
    """
    is_output = np.frombuffer(timeline.output_flags, dtype=bool)
    chunks = np.concatenate([[0], np.cumsum(gaps.shares if len(gaps.shares) else np.ones(is_output.sum() - 1))])
    taken = np.concatenate([[0.0], np.cumsum(gaps.samples)])
    edges = np.array([(first, last) for first, last, _ in parts])
    earliest, latest = (
        np.interp(edges, chunks, np.asarray(moments, dtype=float)[is_output])
        for moments in (arrivals.earliest or arrivals.latest, arrivals.latest)
    )

    def tilt(outer: Floats, inner: Floats) -> _Curve:
        moments = inner.copy()
        moments[0, 0], moments[-1, 1] = outer[0, 0], outer[-1, 1]
        shares = np.maximum(np.diff(moments).ravel() / np.diff(taken[edges]).ravel(), MIN_LEFT)
        slowed = zip(parts, shares.tolist(), strict=True)
        return tuple(((first + last) / 2, typical * share) for (first, last, typical), share in slowed)

    return tilt(earliest, latest), tilt(latest, earliest)


def _typical(gaps: np.ndarray) -> float | None:
    """Return the trimmed mean in seconds; None where it is 0."""
    return float(stats.trim_mean(gaps, TRIMMED)) or None


def _find_parts(gaps: np.ndarray) -> Iterator[_Part]:
    """Divide the gaps of an answer into parts; none where there are too few."""
    count = min(MAX_PARTS, len(gaps) // MIN_PART_GAPS)
    if count > 1:
        for part in np.array_split(np.arange(len(gaps)), count):
            typical = _typical(gaps[part])
            if typical is not None:
                yield int(part[0]), int(part[-1]) + 1, typical
