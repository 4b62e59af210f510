"""What stands between a client and the server, and keeps the truth about when it let go of what.

It runs in a process of its own, which says its port, and answers every line on its standard input with what it has
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
"""What was forwarded to the client, and when (`time.perf_counter_ns()`, immediately before the write)."""
Bodies = Callable[[Forwards], Iterator[tuple[int, bytes]]]
"""From what was forwarded to the body of the one response in it, without framing and compression."""


class Between:
    """The parent's hold on one of the modules beside this one, which is run with these arguments."""

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
        """When the last byte of each server-sent event was let go of, of those since this was asked before."""
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
    """The child: one client at a time, and the server behind."""

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
        """Say the port, and serve until standard input ends."""
        print(self._listener.getsockname()[1], flush=True)
        while True:
            for key, _ in self._selector.select(self.timeout()):
                key.data()
            self.look()

    def timeout(self) -> float | None:
        """How many seconds from now there is something to do, even if nobody says anything."""
        return None

    def look(self) -> None:
        """Do what there is to do after something was said, or the timeout."""

    def request(self) -> None:
        """The client says something, or hangs up."""
        raise NotImplementedError

    def response(self) -> None:
        """The server says something, or hangs up."""
        raise NotImplementedError

    def accept(self) -> None:
        """A client calls."""
        self.hang_up()
        self.client, _ = self._listener.accept()
        self._hear(self.client, self.request)

    def connect(self) -> socket.socket:
        """Call the server."""
        self.server = socket.create_connection((HOST, self._upstream_port))
        self._hear(self.server, self.response)
        return self.server

    def forward(self, data: bytes, as_sent: bytes) -> None:
        """Send something to the client, and take down when."""
        self._forwards.append((time.perf_counter_ns(), data))
        if self.client is not None:
            try:
                self.client.sendall(as_sent)
            except OSError:
                self.hang_up()

    def hang_up(self) -> None:
        """Both sides."""
        self.leave_server()
        if self.client is not None:
            self._selector.unregister(self.client)
            self.client.close()
            self.client = None

    def leave_server(self) -> None:
        """The server alone."""
        if self.server is not None:
            self._selector.unregister(self.server)
            self.server.close()
            self.server = None

    def _hear(self, side: socket.socket, ready: Callable[[], None]) -> None:
        side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._selector.register(side, selectors.EVENT_READ, ready)

    def _answer(self) -> None:
        if not os.read(0, 1):
            sys.exit()
        pickle.dump(self._forwards, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        self._forwards = []


def received(side: socket.socket | None) -> bytes:
    """What one side says; nothing where it has hung up."""
    if side is None:
        return b""
    try:
        return side.recv(65536)
    except OSError:
        return b""


def body_events(connection: h11.Connection) -> Iterator[Any]:
    """The events of a response that an HTTP/1.1 connection has received so far."""
    while not isinstance(event := connection.next_event(), type):  # NEED_DATA and PAUSED are types
        yield event
        if isinstance(event, h11.EndOfMessage):
            return
