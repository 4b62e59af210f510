"""Timeline ⇄ token events: what a span or a log carries of a stream, written and read in one place.

A stream is a few `itl.tokens` events with parallel integer arrays (kinds as runs), the last of which also holds the
facts of the whole stream; or, in the form `each`, one `itl.token` event per output chunk and one `itl.tokens` event
with the rest. Events describe themselves: the timeline is read back from them alone, whatever span or log carried them.

A recorded timeline has a resolution of one microsecond, so `decode(encode(timeline)) == timeline`, up to `MOST_CHUNKS`.
Beyond that the tail is thinned evenly: the longest gaps are kept, every chunk left out is counted in `skipped`.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, compress, pairwise
from operator import lt, sub
from typing import Any, NamedTuple

from otel_itl import conventions as names
from otel_itl.core.timeline import MICROSECOND, OUTPUT, Outcome, Timeline

MOST_CHUNKS = 65_536
CHUNKS_PER_EVENT = 1_024
LONGEST_GAPS_KEPT = 1_024

_RUN = re.compile(rb"(.)\1*", re.DOTALL)

_FACTS = {
    names.STREAM_REQUEST_TIME: "request_unix_ns",
    names.USAGE_INPUT_TOKENS: "input_tokens",
    names.USAGE_OUTPUT_TOKENS: "output_tokens",
    names.USAGE_REASONING_TOKENS: "reasoning_tokens",
    names.REQUEST_ATTEMPTS: "attempts",
}


class TokenEvent(NamedTuple):
    """One event of a stream's timeline, as it goes on a span or into a log."""

    name: str
    unix_ns: int
    attributes: dict[str, Any]


class LazyEvent(NamedTuple):
    """A `TokenEvent` whose attributes are made when they are asked for, which may be in another thread, or never."""

    name: str
    unix_ns: int
    make: Callable[[], dict[str, Any]]


class MalformedEventsError(ValueError):
    """Token events that no timeline can be read from; the message says what is wrong with which attribute."""


def encode(timeline: Timeline, event_limit: int = 128) -> list[TokenEvent]:
    """The timeline as `itl.tokens` events: one per 1,024 chunks, and no more than a quarter of `event_limit`."""
    return [TokenEvent(name, unix_ns, make()) for name, unix_ns, make in encode_later(timeline, event_limit)]


