"""Summarizes sessions: their requests in order of time, and whether tokens came slower than at the beginning."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain, groupby

from otel_itl.core.measures import Measures
from otel_itl.core.percentiles import percentile
from otel_itl.core.sessions import Sessions, TrackedRequest
from otel_itl.core.timeline import SECOND
from otel_itl.tools.command_error import CommandError
from otel_itl.tools.report.reading.span_facts import SessionFacts
from otel_itl.tools.report.reading.streams import StoredStream
from otel_itl.tools.report.set_aside import find_set_aside_cause
from otel_itl.tools.report.slo import Verdict

MAX_COMPARED = 10_000
"""Sessions whose ids are compared with one that does not exist."""
NO_STATE = SessionFacts(request_index=0, latency_ratio=None, degraded=False, scope=None)
"""Of a session at the end of a request whose span does not have it."""


@dataclass(slots=True, kw_only=True)
class RequestSummary:
    """One request of a session: its stream without the chunks."""

    request_unix_ns: int
    provider: str
    model: str
    outcome: str
    measures: Measures
    decode_time: float
    """Seconds from the first to the last token."""
    stalls: int
    slo_verdict: Verdict | None
    """None: it has no SLO, or there is too little to judge by."""
    trace_id: str
    span_id: str
    is_pace_pooled: bool
    """Its gaps are in those of the session: it is not set aside from the ITL."""
    state: SessionFacts
    """Of the session at its end; `NO_STATE` until it is known."""

    @property
    def end(self) -> int:
        """Unix time (ns) of the end of the stream."""
        return self.request_unix_ns + max(round(self.measures.duration * SECOND), 1)

    @property
    def pace(self) -> Sequence[float]:
        """ITL samples (ns), where they show the upstream's pace."""
        return self.measures.upstream_samples.nanoseconds


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
    """Requests that these are of: those that are not set aside from the ITL (`set_aside`)."""
    itl_samples: int
    """Gaps that these are of."""
    decode_time: float
    """Summed over the requests: the time that an agent's chain of requests takes."""
    stalls: int
    latency_ratio: float | None
    """Of the last request that has one."""
    degraded_since: int | None
    """Index of the request with which the last degradation began; None: there was none."""
    degraded_until: int | None
    """Index of the last request before the recovery; None: there was no degradation, or it lasts."""


class UnknownSessionError(CommandError):
    """There is no such session; the message is one sentence that names similar ids."""


class SessionCollector:
    """Collects the streams that belong to a session. It keeps 8 bytes for each of their latency samples."""

    def __init__(self) -> None:
        self._requests: defaultdict[str, list[RequestSummary]] = defaultdict(list)

    def add(self, stream: StoredStream, stalls: int, verdict: Verdict | None = None) -> None:
        """Add a stream with its number of stalls and whether it met its SLO, if it belongs to a session."""
        facts = stream.span_facts
        if facts.session_id is None:
            return
        request = RequestSummary(
            request_unix_ns=stream.timeline.request_unix_ns,
            provider=stream.provider,
            model=stream.model,
            outcome=stream.timeline.outcome.value,
            measures=stream.measures,
            decode_time=stream.timeline.output_duration,
            stalls=stalls,
            slo_verdict=verdict,
            trace_id=stream.trace_id,
            span_id=stream.span_id,
            is_pace_pooled=find_set_aside_cause(stream, "itl_p99") is None,
            state=facts.session or NO_STATE,
        )
        self._requests[facts.session_id].append(request)

    def summaries(self) -> list[SessionSummary]:
        """Return a summary for each session: first those that have degraded, then by latency ratio."""
        for requests in self._requests.values():
            requests.sort(key=lambda request: request.request_unix_ns)
        if any(request.state is NO_STATE for requests in self._requests.values() for request in requests):
            _derive_states(self._requests)
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


def _derive_states(requests_by_session: Mapping[str, Sequence[RequestSummary]]) -> None:
    """Replay all requests in order of time, as one process would have seen them, to fill in the missing states."""
    now = 0
    sessions: Sessions = Sessions(limit=len(requests_by_session), clock=lambda: now)
    running: dict[int, TrackedRequest] = {}
    pairs = [(session, request) for session, requests in requests_by_session.items() for request in requests]
    starts = [(request.request_unix_ns, 1, session, request) for session, request in pairs]
    ends = [(request.end, 0, session, request) for session, request in pairs]
    for now, is_start, session, request in sorted(starts + ends, key=lambda event: event[:2]):  # noqa: B007 - the clock
        if is_start:
            running[id(request)] = sessions.begin_request(session, request.model)
            continue
        status = running.pop(id(request)).end(
            request.pace,
            uncertainty=request.measures.pace_uncertainty,
            stall_count=request.stalls,
            decode_duration=request.decode_time,
        )
        if request.state is NO_STATE:
            scope = None if status.scope is None else status.scope.value
            request.state = SessionFacts(status.request_index, status.latency_ratio, status.is_degraded, scope)


def _summary(session: str, requests: Sequence[RequestSummary]) -> SessionSummary:
    """Summarize the requests of one session, which are in order of time."""
    pooled = [request.pace for request in requests if request.is_pace_pooled and request.pace]
    samples = sorted(chain.from_iterable(pooled))
    has_percentiles = len(samples) > 1
    ratios = [request.state.latency_ratio for request in requests if request.state.latency_ratio is not None]
    since, until = _last_degradation([request.state for request in requests])
    return SessionSummary(
        session=session,
        requests=requests,
        itl_p50=percentile(samples, 50) / SECOND if has_percentiles else None,
        itl_p99=percentile(samples, 99) / SECOND if has_percentiles else None,
        itl_requests=len(pooled),
        itl_samples=len(samples),
        decode_time=sum(request.decode_time for request in requests),
        stalls=sum(request.stalls for request in requests),
        latency_ratio=ratios[-1] if ratios else None,
        degraded_since=since,
        degraded_until=until,
    )


def _last_degradation(states: Sequence[SessionFacts]) -> tuple[int | None, int | None]:
    """Return the indexes of the first and the last request of the last degradation; no last where it still lasts."""
    runs = [(degraded, list(run)) for degraded, run in groupby(states, key=lambda state: state.degraded)]
    last = next((run for degraded, run in reversed(runs) if degraded), None)
    if last is None:
        return None, None
    return last[0].request_index, None if runs[-1][0] else last[-1].request_index
