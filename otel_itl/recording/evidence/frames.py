"""When the frames of an HTTP/2 stream were read from the connection that it shares with other streams.

httpcore reads a shared connection with whichever of its readers has the lock, and puts the events of each stream into a
list, where they lie until the reader of that stream has got the lock in turn: for up to a tenth of a second where eight
threads read at a time. A list that notes the moments shows when a chunk was there, however late it was handed out; and
whether anything was there when the client began to read shows if it had come before.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from itertools import repeat
from operator import ior
from types import MethodType
from typing import Any, Final, NamedTuple, cast
from weakref import WeakMethod

from otel_itl.recording.evidence.connection import Source, count_unread, make_source
from otel_itl.recording.evidence.lateness import MIN_LATENESS_NS

MAX_UNASKED: Final = 16
"""Frames that are kept of a stream before its reader is known: it may be a download."""
_HAS_WHOLE_STATEMENTS: Final = sys.version_info >= (3, 11)
"""No other thread runs within a statement that calls nothing, as those by which httpcore adds a stream to its table."""
_HAS_LOCK: Final = bool(getattr(sys, "_is_gil_enabled", lambda: True)())
"""One thread runs Python at a time."""
MAX_LAYERS: Final = 8
"""Bodies within one another: of httpx, of its transport, of the connection pool, of the connection."""


class Frame(NamedTuple):
    """One event of a stream, as its client read it from the connection."""

    came: int
    """When it was read (ns)."""
    empty_at: int
    """When the connection was last seen with nothing to read before that (ns; 0: never)."""
    is_awaited: bool
    """Nothing was there when the client began to read: it came when it was read."""

    @property
    def since(self) -> int:
        """From when on it may have been there (ns)."""
        return self.came if self.is_awaited else self.empty_at


class FrameEvidence(NamedTuple):
    """What the frames of a stream show of its last chunk, or of the wait for the next one (ns)."""

    quiet_until: int
    """When the connection was last seen empty, so that nothing of it was there."""
    came: int | None
    """When it came; None: it has not come."""


class _Reads:
    """The reads of a connection by its client, one at a time.

    Args:
        source: what is read; None: it cannot be reached.
        clock: the streams' clock, in nanoseconds.
    """

    __slots__ = ("_clock", "_is_reading", "_source", "empty_at", "is_awaited", "seen_empty")

    def __init__(self, source: Source | None, clock: Callable[[], int]) -> None:
        self._source = source
        self._clock = clock
        self._is_reading = False
        self.seen_empty = 0
        """When the connection was last seen with nothing to read (ns; 0: never)."""
        self.empty_at = 0
        """The same when the read began that is under way, or was the last one."""
        self.is_awaited = False
        """It was empty then."""

    def check_before_read(self) -> None:
        """Look, right before the client reads, whether the connection is empty; note the moment if it is."""
        now = self._clock()
        self.is_awaited = self._is_empty()
        if self.is_awaited:
            self.seen_empty = now
        self.empty_at, self._is_reading = self.seen_empty, True

    def check_after_read(self, now: int) -> None:
        """Look, with the first event of a read, whether the connection is empty; note `now` (ns) if it is.

        Over TLS, and of much that came, one read does not bring all there is.
        """
        if self._is_reading:
            self._is_reading = False
            if self._is_empty():
                self.seen_empty = now

    def _is_empty(self) -> bool:
        source = self._source
        return source is not None and count_unread(source.socket) == 0 and source.is_ready() is False


class _NotedRead:
    """Reads a connection, in place of the function of its network stream that does.

    That returns bytes, or what is awaited for them: before either, the client is about to read.
    """

    __slots__ = ("_find_read", "reads")

    def __init__(self, read: Any, reads: _Reads) -> None:
        # Weakly: a network stream that held itself would be closed by the garbage collector alone.
        self._find_read: Callable[[], Any] = WeakMethod(read) if isinstance(read, MethodType) else lambda: read
        self.reads = reads

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        self.reads.check_before_read()
        return self._find_read()(*arguments, **keywords)


class FrameLog(list[Any]):
    """The list of the events of one stream that were read and not handed out, which notes when each came.

    Args:
        reads: of the connection.
        clock: the stream's clock, in nanoseconds.
        former: the list whose place it takes; what is in it is handed out first.
    """

    __slots__ = ("_clock", "_former", "_waiting", "frames", "is_asked_for", "reads", "taken")

    def __init__(self, reads: _Reads, clock: Callable[[], int], former: list[Any]) -> None:
        super().__init__()
        self._clock = clock
        self.reads = reads
        # Not copied: another reader may be about to add to it.
        self._former = former
        self._waiting: deque[Frame] = deque()
        self.is_asked_for = False
        """The frames are those of a stream that is measured."""
        self.frames: list[Frame | None] = []
        """Of what was handed out; None: it was there before it was followed."""
        self.taken = array("q")
        """When each was handed out (ns)."""

    def __len__(self) -> int:
        return len(self._former) + super().__len__()

    def append(self, event: Any) -> None:
        """Add an event. Called by whichever reader has the lock."""
        reads, now = self.reads, self._clock()
        # Before the event: the reader of this stream may take it at once.
        self._waiting.append(Frame(now, reads.empty_at, reads.is_awaited))
        super().append(event)
        reads.check_after_read(now)

    def pop(self, index: Any = -1) -> Any:
        """Hand an event out. Called by the reader of the stream, with 0: the oldest."""
        if not self.is_asked_for and len(self.frames) >= MAX_UNASKED:
            self.frames.clear()
            del self.taken[:]
        if self._former:
            event, frame = self._former.pop(index), None
        else:
            event, frame = super().pop(index), self._waiting.popleft()
        self.frames.append(frame)
        self.taken.append(self._clock())
        return event

    def find_evidence(self, handed: int | None) -> FrameEvidence | None:
        """Return when a chunk was read, and when the connection was last empty before that; None: not known.

        Args:
            handed: when it was handed out (ns); None: it is being waited for, and may have been read.
        """
        if handed is not None:
            frame = self.find(handed)
            return None if frame is None else FrameEvidence(frame.empty_at, frame.came)
        if self._waiting:
            return FrameEvidence(self._waiting[0].empty_at, self._waiting[0].came)
        return None if self._former else FrameEvidence(self.reads.seen_empty, None)

    def find(self, handed: int) -> Frame | None:
        """Return the last frame of a chunk that was handed out at a moment (ns); None: not known."""
        last = bisect_right(self.taken, handed) - 1
        return self.frames[last] if last >= 0 else None


class _FollowedEvents(dict[int, list[Any]]):
    """The lists of the events of each stream of a connection, where a new one notes when they come."""

    __slots__ = ("clock", "reads")

    clock: Callable[[], int]
    reads: _Reads

    def __setitem__(self, stream_id: int, events: list[Any]) -> None:
        is_new = type(events) is list
        super().__setitem__(stream_id, FrameLog(self.reads, self.clock, events) if is_new else events)


class DatedChunks(NamedTuple):
    """When the chunks of a stream came, by what was read from its connection."""

    asked: array[int]
    """When each was asked for (ns). For one that was read before that: when the chunk before it came (for the first one
    the headers) if the connection was being read, else when it came itself."""
    arrived: array[int]
    """When each came (ns)."""
    since: array[int]
    """From when on each may have been there (ns): the connection was not read, or its frames were not noted."""
    headers: int | None
    """When the response headers came (ns); None: not known."""


def follow_frames(body: Any, clock: Callable[[], int]) -> FrameLog | None:
    """Have the events of an HTTP/2 stream noted from now on; None where they cannot be reached.

    So are those of all other streams of its connection: their frames may come before they are asked for.

    Args:
        body: the body of the response, as httpx holds it.
        clock: the stream's clock, in nanoseconds.
    """
    for _ in range(MAX_LAYERS if _HAS_LOCK else 0):
        connection: Any = getattr(body, "_connection", None)
        stream_id: Any = getattr(body, "_stream_id", None)
        if stream_id is not None and isinstance(getattr(connection, "_events", None), dict):
            log = _follow_connection(connection, clock).get(stream_id)
            if not isinstance(log, FrameLog):
                return None
            log.is_asked_for = True
            return log
        body = getattr(body, "_httpcore_stream", None) or getattr(body, "_stream", None)
    return None


def _follow_connection(connection: Any, clock: Callable[[], int]) -> dict[int, list[Any]]:
    """Have the events of each stream of an HTTP/2 connection noted from now on, also of those that come later.

    On Python 3.10 those are found when the next one is followed. Returns the lists of the events of each stream.
    """
    # httpcore has no other place for either.
    reads, events = _follow_reads(connection._network_stream, clock), connection._events  # noqa: SLF001
    # Each swap is one call into C: no other thread opens or ends a stream within it.
    if type(events) is dict and _HAS_WHOLE_STATEMENTS:
        followed = _FollowedEvents()
        followed.clock, followed.reads = clock, reads
        _run_at_once(map(setattr, (connection,), ("_events",), map(ior, (followed,), (events,))))
        events = followed
    logs = {number: FrameLog(reads, clock, former) for number, former in tuple(events.items()) if type(former) is list}
    _run_at_once(
        map(
            dict.__setitem__,
            repeat(events),
            filter(events.__contains__, logs),
            map(logs.__getitem__, filter(events.__contains__, logs)),
        )
    )
    return cast("dict[int, list[Any]]", events)


def _follow_reads(stream: Any, clock: Callable[[], int]) -> _Reads:
    """Have a network stream of httpcore look whether it is empty before each read, once; return what notes that."""
    if not isinstance(stream.read, _NotedRead):
        stream.read = _NotedRead(stream.read, _Reads(make_source(stream), clock))
    reads: _Reads = stream.read.reads
    return reads


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
        else:  # what its own caller kept it waiting for is judged as over a connection of its own
            is_held = asked[index] - (arrived[index - 1] if index else requested) >= MIN_LATENESS_NS
            placed.since[index] = min(max(frame.since, asked[index] if is_held else requested), handed)
        before = placed.arrived[index]
    return placed
