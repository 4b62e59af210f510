"""Token events, as `encoding.py` makes them → timeline."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import lt, sub
from typing import Any, Protocol

from otel_itl.core import conventions as names
from otel_itl.core.encoding import FACTS
from otel_itl.core.timeline import MICROSECOND, Outcome, Timeline


class MalformedEventsError(ValueError):
    """No timeline can be read from token events; the message names what is missing or wrong."""


class SpanLike(Protocol):
    """A span whose events can be read, such as OpenTelemetry's `ReadableSpan`."""

    @property
    def events(self) -> Sequence[Any]:
        """The events of the span, each with `name`, `timestamp` (Unix nanoseconds) and `attributes`."""


def read_timeline(source: SpanLike | Iterable[tuple[str, int, Mapping[str, Any]]]) -> Timeline:
    """Read a stream's timeline back from the token events of its span, in whichever form they are.

    Args:
        source: a finished span, or its events: name, Unix time in nanoseconds and attributes of each. Events of other
            names are ignored.

    Raises:
        MalformedEventsError: an event is missing, or its attributes do not make a timeline.
    """
    if isinstance(source, Iterable):
        return decode(source)
    return decode((event.name, event.timestamp, event.attributes or {}) for event in source.events)


def decode(events: Iterable[tuple[str, int, Mapping[str, Any]]]) -> Timeline:
    """Decode token events, in either form, to a timeline; events of other names are ignored.

    Args:
        events: name, Unix time in nanoseconds and attributes of each event.

    Raises:
        MalformedEventsError: no token event with the facts of the stream, missing chunks, or attributes that do not fit
            together.
    """
    packed: list[Mapping[str, Any]] = []
    single: list[tuple[int, Mapping[str, Any]]] = []
    facts: Mapping[str, Any] | None = None
    for name, unix_ns, attributes in events:
        if name == names.TOKENS_EVENT:
            packed.append(attributes)
            if names.STREAM_OUTCOME in attributes:
                facts = attributes
        elif name == names.TOKEN_EVENT:
            single.append((unix_ns, attributes))
    if facts is None:
        message = (
            f"no {names.TOKENS_EVENT} event holds {names.STREAM_OUTCOME}: the stream's last token event is missing."
        )
        raise MalformedEventsError(message)
    try:
        timeline = _unpack(packed, facts)
        if single:
            timeline = _merge_chunk_events(timeline, single, facts)
        recorded = _check_count(facts[names.TOKENS_RECORDED])
    except MalformedEventsError:
        raise
    except (TypeError, ValueError, OverflowError, KeyError, IndexError, AttributeError) as error:
        message = f"token events do not make a timeline: {_describe_misfit(error)}."
        raise MalformedEventsError(message) from error
    if len(timeline) != recorded:
        message = f"token events hold {len(timeline)} of {recorded} chunks: some were lost."
        raise MalformedEventsError(message)
    return timeline


def _describe_misfit(error: Exception) -> str:
    """Return what is wrong with the attributes, in words of telemetry rather than in Python's."""
    key = error.args[0] if isinstance(error, KeyError) and error.args else None
    if isinstance(key, str):
        return f"{key} is missing"
    if isinstance(key, int):
        return f"chunk {key} is missing"
    return "an attribute holds a value of another type or range than its definition"


def _decode_runs(runs: Sequence[int], chunks: int) -> bytes:
    """Decode the runs of `encode_runs`.

    Raises:
        MalformedEventsError: they are not the kinds of `chunks` chunks.
    """
    if sum(runs[1::2]) != chunks or len(runs) % 2 or min(runs, default=0) < 0:
        message = f"{names.TOKENS_KINDS} does not hold the kinds of {chunks} chunks."
        raise MalformedEventsError(message)
    return b"".join(bytes([kind]) * count for kind, count in zip(runs[::2], runs[1::2], strict=True))


