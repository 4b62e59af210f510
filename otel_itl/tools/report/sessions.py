"""Summarizes sessions: their requests in order of time, and whether tokens came slower than at the beginning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from heapq import merge
from itertools import groupby
from typing import NamedTuple

from otel_itl.core.percentiles import percentile
from otel_itl.core.sessions import Sessions, TrackedRequest
from otel_itl.core.timeline import SECOND
from otel_itl.tools.report.certainty import find_error
from otel_itl.tools.report.reading.span_facts import SessionFacts
from otel_itl.tools.report.reading.streams import StoredStream
from otel_itl.tools.report.slo import Verdict

MAX_COMPARED = 10_000
"""Sessions whose ids are compared with one that does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSummary:
    """One request of a session. Times are seconds; None is what cannot be known."""

    request_index: int
    """From 1, in the order in which the session's requests were started."""
    request_unix_ns: int
    provider: str
    model: str
    outcome: str
    duration: float
    decode_time: float
    """From the first to the last token."""
    time_to_first_token: float | None
    time_to_first_token_uncertainty: float | None
    """Seconds by which that may be less, as of `itl_p99_uncertainty`; None: by next to nothing."""
    itl_p50: float | None
    itl_p99: float | None
    itl_p99_uncertainty: float | None
    itl_p99_uncertainty_above: float | None
    """Seconds by which that may be more; None likewise."""
    itl_mean: float | None
    stalls: int
    slo_met: bool | None
    """It met its SLO; None: it has none, or that is not known."""
    slo_verdict: str | None
    """`met`, `missed` or `not known`; None: it has none, or there is too little to judge by."""
    latency_ratio: float | None
    """Its ITL over the session's own baseline for the model."""
    degraded: bool
    """The session is slower than its baseline at the end of this request."""
    scope: str | None
    """What degrades then: `session` or `model`."""
    trace_id: str
    span_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """One session. Times are seconds; None is what cannot be known."""

    session: str
    """Its id."""
    requests: Sequence[RequestSummary]
    """In order of time."""
    itl_p50: float | None
    """Of the gaps of its requests, as is `itl_p99`."""
    itl_p99: float | None
    itl_requests: int
    """Requests that these are of: those whose pace is known to half of itself."""
    decode_time: float
    """Summed over the requests: the time that an agent's chain of requests takes."""
    stalls: int
    latency_ratio: float | None
    """Of the last request that has one."""
    degraded_since: int | None
    """Index of the request with which the last degradation began; None: there was none."""
    degraded_until: int | None
    """Index of the last request before the recovery; None: there was no degradation, or it lasts."""


class UnknownSessionError(Exception):
    """There is no such session; the message is one sentence that names similar ids."""


class SessionCollector:
    """Collects the streams that belong to a session. It keeps 8 bytes for each of their latency samples."""

    def __init__(self) -> None:
        self._requests: dict[str, list[_Request]] = {}

    def add(self, stream: StoredStream, stalls: int, verdict: Verdict | None = None) -> None:
        """Add a stream with its number of stalls and whether it met its SLO, if it belongs to a session."""
        if stream.span_facts.session_id is not None:
            request = _request(stream, stalls, verdict)
            self._requests.setdefault(stream.span_facts.session_id, []).append(request)

    def summaries(self) -> list[SessionSummary]:
        """Return a summary for each session: first those that have degraded, then by latency ratio."""
        if any(request.facts is None for requests in self._requests.values() for request in requests):
            self._requests = _derive_facts(self._requests)
        summaries = [_summary(session, requests) for session, requests in self._requests.items()]
        return sorted(summaries, key=lambda one: (one.degraded_since is None, -(one.latency_ratio or 0.0), one.session))


def find_session(sessions: Sequence[SessionSummary], session: str) -> SessionSummary:
    """Return the session with this id.

    Raises:
        UnknownSessionError: there is none.
    """
    found = next((summary for summary in sessions if summary.session == session), None)
    if found is not None:
        return found
    if not sessions:
        raise UnknownSessionError(f"there is no session {session!r}: no stream belongs to any.")
    similar = get_close_matches(session, [summary.session for summary in sessions[:MAX_COMPARED]])
    if similar:
        raise UnknownSessionError(f"there is no session {session!r}: did you mean {' or '.join(map(repr, similar))}?")
    first = sessions[0].session
    others = f"is one, {first!r}" if len(sessions) == 1 else f"are {len(sessions):,}, such as {first!r}"
    raise UnknownSessionError(f"there is no session {session!r}: there {others}.")


