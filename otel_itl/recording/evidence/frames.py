"""When the frames of an HTTP/2 stream were read from the connection that it shares with other streams.

httpcore reads a shared connection with whichever of its readers has the lock, and puts the events of each stream into a
list, where they lie until the reader of that stream has got the lock in turn: for up to a tenth of a second where eight
threads read at a time. A list that notes the moments shows when a chunk was there, however late it was handed out.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from itertools import repeat
from operator import ior
from typing import Any, Final, NamedTuple, Protocol, cast

from otel_itl.recording.evidence.lateness import MIN_LATENESS_NS

MIN_WAIT_NS: Final = 5_000_000
"""A reader that has asked for so long waits for the connection: decoding what it has takes less."""
SAME_READ_NS: Final = 500_000
"""Events of one read come at shorter intervals than this."""
MAX_UNASKED: Final = 16
"""Frames that are kept of a stream before its reader is known: it may be a download."""
_HAS_WHOLE_STATEMENTS: Final = sys.version_info >= (3, 11)
"""No other thread runs within a statement that calls nothing, as those by which httpcore adds a stream to its table."""
_HAS_LOCK: Final = bool(getattr(sys, "_is_gil_enabled", lambda: True)())
"""One thread runs Python at a time."""
MAX_LAYERS: Final = 8
"""Bodies within one another: of httpx, of its transport, of the connection pool, of the connection."""


class Reader(Protocol):
    """What is known of the reader of a stream while it runs: a `ChunkLog`."""

    asked: array[int]
    """When it asked for each chunk (ns)."""

    @property
    def is_pulling(self) -> bool:
        """Whether it is waiting for a chunk right now."""
        ...


class Frame(NamedTuple):
    """One event of a stream, as its client read it from the connection."""

    came: int
    """When it was read (ns)."""
    read_before: int
    """When the last event of the read before came, of any stream (ns; 0: there was none): it was not there yet."""
    is_awaited: bool
    """The reader of another stream of the connection had waited for a while: the connection was being read."""
    is_awaited_by_own: bool
    """So had the reader of this stream."""

    @property
    def since(self) -> int:
        """From when on it may have been there, as far as no reader read the connection (ns)."""
        return self.came if self.is_awaited or self.is_awaited_by_own else self.read_before


class FrameEvidence(NamedTuple):
    """What the frames of a stream show of its last chunk, or of the wait for the next one (ns)."""

    quiet_until: int
    """When the connection was read last, and nothing of it was there."""
    came: int | None
    """When it came; None: it has not come."""


class _Reads:
    """When a connection was read: with one read come several events."""

    __slots__ = ("before", "last")

    def __init__(self) -> None:
        self.last = 0
        """When the last event was read (ns)."""
        self.before = 0
        """When the last event of the read before was (ns)."""

    def note(self, now: int) -> int:
        """Note an event that is read now (ns); return when the connection was read before."""
        if now - self.last >= SAME_READ_NS:
            self.before = self.last
        self.last = now
        return self.before


class FrameLog(list[Any]):
    """The list of the events of one stream that were read and not handed out, which notes when each came.

    Args:
        events: the lists of the connection, by the stream's number.
        reads: of the connection.
        clock: the stream's clock, in nanoseconds.
        former: the list whose place it takes; what is in it is handed out first.
    """

    __slots__ = ("_clock", "_events", "_former", "_opened", "_waiting", "frames", "reader", "reads", "streams", "taken")

    def __init__(
        self, events: dict[int, list[Any]], reads: _Reads, clock: Callable[[], int], former: list[Any]
    ) -> None:
        super().__init__()
        self._events = events
        self._clock = clock
        self._opened = clock()
        self.reads = reads
        # Not copied: another reader may be about to add to it.
        self._former = former
        self._waiting: deque[Frame] = deque()
        self.reader: Reader | None = None
        """Who reads the stream; None: its frames are not asked for yet."""
        self.streams = len(events)
        """As many as were read from the connection at a time: each takes its turn at reading it."""
        self.frames: list[Frame | None] = []
        """Of what was handed out; None: it was there before it was followed."""
        self.taken = array("q")
        """When each was handed out (ns)."""

    def __len__(self) -> int:
        return len(self._former) + super().__len__()

    def append(self, event: Any) -> None:
        """Add an event. Called by whichever reader has the lock."""
        now = self._clock()
        self.streams = max(self.streams, len(self._events))
        # Before the event: the reader of this stream may take it at once.
        self._waiting.append(Frame(now, self.reads.note(now), self._is_awaited(now), self.has_waited(now)))
        super().append(event)

    def pop(self, index: Any = -1) -> Any:
        """Hand an event out. Called by the reader of the stream, with 0: the oldest."""
        if self.reader is None and len(self.frames) >= MAX_UNASKED:
            self.frames.clear()
            del self.taken[:]
        if self._former:
            event, frame = self._former.pop(index), None
        else:
            event, frame = super().pop(index), self._waiting.popleft()
        self.frames.append(frame)
        self.taken.append(self._clock())
        return event

    def show(self, handed: int | None) -> FrameEvidence | None:
        """Show what is known of a chunk; None: nothing.

        Args:
            handed: when it was handed out (ns); None: it is being waited for.
        """
        if handed is not None:
            frame = self.find(handed)
            return None if frame is None else FrameEvidence(frame.read_before, frame.came)
        if self._waiting:
            return FrameEvidence(self._waiting[0].read_before, self._waiting[0].came)
        return None if self._former else FrameEvidence(self.reads.last, None)

    def find(self, handed: int) -> Frame | None:
        """Return the last frame of a chunk that was handed out at a moment (ns); None: not known."""
        last = bisect_right(self.taken, handed) - 1
        return self.frames[last] if last >= 0 else None

    def _is_awaited(self, now: int) -> bool:
        """Return whether the reader of another stream had been waiting for the connection: the event has just come.

        How long this stream's own reader has waited is judged as over a connection of its own.
        """
        others = (other for other in tuple(self._events.values()) if other is not self)
        return any(isinstance(other, FrameLog) and other.has_waited(now) for other in others)

    def has_waited(self, now: int) -> bool:
        """Return whether its reader, or at first its request, has waited for an event for a while, until now (ns)."""
        reader = self.reader
        if reader is None:  # for its headers
            return not self.frames and not self._former and now - self._opened >= MIN_WAIT_NS
        return reader.is_pulling and bool(reader.asked) and now - reader.asked[-1] >= MIN_WAIT_NS


class _FollowedEvents(dict[int, list[Any]]):
    """The lists of the events of each stream of a connection, where a new one notes when they come."""

    __slots__ = ("clock", "reads")

    clock: Callable[[], int]
    reads: _Reads

    def __setitem__(self, stream_id: int, events: list[Any]) -> None:
        is_new = type(events) is list
        super().__setitem__(stream_id, FrameLog(self, self.reads, self.clock, events) if is_new else events)


class DatedChunks(NamedTuple):
    """When the chunks of a stream came, by what was read from its connection."""

    asked: array[int]
    """When each was asked for (ns). For one that was read before that: when the chunk before it came (for the first one
    the headers) if another reader was waiting for the connection, else when it came itself."""
    arrived: array[int]
    """When each came (ns)."""
    since: array[int]
    """From when on each may have been there (ns): the connection was not read then, or its frames were not noted."""
    headers: int | None
    """When the response headers came (ns); None: not known."""


def follow_frames(body: Any, reader: Reader, clock: Callable[[], int]) -> FrameLog | None:
    """Have the events of an HTTP/2 stream noted from now on; None where they cannot be reached.

    So are those of all other streams of its connection: their frames may come before they are asked for.

    Args:
        body: the body of the response, as httpx holds it.
        reader: of the stream.
        clock: the stream's clock, in nanoseconds.
    """
    for _ in range(MAX_LAYERS if _HAS_LOCK else 0):
        connection: Any = getattr(body, "_connection", None)
        stream_id: Any = getattr(body, "_stream_id", None)
        if stream_id is not None and isinstance(getattr(connection, "_events", None), dict):
            log = _follow_connection(connection, clock).get(stream_id)
            if not isinstance(log, FrameLog):
                return None
            log.reader = reader
            return log
        body = getattr(body, "_httpcore_stream", None) or getattr(body, "_stream", None)
    return None


def _follow_connection(connection: Any, clock: Callable[[], int]) -> dict[int, list[Any]]:
    """Have the events of each stream of an HTTP/2 connection noted from now on, also of those that come later.

    Returns the lists of the events of each stream.
    """
    # Each swap is one call into C: no other thread opens or ends a stream within it.
    events = connection._events  # noqa: SLF001 - httpcore has no other place
    if type(events) is dict and _HAS_WHOLE_STATEMENTS:
        followed = _FollowedEvents()
        followed.clock, followed.reads = clock, _Reads()
        _run_at_once(map(setattr, (connection,), ("_events",), map(ior, (followed,), (events,))))
        events = followed
    found = tuple(events.items())
    reads = (
        next((log.reads for _, log in found if isinstance(log, FrameLog)), getattr(events, "reads", None)) or _Reads()
    )
    logs = {number: FrameLog(events, reads, clock, former) for number, former in found if type(former) is list}
    _run_at_once(
        map(
            dict.__setitem__,
            repeat(events),
            filter(events.__contains__, logs),
            map(logs.__getitem__, filter(events.__contains__, logs)),
        )
    )
    return cast("dict[int, list[Any]]", events)


def _run_at_once(calls: Iterable[object]) -> None:
    """Make calls of functions written in C without giving another thread a chance to run in between."""
    deque(calls, maxlen=0)


def date_chunks(
    log: FrameLog, asked: array[int], arrived: array[int], headers: int | None, requested: int
) -> DatedChunks:
    """Return when the chunks came: when their last frame was read, where they were handed out 1 ms later or more.

    Args:
        log: the frames of the stream.
        asked: when each chunk was asked for (ns).
        arrived: when each was handed out (ns).
        headers: when the response headers were handed out (ns); None: not known.
        requested: the moment of the request (ns).
    """
    first = log.frames[0] if log.frames else None
    if headers is not None and first is not None:
        headers = min(headers, max(first.came, requested))
    placed = DatedChunks(array("q", asked), array("q", arrived), array("q", arrived), headers)
    before = requested if headers is None else headers
    for index, handed in enumerate(arrived):
        frame = log.find(handed)
        if frame is None:
            placed.since[index] = requested
        elif handed - frame.came >= MIN_LATENESS_NS:
            came = max(frame.came, before)
            placed.arrived[index] = came
            placed.since[index] = max(min(frame.since, came), requested)
            if asked[index] > came:  # where nothing read the connection, it was found when another reader came to it
                placed.asked[index] = before if frame.is_awaited else came
        before = placed.arrived[index]
    return placed
