"""A proxy that holds back what a server streams, and keeps the truth about when it let go of what.

It runs in a process of its own, which takes its parameters as arguments, says its port, and answers every line on its
standard input with what it has forwarded since the line before.
"""

from __future__ import annotations

import os
import pickle
import selectors
import socket
import subprocess
import sys
import time
from contextlib import suppress
from types import TracebackType
from typing import IO, Any, cast

HOST = "127.0.0.1"
Forwards = list[tuple[int, bytes]]
"""What was forwarded to the client, and when (`time.perf_counter_ns()`, immediately before the write)."""


class BufferingProxy:
    """Forwards what the server sends once there are `size` bytes of it, or `delay` seconds after the first of them."""

    def __init__(self, upstream_port: int, *, size: int, delay: float) -> None:
        self._arguments = [str(upstream_port), str(size), str(delay)]

    def __enter__(self) -> BufferingProxy:  # noqa: PYI034 - `Self` is in typing from 3.11 on
        command = [sys.executable, "-I", __file__, *self._arguments]
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 - ourselves
        port = int(cast("IO[bytes]", self._child.stdout).readline())
        self.url = f"http://{HOST}:{port}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        cast("IO[bytes]", self._child.stdin).close()
        self._child.wait(timeout=5)
        cast("IO[bytes]", self._child.stdout).close()

    def forwarded(self) -> Forwards:
        """What was forwarded since this was asked before."""
        asking, answering = cast("IO[bytes]", self._child.stdin), cast("IO[bytes]", self._child.stdout)
        asking.write(b"\n")
        asking.flush()
        forwards: Forwards = pickle.load(answering)  # noqa: S301 - written by our own child
        return forwards


class _Relay:
    """One client at a time."""

    def __init__(self, upstream_port: int, size: int, delay: float) -> None:
        self._upstream_port, self._size, self._delay_ns = upstream_port, size, round(delay * 1e9)
        self._selector = selectors.DefaultSelector()
        self._listener = socket.create_server((HOST, 0))
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(0, selectors.EVENT_READ, self._answer)
        self._client: socket.socket | None = None
        self._server: socket.socket | None = None
        self._held = bytearray()
        self._due = 0
        self._forwards: Forwards = []

    def run(self) -> None:
        print(self._listener.getsockname()[1], flush=True)
        while True:
            timeout = max(self._due - time.perf_counter_ns(), 0) / 1e9 if self._held else None
            for key, _ in self._selector.select(timeout):
                key.data()
            if self._held and (len(self._held) >= self._size or time.perf_counter_ns() >= self._due):
                self._forward()

    def _accept(self) -> None:
        self._hang_up()
        self._client, _ = self._listener.accept()
        self._server = socket.create_connection((HOST, self._upstream_port))
        for side, ready in ((self._client, self._request), (self._server, self._response)):
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(side, selectors.EVENT_READ, ready)

    def _request(self) -> None:
        if (data := _received(self._client)) and self._server is not None:
            self._server.sendall(data)
        else:
            self._hang_up()

    def _response(self) -> None:
        if data := _received(self._server):
            if not self._held:
                self._due = time.perf_counter_ns() + self._delay_ns
            self._held += data
        else:
            self._forward()
            self._hang_up()

    def _forward(self) -> None:
        data = bytes(self._held)
        self._held.clear()
        self._forwards.append((time.perf_counter_ns(), data))
        if self._client is not None:
            with suppress(OSError):
                self._client.sendall(data)

    def _hang_up(self) -> None:
        for side in (self._client, self._server):
            if side is not None:
                self._selector.unregister(side)
                side.close()
        self._client = self._server = None
        self._held.clear()

    def _answer(self) -> None:
        if not os.read(0, 1):
            sys.exit()
        pickle.dump(self._forwards, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        self._forwards = []


def _received(side: Any) -> bytes:
    if side is None:
        return b""
    try:
        data: bytes = side.recv(65536)
    except OSError:
        return b""
    return data


if __name__ == "__main__":
    _Relay(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])).run()
