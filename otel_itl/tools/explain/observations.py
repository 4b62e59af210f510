"""Reduces streams to what may explain their latency, one observation each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from scipy import stats

from otel_itl.core.arrivals import find_arrivals
from otel_itl.core.gaps import find_gaps
from otel_itl.core.measures import Measures
from otel_itl.core.timeline import SECOND, Timeline
from otel_itl.tools.report.certainty import KnownCollector
from otel_itl.tools.report.reading.streams import StoredStream

FIGURES: Final = {"TTFT": "time_to_first_token", "ITL": "itl_mean"}
"""Figures whose errors are counted, by their title: the fields of `Measures`."""
BUFFERED = "buffered"
"""Why a stream is set aside: something between the model and the caller delivered it in bursts."""

MAX_PARTS = 6
"""Parts of equal length into which the gaps of one answer are divided."""
MIN_PART_GAPS = 16
"""Gaps of the shortest part; an answer with fewer than two parts has no position."""
TRIMMED = 0.1
"""Share of the gaps at either end that a typical gap leaves out: stalls and merged chunks have their own report."""


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
    parts: tuple[tuple[float, float], ...] = ()
    """For each part of the answer, its middle in output tokens and its typical gap; empty for a short answer."""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    tokens_per_chunk: float | None = None
    attempts: int | None = None
    server: str | None = None
    response_model: str | None = None
    lowest: Observation | None = None
    """The same with the least that its latencies can be; None: they are exact."""


def _collect_errors() -> dict[str, KnownCollector]:
    return {title: KnownCollector(figure, leaves_out=False) for title, figure in FIGURES.items()}


@dataclass(slots=True, kw_only=True)
class Observations:
    """The streams of an explanation."""

    used: list[Observation] = field(default_factory=list)
    buffered: list[Observation] = field(default_factory=list)
    """Streams whose latency is that of a buffer on the way: they count for the own load alone."""
    set_aside: Counter[str] = field(default_factory=Counter)
    """Why streams are in no figure → how many."""
    instances: set[str] = field(default_factory=set)
    """Processes that made the requests."""
    errors: Mapping[str, KnownCollector] = field(default_factory=_collect_errors)
    """Title of a figure → of how many streams it is uncertain, and why."""

    @property
    def are_exact(self) -> bool:
        """No latency can be less than it is given as."""
        return all(one.lowest is None for one in self.used)

    def lower(self) -> Observations:
        """Return the same with the least that all latencies can be."""
        return replace(self, used=[one.lowest or one for one in self.used])


def observe_streams(streams: Iterable[StoredStream], *, includes_buffered: bool = False) -> Observations:
    """Reduce streams to observations; the streams themselves are not kept.

    Args:
        streams: in any order.
        includes_buffered: streams that a buffer on the way held up are explained as well.
    """
    found = Observations()
    for stream in streams:
        if stream.span_facts.instance is not None:
            found.instances.add(stream.span_facts.instance)
        if stream.measures.is_buffered and not includes_buffered:
            found.buffered.append(_observe(stream))
            found.set_aside[BUFFERED] += 1
            continue
        found.used.append(_observe(stream))
        for title, figure in FIGURES.items():
            if getattr(stream.measures, figure) is not None:
                found.errors[title].add(stream)
    return found


def _observe(stream: StoredStream) -> Observation:
    """Reduce one stream."""
    measures, timeline, upstream = stream.measures, stream.timeline, stream.span_facts.upstream
    gaps = _gaps_in_order(timeline)
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
        parts=_parts(gaps),
        prompt_tokens=timeline.input_tokens,
        cached_tokens=upstream.cached_input_tokens,
        tokens_per_chunk=measures.tokens_per_chunk if measures.has_reported_token_count else None,
        attempts=timeline.attempts,
        server=upstream.server,
        response_model=upstream.response_model,
    )
    return replace(observation, lowest=_find_lowest(observation, measures)) if measures.bounds else observation


def _find_lowest(observation: Observation, measures: Measures) -> Observation:
    """Return an observation with the least that its latencies can be; gaps all shrink as far as their mean can."""
    ttft, mean = measures.find_bounds("time_to_first_token"), measures.find_bounds("itl_mean")
    share = mean.lowest / measures.itl_mean if mean is not None and measures.itl_mean else 1.0
    return replace(
        observation,
        ttft=None if ttft is None else ttft.lowest or None,
        itl=None if observation.itl is None else observation.itl * share or None,
        parts=tuple((position, gap * share) for position, gap in observation.parts) if share else (),
    )


def _gaps_in_order(timeline: Timeline) -> np.ndarray:
    """Return the ITL samples in seconds, in order of time; none for an answer of several choices."""
    choices = list(find_gaps(timeline, find_arrivals(timeline)))
    return np.array(choices[0].samples if len(choices) == 1 else [], dtype=float) / SECOND


def _typical(gaps: np.ndarray) -> float | None:
    """Return the trimmed mean in seconds; None where it is 0."""
    return float(stats.trim_mean(gaps, TRIMMED)) or None


def _parts(gaps: np.ndarray) -> tuple[tuple[float, float], ...]:
    """Divide the gaps of an answer into parts; empty where there are too few."""
    count = min(MAX_PARTS, len(gaps) // MIN_PART_GAPS)
    if count < 2:  # noqa: PLR2004 - one part has no position in the answer
        return ()
    parts, first = [], 0
    for part in np.array_split(gaps, count):
        typical = _typical(part)
        if typical is not None:
            parts.append((first + len(part) / 2, typical))
        first += len(part)
    return tuple(parts)
