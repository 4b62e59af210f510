"""When the frames of an HTTP/2 stream were read from the connection that it shares with other streams.

httpcore reads a shared connection with whichever of its readers has the lock, and puts the events of each stream into a
list, where they lie until the reader of that stream has got the lock in turn: for up to a tenth of a second where eight
threads read at a time. A list that notes the moments shows when a chunk was there, however late it was handed out.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from otel_itl.recording.evidence.lateness import MIN_LATENESS_NS

MIN_WAIT_NS: Final = 5_000_000
"""A reader that has asked for so long waits for the connection: decoding what it has takes less."""
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
    is_awaited: bool
    """The connection was being read when it came: the reader of another one of its streams had waited for a while."""


class FrameLog(list[Any]):
    """The list of the events of one stream that were read and not handed out, which notes when each came.

    Args:
        events: those of each stream of the connection, by its number: the list takes its place among them.
        stream_id: of the stream, by HTTP/2.
        reader: of the stream.
        clock: the stream's clock, in nanoseconds.
    """

    __slots__ = ("_clock", "_events", "_waiting", "frames", "reader", "streams", "taken")

    def __init__(self, events: dict[int, list[Any]], stream_id: int, reader: Reader, clock: Callable[[], int]) -> None:
        super().__init__(events[stream_id])
        self._events = events
        self._clock = clock
        self._waiting: deque[Frame | None] = deque([None] * len(self))
        self.reader = reader
        self.streams = len(events)
        """As many as were read from the connection at a time: each takes its turn at reading it."""
        self.frames: list[Frame | None] = []
        """Of what was handed out; None: it was there before it was followed."""
        self.taken = array("q")
        """When each was handed out (ns)."""
        events[stream_id] = self

    def append(self, event: Any) -> None:
        """Add an event. Called by whichever reader has the lock."""
        now = self._clock()
        self.streams = max(self.streams, len(self._events))
        # Before the event: the reader of this stream may take it at once.
        self._waiting.append(Frame(now, self._is_awaited(now)))
        super().append(event)

    def pop(self, index: Any = -1) -> Any:
        """Hand an event out. Called by the reader of the stream, with 0: the oldest."""
        event = super().pop(index)
        self.frames.append(self._waiting.popleft() if self._waiting else None)
        self.taken.append(self._clock())
        return event

    def _is_awaited(self, now: int) -> bool:
        """Return whether the reader of another stream had been waiting for the connection: the event has just come.

        How long this stream's own reader has waited is judged as over a connection of its own.
        """
        for other in tuple(self._events.values()):
            reader = None if other is self else getattr(other, "reader", None)
            if reader is not None and reader.is_pulling and reader.asked and now - reader.asked[-1] >= MIN_WAIT_NS:
                return True
        return False


class DatedChunks(NamedTuple):
    """When the chunks of a stream came, by what was read from its connection."""

    asked: array[int]
    """When each was asked for (ns); for one that was there before, when the chunk before it came."""
    arrived: array[int]
    """When each came (ns)."""
    unknown: int = 0
    """How many of the first were there before their frames were noted: they may have come at any moment before."""


def follow_frames(body: Any, reader: Reader, clock: Callable[[], int]) -> FrameLog | None:
    """Have the events of an HTTP/2 stream noted from now on; None where they cannot be reached.

    Args:
        body: the body of the response, as httpx holds it.
        reader: of the stream.
        clock: the stream's clock, in nanoseconds.
    """
    for _ in range(MAX_LAYERS):
        events = getattr(getattr(body, "_connection", None), "_events", None)
        stream_id: Any = getattr(body, "_stream_id", None)
        if isinstance(events, dict) and type(events.get(stream_id)) is list:
            return FrameLog(events, stream_id, reader, clock)
        body = getattr(body, "_httpcore_stream", None) or getattr(body, "_stream", None)
    return None


def date_chunks(log: FrameLog, asked: array[int], arrived: array[int], opened: int) -> DatedChunks:
    """Return when the chunks came: when their last frame was read, where they were handed out 1 ms later or more.

    Args:
        log: the frames of the stream.
        asked: when each chunk was asked for (ns).
        arrived: when each was handed out (ns).
        opened: when the stream was open, so that a chunk could be asked for (ns).
    """
    placed = DatedChunks(array("q", asked), array("q", arrived))
    before, unknown = opened, 0
    for index, handed in enumerate(arrived):
        last = bisect_right(log.taken, handed) - 1
        frame = log.frames[last] if last >= 0 else None
        if frame is None:
            unknown = index + 1
        elif handed - frame.came >= MIN_LATENESS_NS:
            came = max(frame.came, before)
            placed.arrived[index] = came
            if asked[index] > came:  # where nothing read the connection, it was found when another reader came to it
                placed.asked[index] = before if frame.is_awaited else came
        before = placed.arrived[index]
    return placed._replace(unknown=unknown)
