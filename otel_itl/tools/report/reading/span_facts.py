"""Reads what only a span knows of its stream: the cause of stalls, the SLO in force, the session, and who answered."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple

from otel_itl.core import conventions as names


@dataclass(frozen=True, slots=True)
class StallFacts:
    """One stall, or several of which only the count and the total are known. Times are seconds."""

    phase: str | None
    cause: str | None
    """None: unknown."""
    count: int
    duration: float
    """Of all of them together."""
    longest: float
    start: float | None = None
    """When the consumer began to wait, after the request; None: not known, or several stalls."""
    is_alive: bool = False
    """Pings or empty chunks arrived during it."""


class SLOFacts(NamedTuple):
    """The SLO in force while the stream was measured. Times are seconds."""

    profile: str
    is_met: bool | None
    """None: the stream could not be judged."""
    ttft: float | None
    """Objective for TTFT; as `itl`, on the span only where the SLO was missed."""
    itl: float | None
    fluidity: float | None
    """Etalon's fluidity index of the stream."""


class SessionFacts(NamedTuple):
    """The state of a session at the end of one of its requests."""

    request_index: int
    latency_ratio: float | None
    degraded: bool
    scope: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanFacts:
    """The facts of one span. None: not on the span. An attribute of an unexpected type counts as missing."""

    session_id: str | None = None
    session: SessionFacts | None = None
    slo: SLOFacts | None = None
    stalls: Sequence[StallFacts] | None = None
    host_delay: float | None = None
    """Seconds in which the reader of the stream was ready to run and got no CPU."""
    error_type: str | None = None
    is_host_bound: bool = False
    is_consumer_bound: bool = False
    """Also where other threads of its process kept the reader from running, which no timeline shows."""
    server_durations: Mapping[str, float] = field(default_factory=dict)
    """What the server reported of its own time (s), by the keys of `conventions.SERVER_DURATIONS`."""
    server: str | None = None
    """Who answered the request: `ADDRESS:PORT`, or the address alone."""
    response_model: str | None = None
    cached_input_tokens: int | None = None
    """Tokens of the prompt that were in the cache."""
    instance: str | None = None
    """The process that made the request: `service.instance.id`, else host and process id."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """All attributes of the span and, where it lacks them, of its resource."""


NO_FACTS = SpanFacts()


def read_span_facts(
    attributes: Mapping[str, Any],
    stall_events: Sequence[Mapping[str, Any]] = (),
    resource: Mapping[str, Any] | None = None,
) -> SpanFacts:
    """Read the facts from the attributes of a span, from those of its stall events, and from those of its resource."""
    cached = _number(attributes, names.USAGE_CACHE_READ_TOKENS)
    return SpanFacts(
        attributes=ChainMap(dict(attributes), dict(resource or {})),
        server=_server(attributes),
        response_model=read_text(attributes, names.RESPONSE_MODEL),
        cached_input_tokens=None if cached is None else int(cached),
        instance=_instance(resource or {}),
        session_id=read_session_id(attributes),
        session=_session(attributes),
        slo=_slo(attributes),
        stalls=_stalls(attributes, stall_events),
        error_type=read_text(attributes, names.ERROR_TYPE),
        host_delay=_number(attributes, names.HOST_DELAY),
        is_consumer_bound=attributes.get(names.CONSUMER_BOUND) is True,
        is_host_bound=attributes.get(names.HOST_BOUND) is True,
        server_durations=_server_durations(attributes),
    )


def _server_durations(attributes: Mapping[str, Any]) -> dict[str, float]:
    """Read the server's own times, those that are there."""
    durations = {key: _number(attributes, name) for key, name in names.SERVER_DURATIONS.items()}
    return {key: seconds for key, seconds in durations.items() if seconds is not None}


def read_session_id(attributes: Mapping[str, Any]) -> str | None:
    """Read the id of the session: `session.id`, else `gen_ai.conversation.id`."""
    return read_text(attributes, names.SESSION_ID, names.CONVERSATION_ID)