class _Request(NamedTuple):
    """One request of a session, until all of them are known."""

    summary: RequestSummary
    pace: Sequence[float]
    """ITL samples (ns), where they show the upstream's pace."""
    pace_uncertainty: float
    """How far the bounds of their mean are apart, as a share of it."""
    facts: SessionFacts | None
    """From its span; None: the span has none, and they have to be derived."""

    @property
    def start(self) -> int:
        """Unix time (ns) of the request."""
        return self.summary.request_unix_ns

    @property
    def end(self) -> int:
        """Unix time (ns) of the end of the stream."""
        return self.start + max(round(self.summary.duration * SECOND), 1)

    def with_facts(self, facts: SessionFacts) -> _Request:
        """Return the request with the session's state at its end."""
        return self._replace(summary=replace(self.summary, **facts._asdict()), facts=facts)


def _request(stream: StoredStream, stalls: int, verdict: Verdict | None) -> _Request:
    """Take what a summary needs from a stream; facts that its span lacks are filled in once all requests are known."""
    measures, facts = stream.measures, stream.span_facts.session
    summary = RequestSummary(
        request_index=0,
        request_unix_ns=stream.timeline.request_unix_ns,
        provider=stream.provider,
        model=stream.model,
        outcome=stream.timeline.outcome.value,
        duration=measures.duration,
        decode_time=stream.timeline.output_duration,
        time_to_first_token=measures.time_to_first_token,
        time_to_first_token_uncertainty=find_error(measures, "time_to_first_token"),
        itl_p50=measures.itl_p50,
        itl_p99=measures.itl_p99,
        itl_p99_uncertainty=find_error(measures, "itl_p99"),
        itl_p99_uncertainty_above=find_error(measures, "itl_p99", is_above=True),
        itl_mean=measures.itl_mean,
        stalls=stalls,
        slo_met=None if verdict in {None, Verdict.NOT_KNOWN} else verdict is Verdict.MET,
        slo_verdict=None if verdict is None else verdict.value,
        latency_ratio=None,
        degraded=False,
        scope=None,
        trace_id=stream.trace_id,
        span_id=stream.span_id,
    )
    request = _Request(summary, measures.upstream_samples.nanoseconds, measures.pace_uncertainty, None)
    return request if facts is None else request.with_facts(facts)


def _derive_facts(requests_by_session: dict[str, list[_Request]]) -> dict[str, list[_Request]]:
    """Replay all requests in order of time, as one process would have seen them, to fill in the missing facts."""
    now = 0
    sessions: Sessions = Sessions(limit=len(requests_by_session), clock=lambda: now)
    running: dict[int, TrackedRequest] = {}
    derived: dict[str, list[_Request]] = {}
    pairs = [(session, request) for session, requests in requests_by_session.items() for request in requests]
    pairs.sort(key=lambda pair: pair[1].start)
    starts = ((request.start, 1, session, request) for session, request in pairs)
    ends = ((request.end, 0, session, request) for session, request in sorted(pairs, key=lambda pair: pair[1].end))
    for now, is_start, session, request in merge(starts, ends, key=lambda event: event[:2]):  # noqa: B007 - the clock
        if is_start:
            running[id(request.summary)] = sessions.begin_request(session, request.summary.model)
            continue
        summary = request.summary
        status = running.pop(id(summary)).end(
            request.pace,
            uncertainty=request.pace_uncertainty,
            stall_count=summary.stalls,
            decode_duration=summary.decode_time,
        )
        scope = None if status.scope is None else status.scope.value
        facts = SessionFacts(status.request_index, status.latency_ratio, status.is_degraded, scope)
        derived.setdefault(session, []).append(request if request.facts is not None else request.with_facts(facts))
    return derived


def _summary(session: str, requests: Sequence[_Request]) -> SessionSummary:
    """Summarize the requests of one session."""
    summaries = [request.summary for request in sorted(requests, key=lambda request: request.start)]
    samples = sorted(sample for request in requests for sample in request.pace)
    has_percentiles = len(samples) > 1
    since, until = _last_degradation(summaries)
    return SessionSummary(
        session=session,
        requests=summaries,
        itl_p50=percentile(samples, 50) / SECOND if has_percentiles else None,
        itl_p99=percentile(samples, 99) / SECOND if has_percentiles else None,
        itl_requests=sum(len(request.pace) > 0 for request in requests),
        decode_time=sum(summary.decode_time for summary in summaries),
        stalls=sum(summary.stalls for summary in summaries),
        latency_ratio=next((one.latency_ratio for one in reversed(summaries) if one.latency_ratio is not None), None),
        degraded_since=since,
        degraded_until=until,
    )


def _last_degradation(requests: Sequence[RequestSummary]) -> tuple[int | None, int | None]:
    """Return the indexes of the first and the last request of the last degradation; no last where it still lasts."""
    runs = [(degraded, list(run)) for degraded, run in groupby(requests, key=lambda request: request.degraded)]
    last = next((run for degraded, run in reversed(runs) if degraded), None)
    if last is None:
        return None, None
    return last[0].request_index, None if runs[-1][0] else last[-1].request_index
