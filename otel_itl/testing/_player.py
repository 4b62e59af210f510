"""Plays a script on a connection: by absolute deadlines, one write an event."""

from __future__ import annotations

import gzip
import math
import time
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ._http import Connection, ConnectionOverError, PeerLeftError
from .exchange import Progress, Sent
from .script import SEQUENCE, Script, Step

if TYPE_CHECKING:
    from ._http2 import HTTP2Stream
    from ._websocket import WebSocketStream

    Stream = Connection | HTTP2Stream | WebSocketStream

_GZIP = 16 + zlib.MAX_WBITS


@dataclass(slots=True)
class Player:
    """The answer to one request."""

    connection: Stream
    progress: Progress
    """Is kept up to date."""
    due_ns: int | None
    """When the next write is due: at first, when the request arrived. None: never."""
    values: dict[str, str]
    """What stands for `ID`, `MODEL`, … in events."""
    sequence: int
    """The number of the next event."""

    def play(self, script: Script, headers: dict[str, str], content_type: str) -> None:
        """Send the script's response, with these headers unless the script has its own.

        Raises:
            ConnectionOverError: the script closed the connection.
            PeerLeftError: the client left before everything was sent, or the server is stopping.

        """
        # A call of gRPC that fails at once has its status in the headers: clients try again after that alone.
        refusal = script.steps[0] if script.steps and script.steps[0].event.trailers else None
        streams = script.body is None and bool(script.steps) and refusal is None
        body = b"" if script.body is None else script.body
        fields = {
            "content-type": content_type if script.steps else "application/json",
            "cache-control": "no-cache",
            **headers,
            **({"content-encoding": "gzip"} if script.gzip else {}),
            **{name.lower(): value for name, value in script.headers},
            **({} if refusal is None else dict(refusal.event.trailers)),
        }
        self._wait(script.headers_delay + (0.0 if refusal is None else refusal.delay))
        self.progress.status = script.status
        self.progress.headers_ns = time.perf_counter_ns()
        whole = gzip.compress(body) if script.gzip else body
        self.connection.begin(script.status, fields, None if streams else whole)
        if streams:
            self._play_steps(script)

    def _play_steps(self, script: Script) -> None:
        """Send the steps of a script, each when it is due, then the end of the body."""
        compressor = zlib.compressobj(wbits=_GZIP) if script.gzip else None
        frame = self.connection.frame
        trailers: tuple[tuple[str, str], ...] = ()
        for batch in _writes(script.steps):
            first = batch[0][1]
            if first.event.control:
                self._act(first)
            data = b"".join(self._encode(step) for _, step in batch)
            if compressor is not None:
                data = compressor.compress(data) + compressor.flush(zlib.Z_SYNC_FLUSH)
            self._send(frame(data), first, [Sent(index, step.event) for index, step in batch])
            trailers = trailers or batch[-1][1].event.trailers
            if trailers:
                break
        end = frame(compressor.flush()) if compressor is not None else b""
        try:
            self.connection.finish(trailers, end)
        except PeerLeftError:
            # Everything was sent: a client that hangs up on the last event has not left early.
            raise ConnectionOverError from None

    def _encode(self, step: Step) -> bytes:
        self.values[SEQUENCE] = str(self.sequence)
        self.sequence += SEQUENCE in step.event.data
        return step.event.encode(self.values)

    def _send(self, data: bytes, step: Step, entries: list[Sent]) -> None:
        """Write the data when it is due, in pieces if the step asks for that, and note the times in the entries."""
        size = step.piece_bytes or len(data) or 1
        for at in range(0, len(data) or 1, size):
            self._wait(step.piece_delay if at else step.delay)
            now = time.perf_counter_ns()
            if at == 0:
                for entry in entries:
                    entry.at_ns, entry.due_ns = now, self.due_ns or now
            if at + size >= len(data):
                for entry in entries:
                    entry.complete_ns = now
                # Before the write: who has received an event finds it in the list.
                self.progress.sent += entries
            self.connection.write(data[at : at + size])

    def _act(self, step: Step) -> None:
        """Do to the connection what a step asks for: close it, reset it, or keep it open in silence.

        Raises:
            ConnectionOverError: always, as the connection is not to be used again.
        """
        self._wait(math.inf if step.event.kind == "hold" else step.delay)
        self.connection.drop(is_reset=step.event.kind == "reset")
        raise ConnectionOverError

    def _wait(self, delay: float) -> None:
        """Wait for the next deadline, `delay` seconds after the one before."""
        self.due_ns = None if self.due_ns is None or math.isinf(delay) else self.due_ns + round(delay * 1e9)
        self.connection.wait_until(self.due_ns)


def _writes(steps: Iterable[Step]) -> Iterator[list[tuple[int, Step]]]:
    """Yield the steps of each write, with their places; a step that acts on the connection is by itself."""
    batch: list[tuple[int, Step]] = []
    for index, step in enumerate(steps):
        if batch and not (step.joined and not step.event.control and not batch[-1][1].event.control):
            yield batch
            batch = []
        batch.append((index, step))
    if batch:
        yield batch
