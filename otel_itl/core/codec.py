"""Timeline ⇄ token events, which are what a span or a log carries of a stream.

A stream is a few `itl.tokens` events with parallel integer arrays (kinds as runs), the last of which also holds the
facts of the whole stream; or, in the form `each`, one `itl.token` event per output chunk and one `itl.tokens` event
with the rest. The timeline is read back from the events alone, whatever span or log carried them.

A recorded timeline has a resolution of one microsecond, so `decode(encode(timeline)) == timeline`, up to `MAX_CHUNKS`.
Beyond that the tail is thinned.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress, repeat
from operator import attrgetter, floordiv, is_not, lt, sub
from typing import Any, Final, NamedTuple, Protocol

from otel_itl.core import conventions as names
from otel_itl.core.columns import FEW, Columns, LaneError
from otel_itl.core.thinning import select_chunks, thin
from otel_itl.core.timeline import MICROSECOND, OUTPUT, Outcome, Timeline

CHUNKS_PER_EVENT = 1_024

_FACTS: Final = {
    names.STREAM_REQUEST_TIME: "request_unix_ns",
    names.USAGE_INPUT_TOKENS: "input_tokens",
    names.USAGE_OUTPUT_TOKENS: "output_tokens",
    names.USAGE_REASONING_TOKENS: "reasoning_tokens",
    names.REQUEST_ATTEMPTS: "attempts",
}
"""Attribute → the field of `Timeline` that it carries, without conversion."""
_values_of_facts = attrgetter(*_FACTS.values())


class TokenEvent(NamedTuple):
    """One event of a stream's timeline, as it goes on a span or into a log."""

    name: str
    unix_ns: int
    attributes: dict[str, Any]


class LazyEvent(NamedTuple):
    """A `TokenEvent` whose attributes are made when they are read, which may be in another thread, or never."""

    name: str
    unix_ns: int
    make_attributes: Callable[[], dict[str, Any]]


class MalformedEventsError(ValueError):
    """No timeline can be read from token events; the message names what is missing or wrong."""


class SpanLike(Protocol):
    """A span whose events can be read, such as OpenTelemetry's `ReadableSpan`."""

    @property
    def events(self) -> Sequence[Any]:
        """The events of the span, each with `name`, `timestamp` (Unix nanoseconds) and `attributes`."""


def encode(timeline: Timeline, event_limit: int = 128) -> list[TokenEvent]:
    """Encode a timeline as `itl.tokens` events: one per 1,024 chunks, and no more than a quarter of `event_limit`."""
    return [
        TokenEvent(name, unix_ns, make_attributes())
        for name, unix_ns, make_attributes in encode_lazily(timeline, event_limit)
    ]


