"""Whether a pull after a hold blocked for its chunk, decided by what the operating system and the event loop show.

The time that a pull took does not show it: on a slow or throttled machine decoding alone takes milliseconds. Evidence
is, best first:

* *Bytes*: were there unread bytes in the socket when the chunk was asked for? Has the pull read any from it at all? A
  pull that found bytes, or needed none, has not waited for the network.
* *The event loop*: a pull that did not suspend has not waited.
* *The thread*: a pull in which the thread never gave up the CPU of its own accord, or was computing for most of the
  time, has not waited.

A pull that has not blocked counts as asked for when its chunk came: what it took is part of the consumer's hold.
"""

from __future__ import annotations

import inspect
import sys
import time
import types
from collections.abc import Callable, Coroutine, Generator
from time import perf_counter_ns
from typing import Any, Final, NamedTuple, Protocol

from otel_itl.core.conventions import Where
from otel_itl.recording.chunk_log import ChunkLog
from otel_itl.recording.evidence.connection import Reading
from otel_itl.recording.internal_errors import InternalErrors, never_raises

if sys.platform != "win32":
    from resource import getrusage

RUSAGE_THREAD: Final[int | None] = getattr(sys.modules.get("resource"), "RUSAGE_THREAD", None)
MIN_COMPUTING_SHARE: Final = 0.5
"""A pull has not waited for the network if its thread was computing for this share of it."""


class ShowsConnection(Protocol):
    """What shows the connection of a stream: a `StreamEvidence`."""

    def read_connection(self) -> Reading | None:
        """Read what it shows now; None where it cannot be reached."""
        ...


class RecordedStream(Protocol):
    """What evidence is taken of: a `StreamRecorder`."""

    log: ChunkLog
    clock: Callable[[], int]

    @property
    def evidence(self) -> ShowsConnection:
        """What shows its connection."""
        ...

    @property
    def errors(self) -> InternalErrors:
        """Where failures of our own are reported."""
        ...


class ThreadTimes(NamedTuple):
    """What the operating system shows of this thread at one moment."""

    cpu_ns: int
    voluntary_switches: int | None
    """How often the thread has given up the CPU of its own accord; None: not known."""


class Before(NamedTuple):
    """The evidence at the moment at which a chunk was asked for, or at which the pull first suspended."""

    reading: Reading | None
    """Of the connection; None where it cannot be reached."""
    thread: ThreadTimes | None
    """None where the socket shows more, and on an event loop, whose thread does other work as well."""


def make_pull_evidence(stream: RecordedStream, pull: Callable[[], Any]) -> PullEvidence | None:
    """Make the `PullEvidence` of a stream whose reading starts; None if a test has replaced the stream's clock."""
    return PullEvidence(stream, pull) if stream.clock is perf_counter_ns else None


class PullEvidence:
    """Pulls the chunks after a hold, and takes evidence of whether the pulls blocked.

    Args:
        stream: records the stream.
        pull: gets the next chunk from the SDK.
    """

    __slots__ = ("_is_asynchronous", "_pull_next", "_stream", "blocked")

    def __init__(self, stream: RecordedStream, pull: Callable[[], Any]) -> None:
        self._is_asynchronous: bool | None = None
        """Whether the stream hands out awaitables; None: nothing was pulled yet."""
        self._stream = stream
        self._pull_next = pull
        self.blocked: list[None] = []
        """Has an entry as soon as a pull has blocked, as far as is known. Emptied by who looks at it."""

    def pull(self) -> Any:
        """Get the next chunk from the SDK, an awaitable of it where the stream is asynchronous."""
        before = None if self._is_asynchronous else self._take_evidence(is_sync=True)
        chunk = self._pull_next()
        if self._is_asynchronous is None:
            self._is_asynchronous = inspect.isawaitable(chunk)
        if self._is_asynchronous:
            return self._await(_awaited(chunk))
        self._judge(before, is_sync=True)
        return chunk

    @types.coroutine
    def _await(self, chunk: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Run the coroutine of a chunk, and judge whether that blocked.

        Evidence is taken when it first suspends: before that, its event loop cannot have read anything. One that does
        not suspend has not waited, and costs no evidence.
        """
        resume: Callable[[Any], Any] = chunk.send
        sent: Any = None
        before, has_suspended = None, False
        while True:
            try:
                waits_for = resume(sent)
            except StopIteration as end:
                value = end.value
                break
            if not has_suspended:
                before, has_suspended = self._take_evidence(is_sync=False), True
            try:
                resume, sent = chunk.send, (yield waits_for)
            except GeneratorExit:
                chunk.close()
                raise
            except BaseException as thrown:  # noqa: BLE001 - whatever is thrown is the coroutine's
                resume, sent = chunk.throw, thrown
        if has_suspended:
            self._judge(before, is_sync=False)
        else:  # no function of ours, and nothing that fails: this is done for every chunk of a backlog
            self._stream.log.asked[-1] = self._stream.clock()
        return value

    @property
    def errors(self) -> InternalErrors:
        """Where failures of our own are reported."""
        return self._stream.errors

    @never_raises(Where.STREAM_READ, None)
    def _take_evidence(self, *, is_sync: bool) -> Before | None:
        """Return the evidence of this moment; None where it cannot be taken."""
        found = self._stream.evidence.read_connection()
        shows_all = found is not None and (found.is_readable or found.received is not None)
        return Before(found, None if shows_all or not is_sync else _read_thread_times())

    @never_raises(Where.STREAM_READ, None)
    def _judge(self, before: Before | None, *, is_sync: bool) -> None:
        """Judge whether the pull that just returned has blocked, and charge it to the consumer where it has not.

        Args:
            before: the evidence of the moment at which the chunk was asked for; None: there is none.
            is_sync: the pull was synchronous; else it has suspended.
        """
        if before is None or self._has_waited(before, is_sync=is_sync):
            self.blocked.append(None)
        else:
            self._stream.log.asked[-1] = self._stream.clock()

    def _has_waited(self, before: Before, *, is_sync: bool) -> bool:
        """Return whether a pull has waited for the network; True where that is not known."""
        then = before.reading
        if then is not None and then.is_readable:
            return False
        if then is not None and then.received is not None:
            now = self._stream.evidence.read_connection()
            if now is not None and now.received is not None:
                return now.received - now.unread > then.received
        return not is_sync or before.thread is None or _has_thread_waited(before.thread, self._elapsed())

    def _elapsed(self) -> int:
        return self._stream.clock() - self._stream.log.asked[-1]


async def _awaited(chunk: Any) -> Any:
    """Return what an awaitable of any make returns: as a coroutine, which can be sent to and thrown into."""
    return await chunk


def _read_thread_times() -> ThreadTimes | None:
    """Return the CPU time of this thread and how often it has waited; None where there is no such clock."""
    if not hasattr(time, "thread_time_ns"):
        return None
    switches = None if RUSAGE_THREAD is None else getrusage(RUSAGE_THREAD).ru_nvcsw
    return ThreadTimes(time.thread_time_ns(), switches)


def _has_thread_waited(before: ThreadTimes, elapsed: int) -> bool:
    """Return whether this thread has waited for anything, given its times before and what passed since then (ns)."""
    now = _read_thread_times()
    if now is None:
        return True
    if now.voluntary_switches is not None and now.voluntary_switches == before.voluntary_switches:
        return False
    return now.cpu_ns - before.cpu_ns < MIN_COMPUTING_SHARE * elapsed
