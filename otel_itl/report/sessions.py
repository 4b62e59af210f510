"""The sessions of a report: their requests in order of time, and whether tokens came slower than they used to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from difflib import get_close_matches
from heapq import merge
from itertools import groupby
from typing import Any, NamedTuple

from otel_itl.core.percentiles import percentile
from otel_itl.core.sessions import Sessions, TrackedRequest
from otel_itl.core.timeline import SECOND, Timeline
from otel_itl.report.reading.span_facts import Standing
from otel_itl.report.reading.streams import Stream

MOST_COMPARED = 10_000
"""Sessions that are looked at for one that is called alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest:
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
    itl_p50: float | None
    itl_p99: float | None
    itl_mean: float | None
    stalls: int
    latency_ratio: float | None
    """Its ITL over the session's own baseline for the model."""
    degraded: bool
    """With it, the session is slower than it was."""
    scope: str | None
    """Who degrades then: `session` or `model`."""
    trace_id: str
    span_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """One session."""

    session: str
    requests: Sequence[SessionRequest]
    """In order of time."""
    itl_p50: float | None
    """Of every gap of every request, as is `itl_p99`."""
    itl_p99: float | None
    decode_time: float
    """Summed over the requests: what an agent's chain of requests takes."""
    stalls: int
    latency_ratio: float | None
    """Of the last request that has one."""
    degraded_since: int | None
    """Index of the request with which it last became slower than it was; None: it never did."""
    degraded_until: int | None
    """Index of the last request before it recovered; None: it never degraded, or still is."""


class UnknownSessionError(Exception):
    """There is no such session; the message is one sentence that names those which are called alike."""


class SessionTable:
    """Takes streams in. What stays is 8 bytes for each latency sample of those that belong to a session."""

    def __init__(self) -> None:
        self._kept: dict[str, list[_Kept]] = {}

    def add(self, stream: Stream, stalls: int) -> None:
        """Take a stream in, if it belongs to a session."""
        if stream.told.session is not None:
            self._kept.setdefault(stream.told.session, []).append(_kept(stream, stalls))

    def rows(self) -> list[SessionRow]:
        """One for each session: those that have degraded first, then by how slow they have become."""
        for kept in self._kept.values():
            kept.sort(key=lambda one: one.request.request_unix_ns)
        if any(one.standing is None for kept in self._kept.values() for one in kept):
            self._kept = _judged(self._kept)
        rows = [_row(session, kept) for session, kept in self._kept.items()]
        return sorted(rows, key=lambda row: (row.degraded_since is None, -(row.latency_ratio or 0.0), row.session))


def find(rows: Sequence[SessionRow], session: str) -> SessionRow:
    """The session of that id.

    Raises:
        UnknownSessionError: there is none.
    """
    found = next((row for row in rows if row.session == session), None)
    if found is not None:
        return found
    if not rows:
        raise UnknownSessionError(f"there is no session {session!r}: no stream belongs to any.")
    alike = get_close_matches(session, [row.session for row in rows[:MOST_COMPARED]])
    if alike:
        raise UnknownSessionError(f"there is no session {session!r}: did you mean {' or '.join(map(repr, alike))}?")
    others = f"is one, {rows[0].session!r}" if len(rows) == 1 else f"are {len(rows):,}, such as {rows[0].session!r}"
    raise UnknownSessionError(f"there is no session {session!r}: there {others}.")


def as_data(row: SessionRow, *, whole: bool = False) -> dict[str, Any]:
    """In types of JSON, with the number of its requests in place of them, or `whole`."""
    data: dict[str, Any] = {field.name: getattr(row, field.name) for field in fields(row)}
    data["requests"] = [asdict(request) for request in row.requests] if whole else len(row.requests)
    return data | {"itl_mean_by_request": [request.itl_mean for request in row.requests]}


class _Kept(NamedTuple):
    """One request until all are known."""

    request: SessionRequest
    samples: Sequence[float]
    pace: Sequence[float]
    standing: Standing | None

    @property
    def end(self) -> int:
        return self.request.request_unix_ns + max(round(self.request.duration * SECOND), 1)


