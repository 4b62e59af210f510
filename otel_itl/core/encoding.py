"""Timeline → token events, which are what a span or a log carries of a stream.

A stream is a few `itl.tokens` events with parallel integer arrays (kinds as runs), the last of which also holds the
facts of the whole stream; or, in the form `each`, one `itl.token` event per output chunk and one `itl.tokens` event
with the rest. `decoding.py` reads the timeline back from the events alone, whatever span or log carried them.

A recorded timeline has a resolution of one microsecond, so `decode(encode(timeline)) == timeline`, up to `MAX_CHUNKS`.
Beyond that the tail is thinned.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from functools import partial
from itertools import compress, repeat
from operator import attrgetter, floordiv, sub
from typing import Any, Final, NamedTuple

from otel_itl.core import conventions as names
from otel_itl.core.thinning import select_chunks, thin
from otel_itl.core.timeline import MICROSECOND, OUTPUT, Timeline

CHUNKS_PER_EVENT = 1_024

FACTS: Final = {
    names.STREAM_REQUEST_TIME: "request_unix_ns",
    names.USAGE_INPUT_TOKENS: "input_tokens",
    names.USAGE_OUTPUT_TOKENS: "output_tokens",
    names.USAGE_REASONING_TOKENS: "reasoning_tokens",
    names.REQUEST_ATTEMPTS: "attempts",
}
"""Attribute → the field of `Timeline` that it carries, without conversion."""
_values_of_facts = attrgetter(*FACTS.values())


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


def encode(timeline: Timeline, event_limit: int = 128) -> list[TokenEvent]:
    """Encode a timeline as `itl.tokens` events: one per 1,024 chunks, and no more than a quarter of `event_limit`."""
    return [
        TokenEvent(name, unix_ns, make_attributes())
        for name, unix_ns, make_attributes in encode_lazily(timeline, event_limit)
    ]


def encode_lazily(timeline: Timeline, event_limit: int = 128) -> list[LazyEvent]:
    """Encode a timeline as `encode` does, but leave the arrays, which are most of the work, to whatever reads them."""
    timeline = thin(timeline)
    chunks = len(timeline.kinds)
    size = max(CHUNKS_PER_EVENT, -(-chunks // max(event_limit // 4, 1)))
    parts = [slice(start, min(start + size, chunks)) for start in range(0, chunks or 1, size)]
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


def encode_runs(kinds: bytes) -> list[int]:
    """Encode kinds as runs, `[kind, count, kind, count, …]`: most streams have a handful."""
    runs: list[int] = []
    while kinds:
        rest = kinds.lstrip(kinds[:1])
        runs += (kinds[0], len(kinds) - len(rest))
        kinds = rest
    return runs


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
    values = zip(FACTS, _values_of_facts(timeline), strict=True)
    facts |= {attribute: value for attribute, value in values if value is not None}
    if timeline.is_reasoning_partial:
        facts[names.REASONING_PARTIAL] = True
    if timeline.unrecorded:
        facts[names.TOKENS_UNRECORDED] = timeline.unrecorded
    dropped = sum(timeline.skipped) + timeline.unrecorded
    if dropped:
        facts[names.TOKENS_DROPPED] = dropped
    return facts
