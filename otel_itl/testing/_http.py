"""HTTP/1.1 on one server-side connection: requests in, headers and chunks out, no buffering on the way."""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

_LARGEST_HEAD = 1 << 20
SLEEP_NS = 5_000_000
"""Below this, a plain sleep: more exact than a selector, and short enough to notice soon that the client left."""
# A selector may round its timeout up to the next millisecond.
_SELECT_SLACK_NS = 2_000_000


class PeerLeftError(Exception):
    """The client closed the connection, or the server is stopping."""


@dataclass(frozen=True, slots=True)
class Received:
    """A request as it came over the wire."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    arrived_ns: int


class Connection:
    """A client's connection."""

    def __init__(self, sock: socket.socket, stopping: threading.Event) -> None:
        """Take an accepted socket; `stopping` ends every wait."""
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = sock
        self._stopping = stopping
        self._received = bytearray()
        self._selector = selectors.DefaultSelector()
        self._selector.register(sock, selectors.EVENT_READ)
        self._is_reset = False

    @property
    def is_stopping(self) -> bool:
        """Whether the server is stopping."""
        return self._stopping.is_set()

    def begins_with(self, preface: bytes) -> bool:
        """Wait for the first bytes of the client, which stay to be read; returns whether they are these."""
        while len(self._received) < len(preface) and preface.startswith(self._received):
            if not self._read_more():
                return False
        return self._received.startswith(preface)

    def read(self) -> bytes:
        """Wait for bytes and return them, whatever they are; empty where the client has closed."""
        if self._received or self._read_more():
            return self._take(len(self._received))
        return b""

    def receive(self) -> Received | None:
        """Wait for the next request and return it; None when the client has no more.

        Raises:
            PeerLeftError: the client left in the middle of one.
            ValueError: what came is not HTTP.
        """
        while (end := self._received.find(b"\r\n\r\n")) < 0:
            if len(self._received) > _LARGEST_HEAD:
                raise ValueError("the request's headers do not end")
            if not self._read_more():
                return None
        head = self._take(end + 4).decode("latin-1")
        first, *lines = head.rstrip("\r\n").split("\r\n")
        parts = first.split(" ")
        if len(parts) != 3:  # noqa: PLR2004 - method, path, version
            raise ValueError(f"not an HTTP request line: {first!r}")
        headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            key, value = name.strip().lower(), value.strip()
            headers[key] = f"{headers[key]}, {value}" if key in headers else value
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body = self._chunked_body()
        else:
            body = self._exactly(int(headers.get("content-length", "0")))
        return Received(parts[0], parts[1], headers, body, time.perf_counter_ns())

    def begin(self, status: int, fields: Mapping[str, str], body: bytes | None) -> None:
        """Send the status line and headers of a response: with its whole body, or (None) with chunks to come."""
        length = {"transfer-encoding": "chunked"} if body is None else {"content-length": str(len(body))}
        self.send(_head(status, {**length, **fields}) + (body or b""))

    def write(self, data: bytes) -> None:
        """Send a piece of a body, which is as it is on the wire already."""
        self.send(data)

    def finish(self, _: Iterable[tuple[str, str]], rest: bytes = b"") -> None:
        """End a chunked body, after the rest of it. HTTP/1 has trailers, too, but no client here reads them."""
        self.send(rest + LAST_CHUNK)

    def frame(self, data: bytes) -> bytes:
        """Encode one chunk of a chunked body."""
        return b"%x\r\n%b\r\n" % (len(data), data) if data else b""

    def send(self, data: bytes) -> None:
        """Write all of the data.

        Raises:
            PeerLeftError: the client is not there any more.
        """
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise PeerLeftError from error

    def wait_until(self, deadline_ns: int | None) -> None:
        """Sleep until this reading of `time.perf_counter_ns()`; None: for ever.

        Raises:
            PeerLeftError: the client left, or the server is stopping.
        """
        while True:
            self._raise_if_peer_left()
            left = None if deadline_ns is None else deadline_ns - time.perf_counter_ns()
            if left is not None and left <= SLEEP_NS:
                if left > 0:
                    time.sleep(left / 1e9)
                return
            if self._received_early():
                # The next request is here already: a selector would not wait, so look around now and then.
                time.sleep(SLEEP_NS / 2e9)
            else:
                self._selector.select(None if left is None else (left - _SELECT_SLACK_NS) / 1e9)

    def close(self) -> None:
        """Close with a FIN; with a RST where that was asked for."""
        if not self._is_reset:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        self._release()

    def reset(self) -> None:
        """Close with a RST."""
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._release()

    def interrupt_with_reset(self) -> None:
        """Wake whatever waits on this connection, from another thread, and have `close()` close it with a RST."""
        self._is_reset = True
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._socket.shutdown(socket.SHUT_RD)

    def interrupt(self) -> None:
        """Wake whatever waits on this connection, from another thread."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _release(self) -> None:
        self._selector.close()
        self._socket.close()

    def _peek(self) -> bytes | None:
        """Return a byte that waits to be read; empty when the client has closed, None when there is nothing."""
        if not self._selector.select(0):
            return None
        try:
            return self._socket.recv(1, socket.MSG_PEEK)
        except OSError:
            return b""

    def _raise_if_peer_left(self) -> None:
        if self._stopping.is_set() or self._peek() == b"":
            raise PeerLeftError

    def _received_early(self) -> bool:
        return bool(self._received) or bool(self._peek())

    def _read_more(self) -> bool:
        """Receive more data into the buffer; returns False where the client has closed."""
        try:
            data = self._socket.recv(65536)
        except OSError:
            return False
        self._received += data
        return bool(data)

    def _take(self, count: int) -> bytes:
        taken = bytes(self._received[:count])
        del self._received[:count]
        return taken

    def _exactly(self, count: int) -> bytes:
        while len(self._received) < count:
            if not self._read_more():
                raise PeerLeftError
        return self._take(count)

    def _line(self) -> bytes:
        while (end := self._received.find(b"\r\n")) < 0:
            if not self._read_more():
                raise PeerLeftError
        return self._take(end + 2)[:-2]

    def _chunked_body(self) -> bytes:
        """Read a chunked request body and its trailers, and return it in one piece."""
        body = b""
        while size := int(self._line().partition(b";")[0], 16):
            body += self._exactly(size)
            self._line()
        while self._line():  # trailers
            pass
        return body


def _head(status: int, fields: Mapping[str, str]) -> bytes:
    """Encode the status line and headers of a response."""
    try:
        reason = HTTPStatus(status).phrase
    except ValueError:
        reason = "Unknown"
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in fields.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


LAST_CHUNK = b"0\r\n\r\n"
"""What ends a chunked body."""
