"""HTTP/1.1 on one server-side connection: requests in, headers and chunks out, no buffering on the way."""

from __future__ import annotations

import contextlib
import http.client
import selectors
import socket
import struct
import threading
import time
from collections.abc import Iterable, Mapping

from .exchange import Received

_LONGEST_LINE = 1 << 16
_MOST_LINES = 1 << 10
SLEEP_NS = 5_000_000
"""Below this, a plain sleep: more exact than a selector, and short enough to notice soon that the client left."""
# A selector may round its timeout up to the next millisecond.
_SELECT_SLACK_NS = 2_000_000


class ConnectionOverError(Exception):
    """The connection is not to be used again."""


class PeerLeftError(ConnectionOverError):
    """The client closed the connection, or the server is stopping."""


class Connection:
    """A client's connection."""

    def __init__(self, sock: socket.socket, stopping: threading.Event) -> None:
        """Take an accepted socket; `stopping` ends every wait."""
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = sock
        self._stopping = stopping
        self._reader = sock.makefile("rb")
        self._selector = selectors.DefaultSelector()
        self._selector.register(sock, selectors.EVENT_READ)
        self._is_reset = False

    @property
    def is_stopping(self) -> bool:
        """Whether the server is stopping."""
        return self._stopping.is_set()

    def speaks_http2(self) -> bool:
        """Wait for the first bytes of the client, which stay to be read; returns whether they begin HTTP/2."""
        return self._reader.peek(1).startswith(b"PRI * HTTP/2.0")

    def read(self) -> bytes:
        """Wait for bytes and return them, whatever they are; empty where the client has closed."""
        return self._reader.read1()

    def receive(self) -> Received | None:
        """Wait for the next request and return it; None when the client has no more.

        Raises:
            OSError: the connection broke.
            PeerLeftError: the client left in the middle of the request.
            ValueError: what came is not HTTP.
        """
        lines: list[str] = []
        while (line := self._reader.readline(_LONGEST_LINE)) != b"\r\n":
            if not line:
                return None
            lines.append(line.decode("latin-1"))
            if len(lines) > _MOST_LINES:
                raise ValueError("the request's headers do not end")
        first, *fields = lines
        method, path, _ = first.split(" ")
        headers: dict[str, str] = {}
        for field in fields:
            name, _, value = field.partition(":")
            key, value = name.strip().lower(), value.strip()
            headers[key] = f"{headers[key]}, {value}" if key in headers else value
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body = self._chunked_body()
        else:
            body = self._exactly(int(headers.get("content-length", "0")))
        return Received(method, path, headers, body, time.perf_counter_ns())

    def begin(self, status: int, fields: Mapping[str, str], body: bytes | None) -> None:
        """Send the status line and headers of a response: with its whole body, or (None) with chunks to come."""
        length = {"transfer-encoding": "chunked"} if body is None else {"content-length": str(len(body))}
        lines = [f"HTTP/1.1 {status} {http.client.responses.get(status, 'Unknown')}"]
        lines += [f"{name}: {value}" for name, value in {**length, **fields}.items()]
        self.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + (body or b""))

    def write(self, data: bytes) -> None:
        """Write all of the data, which is as it is on the wire already.

        Raises:
            PeerLeftError: the client is not there any more.
        """
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise PeerLeftError from error

    def finish(self, _: Iterable[tuple[str, str]], rest: bytes = b"") -> None:
        """End a chunked body, after the rest of it. HTTP/1 has trailers, too, but no client here reads them."""
        self.write(rest + b"0\r\n\r\n")

    def frame(self, data: bytes) -> bytes:
        """Encode one chunk of a chunked body."""
        return b"%x\r\n%b\r\n" % (len(data), data) if data else b""

    def wait_until(self, deadline_ns: int | None) -> None:
        """Sleep until this reading of `time.perf_counter_ns()`; None: for ever.

        Raises:
            PeerLeftError: the client left, or the server is stopping.
        """
        while True:
            waiting = self._peek()
            if self.is_stopping or waiting == b"":
                raise PeerLeftError
            left = None if deadline_ns is None else deadline_ns - time.perf_counter_ns()
            if left is not None and left <= SLEEP_NS:
                if left > 0:
                    time.sleep(left / 1e9)
                return
            if waiting:
                # The next request is here already: a selector would not wait, so look around now and then.
                time.sleep(SLEEP_NS / 2e9)
            else:
                self._selector.select(None if left is None else (left - _SELECT_SLACK_NS) / 1e9)

    def drop(self, *, is_reset: bool = False) -> None:
        """End the connection with a FIN, or have `close()` end it with a RST; wakes whatever waits on it.

        May be called from another thread.
        """
        self._is_reset = is_reset
        with contextlib.suppress(OSError):
            if is_reset:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._socket.shutdown(socket.SHUT_RD if is_reset else socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection with a FIN; with a RST where that was asked for."""
        if not self._is_reset:
            self.drop()
        self._selector.close()
        with contextlib.suppress(OSError):
            self._reader.close()
        self._socket.close()

    def _peek(self) -> bytes | None:
        """Return a byte that waits to be read; empty when the client has closed, None when there is nothing."""
        if not self._selector.select(0):
            return None
        try:
            return self._socket.recv(1, socket.MSG_PEEK)
        except OSError:
            return b""

    def _exactly(self, count: int) -> bytes:
        data = self._reader.read(count)
        if len(data) < count:
            raise PeerLeftError
        return data

    def _chunked_body(self) -> bytes:
        """Read a chunked request body and its trailers, and return it in one piece."""
        body = b""
        while size := int(self._reader.readline().partition(b";")[0], 16):
            body += self._exactly(size)
            self._reader.readline()
        while self._reader.readline() not in {b"\r\n", b""}:  # trailers
            pass
        return body
