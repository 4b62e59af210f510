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

if sys.platform == "win32":
    FIONREAD: Final = None
else:
    from fcntl import ioctl
    from termios import FIONREAD

TCP_INFO: Final[int | None] = getattr(socket, "TCP_INFO", None) if sys.platform == "linux" else None
FIELDS: Final = struct.Struct("52xI72xQ16xI")
"""Where Linux (4.6 and later) has in `struct tcp_info`: the milliseconds since the last data came, the bytes and the
segments of data that the connection has received."""
OLD_FIELDS: Final = struct.Struct("52xI72xQ")
"""The same without the segments, which Linux counts since 4.6."""
NO_BYTES: Final = bytes(4)
MILLISECOND: Final = 1_000_000
RESOLUTION: Final = 10 * MILLISECOND
"""The age of the last data is counted in ticks of the kernel: 1, 4 or 10 ms."""


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


FindSocket = Callable[[], Any]
"""Returns what has the descriptor of a socket; None where it cannot be reached."""


class Connection:
    """The connection of one stream. Reading it changes nothing, and is possible in any thread.

    Args:
        find_socket: finds the connection's socket.
        clock: the stream's clock, in nanoseconds.
        is_shared: other streams are read from it as well: then data that came may have been theirs.
    """

    __slots__ = ("_clock", "_find_socket", "_socket", "is_shared")

    def __init__(self, find_socket: FindSocket, clock: Callable[[], int], *, is_shared: bool = False) -> None:
        self._find_socket: FindSocket | None = find_socket
        self._clock = clock
        self._socket: Any = None
        self.is_shared = is_shared

    def read(self) -> Reading | None:
        """Read what the connection shows now; None where it cannot be reached."""
        find_socket = self._find_socket
        if find_socket is not None:  # looked for once: a stream stays on its connection
            try:
                self._socket = find_socket()
            finally:
                self._find_socket = None
        connected = self._socket
        if connected is None or FIONREAD is None:
            return None
        moment = self._clock()
        try:
            unread = int.from_bytes(ioctl(connected.fileno(), FIONREAD, NO_BYTES), sys.byteorder)
        except (OSError, ValueError, AttributeError):  # closed, or given back
            return None
        info = _read_info(connected)
        if info is None:
            return Reading(moment, unread)
        # The clock is read once more: a process that is stopped in between takes the data for older than they are.
        age, received, segments = info
        return Reading(moment, unread, received, segments, self._clock() - age * MILLISECOND + RESOLUTION)


def _read_info(connected: Any) -> tuple[int, int, int | None] | None:
    """Return the age of the last data (ms), the bytes received, and the segments; None where that is not shown."""
    if TCP_INFO is None:
        return None
    with suppress(Exception):  # a socket of another family
        try:
            return _unpack(connected.getsockopt(socket.IPPROTO_TCP, TCP_INFO, FIELDS.size))
        except (TypeError, AttributeError):  # it stands for a socket and has its descriptor alone
            with socket.fromfd(connected.fileno(), socket.AF_INET, socket.SOCK_STREAM) as same:
                return _unpack(same.getsockopt(socket.IPPROTO_TCP, TCP_INFO, FIELDS.size))
    return None


def _unpack(info: bytes) -> tuple[int, int, int | None]:
    """Return the age of the last data (ms), the bytes received, and the segments (None: the kernel is too old)."""
    if len(info) < FIELDS.size:
        age, received = OLD_FIELDS.unpack_from(info)
        return age, received, None
    age, received, segments = FIELDS.unpack_from(info)
    return age, received, segments
