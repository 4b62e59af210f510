"""Plays a script on a connection: by absolute deadlines, one write an event."""

from __future__ import annotations

import gzip
import math
import time
import zlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ._http import Connection, ConnectionOverError, PeerLeftError
from .exchange import Progress, Sent
from .script import SEQUENCE, Script, Step

if TYPE_CHECKING:
    from ._http2 import HTTP2Stream

_GZIP = 16 + zlib.MAX_WBITS


class Player:
    """The answer to one request."""

    def __init__(
        self,
        connection: Connection | HTTP2Stream,
        progress: Progress,
        *,
        arrived_ns: int,
        values: dict[str, str],
        sequence: int = 0,
    ) -> None:
        """Make a player for a request that arrived at `arrived_ns`.

        `progress` is kept up to date; `values` are what stands for `ID`, `MODEL`, … in events, and `sequence` is the
        first event's number.
        """
        self._connection = connection
        self._progress = progress
        self._due: int | None = arrived_ns
        self._values = values
        self._sequence = sequence

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
        self._progress.status = script.status
        self._progress.headers_ns = time.perf_counter_ns()
        whole = gzip.compress(body) if script.gzip else body
        self._connection.begin(script.status, fields, None if streams else whole)
        if streams:
            self._play_steps(script)

    def _play_steps(self, script: Script) -> None:
        """Send the steps of a script, each when it is due, then the end of the body."""
        compressor = zlib.compressobj(wbits=_GZIP) if script.gzip else None
        frame = self._connection.frame
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
            self._connection.finish(trailers, end)
        except PeerLeftError:
            # Everything was sent: a client that hangs up on the last event has not left early.
            raise ConnectionOverError from None

    def _encode(self, step: Step) -> bytes:
        self._values[SEQUENCE] = str(self._sequence)
        self._sequence += SEQUENCE in step.event.data
        return step.event.encode(self._values)

    def _send(self, data: bytes, step: Step, entries: list[Sent]) -> None:
        """Write the data when it is due, in pieces if the step asks for that, and note the times in the entries."""
        size = step.piece_bytes or len(data) or 1
        for at in range(0, len(data) or 1, size):
            self._wait(step.piece_delay if at else step.delay)
            now = time.perf_counter_ns()
            if at == 0:
                for entry in entries:
                    entry.at_ns, entry.due_ns = now, self._due or now
            if at + size >= len(data):
                for entry in entries:
                    entry.complete_ns = now
                # Before the write: who has received an event finds it in the list.
                self._progress.sent += entries
            self._connection.write(data[at : at + size])

    def _act(self, step: Step) -> None:
        """Do to the connection what a step asks for: close it, reset it, or keep it open in silence.

        Raises:
            ConnectionOverError: always, as the connection is not to be used again.
        """
        self._wait(math.inf if step.event.kind == "hold" else step.delay)
        self._connection.drop(is_reset=step.event.kind == "reset")
        raise ConnectionOverError

    def _wait(self, delay: float) -> None:
        """Wait for the next deadline, `delay` seconds after the one before."""
        self._due = None if self._due is None or math.isinf(delay) else self._due + round(delay * 1e9)
        self._connection.wait_until(self._due)


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