def _check_count(value: object) -> int:
    """Return a whole number from 0 as it is.

    Raises:
        MalformedEventsError: it is something else.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    message = f"{value!r} is no whole number from 0."
    raise MalformedEventsError(message)


def _check_outcome(value: object) -> Outcome:
    """Return the outcome of this name.

    Raises:
        MalformedEventsError: there is none.
    """
    found = next((outcome for outcome in Outcome if outcome.value == value), None)
    if found is None:
        message = f"{names.STREAM_OUTCOME} {value!r} is none of {', '.join(outcome.value for outcome in Outcome)}."
        raise MalformedEventsError(message)
    return found


def _unpack(packed: list[Mapping[str, Any]], facts: Mapping[str, Any]) -> Timeline:
    """Make a timeline from the attributes of `itl.tokens` events; raises what does not fit, for `decode` to report."""

    def join(name: str) -> Iterator[int]:
        for attributes in packed:
            yield from attributes.get(name) or ()

    arrived = array("q", (offset * MICROSECOND for offset in join(names.TOKENS_OFFSETS)))
    waits = array("q", (wait * MICROSECOND for wait in join(names.TOKENS_WAITS)))
    lateness = array("q", (late * MICROSECOND for late in join(names.TOKENS_LATENESS)))
    if len(arrived) != len(waits):
        message = f"{len(arrived)} {names.TOKENS_OFFSETS} beside {len(waits)} {names.TOKENS_WAITS}."
        raise MalformedEventsError(message)
    if min(waits, default=0) < 0 or min(lateness, default=0) < 0 or any(map(lt, arrived, (0, *arrived))):
        message = f"{names.TOKENS_OFFSETS} that fall, or {names.TOKENS_WAITS} or {names.TOKENS_LATENESS} below zero."
        raise MalformedEventsError(message)
    headers = facts.get(names.STREAM_HEADERS)
    facts_given: dict[str, Any] = {
        field: _check_count(facts[attribute]) for attribute, field in FACTS.items() if attribute in facts
    }
    return Timeline(
        asked=array("q", map(sub, arrived, waits)),
        arrived=arrived,
        kinds=_decode_runs(list(join(names.TOKENS_KINDS)), len(arrived)),
        tokens=array("I", join(names.TOKENS_COUNTS)),
        choices=bytes(join(names.TOKENS_CHOICES)),
        lateness=lateness,
        skipped=array("I", join(names.TOKENS_SKIPPED)),
        unrecorded=_check_count(facts.get(names.TOKENS_UNRECORDED, 0)),
        headers=None if headers is None else _check_count(headers) * MICROSECOND,
        end=_check_count(facts[names.STREAM_END]) * MICROSECOND,
        outcome=_check_outcome(facts[names.STREAM_OUTCOME]),
        is_reasoning_partial=facts.get(names.REASONING_PARTIAL) is True,
        **facts_given,
    )


def _merge_chunk_events(
    rest: Timeline, single: list[tuple[int, Mapping[str, Any]]], facts: Mapping[str, Any]
) -> Timeline:
    """Insert the output chunks of the form `each`, from their own events, between the other chunks of a timeline."""
    rows = dict(zip(facts.get(names.TOKENS_INDEXES) or (), _zip_chunks(rest), strict=True))
    for unix_ns, attributes in single:
        if attributes[names.TOKEN_INDEX] in rows:
            message = f"two chunks with {names.TOKEN_INDEX} {attributes[names.TOKEN_INDEX]}."
            raise MalformedEventsError(message)
        arrived = unix_ns - rest.request_unix_ns
        rows[attributes[names.TOKEN_INDEX]] = (
            arrived - attributes[names.TOKEN_WAIT] * MICROSECOND,
            arrived,
            attributes[names.TOKEN_KIND],
            attributes.get(names.TOKEN_COUNT, 0),
            attributes.get(names.TOKEN_CHOICE, 0),
            _check_count(attributes.get(names.TOKEN_LATENESS, 0)) * MICROSECOND,
        )
    asked, arrivals, kinds, tokens, choices, lateness = zip(*(rows[index] for index in range(len(rows))), strict=True)
    has_counts, has_choices, has_lateness = (
        any(name in attributes for _, attributes in single)
        for name in (names.TOKEN_COUNT, names.TOKEN_CHOICE, names.TOKEN_LATENESS)
    )
    return replace(
        rest,
        asked=array("q", asked),
        arrived=array("q", arrivals),
        kinds=bytes(kinds),
        tokens=array("I", tokens if has_counts else ()),
        choices=bytes(choices) if has_choices else b"",
        lateness=array("q", lateness if has_lateness else ()),
    )


def _zip_chunks(timeline: Timeline) -> Iterator[tuple[int, ...]]:
    """Yield asked, arrived, kind, tokens, choice and lateness of each chunk; 0 for each that is not recorded."""
    optional = (timeline.tokens, timeline.choices, timeline.lateness)
    none = (0,) * len(timeline)
    return zip(timeline.asked, timeline.arrived, timeline.kinds, *(each or none for each in optional), strict=True)
