"""Reduces stored streams to what a comparison needs of them: a few numbers and the gaps of each request."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from otel_itl.core.slo import PROFILES, Objectives
from otel_itl.core.timeline import SECOND, Outcome
from otel_itl.report.reading.streams import StoredStream
from otel_itl.report.stalls import collect_stalls

CALLER_BOUND = "caller-bound"
"""Why a stream is set aside: its caller was too slow to observe the upstream's pace."""
HOST_BOUND = "host-bound"
"""Why a stream is set aside: the machine that read it had too little CPU for its figures to be the upstream's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request. Times are seconds; None is what cannot be known."""

    cluster: str
    """Id of its session; of the request itself where it belongs to none."""
    is_in_session: bool
    model: str
    """`PROVIDER / MODEL`."""
    time_to_first_token: float | None
    gaps: array[float]
    """ITL samples, ascending."""
    decode_time: float
    """What `later_tokens` took; 0 where the token count is unknown."""
    later_tokens: int
    """Tokens after the first, of the output or of the parts of the answer, of which TPOT is the mean."""
    tokens: int
    stalls: int
    outcome: Outcome
    itl_objective: float | None
    """The ITL objective that it is judged by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The requests of one side of a comparison."""

    name: str
    requests: list[Request] = field(default_factory=list)
    set_aside: Counter[str] = field(default_factory=Counter)
    """Why streams are in no figure → how many."""

    def describe_set_aside(self) -> str:
        """Return how many streams were set aside and why: `2 caller-bound, 1 host-bound`; empty: none."""
        return ", ".join(f"{count:,} {reason}" for reason, count in sorted(self.set_aside.items()))

    @property
    def clusters(self) -> int:
        """Number of sessions, and of requests outside of any session."""
        return len({request.cluster for request in self.requests})


class Selection(NamedTuple):
    """Which streams are compared, and what their gaps are judged by."""

    objectives: Objectives | None = None
    """Whose ITL objective the gaps are judged by; None: the one on the spans."""
    includes_bound: bool = False
    """Streams that their caller or their machine held up are compared as well."""


def add_stream(side: Side, stream: StoredStream, selection: Selection) -> None:
    """Add a stream to a side, or count it as set aside where its figures are not the upstream's."""
    reason = None if selection.includes_bound else _reason_to_set_aside(stream)
    if reason is None:
        side.requests.append(reduce_stream(stream, selection.objectives))
    else:
        side.set_aside[reason] += 1


def _reason_to_set_aside(stream: StoredStream) -> str | None:
    if stream.span_facts.is_host_bound:
        return HOST_BOUND
    return CALLER_BOUND if stream.measures.is_consumer_bound else None


def reduce_stream(stream: StoredStream, objectives: Objectives | None) -> Request:
    """Reduce a stream to a request.

    Args:
        stream: that was read back.
        objectives: whose ITL objective its gaps are judged by; None: the one on the span.
    """
    measures, session = stream.measures, stream.span_facts.session_id
    per_token = measures.time_per_output_token
    return Request(
        cluster=session or stream.trace_id + stream.span_id or f"{stream.where} {stream.timeline.request_unix_ns}",
        is_in_session=session is not None,
        model=f"{stream.provider} / {stream.model}",
        time_to_first_token=measures.time_to_first_token,
        gaps=array("d", sorted(sample / SECOND for sample in measures.itl_samples.nanoseconds)),
        decode_time=per_token * measures.paced_tokens if per_token else 0.0,
        later_tokens=measures.paced_tokens if per_token else 0,
        tokens=measures.token_count,
        stalls=sum(stall.count for stall in collect_stalls(stream)),
        outcome=stream.timeline.outcome,
        itl_objective=_itl_objective(stream, objectives),
    )


def _itl_objective(stream: StoredStream, objectives: Objectives | None) -> float | None:
    """Return the ITL objective (seconds) that a stream is judged by; None: it has none."""
    if objectives is not None:
        slo = objectives.for_model(stream.model)
        return None if slo is None else slo.itl
    facts = stream.span_facts.slo
    if facts is None:
        return None
    profile = PROFILES.get(facts.profile)
    return facts.itl if profile is None else profile.itl
