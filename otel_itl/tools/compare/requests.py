"""Reduces stored streams to what a comparison needs of them: a few numbers and the gaps of each request."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from otel_itl.core.measures import Measures
from otel_itl.core.slo import PROFILES, Objectives
from otel_itl.core.timeline import SECOND, Outcome
from otel_itl.tools.report.certainty import Cause, Known
from otel_itl.tools.report.reading.streams import StoredStream
from otel_itl.tools.report.set_aside import KnownCollector, find_set_aside_cause
from otel_itl.tools.report.stalls import collect_stalls, has_upstream_stall

TTFT, GAPS, PACE = "time_to_first_token", "itl_p99", "time_per_output_token"
FIGURES: Final = {"TTFT": TTFT, "ITL p99": GAPS, "TPOT": PACE}
"""Figures whose errors a side counts, by their title: the fields of `Measures`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request. Times are seconds; None is what cannot be known."""

    cluster: str
    """Id of its session; of the request itself where it belongs to none."""
    is_in_session: bool
    model: str
    """`PROVIDER / MODEL`."""
    time_to_first_token: float | None
    """None: no token came."""
    gaps: array[float]
    """ITL samples, ascending."""
    decode_time: float
    """What `later_tokens` took; 0 where the token count is unknown."""
    later_tokens: int
    """Tokens after the first, of the output or of the parts of the answer, of which TPOT is the mean."""
    tokens: int
    stalls: int
    """Those of the upstream, and those of which the cause is not known."""
    outcome: Outcome
    itl_objective: float | None
    """The ITL objective that it is judged by."""
    start_unix_ns: int = 0
    duration: float = 0.0
    """From the request to the end of the stream."""
    prompt_tokens: int | None = None
    open_streams: int = 0
    """Streams of its side that were open when it was made, itself included, by `count_open_streams`; 0: not counted."""
    buffered_gaps: float = 0.0
    """Gaps from burst to burst, which `buffered_time` took; 0: no buffer on the way released it in bursts."""
    buffered_time: float = 0.0
    set_aside: Mapping[str, Cause] = field(default_factory=dict)
    """Field of `Measures` → why the request is in no figure of it."""
    lowest: Request | None = None
    """The same with the least that its figures can be; None: they are exact."""
    highest: Request | None = None
    """The same with the most; None likewise."""


def _collect_errors() -> dict[str, KnownCollector]:
    return {title: KnownCollector(figure) for title, figure in FIGURES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The requests of one side of a comparison."""

    name: str
    requests: list[Request] = field(default_factory=list)
    errors: Mapping[str, KnownCollector] = field(default_factory=_collect_errors)
    """Title of a figure → of how many streams it is uncertain or that are set aside, and why."""
    saved: Mapping[str, Known] | None = None
    """What `known` is of a side that was read from a baseline."""
    described: list[dict[str, Any]] = field(default_factory=list)
    """The streams as a page has them, if there will be one."""

    @property
    def known(self) -> Mapping[str, Known]:
        """Title of a figure → how well it is known."""
        return self.saved or {title: collector.summary() for title, collector in self.errors.items()}

    @property
    def first_unix_ns(self) -> int:
        """Unix time of the first request."""
        return min(request.start_unix_ns for request in self.requests)

    @property
    def last_unix_ns(self) -> int:
        """Unix time of the last request."""
        return max(request.start_unix_ns for request in self.requests)

    @property
    def clusters(self) -> int:
        """Number of sessions, and of requests outside of any session."""
        return len({request.cluster for request in self.requests})


def add_stream(side: Side, stream: StoredStream, objectives: Objectives | None, run: str | None = None) -> None:
    """Add a stream to a side; `objectives` as for `reduce_stream`; `run`: its cluster, None: its session."""
    left_out = {
        figure
        for title, figure in FIGURES.items()
        if getattr(stream.measures, figure) is not None and not side.errors[title].add(stream)
    }
    request = reduce_stream(stream, objectives, left_out)
    side.requests.append(request if run is None else replace(request, cluster=run))


