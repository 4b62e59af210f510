"""What a span says of its stream beside the token events: stalls with their cause, the objective, the session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from otel_itl import conventions as names


@dataclass(frozen=True, slots=True)
class Stall:
    """One stall, or several of which no more is known."""

    phase: str | None
    cause: str | None
    """None: nobody knows whose it was."""
    count: int
    duration: float
    """Seconds, summed up."""
    longest: float


class Objective(NamedTuple):
    """The objective that a stream was held against while it was measured."""

    profile: str
    met: bool
    ttft: float | None
    """Told only of a stream that missed its objective, as is `itl`."""
    itl: float | None


class Standing(NamedTuple):
    """How a session stands with one of its requests."""

    request_index: int
    latency_ratio: float | None
    degraded: bool
    scope: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanFacts:
    """None: the span says nothing of it. An attribute of another type than ours is none."""

    session: str | None = None
    standing: Standing | None = None
    objective: Objective | None = None
    stalls: Sequence[Stall] | None = None


NOTHING = SpanFacts()


def told(attributes: Mapping[str, Any], stall_events: Sequence[Mapping[str, Any]] = ()) -> SpanFacts:
    """Read the attributes of a span, and those of its `itl.stall` events."""
    return SpanFacts(
        session=session_of(attributes),
        standing=_standing(attributes),
        objective=_objective(attributes),
        stalls=_stalls(attributes, stall_events),
    )


def session_of(attributes: Mapping[str, Any]) -> str | None:
    """`session.id`, or what else the conventions call it."""
    return _text(attributes, names.SESSION_ID) or _text(attributes, names.CONVERSATION_ID)


def _standing(attributes: Mapping[str, Any]) -> Standing | None:
    index = _number(attributes, names.SESSION_REQUEST_INDEX)
    if index is None:
        return None
    return Standing(
        request_index=int(index),
        latency_ratio=_number(attributes, names.SESSION_LATENCY_RATIO),
        degraded=attributes.get(names.SESSION_DEGRADED) is True,
        scope=_text(attributes, names.SESSION_DEGRADATION_SCOPE),
    )


def _objective(attributes: Mapping[str, Any]) -> Objective | None:
    profile = _text(attributes, names.SLO_PROFILE)
    if profile is None:
        return None
    return Objective(
        profile=profile,
        met=attributes.get(names.SLO_MET) is not False,
        ttft=_number(attributes, names.SLO_TTFT),
        itl=_number(attributes, names.SLO_ITL),
    )


def _stalls(attributes: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> list[Stall] | None:
    count = _number(attributes, names.STALL_COUNT)
    if count is None:
        return None
    stalls = [
        Stall(_text(event, names.STALL_PHASE), _text(event, names.STALL_CAUSE), 1, duration, duration)
        for event in events
        if (duration := _number(event, names.STALL_DURATION)) is not None
    ]
    more = int(count) - len(stalls)
    if more > 0:
        # The span tells of the first few one by one, and of all of them in sum.
        known, longest = sum(stall.duration for stall in stalls), max((stall.longest for stall in stalls), default=0.0)
        rest = max((_number(attributes, names.STALL_TOTAL_DURATION) or 0.0) - known, 0.0)
        most = _number(attributes, names.STALL_MAX) or 0.0
        stalls.append(Stall(None, None, more, rest, most if most > longest else min(rest, longest)))
    return stalls


def _text(attributes: Mapping[str, Any], name: str) -> str | None:
    value = attributes.get(name)
    return value if isinstance(value, str) and value else None


def _number(attributes: Mapping[str, Any], name: str) -> float | None:
    value = attributes.get(name)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