def encode_later(timeline: Timeline, event_limit: int = 128) -> list[LazyEvent]:
    """The events of `encode`, whose arrays are made when somebody reads them: that is most of the work."""
    timeline = _thinned(timeline)
    chunks = len(timeline)
    most = max(event_limit // 4, 1)
    size = max(CHUNKS_PER_EVENT, -(-chunks // most))
    parts = [slice(start, min(start + size, chunks)) for start in range(0, chunks, size) or (0,)]
    events = [
        LazyEvent(names.TOKENS_EVENT, _latest(timeline, part), partial(_packed, timeline, part)) for part in parts
    ]
    return [*events[:-1], events[-1]._replace(make=partial(_packed, timeline, parts[-1], last=True))]


def encode_each(timeline: Timeline, event_limit: int = 128) -> list[TokenEvent] | None:
    """The timeline as one `itl.token` event per output chunk and one `itl.tokens` with the rest.

    None where that is more than `event_limit` events, of which a span would silently drop the oldest, and for a
    timeline that was thinned.
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
        if timeline.tokens:
            attributes[names.TOKEN_COUNT] = timeline.tokens[index]
        if timeline.choices:
            attributes[names.TOKEN_CHOICE] = timeline.choices[index]
        events.append(TokenEvent(names.TOKEN_EVENT, timeline.request_unix_ns + timeline.arrived[index], attributes))
    others = [index for index, output in enumerate(is_output) if not output]
    rest = _packed(_selected(timeline, others), slice(None))
    if others:
        rest[names.TOKENS_INDEXES] = others
    rest.update(_facts(timeline))
    return [*events, TokenEvent(names.TOKENS_EVENT, timeline.request_unix_ns + timeline.end, rest)]


def decode(events: Iterable[tuple[str, int, Mapping[str, Any]]]) -> Timeline:
    """The timeline that token events tell, in either form; events of other names are passed over.

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
        timeline = _unpacked(packed, facts)
        if single:
            timeline = _merged(timeline, single, facts)
        recorded = _whole(facts[names.TOKENS_RECORDED])
    except (TypeError, ValueError, OverflowError, KeyError, IndexError) as error:
        message = f"token events do not make a timeline: {error}"
        raise MalformedEventsError(message) from error
    if len(timeline) != recorded:
        message = f"token events hold {len(timeline)} of {recorded} chunks: some were lost."
        raise MalformedEventsError(message)
    return timeline


def _runs(kinds: bytes) -> list[int]:
    """Kinds as runs, `[kind, count, kind, count, …]`: most streams have a handful."""
    runs: list[int] = []
    for run in _RUN.finditer(kinds):
        runs += (kinds[run.start()], run.end() - run.start())
    return runs


def _unrun(runs: Sequence[int], chunks: int) -> bytes:
    if sum(runs[1::2]) != chunks or len(runs) % 2 or min(runs, default=0) < 0:
        message = f"{names.TOKENS_KINDS} does not hold the kinds of {chunks} chunks"
        raise ValueError(message)
    return b"".join(bytes([kind]) * count for kind, count in zip(runs[::2], runs[1::2], strict=True))


def _latest(timeline: Timeline, part: slice) -> int:
    """When the last chunk of a part arrived, in Unix time: that is when its event happened."""
    return timeline.request_unix_ns + (timeline.arrived[part.stop - 1] if part.stop else timeline.end)


def _packed(timeline: Timeline, part: slice, *, last: bool = False) -> dict[str, Any]:
    """The attributes of a part of the chunks; those of the last one hold the facts of the whole stream, too."""
    arrived = timeline.arrived[part].tolist()
    attributes: dict[str, Any] = {}
    if arrived:
        waits = map(sub, arrived, timeline.asked[part].tolist())
        attributes = {
            names.TOKENS_OFFSETS: [moment // MICROSECOND for moment in arrived],
            names.TOKENS_WAITS: [wait // MICROSECOND for wait in waits],
            names.TOKENS_KINDS: _runs(timeline.kinds[part]),
        }
        if timeline.tokens:
            attributes[names.TOKENS_COUNTS] = timeline.tokens[part].tolist()
        if timeline.choices:
            attributes[names.TOKENS_CHOICES] = list(timeline.choices[part])
        if timeline.skipped:
            attributes[names.TOKENS_SKIPPED] = timeline.skipped[part].tolist()
    if last:
        attributes.update(_facts(timeline))
    return attributes


def _facts(timeline: Timeline) -> dict[str, Any]:
    facts: dict[str, Any] = {
        names.STREAM_OUTCOME: timeline.outcome.value,
        names.STREAM_END: timeline.end // MICROSECOND,
        names.TOKENS_RECORDED: len(timeline),
    }
    if timeline.headers is not None:
        facts[names.STREAM_HEADERS] = timeline.headers // MICROSECOND
    for attribute, field in _FACTS.items():
        value = getattr(timeline, field)
        if value is not None:
            facts[attribute] = value
    if timeline.unrecorded:
        facts[names.TOKENS_UNRECORDED] = timeline.unrecorded
    dropped = sum(timeline.skipped) + timeline.unrecorded
    if dropped:
        facts[names.TOKENS_DROPPED] = dropped
    return facts


def _whole(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    message = f"{value!r} is no whole number from 0"
    raise TypeError(message)


def _unpacked(packed: list[Mapping[str, Any]], facts: Mapping[str, Any]) -> Timeline:
    def joined(name: str) -> Iterator[int]:
        for attributes in packed:
            yield from attributes.get(name) or ()

    arrived = array("q", (offset * MICROSECOND for offset in joined(names.TOKENS_OFFSETS)))
    waits = array("q", (wait * MICROSECOND for wait in joined(names.TOKENS_WAITS)))
    if len(arrived) != len(waits):
        message = f"{len(arrived)} {names.TOKENS_OFFSETS} beside {len(waits)} {names.TOKENS_WAITS}"
        raise ValueError(message)
    if min(waits, default=0) < 0 or any(map(lt, arrived, (0, *arrived))):
        message = f"{names.TOKENS_OFFSETS} that fall, or {names.TOKENS_WAITS} below zero"
        raise ValueError(message)
    headers = facts.get(names.STREAM_HEADERS)
    given = {field: facts[attribute] for attribute, field in _FACTS.items() if attribute in facts}
    return Timeline(
        asked=array("q", map(sub, arrived, waits)),
        arrived=arrived,
        kinds=_unrun(list(joined(names.TOKENS_KINDS)), len(arrived)),
        tokens=array("I", joined(names.TOKENS_COUNTS)),
        choices=bytes(joined(names.TOKENS_CHOICES)),
        skipped=array("I", joined(names.TOKENS_SKIPPED)),
        unrecorded=_whole(facts.get(names.TOKENS_UNRECORDED, 0)),
        headers=None if headers is None else _whole(headers) * MICROSECOND,
        end=_whole(facts[names.STREAM_END]) * MICROSECOND,
        outcome=Outcome(facts[names.STREAM_OUTCOME]),
        **{field: _whole(number) for field, number in given.items()},
    )


def _merged(rest: Timeline, single: list[tuple[int, Mapping[str, Any]]], facts: Mapping[str, Any]) -> Timeline:
    """The form `each`: output chunks from their own events, put back between the others."""
    rows = dict(zip(facts.get(names.TOKENS_INDEXES) or (), _rows(rest), strict=True))
    for unix_ns, attributes in single:
        if attributes[names.TOKEN_INDEX] in rows:
            message = f"two chunks with {names.TOKEN_INDEX} {attributes[names.TOKEN_INDEX]}"
            raise ValueError(message)
        arrived = unix_ns - rest.request_unix_ns
        rows[attributes[names.TOKEN_INDEX]] = (
            arrived - attributes[names.TOKEN_WAIT] * MICROSECOND,
            arrived,
            attributes[names.TOKEN_KIND],
            attributes.get(names.TOKEN_COUNT, 0),
            attributes.get(names.TOKEN_CHOICE, 0),
        )
    asked, arrivals, kinds, tokens, choices = zip(*(rows[index] for index in range(len(rows))), strict=True)
    counted = any(names.TOKEN_COUNT in attributes for _, attributes in single)
    several = any(names.TOKEN_CHOICE in attributes for _, attributes in single)
    return replace(
        rest,
        asked=array("q", asked),
        arrived=array("q", arrivals),
        kinds=bytes(kinds),
        tokens=array("I", tokens if counted else ()),
        choices=bytes(choices) if several else b"",
    )


def _rows(timeline: Timeline) -> Iterator[tuple[int, int, int, int, int]]:
    none = (0,) * len(timeline)
    return zip(
        timeline.asked, timeline.arrived, timeline.kinds, timeline.tokens or none, timeline.choices or none, strict=True
    )


def _selected(timeline: Timeline, indexes: Sequence[int]) -> Timeline:
    def of(values: Sequence[int]) -> Iterator[int]:
        return (values[index] for index in indexes) if values else iter(())

    return replace(
        timeline,
        asked=array("q", of(timeline.asked)),
        arrived=array("q", of(timeline.arrived)),
        kinds=bytes(of(timeline.kinds)),
        tokens=array("I", of(timeline.tokens)),
        choices=bytes(of(timeline.choices)),
        skipped=array("I", of(timeline.skipped)),
    )


def _thinned(timeline: Timeline) -> Timeline:
    """At most `MOST_CHUNKS` chunks: the first half as it is, then an even choice of the rest and its longest gaps."""
    chunks = len(timeline)
    if chunks <= MOST_CHUNKS:
        return timeline
    head = MOST_CHUNKS // 2
    even = MOST_CHUNKS - head - 2 * LONGEST_GAPS_KEPT - 1
    tail = range(head, chunks)
    longest = sorted(tail, key=lambda index: timeline.arrived[index - 1] - timeline.arrived[index])[:LONGEST_GAPS_KEPT]
    kept = {head + position * len(tail) // even for position in range(even)}
    kept.update(longest, (index - 1 for index in longest), (chunks - 1,))
    indexes = [*range(head), *sorted(kept - set(range(head)))]
    # Where each chunk stood before anything was left out.
    places = list(accumulate((skip + 1 for skip in timeline.skipped), initial=-1))[1:] or range(chunks)
    stood = [places[index] for index in indexes]
    skipped = array("I", (after - before - 1 for before, after in pairwise([-1, *stood])))
    return replace(_selected(timeline, indexes), skipped=skipped)
