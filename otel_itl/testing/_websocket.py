"""WebSockets on one server-side connection: each `response.create` is a request, which is answered by text messages.

It imports the websockets package, and is itself imported when a client asks for an upgrade.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from websockets.frames import Frame, Opcode
from websockets.protocol import Protocol, Side

from ._http import SLEEP_NS, Connection, ConnectionOverError, PeerLeftError
from .exchange import Received

_KEY_SUFFIX: Final = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class WebSocketConnection:
    """A client's connection that was upgraded.

    Args:
        connection: the TCP connection.
        answer: answers one request. Called on a thread of its own.
        upgrade: the request for the upgrade.
    """

    def __init__(
        self, connection: Connection, answer: Callable[[WebSocketStream, Received], None], upgrade: Received
    ) -> None:
        self.connection = connection
        self._answer = answer
        self._upgrade = upgrade
        self._protocol = Protocol(Side.SERVER, max_size=None)
        self._streams: list[WebSocketStream] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def serve(self) -> None:
        """Answer requests until either side closes the connection. Runs on the connection's thread."""
        key = self._upgrade.headers["sec-websocket-key"] + _KEY_SUFFIX
        accept = base64.b64encode(hashlib.sha1(key.encode(), usedforsecurity=False).digest()).decode()
        self.connection.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + accept.encode() + b"\r\n\r\n"
        )
        try:
            while data := self.connection.read():
                with self._lock:
                    self._protocol.receive_data(data)
                    received = self._protocol.events_received()
                    self._flush()
                for frame in received:
                    if isinstance(frame, Frame) and frame.opcode is Opcode.TEXT:
                        self._take(bytes(frame.data))
                if self._protocol.close_expected():
                    break
        finally:
            for stream in self._streams:
                stream.is_left = True
            for thread in self._threads:
                thread.join()

    def _take(self, message: bytes) -> None:
        """Take a message of the client: what asks for a response, or steers one, is answered on a thread of its own."""
        event = json.loads(message)
        if event["type"] == "response.create":
            self._start(WebSocketStream(self, event.get("stream_id")), message)
        elif event["type"] == "response.steer":
            parent = event["previous_response_id"]
            steered = next((stream for stream in self._streams if stream.response_id == parent), None)
            if steered is not None:
                steered.steer()
                self._start(WebSocketStream(self, steered.lane, parent), steered.request)

    def _start(self, stream: WebSocketStream, message: bytes) -> None:
        """Answer a message on a thread of its own."""
        stream.request = message
        upgrade = self._upgrade
        request = Received(upgrade.method, upgrade.path, upgrade.headers, message, time.perf_counter_ns())
        self._streams.append(stream)
        thread = threading.Thread(target=self._run, args=(stream, request), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run(self, stream: WebSocketStream, request: Received) -> None:
        with contextlib.suppress(ConnectionOverError, ValueError):
            self._answer(stream, request)
        stream.has_ended.set()

    def send_text(self, text: bytes) -> None:
        """Send a text message."""
        with self._lock:
            self._protocol.send_text(text)
            self._flush()

    def send_raw(self, data: bytes) -> None:
        """Send bytes that are as they are on the wire already."""
        with self._lock:
            self.connection.write(data)

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self.connection.write(data)


class WebSocketStream:
    """The answer to one request over a connection that carries others as well; plays the part of a `Connection`."""

    def __init__(self, owner: WebSocketConnection, lane: str | None, parent: str | None = None) -> None:
        self._owner = owner
        self.lane = lane
        self.request = b""
        self.response_id: str | None = None
        self.is_left = False
        self.has_ended = threading.Event()
        self._more = {**({"stream_id": lane} if lane else {})}
        self._parent = parent

    def begin(self, status: int, _: Mapping[str, str], body: bytes | None) -> None:
        """Send the error of a response that is none: an answer has no headers."""
        if body is not None:
            failure = {"type": "error", "status": status, **json.loads(body), **self._more}
            self._owner.send_text(json.dumps(failure).encode())

    def frame(self, data: bytes) -> bytes:
        """Return the data: they are framed when they are written."""
        return data

    def write(self, data: bytes) -> None:
        """Send each server-sent event in the data as a message; of anything else, the bytes as they are.

        Raises:
            PeerLeftError: the client is not there any more.
        """
        if not data.startswith((b"event:", b"data:", b":")):
            self._owner.send_raw(data)
            return
        for line in data.splitlines():
            if line.startswith(b"data:"):
                self._owner.send_text(self._complete(line.removeprefix(b"data:").strip()))

    def _complete(self, text: bytes) -> bytes:
        """Return the text of an event as it is sent over WebSockets, and remember the id of the response."""
        if self.response_id is not None and not self._more and self._parent is None:
            return text
        event = json.loads(text)
        event.update(self._more)
        about = event.get("response")
        if isinstance(about, dict):
            self.response_id = about["id"]
            if self._parent is not None:
                about["previous_response_id"] = self._parent
        return json.dumps(event).encode()

    def steer(self) -> None:
        """End the response where it is, as a steered one."""
        self.is_left = True
        self.has_ended.wait()
        steer = {"id": "steer_1", "previous_response_id": self.response_id}
        accepted = {"type": "response.steer.accepted", "sequence_number": 0, "steer": steer}
        about: dict[str, object] = {"id": self.response_id, "object": "response", "status": "incomplete", "output": []}
        about["incomplete_details"] = {"reason": "steered"}
        for event in (accepted, {"type": "response.incomplete", "sequence_number": 0, "response": about}):
            self._owner.send_text(json.dumps({**event, **self._more}).encode())

    def wait_until(self, deadline_ns: int | None) -> None:
        """Sleep until this reading of `time.perf_counter_ns()`; None: for ever.

        Raises:
            PeerLeftError: the client left or steered the response, or the server is stopping.
        """
        while True:
            if self.is_left or self._owner.connection.is_stopping:
                raise PeerLeftError
            left = SLEEP_NS if deadline_ns is None else deadline_ns - time.perf_counter_ns()
            if left <= 0:
                return
            time.sleep(min(left, SLEEP_NS) / 1e9)

    def finish(self, _: Iterable[tuple[str, str]], rest: bytes = b"") -> None:
        """Do nothing: a response ends with its last event, and the connection stays."""

    def drop(self, *, is_reset: bool = False) -> None:
        """End the connection, without a word about it."""
        self._owner.connection.drop(is_reset=is_reset)
