"""What a stream appends to while it runs: three arrays, one entry per chunk in each."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any, Final, NamedTuple

from otel_itl.core.stream import ResponseInfo

MAX_CHUNKS: Final = 1 << 20
"""Chunks that are timed; chunks beyond are counted. Keeps the memory of an endless stream under 25 MB."""

Classify = Callable[[Any, ResponseInfo], int]
"""What a chunk carried: flags of `Kind`, or a `chunk_code()` with a token count and a choice."""
Append = Callable[[int], object]


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
    turns: Iterator[None]
    """One item for each chunk that these targets hold for."""


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

    def append_targets(self, classify: Classify, pull: Callable[[], Any]) -> tuple[AppendTargets, AppendTargets]:
        """Return what to call for each chunk: appends for the first `MAX_CHUNKS`, then counting alone."""
        timed = repeat(None, MAX_CHUNKS - len(self.codes))
        return (
            AppendTargets(self.asked.append, self.arrived.append, self.codes.append, classify, pull, timed),
            AppendTargets(self._start_waiting, self._count_unrecorded, ignore, classify, pull, repeat(None)),
        )

    def record_swallowed(self, kind: int, now: int) -> None:
        """Record a chunk that the SDK does not hand out (a ping), while the consumer waits for the next one.

        Args:
            kind: flags of `Kind`.
            now: when it came (ns).
        """
        if len(self.codes) < MAX_CHUNKS and len(self.asked) > len(self.arrived):
            self.arrived.append(now)
            self.codes.append(kind)
            self.asked.append(now)

    def _start_waiting(self, _: int) -> None:
        self.is_waiting = True

    def _count_unrecorded(self, _: int) -> None:
        self.is_waiting = False
        self.unrecorded += 1


def ignore(_: object) -> None:
    """Take a value and do nothing with it."""


def record_nothing(pull: Callable[[], Any]) -> AppendTargets:
    """Return targets with which chunks pass and nothing is recorded."""
    return AppendTargets(ignore, ignore, ignore, _classify_as_nothing, pull, repeat(None))


def _classify_as_nothing(_chunk: object, _response: ResponseInfo) -> int:
    return 0
