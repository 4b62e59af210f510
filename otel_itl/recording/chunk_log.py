"""What a stream appends to while it runs: three arrays, one entry per chunk in each."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from itertools import chain, islice, repeat, takewhile, tee
from operator import sub
from typing import Any, Final, NamedTuple, Protocol

from otel_itl.core.arrivals import NEGLIGIBLE_HOLD
from otel_itl.core.stream import ResponseInfo

MAX_CHUNKS: Final = 1 << 20
"""Chunks that are timed; chunks beyond are counted. Keeps the memory of an endless stream under 25 MB."""

Classify = Callable[[Any, ResponseInfo], int]
"""What a chunk carried: flags of `Kind`, or a `chunk_code()` with a token count and a choice."""
Append = Callable[[int], object]
Clock = Callable[[], int]
"""A monotonic clock in nanoseconds."""


class AppendTargets(NamedTuple):
    """What the recording iterator calls for each of the next chunks."""

    asked: Append
    """Takes the moment (ns) at which the consumer asked for the chunk."""
    arrived: Append
    """Takes the moment (ns) at which the chunk arrived."""
    carried: Append
    """Takes the chunk's code."""
    classify: Classify
    pull: Callable[[], Any]
    """Gets the next chunk from the SDK; returns an awaitable where the stream is asynchronous."""
    turns: Iterator[tuple[int, Any]]
    """One pair for each chunk that these targets hold for: the moment (ns) at which it was asked for, and no matter."""


class PullJudge(Protocol):
    """Pulls chunks after a hold, and finds out whether the pulls blocked: a `PullEvidence`."""

    blocked: list[None]
    """Has an entry as soon as a pull has blocked, as far as is known. Emptied by who looks at it."""

    @property
    def pull(self) -> Callable[[], Any]:
        """Gets the next chunk from the SDK, and appends to `blocked` if that blocked."""
        ...


class ChunkLog:
    """The moments and codes of one stream's chunks. Appending takes no lock: one thread reads a stream at a time.

    `asked` is one longer than `arrived` while a pull is under way; `codes` is appended to last.
    """

    __slots__ = ("arrived", "asked", "codes", "is_waiting", "unrecorded")

    def __init__(self) -> None:
        self.asked = array("q")
        """When the consumer asked for each chunk (ns on the monotonic clock)."""
        self.arrived = array("q")
        """When each chunk arrived (ns on the monotonic clock)."""
        self.codes = array("Q")
        """What each chunk carried, as `chunk_code()` packs it."""
        self.is_waiting = False
        """A pull is under way that `asked` does not show: of bytes, or of a chunk beyond the limit."""
        self.unrecorded = 0
        """Chunks beyond the limit: they are counted, not timed."""

    @property
    def is_pulling(self) -> bool:
        """Whether the consumer is waiting right now, for a chunk or for bytes."""
        return self.is_waiting or len(self.asked) > len(self.arrived)

    def append_targets(
        self, classify: Classify, pull: Callable[[], Any], clock: Clock, free: int, judge: PullJudge | None
    ) -> Iterator[AppendTargets]:
        """Yield what to call for each chunk: appends for the first `MAX_CHUNKS`, then counting alone.

        A hold of more than 1 ms ends the turns of a target. The pulls after it are the judge's, one by one, until one
        blocks. Holds are looked for by iterators written in C: a stream that is read without any executes no bytecode
        for them.

        Args:
            classify: what a chunk carried.
            pull: gets the next chunk from the SDK.
            clock: a monotonic clock in nanoseconds.
            free: when the consumer was free to ask for the first chunk (ns).
            judge: pulls after a hold; None: there is no evidence to be had.
        """
        # No function of ours is called here: once the first targets are there, no guard is around this one.
        appends = (self.asked.append, self.arrived.append, self.codes.append, classify)
        while (left := MAX_CHUNKS - len(self.codes)) > 0:
            asked = islice(iter(clock, None), left)
            if judge is None:
                yield AppendTargets(*appends, pull, zip(asked, repeat(None), strict=False))
                continue
            arrived = iter(self.arrived)
            if self.arrived:
                arrived.__setstate__(len(self.arrived))  # type: ignore[attr-defined]  # what unpickling calls
                free = self.arrived[-1]
            moments, compared = tee(asked)
            holds = map(sub, compared, chain((free,), arrived))
            yield AppendTargets(*appends, pull, zip(moments, takewhile(NEGLIGIBLE_HOLD.__ge__, holds), strict=False))
            judge.blocked.clear()
            # The moment is read first: `zip` drops it when the judge's turns are over, and the next turns read another.
            asked = islice(iter(clock, None), MAX_CHUNKS - len(self.codes))
            yield AppendTargets(*appends, judge.pull, zip(asked, iter(judge.blocked.__len__, 1), strict=False))
        yield AppendTargets(self._start_waiting, self._count_unrecorded, ignore, classify, pull, repeat((0, None)))

    def record_unasked(self, code: int, now: int) -> None:
        """Record a chunk that the consumer did not get, and waits on: a ping, or any of a stream that is fed.

        Args:
            code: what it carried, as `chunk_code()` packs it.
            now: when it came (ns).
        """
        if len(self.codes) < MAX_CHUNKS and len(self.asked) > len(self.arrived):
            self.arrived.append(now)
            self.codes.append(code)
            self.asked.append(now)

    def hold(self) -> None:
        """Note that nothing is read of a stream that is fed, until `wait`."""
        if len(self.asked) > len(self.arrived):
            self.asked.pop()

    def wait(self, now: int) -> None:
        """Note that the stream is read from `now` (ns) on, unless it is already."""
        if len(self.asked) == len(self.arrived):
            self.asked.append(now)

    def clear(self) -> None:
        """Free the memory of the entries, when they were reported. What iterates over the stream still appends here."""
        for entries in (self.asked, self.arrived, self.codes):
            del entries[:]

    def _start_waiting(self, _: int) -> None:
        self.is_waiting = True

    def _count_unrecorded(self, _: int) -> None:
        self.is_waiting = False
        self.unrecorded += 1


def ignore(_: object) -> None:
    """Take a value and do nothing with it."""


def record_nothing(pull: Callable[[], Any]) -> AppendTargets:
    """Return targets with which chunks pass and nothing is recorded."""
    return AppendTargets(ignore, ignore, ignore, _classify_as_nothing, pull, repeat((0, None)))


def _classify_as_nothing(_chunk: object, _response: ResponseInfo) -> int:
    return 0
