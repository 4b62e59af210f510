"""Programs between a client and the server, which record when they forwarded what, such as a proxy.

Each runs in a process of its own. It prints its port, and answers every line on its standard input with what it
forwarded since the line before.
"""

from __future__ import annotations

import os
import pickle
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import IO, Any, cast

import h11

HOST = "127.0.0.1"
Forwards = list[tuple[int, bytes]]
"""The moments (`time.perf_counter_ns()`, immediately before the write) and bytes of what the client was sent."""
Bodies = Callable[[Forwards], Iterator[tuple[int, bytes]]]
"""Extracts the body of the one response from what was forwarded, without framing and compression."""


class Between:
    """Runs such a program as a child process, as a context manager; `module` is one of the modules beside this one."""

    def __init__(self, module: str, *arguments: str, bodies: Bodies) -> None:
        self._command = [sys.executable, "-m", module, *arguments]
        self._bodies = bodies

    def __enter__(self) -> Between:  # noqa: PYI034 - `Self` is in typing from 3.11 on
        self._child = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 - ourselves
        port = int(cast("IO[bytes]", self._child.stdout).readline())
        self.url = f"http://{HOST}:{port}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        cast("IO[bytes]", self._child.stdin).close()
        self._child.wait(timeout=5)
        cast("IO[bytes]", self._child.stdout).close()

    def left(self) -> list[int]:
        """Return when the last byte of each server-sent event was forwarded, of those since the call before."""
        asking, answering = cast("IO[bytes]", self._child.stdin), cast("IO[bytes]", self._child.stdout)
        asking.write(b"\n")
        asking.flush()
        forwards: Forwards = pickle.load(answering)  # noqa: S301 - written by our own child
        left: list[int] = []
        unread = b""
        for at, data in self._bodies(forwards):
            *events, unread = (unread + data).split(b"\n\n")
            left += [at] * len(events)
        return left


class Relay:
    """The child process: serves one client at a time and forwards to one server."""

    def __init__(self, upstream_port: int) -> None:
        self._upstream_port = upstream_port
        self._selector = selectors.DefaultSelector()
        self._listener = socket.create_server((HOST, 0))
        self._selector.register(self._listener, selectors.EVENT_READ, self.accept)
        self._selector.register(0, selectors.EVENT_READ, self._answer)
        self.client: socket.socket | None = None
        self.server: socket.socket | None = None
        self._forwards: Forwards = []

    def run(self) -> None:
        """Print the port, and serve until standard input ends."""
        print(self._listener.getsockname()[1], flush=True)
        while True:
            for key, _ in self._selector.select(self.timeout()):
                key.data()
            self.look()

    def timeout(self) -> float | None:
        """Return in how many seconds `look` has to be called even if nothing is received; None: never."""
        return None

    def look(self) -> None:
        """Do what is due, after something was received or after the timeout."""

    def request(self) -> None:
        """Receive from the client; it may have closed the connection."""
        raise NotImplementedError

    def response(self) -> None:
        """Receive from the server; it may have closed the connection."""
        raise NotImplementedError

    def accept(self) -> None:
        """Accept a client; close the connections of the one before."""
        self.hang_up()
        self.client, _ = self._listener.accept()
        self._listen(self.client, self.request)

    def connect(self) -> socket.socket:
        """Connect to the server."""
        self.server = socket.create_connection((HOST, self._upstream_port))
        self._listen(self.server, self.response)
        return self.server

    def forward(self, data: bytes) -> None:
        """Send bytes to the client, and record the moment."""
        self._forwards.append((time.perf_counter_ns(), data))
        if self.client is not None:
            try:
                self.client.sendall(data)
            except OSError:
                self.hang_up()

    def hang_up(self) -> None:
        """Close both connections."""
        if self.server is not None:
            self._selector.unregister(self.server)
            self.server.close()
            self.server = None
        if self.client is not None:
            self._selector.unregister(self.client)
            self.client.close()
            self.client = None

    def _listen(self, side: socket.socket, ready: Callable[[], None]) -> None:
        side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._selector.register(side, selectors.EVENT_READ, ready)

    def _answer(self) -> None:
        if not os.read(0, 1):
            sys.exit()
        pickle.dump(self._forwards, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        self._forwards = []


def received(side: socket.socket | None) -> bytes:
    """Return the bytes that one side sent; b'' where it closed the connection."""
    if side is None:
        return b""
    try:
        return side.recv(65536)
    except OSError:
        return b""


def body_events(connection: h11.Connection) -> Iterator[Any]:
    """Yield the events of a response that an HTTP/1.1 connection received so far."""
    while not isinstance(event := connection.next_event(), type):  # NEED_DATA and PAUSED are types
        yield event
        if isinstance(event, h11.EndOfMessage):
            return