def _kept(stream: Stream, stalls: int) -> _Kept:
    measures, standing = stream.measures, stream.told.standing
    request = SessionRequest(
        request_index=0,
        request_unix_ns=stream.timeline.request_unix_ns,
        provider=stream.provider,
        model=stream.model,
        outcome=stream.timeline.outcome.value,
        duration=measures.duration,
        decode_time=_decode_time(stream.timeline),
        time_to_first_token=measures.time_to_first_token,
        itl_p50=measures.itl_p50,
        itl_p99=measures.itl_p99,
        itl_mean=measures.itl_mean,
        stalls=stalls,
        latency_ratio=None,
        degraded=False,
        scope=None,
        trace_id=stream.trace_id,
        span_id=stream.span_id,
    )
    told = request if standing is None else replace(request, **standing._asdict())
    return _Kept(told, measures.itl_samples.nanoseconds, measures.upstream_samples.nanoseconds, standing)


def _decode_time(timeline: Timeline) -> float:
    first, last = timeline.output_bounds
    return (timeline.arrived[last] - timeline.arrived[first]) / SECOND if first >= 0 else 0.0


def _judged(table: dict[str, list[_Kept]]) -> dict[str, list[_Kept]]:
    """With a standing for each: where the span does not tell it, as one process that saw all requests would have."""
    now = 0
    sessions = Sessions(limit=len(table), clock=lambda: now)
    turns: dict[int, TrackedRequest] = {}
    judged: dict[str, list[_Kept]] = {}
    ordered = sorted(((session, one) for session, kept in table.items() for one in kept), key=_begun)
    starts = ((one.request.request_unix_ns, 1, session, one) for session, one in ordered)
    ends = ((one.end, 0, session, one) for session, one in sorted(ordered, key=lambda pair: pair[1].end))
    for now, begins, session, one in merge(starts, ends, key=lambda event: event[:2]):  # noqa: B007 - the clock
        if begins:
            turns[id(one.request)] = sessions.begin_request(session, one.request.model)
            continue
        turn = turns.pop(id(one.request))
        samples = one.pace
        found = turn.end(samples, stall_count=one.request.stalls, decode_duration=one.request.decode_time)
        standing = one.standing or Standing(
            found.request_index,
            found.latency_ratio,
            found.is_degraded,
            None if found.scope is None else found.scope.value,
        )
        judged.setdefault(session, []).append(
            one._replace(request=replace(one.request, **standing._asdict()), standing=standing)
        )
    return {session: sorted(kept, key=lambda one: one.request.request_unix_ns) for session, kept in judged.items()}


def _begun(pair: tuple[str, _Kept]) -> int:
    return pair[1].request.request_unix_ns


def _row(session: str, kept: Sequence[_Kept]) -> SessionRow:
    requests = [one.request for one in kept]
    samples = sorted(sample for one in kept for sample in one.samples)
    pooled = len(samples) > 1
    since, until = _degraded(requests)
    return SessionRow(
        session=session,
        requests=requests,
        itl_p50=percentile(samples, 50) / SECOND if pooled else None,
        itl_p99=percentile(samples, 99) / SECOND if pooled else None,
        decode_time=sum(request.decode_time for request in requests),
        stalls=sum(request.stalls for request in requests),
        latency_ratio=next((one.latency_ratio for one in reversed(requests) if one.latency_ratio is not None), None),
        degraded_since=since,
        degraded_until=until,
    )


def _degraded(requests: Sequence[SessionRequest]) -> tuple[int | None, int | None]:
    """From which request to which the session was degraded last."""
    runs = [(degraded, list(run)) for degraded, run in groupby(requests, key=lambda request: request.degraded)]
    last = next((run for degraded, run in reversed(runs) if degraded), None)
    if last is None:
        return None, None
    return last[0].request_index, None if runs[-1][0] else last[-1].request_index