def encode_lazily(timeline: Timeline, event_limit: int = 128) -> list[LazyEvent]:
    """Encode a timeline as `encode` does, but leave the arrays, which are most of the work, to whatever reads them."""
    timeline = thin(timeline)
    chunks = len(timeline)
    if chunks <= CHUNKS_PER_EVENT:
        parts = [slice(0, chunks)]
    else:
        size = max(CHUNKS_PER_EVENT, -(-chunks // max(event_limit // 4, 1)))
        parts = [slice(start, min(start + size, chunks)) for start in range(0, chunks, size)]
    return [
        LazyEvent(
            names.TOKENS_EVENT,
            _find_event_time(timeline, part),
            partial(_pack, timeline, part, is_last=part is parts[-1]),
        )
        for part in parts
    ]


def encode_each(timeline: Timeline, event_limit: int = 128) -> list[TokenEvent] | None:
    """Encode a timeline as one `itl.token` event per output chunk and one `itl.tokens` event with the rest.

    None: that is more than `event_limit` events, of which a span would silently drop the oldest, or the timeline was
    thinned.
    """
    is_output = [bool(kind & OUTPUT) for kind in timeline.kinds]
    if sum(is_output) + 1 > event_limit or timeline.skipped:
        return None
    events = []
    for index in compress(range(len(is_output)), is_output):
        attributes = {
            names.TOKEN_INDEX: index,
            names.TOKEN_WAIT: (timeline.arrived[index] - timeline.asked[index]) // MICROSECOND,
            names.TOKEN_KIND: timeline.kinds[index],
        }
        if timeline.lateness:
            attributes[names.TOKEN_LATENESS] = timeline.lateness[index] // MICROSECOND
        if timeline.tokens:
            attributes[names.TOKEN_COUNT] = timeline.tokens[index]
        if timeline.choices:
            attributes[names.TOKEN_CHOICE] = timeline.choices[index]
        events.append(TokenEvent(names.TOKEN_EVENT, timeline.request_unix_ns + timeline.arrived[index], attributes))
    others = [index for index, output in enumerate(is_output) if not output]
    rest = _pack(select_chunks(timeline, others), slice(None))
    if others:
        rest[names.TOKENS_INDEXES] = others
    rest.update(_pack_facts(timeline))
    return [*events, TokenEvent(names.TOKENS_EVENT, timeline.request_unix_ns + timeline.end, rest)]


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
        MalformedEventsError: no token event with the facts of the stream, or attributes that do not fit together.
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


def encode_runs(kinds: bytes) -> list[int]:
    """Encode kinds as runs, `[kind, count, kind, count, …]`: most streams have a handful."""
    runs: list[int] = []
    while kinds:
        rest = kinds.lstrip(kinds[:1])
        runs += (kinds[0], len(kinds) - len(rest))
        kinds = rest
    return runs


def _decode_runs(runs: Sequence[int], chunks: int) -> bytes:
    """Decode the runs of `encode_runs`.

    Raises:
        MalformedEventsError: they are not the kinds of `chunks` chunks.
    """
    if sum(runs[1::2]) != chunks or len(runs) % 2 or min(runs, default=0) < 0:
        message = f"{names.TOKENS_KINDS} does not hold the kinds of {chunks} chunks."
        raise MalformedEventsError(message)
    return b"".join(bytes([kind]) * count for kind, count in zip(runs[::2], runs[1::2], strict=True))


def _find_event_time(timeline: Timeline, part: slice) -> int:
    """Return when the last chunk of a part arrived, in Unix nanoseconds: that is the time of the part's event."""
    return timeline.request_unix_ns + (timeline.arrived[part.stop - 1] if part.stop else timeline.end)


def _pack(timeline: Timeline, part: slice, *, is_last: bool = False) -> dict[str, Any]:
    """Make the attributes for a part of the chunks; those of the last part hold the facts of the whole stream, too."""
    arrived = timeline.arrived[part]
    attributes: dict[str, Any] = {}
    if arrived:
        offsets, waits = _to_microseconds(arrived, timeline.asked[part])
        attributes = {
            names.TOKENS_OFFSETS: offsets,
            names.TOKENS_WAITS: waits,
            names.TOKENS_KINDS: tuple(encode_runs(timeline.kinds[part])),
        }
        if timeline.lateness:
            attributes[names.TOKENS_LATENESS] = tuple(late // MICROSECOND for late in timeline.lateness[part])
        if timeline.tokens:
            attributes[names.TOKENS_COUNTS] = tuple(timeline.tokens[part])
        if timeline.choices:
            attributes[names.TOKENS_CHOICES] = tuple(timeline.choices[part])
        if timeline.skipped:
            attributes[names.TOKENS_SKIPPED] = tuple(timeline.skipped[part])
    if is_last:
        attributes.update(_pack_facts(timeline))
    return attributes


def _to_microseconds(arrived: array[int], asked: array[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return when chunks arrived, and how long the consumer waited for each, in microseconds."""
    if len(arrived) > FEW:
        try:
            columns = Columns(len(arrived))
            offsets = columns.pack(arrived)
            waits = columns.subtract(offsets, columns.pack(asked))
            in_columns = (columns.divide(offsets, MICROSECOND), columns.divide(waits, MICROSECOND))
            return tuple(columns.unpack(in_columns[0])), tuple(columns.unpack(in_columns[1]))
        except LaneError:  # a moment before the request
            pass
    per_microsecond = repeat(MICROSECOND)
    return tuple(map(floordiv, arrived, per_microsecond)), tuple(
        map(floordiv, map(sub, arrived, asked), per_microsecond)
    )


def _pack_facts(timeline: Timeline) -> dict[str, Any]:
    """Make the attributes for the facts of the whole stream, as opposed to those of its chunks."""
    facts: dict[str, Any] = {
        names.STREAM_OUTCOME: timeline.outcome.value,
        names.STREAM_END: timeline.end // MICROSECOND,
        names.TOKENS_RECORDED: len(timeline),
    }
    if timeline.headers is not None:
        facts[names.STREAM_HEADERS] = timeline.headers // MICROSECOND
    values = _values_of_facts(timeline)
    facts.update(compress(zip(_FACTS, values, strict=True), map(is_not, values, repeat(None))))
    if timeline.is_reasoning_partial:
        facts[names.REASONING_PARTIAL] = True
    if timeline.unrecorded:
        facts[names.TOKENS_UNRECORDED] = timeline.unrecorded
    dropped = sum(timeline.skipped) + timeline.unrecorded
    if dropped:
        facts[names.TOKENS_DROPPED] = dropped
    return facts


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
        field: _check_count(facts[attribute]) for attribute, field in _FACTS.items() if attribute in facts
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
