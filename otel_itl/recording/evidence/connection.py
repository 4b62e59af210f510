"""What the operating system shows of the connection that a stream is read from: the witness of what the upstream sent.

It sees data come while the process does not run. So it distinguishes a silence of the upstream from one that the caller
made, by unread bytes.
"""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple

if sys.platform != "win32":
    from fcntl import ioctl
    from termios import FIONREAD

TCP_INFO: Final[int | None] = getattr(socket, "TCP_INFO", None) if sys.platform == "linux" else None
MAX_LAYERS: Final = 8
"""Streams within one another, of httpcore, anyio and trio."""
_CIPHERTEXT: Final = ("_read_bio", "_incoming")
"""Where the streams of anyio, and those of httpcore and trio, keep it."""
_SOCKET: Final = ("_sock", "socket", "_trio_socket")
"""Where streams that read their socket at once have it: of httpcore, trio, and anyio on trio."""
FIELDS: Final = struct.Struct("B51xI72xQ16xI")
"""Where Linux (4.6 and later) has in `struct tcp_info`: the state, the milliseconds since the last data came, the bytes
and the segments of data that the connection has received."""
OLD_FIELDS: Final = struct.Struct("B51xI72xQ")
"""The same without the segments, which Linux counts since 4.6."""
ESTABLISHED: Final = 1
"""The state of a connection that neither side has closed."""
NO_BYTES: Final = bytes(4)
MILLISECOND: Final = 1_000_000
RESOLUTION: Final = 10 * MILLISECOND
"""The age of the last data is counted in ticks of the kernel: 1, 4 or 10 ms."""


def not_known() -> None:
    """Return None: it cannot be said whether a reader can go on without another byte."""


class Source(NamedTuple):
    """What a stream is read from."""

    socket: Any
    """What has the descriptor of the socket."""
    is_ready: Callable[[], bool | None] = not_known
    """Returns whether its reader can go on without another byte, as soon as its event loop gets to it: the loop has
    read some, or the response is being closed. None: that is not known."""


class Reading(NamedTuple):
    """What a connection showed at one moment. Moments are nanoseconds on the stream's clock."""

    moment: int
    """When the reading began."""
    unread: int
    """Bytes that the process had not read yet."""
    received: int | None = None
    """Bytes that had come since the connection was made; None: not known."""
    segments: int | None = None
    """Segments of data that had come since then; None: not known."""
    last_data: int | None = None
    """The latest moment at which the last of them can have come; None: not known."""
    is_ready: bool = False
    """The reader could go on without another byte, as soon as its event loop got to it."""

    is_established: bool = False
    """Neither side had closed it; False also where that is not known."""

    @property
    def is_readable(self) -> bool:
        """Whether something was there that the reader had not taken."""
        return self.is_ready or self.unread > 0


FindSource = Callable[[], Source | None]
"""Returns what a stream is read from; None where it cannot be reached."""


class Connection:
    """The connection of one stream. Reading it changes nothing, and is possible in any thread.

    Args:
        find_source: finds what the stream is read from.
        clock: the stream's clock, in nanoseconds.
        is_shared: other streams are read from it as well: then data that came may have been theirs.
    """

    __slots__ = ("_clock", "_find_source", "_source", "is_shared")

    def __init__(self, find_source: FindSource, clock: Callable[[], int], *, is_shared: bool = False) -> None:
        self._find_source: FindSource | None = find_source
        self._clock = clock
        self._source: Source | None = None
        self.is_shared = is_shared

    def read(self) -> Reading | None:
        """Read what the connection shows now; None where it cannot be reached."""
        find_source = self._find_source
        if find_source is not None:  # looked for once: a stream stays on its connection
            try:
                self._source = find_source()
            finally:
                self._find_source = None
        source = self._source
        if source is None:
            return None
        moment = self._clock()
        unread = count_unread(source.socket)
        if unread is None:
            return None
        is_ready = source.is_ready() is True
        info = _read_info(source.socket)
        if info is None:
            return Reading(moment, unread, is_ready=is_ready)
        # The clock is read once more: a process that is stopped in between takes the data for older than they are.
        state, age, received, segments = info
        last_data = self._clock() - age * MILLISECOND + RESOLUTION
        return Reading(moment, unread, received, segments, last_data, is_ready, state == ESTABLISHED)


def count_unread(connected: Any) -> int | None:
    """Return how many bytes a socket has that its process has not read; None: not known, or it is closed."""
    if sys.platform == "win32":
        return None
    try:
        return int.from_bytes(ioctl(connected.fileno(), FIONREAD, NO_BYTES), sys.byteorder)
    except (OSError, ValueError, AttributeError):  # closed, or given back
        return None


def make_source(stream: Any) -> Source | None:
    """Make the source of what is read from a network stream of httpcore; None where its socket cannot be reached."""
    connected = stream.get_extra_info("socket")
    return None if connected is None else Source(connected, _find_read_ahead(stream))


def _find_read_ahead(stream: Any) -> Callable[[], bool | None]:
    """Return what shows whether more was read from its socket than from a network stream of httpcore.

    TLS, also within TLS, keeps what it has not decrypted; anyio on asyncio has what its event loop has read.
    """
    kept: list[Any] = []
    for _ in range(MAX_LAYERS):
        kept += [layer for name in _CIPHERTEXT if (layer := getattr(stream, name, None)) is not None]
        queue = getattr(getattr(stream, "_protocol", None), "read_queue", None)
        if queue is not None or any(hasattr(stream, name) for name in _SOCKET):
            return lambda: bool(queue) or any(one.pending for one in kept)
        stream = getattr(stream, "_stream", None) or getattr(stream, "transport_stream", None)
    return not_known


def _read_info(connected: Any) -> tuple[int, int, int, int | None] | None:
    """Return the state, the age of the last data (ms), the bytes and segments received; None where that is unknown."""
    if TCP_INFO is None:
        return None
    with suppress(Exception):  # a socket of another family
        try:
            return _unpack(connected.getsockopt(socket.IPPROTO_TCP, TCP_INFO, FIELDS.size))
        except (TypeError, AttributeError):  # it stands for a socket and has its descriptor alone
            with socket.fromfd(connected.fileno(), socket.AF_INET, socket.SOCK_STREAM) as same:
                return _unpack(same.getsockopt(socket.IPPROTO_TCP, TCP_INFO, FIELDS.size))
    return None


def _unpack(info: bytes) -> tuple[int, int, int, int | None]:
    """Return the state, the age of the last data (ms), the bytes received, and the segments (None: an old kernel)."""
    if len(info) < FIELDS.size:
        return (*OLD_FIELDS.unpack_from(info), None)
    state, age, received, segments = FIELDS.unpack_from(info)
    return state, age, received, segments