def read_stall(attributes: Mapping[str, Any]) -> StallFacts | None:
    """Read one stall from the attributes of its event; None without a duration."""
    duration = _number(attributes, names.STALL_DURATION)
    if duration is None:
        return None
    phase, cause = read_text(attributes, names.STALL_PHASE), read_text(attributes, names.STALL_CAUSE)
    start, is_alive = _number(attributes, names.STALL_START), attributes.get(names.STALL_ALIVE) is True
    return StallFacts(phase, cause, 1, duration, duration, start, is_alive)


def _session(attributes: Mapping[str, Any]) -> SessionFacts | None:
    """Read the state of the session; None without a request index."""
    index = _number(attributes, names.SESSION_REQUEST_INDEX)
    if index is None:
        return None
    return SessionFacts(
        request_index=int(index),
        latency_ratio=_number(attributes, names.SESSION_LATENCY_RATIO),
        degraded=attributes.get(names.SESSION_DEGRADED) is True,
        scope=read_text(attributes, names.SESSION_DEGRADATION_SCOPE),
    )


def _slo(attributes: Mapping[str, Any]) -> SLOFacts | None:
    """Read the SLO; None without a profile."""
    profile = read_text(attributes, names.SLO_PROFILE)
    if profile is None:
        return None
    return SLOFacts(
        profile=profile,
        is_met=met if isinstance(met := attributes.get(names.SLO_MET), bool) else None,
        ttft=_number(attributes, names.SLO_TTFT),
        itl=_number(attributes, names.SLO_ITL),
        fluidity=_number(attributes, names.SLO_FLUIDITY),
    )


def _server(attributes: Mapping[str, Any]) -> str | None:
    """Read who answered; None: not known."""
    address, port = read_text(attributes, names.SERVER_ADDRESS), _number(attributes, names.SERVER_PORT)
    return address if address is None or port is None else f"{address}:{port:.0f}"


def _instance(resource: Mapping[str, Any]) -> str | None:
    """Read the identity of the process from the attributes of the resource; None where they do not have it."""
    instance, process = read_text(resource, "service.instance.id"), _number(resource, "process.pid")
    if instance is not None or process is None:
        return instance
    return f"{resource.get('host.name', '')} {process:.0f}"


def _stalls(attributes: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> list[StallFacts] | None:
    """Read the stalls from a span's stall events and its totals; None without a stall count."""
    count = _number(attributes, names.STALL_COUNT)
    if count is None:
        return None
    stalls = [stall for stall in map(read_stall, events) if stall is not None]
    more = int(count) - len(stalls)
    if more > 0:
        # A span has an event for each of the first few stalls only; its attributes sum up all of them.
        known, longest = sum(stall.duration for stall in stalls), max((stall.longest for stall in stalls), default=0.0)
        rest = max((_number(attributes, names.STALL_TOTAL_DURATION) or 0.0) - known, 0.0)
        longest_of_all = _number(attributes, names.STALL_MAX) or 0.0
        longest_of_rest = longest_of_all if longest_of_all > longest else min(rest, longest)
        stalls.append(StallFacts(None, None, more, rest, longest_of_rest))
    return stalls


def format_attribute(value: object) -> str:
    """Return the value of an attribute as text, as people name it on the command line: booleans as in JSON."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_text(attributes: Mapping[str, Any], *candidates: str) -> str | None:
    """Read the first of these attributes that is a text, and not empty; None: none of them is."""
    found = (attributes.get(name) for name in candidates)
    return next((value for value in found if isinstance(value, str) and value), None)


def _number(attributes: Mapping[str, Any], name: str) -> float | None:
    """Return the number that an attribute has; None: it has none, or only NaN or an infinity."""
    value = attributes.get(name)
    if isinstance(value, float):
        return value if isfinite(value) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
