"""A proxy that buffers what a server streams."""

from __future__ import annotations

import sys
import time
import zlib
from collections.abc import Iterator

import h11

from bench.truth.between import Between, Forwards, Relay, body_events, received

_GZIP = 16 + zlib.MAX_WBITS


def buffering_proxy(upstream_port: int, *, size: int, delay: float) -> Between:
    """Return a proxy that forwards when it holds `size` bytes, or `delay` seconds after the first of them."""
    return Between(__name__, str(upstream_port), str(size), str(delay), bodies=_bodies)


def _bodies(forwards: Forwards) -> Iterator[tuple[int, bytes]]:
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="GET", target="/", headers=[("host", "proxy")]))
    connection.send(h11.EndOfMessage())
    gunzip = None
    for at, data in forwards:
        connection.receive_data(data)
        for event in body_events(connection):
            if isinstance(event, h11.Response) and (b"content-encoding", b"gzip") in list(event.headers):
                gunzip = zlib.decompressobj(_GZIP)
            elif isinstance(event, h11.Data):
                yield at, bytes(event.data) if gunzip is None else gunzip.decompress(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return


class _Buffering(Relay):
    def __init__(self, upstream_port: int, size: int, delay: float) -> None:
        super().__init__(upstream_port)
        self._size, self._delay_ns = size, round(delay * 1e9)
        self._held = bytearray()
        self._due = 0

    def timeout(self) -> float | None:
        return max(self._due - time.perf_counter_ns(), 0) / 1e9 if self._held else None

    def look(self) -> None:
        if self._held and (len(self._held) >= self._size or time.perf_counter_ns() >= self._due):
            self._let_go()

    def accept(self) -> None:
        super().accept()
        self._held.clear()
        self.connect()

    def request(self) -> None:
        data = received(self.client)
        if data and self.server is not None:
            self.server.sendall(data)
        else:
            self.hang_up()

    def response(self) -> None:
        data = received(self.server)
        if not data:
            self._let_go()
            self.hang_up()
            return
        if not self._held:
            self._due = time.perf_counter_ns() + self._delay_ns
        self._held += data

    def _let_go(self) -> None:
        data = bytes(self._held)
        self._held.clear()
        self.forward(data)


if __name__ == "__main__":
    _Buffering(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])).run()
