"""HTTP/2 on one server-side connection, as gRPC's clients speak it: several requests at once, trailers at the end.

It imports the h2 package, and is itself imported when a client begins to speak HTTP/2.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any, Final

from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.exceptions import ProtocolError

from ._http import SLEEP_NS, Connection, ConnectionOverError, PeerLeftError
from .exchange import Received

_SUCCESS: Final = ("grpc-status", "0")
"""In the trailers of a gRPC call that succeeded, or in its headers where it has no body."""
_OF_HTTP1: Final = frozenset({"transfer-encoding", "content-length", "connection"})


class HTTP2Connection:
    """A client's connection over which HTTP/2 is spoken.

    Args:
        connection: the TCP connection.
        answer: answers one request. Called on a thread of its own.
    """

    def __init__(self, connection: Connection, answer: Callable[[HTTP2Stream, Received], None]) -> None:
        self._connection = connection
        self._answer = answer
        self._streams: dict[int, HTTP2Stream] = {}
        self.protocol: Any = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self.changed = threading.Condition()
        """Guards `protocol`, and is notified when a stream may go on, or was left."""

    def serve(self) -> None:
        """Answer requests until either side closes the connection. Runs on the connection's thread."""
        threads = []
        with self.changed:
            self.change(lambda protocol: protocol.initiate_connection())
        try:
            while data := self._connection.read():
                with self.changed:
                    requests = [self._take(event) for event in self.protocol.receive_data(data)]
                    self.change(lambda _: None)
                    self.changed.notify_all()
                for stream in filter(None, requests):
                    thread = threading.Thread(target=self._run, args=(stream,), daemon=True)
                    threads.append(thread)
                    thread.start()
        finally:
            with self.changed:
                for stream in self._streams.values():
                    stream.is_left = True
                self.changed.notify_all()
            for thread in threads:
                thread.join()

    def _take(self, event: Any) -> HTTP2Stream | None:
        """Take an event of the protocol; returns the stream whose request is complete by it."""
        number = getattr(event, "stream_id", None) or 0
        stream = self._streams.get(number)
        if isinstance(event, events.RequestReceived):
            fields: dict[str, str] = dict(event.headers)  # type: ignore[arg-type]  # decoded above
            headers = {**fields, "host": fields.get(":authority", "")}
            request = Received(fields.get(":method", ""), fields.get(":path", ""), headers, b"", 0)
            self._streams[number] = HTTP2Stream(self, number, self._connection, request)
        elif isinstance(event, events.DataReceived):
            if stream is not None:
                stream.request.body += event.data
            self.protocol.acknowledge_received_data(event.flow_controlled_length, number)
        elif isinstance(event, events.StreamReset) and stream is not None:
            del self._streams[number]
            stream.is_left = True
        elif isinstance(event, events.StreamEnded) and stream is not None:
            stream.request.arrived_ns = time.perf_counter_ns()
            return stream
        return None

    def _run(self, stream: HTTP2Stream) -> None:
        """Answer one request, which its client may leave, and forget its stream. Runs on the stream's thread."""
        try:
            with contextlib.suppress(ConnectionOverError, ValueError):
                self._answer(stream, stream.request)
        finally:
            with self.changed:
                self._streams.pop(stream.number, None)

    def change(self, act: Callable[[Any], None]) -> None:
        """Change the protocol's state and write what it has to send then. Called with `changed` held.

        Raises:
            PeerLeftError: the client closed the connection, or does not want the stream any more.
        """
        try:
            act(self.protocol)
        except ProtocolError as error:
            raise PeerLeftError from error
        if data := self.protocol.data_to_send():
            self._connection.write(data)


class HTTP2Stream:
    """One request and its response on a connection of HTTP/2: does for the player what `Connection` does for HTTP/1."""

    def __init__(self, owner: HTTP2Connection, number: int, connection: Connection, request: Received) -> None:
        self._owner = owner
        self._connection = connection
        self.number = number
        self.request = request
        """Complete when the client has ended it."""
        self.is_left = False
        """The client has reset the stream, or closed the connection."""

    def begin(self, status: int, fields: dict[str, str], body: bytes | None) -> None:
        """Send the response headers, and a whole body where one is given."""
        headers = [(":status", str(status)), *(field for field in fields.items() if field[0] not in _OF_HTTP1)]
        if body == b"" and status == HTTPStatus.OK and "grpc-status" not in fields:
            headers.append(_SUCCESS)
        self._change(lambda protocol: protocol.send_headers(self.number, headers, end_stream=body == b""))
        if body:
            self.write(body)
            self._change(lambda protocol: protocol.end_stream(self.number))

    def write(self, data: bytes) -> None:
        """Send a piece of the body, in as many frames as the client's flow control asks for."""
        while data:
            with self._owner.changed:
                self._owner.changed.wait_for(lambda: self.is_left or self._window() > 0)
                self._raise_if_left()
                piece, data = data[: self._window()], data[self._window() :]
                self._owner.change(lambda protocol, piece=piece: protocol.send_data(self.number, piece))  # type: ignore[misc]

    def frame(self, data: bytes) -> bytes:
        """Return the data as it is: HTTP/2 has frames of its own."""
        return data

    def finish(self, trailers: Iterable[tuple[str, str]], rest: bytes = b"") -> None:
        """End the response, after the rest of its body, with trailers: by default of a gRPC call that succeeded."""
        self.write(rest)
        fields = list(trailers) or [_SUCCESS]
        self._change(lambda protocol: protocol.send_headers(self.number, fields, end_stream=True))

    def wait_until(self, deadline_ns: int | None) -> None:
        """Do what `Connection.wait_until` does."""
        while True:
            left = None if deadline_ns is None else deadline_ns - time.perf_counter_ns()
            with self._owner.changed:
                self._raise_if_left()
                if left is None or left > SLEEP_NS:
                    self._owner.changed.wait(None if left is None else (left - SLEEP_NS) / 1e9)
                    continue
            if left > 0:
                time.sleep(left / 1e9)
            return

    def drop(self, *, is_reset: bool = False) -> None:
        """Close the connection, with all its streams, with a FIN or a RST."""
        self._connection.drop(is_reset=is_reset)

    def _window(self) -> int:
        """Return how many bytes the client takes in one frame now; 1, which is refused, of a stream that was reset."""
        protocol = self._owner.protocol
        try:
            return int(min(protocol.local_flow_control_window(self.number), protocol.max_outbound_frame_size))
        except ProtocolError:  # the stream was reset meanwhile
            return 1

    def _change(self, act: Callable[[Any], None]) -> None:
        with self._owner.changed:
            self._raise_if_left()
            self._owner.change(act)

    def _raise_if_left(self) -> None:
        if self.is_left or self._connection.is_stopping:
            raise PeerLeftError