def reduce_stream(
    stream: StoredStream, objectives: Objectives | None, left_out: Collection[str] | None = None
) -> Request:
    """Reduce a stream to a request.

    Args:
        stream: that was read back.
        objectives: whose ITL objective its gaps are judged by; None: the one on the span.
        left_out: the fields of `Measures` that it is set aside from; None: not known yet.
    """
    if left_out is None:
        left_out = [figure for figure in FIGURES.values() if getattr(stream.measures, figure) is not None]
    measures, session = stream.measures, stream.span_facts.session_id
    per_token = measures.time_per_output_token
    request = Request(
        cluster=session or stream.trace_id + stream.span_id or f"{stream.where} {stream.timeline.request_unix_ns}",
        is_in_session=session is not None,
        model=f"{stream.provider} / {stream.model}",
        time_to_first_token=measures.time_to_first_token,
        gaps=_to_seconds(measures.itl_samples.nanoseconds),
        decode_time=per_token * measures.paced_tokens if per_token else 0.0,
        later_tokens=measures.paced_tokens if per_token else 0,
        tokens=measures.token_count,
        stalls=sum(stall.count for stall in collect_stalls(stream) if has_upstream_stall([stall])),
        outcome=stream.timeline.outcome,
        itl_objective=_itl_objective(stream) if objectives is None else find_itl_objective(objectives, stream.model),
        start_unix_ns=stream.timeline.request_unix_ns,
        duration=measures.duration,
        prompt_tokens=stream.timeline.input_tokens,
        set_aside={figure: cause for figure in left_out if (cause := find_set_aside_cause(stream, figure)) is not None},
    )
    if measures.buffered_pace and measures.decode_time:
        time = measures.decode_time
        request = replace(request, buffered_gaps=time / measures.buffered_pace, buffered_time=time)
    if not measures.bounds:
        return request
    lowest, highest = (_bound(request, measures, end) for end in (0, 1))
    return replace(request, lowest=lowest, highest=highest)


def count_open_streams(requests: Sequence[Request]) -> list[Request]:
    """Return the requests of a side with how many of its streams were open when each was made."""
    starts = np.array([request.start_unix_ns for request in requests])
    ends = starts + np.array([round(request.duration * SECOND) for request in requests])
    started = np.searchsorted(np.sort(starts), starts, "right")
    ended = np.searchsorted(np.sort(ends), starts, "right")
    counts = np.maximum(started - ended, 1)
    return [_put_open_streams(request, int(count)) for request, count in zip(requests, counts, strict=True)]


def _put_open_streams(request: Request, count: int) -> Request:
    """Return a request with its number of open streams, whatever reading of its figures."""
    bounds = (request.lowest, request.highest)
    lowest, highest = (None if one is None else replace(one, open_streams=count) for one in bounds)
    return replace(request, open_streams=count, lowest=lowest, highest=highest)


def _bound(request: Request, measures: Measures, end: int) -> Request:
    """Return a request with the lower (0) or the upper end (1) of what its figures can be."""
    ttft, per_token = (measures.find_bounds(figure) for figure in ("time_to_first_token", "time_per_output_token"))
    return replace(
        request,
        time_to_first_token=None if ttft is None else ttft[end],
        gaps=_to_seconds(measures.sample_bounds[end]),
        decode_time=0.0 if per_token is None else per_token[end] * measures.paced_tokens,
    )


def _to_seconds(nanoseconds: Sequence[float]) -> array[float]:
    return array("d", [sample / SECOND for sample in nanoseconds])


def find_itl_objective(objectives: Objectives, model: str) -> float | None:
    """Return the ITL objective (seconds) for a model; None: there is none."""
    slo = objectives.for_model(model)
    return None if slo is None else slo.itl


def _itl_objective(stream: StoredStream) -> float | None:
    """Return the ITL objective (seconds) on the span of a stream; None: there is none."""
    facts = stream.span_facts.slo
    if facts is None:
        return None
    profile = PROFILES.get(facts.profile)
    return facts.itl if profile is None else profile.itl
