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

import asyncio
import inspect
import socket
import struct
import sys
import time
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, Final, NamedTuple, Protocol

from otel_itl.conventions import Where
from otel_itl.recording.chunk_log import ChunkLog
from otel_itl.recording.internal_errors import InternalErrors, never_raises

if sys.platform == "win32":
    FIONREAD: Final = None
else:
    from fcntl import ioctl
    from resource import getrusage
    from termios import FIONREAD

RUSAGE_THREAD: Final[int | None] = getattr(sys.modules.get("resource"), "RUSAGE_THREAD", None)
TCP_INFO: Final[int | None] = getattr(socket, "TCP_INFO", None) if sys.platform == "linux" else None
BYTES_RECEIVED: Final = struct.Struct("128xQ")
"""Where Linux (4.1 and later) has the number of bytes that a connection has received, in `struct tcp_info`."""
NO_BYTES: Final = bytes(4)
MIN_COMPUTING_SHARE: Final = 0.5
"""A pull has not waited for the network if its thread was computing for this share of it."""


class RecordedStream(Protocol):
    """What evidence is taken of: a `StreamRecorder`."""

    log: ChunkLog
    clock: Callable[[], int]

    @property
    def errors(self) -> InternalErrors:
        """Where failures of our own are reported."""
        ...


class Bytes(NamedTuple):
    """The bytes of a connection at one moment."""

    unread: int
    """Bytes that the process has not read yet."""
    received: int | None
    """Bytes that have come since the connection was made; None: not known."""


class ThreadTimes(NamedTuple):
    """What the operating system shows of this thread at one moment."""

    cpu_ns: int
    waits: int | None
    """How often the thread has given up the CPU of its own accord; None: not known."""


class Before(NamedTuple):
    """The evidence at the moment at which a chunk was asked for."""

    socket_bytes: Bytes | None
    thread: ThreadTimes | None
    """None on an event loop, whose thread does other work as well."""


def make_pull_evidence(
    stream: RecordedStream, pull: Callable[[], Any], find_socket: Callable[[], Any]
) -> PullEvidence | None:
    """Make the `PullEvidence` of a stream whose reading starts; None if a test has replaced the stream's clock."""
    return PullEvidence(stream, pull, find_socket) if stream.clock is perf_counter_ns else None


class PullEvidence:
    """Pulls the chunks after a hold, and takes evidence of whether the pulls blocked.

    Args:
        stream: records the stream.
        pull: gets the next chunk from the SDK.
        find_socket: returns the socket that the stream is read from; None where it cannot be reached.
    """

    __slots__ = ("_find_socket", "_pull_next", "_socket", "_stream", "has_blocked")

    def __init__(self, stream: RecordedStream, pull: Callable[[], Any], find_socket: Callable[[], Any]) -> None:
        self._find_socket = find_socket
        self._stream = stream
        self._pull_next = pull
        self._socket: Any = None
        self.has_blocked = True
        """The last pull blocked, as far as is known."""

    def pull(self) -> Any:
        """Get the next chunk from the SDK, an awaitable of it where the stream is asynchronous."""
        before = self._take_evidence()
        chunk = self._pull_next()
        if inspect.isawaitable(chunk):
            return self._await(chunk, before)
        self._judge(before, has_suspended=None)
        return chunk

    async def _await(self, chunk: Any, before: Before | None) -> Any:
        """Await a chunk, and judge whether that blocked."""
        suspended: list[bool] = []
        noted = None
        try:
            noted = asyncio.get_running_loop().call_soon(suspended.append, True)  # noqa: FBT003 - an item
        except RuntimeError:  # a loop of another library
            suspended.append(True)
        try:
            result = await chunk
        finally:
            if noted is not None:
                noted.cancel()
        self._judge(before, has_suspended=bool(suspended))
        return result

    @property
    def errors(self) -> InternalErrors:
        """Where failures of our own are reported."""
        return self._stream.errors

    @never_raises(Where.STREAM_READ, None)
    def _take_evidence(self) -> Before | None:
        """Return the evidence at the moment at which a chunk is asked for; None where it cannot be taken."""
        return Before(self._read_bytes(), _read_thread_times())

    @never_raises(Where.STREAM_READ, None)
    def _judge(self, before: Before | None, *, has_suspended: bool | None) -> None:
        """Judge whether the pull that just returned has blocked, and charge it to the consumer where it has not.

        Args:
            before: the evidence of the moment at which the chunk was asked for; None: there is none.
            has_suspended: whether the pull gave control to its event loop; None: it was synchronous.
        """
        if before is None:
            return
        if has_suspended is False or not self._has_waited(before, is_sync=has_suspended is None):
            self.has_blocked = False
            self._stream.log.asked[-1] = self._stream.clock()

    def _has_waited(self, before: Before, *, is_sync: bool) -> bool:
        """Return whether a pull has waited for the network; True where that is not known."""
        then = before.socket_bytes
        if then is not None and then.unread:
            return False
        if then is not None and then.received is not None:
            now = self._read_bytes()
            if now is not None and now.received is not None:
                return now.received - now.unread > then.received
        return not is_sync or before.thread is None or _has_thread_waited(before.thread, self._elapsed())

    def _elapsed(self) -> int:
        return self._stream.clock() - self._stream.log.asked[-1]

    def _read_bytes(self) -> Bytes | None:
        """Return the bytes of the stream's connection; None where it cannot be reached."""
        if self._socket is None:
            self._socket = self._find_socket()
        connected = self._socket
        if connected is None or FIONREAD is None:
            return None
        try:
            unread = int.from_bytes(ioctl(connected.fileno(), FIONREAD, NO_BYTES), sys.byteorder)
        except (OSError, ValueError, AttributeError):  # closed, or given back
            return None
        return Bytes(unread, _read_received(connected))


def _read_received(connected: Any) -> int | None:
    """Return how many bytes a connection has received; None where the operating system does not show it."""
    if TCP_INFO is None:
        return None
    try:
        found = connected.getsockopt(socket.IPPROTO_TCP, TCP_INFO, BYTES_RECEIVED.size)
        return BYTES_RECEIVED.unpack(found)[0]  # type: ignore[no-any-return]
    except Exception:  # noqa: BLE001 - a socket of another make, or of another family
        return None


def _read_thread_times() -> ThreadTimes | None:
    """Return the CPU time of this thread and how often it has waited; None where there is no such clock."""
    if not hasattr(time, "thread_time_ns"):
        return None
    waits = None if RUSAGE_THREAD is None else getrusage(RUSAGE_THREAD).ru_nvcsw
    return ThreadTimes(time.thread_time_ns(), waits)


def _has_thread_waited(before: ThreadTimes, elapsed: int) -> bool:
    """Return whether this thread has waited for anything, given its times before and what passed since then (ns)."""
    now = _read_thread_times()
    if now is None:
        return True
    if now.waits is not None and now.waits == before.waits:
        return False
    return now.cpu_ns - before.cpu_ns < MIN_COMPUTING_SHARE * elapsed
