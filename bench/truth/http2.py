"""A front between HTTP/2 on the client's side and HTTP/1.1 on the server's, which forwards without delay.

It works without TLS: the client has to use HTTP/2 without negotiation.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any

import h11

from bench.truth.between import HOST, Between, Relay, body_events, received

MISSING = "" if find_spec("h2") else "the h2 package is not installed"
"""Why HTTP/2 cannot be used; '' where it can."""
_OF_THE_CONNECTION = frozenset({b"connection", b"keep-alive", b"transfer-encoding"})
"""Headers that do not exist in HTTP/2."""


def http2_front(upstream_port: int) -> Between:
    """Return a front that forwards at once what the server sends."""
    return Between(__name__, str(upstream_port), bodies=iter)


class _Front(Relay):
    """The child process; it serves one request at a time."""

    def accept(self) -> None:
        from h2.config import H2Configuration  # noqa: PLC0415 - only where there is an HTTP/2
        from h2.connection import H2Connection  # noqa: PLC0415 - likewise

        super().accept()
        self._http2 = H2Connection(H2Configuration(client_side=False, header_encoding=None))
        self._http2.initiate_connection()
        self._send()

    def request(self) -> None:
        from h2.events import DataReceived, RequestReceived, StreamEnded  # noqa: PLC0415 - likewise

        data = received(self.client)
        if not data:
            self.hang_up()
            return
        for event in self._http2.receive_data(data):
            if isinstance(event, RequestReceived):
                self._stream, self._headers, self._body = event.stream_id, dict(event.headers), b""
            elif isinstance(event, DataReceived):
                self._body += event.data
                self._http2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, StreamEnded):
                self._ask()
        self._send()

    def response(self) -> None:
        data = received(self.server)
        self._http1.receive_data(data)
        body, ended = b"", False
        for event in body_events(self._http1):
            if isinstance(event, h11.Response):
                headers = [(name, value) for name, value in event.headers if name not in _OF_THE_CONNECTION]
                self._http2.send_headers(self._stream, [(b":status", b"%d" % event.status_code), *headers])
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                ended = True
        if body:
            self._http2.send_data(self._stream, body)
        if ended:
            self._http2.end_stream(self._stream)
        self._send(body)
        if ended or not data:
            self.leave_server()

    def _ask(self) -> None:
        """Send the client's request to the server."""
        server = self.connect()
        self._http1 = h11.Connection(h11.CLIENT)
        pseudo = {name: self._headers.pop(name) for name in list(self._headers) if name.startswith(b":")}
        headers = [(b"host", HOST.encode()), *self._headers.items()]
        asked: Any = h11.Request(method=pseudo[b":method"], target=pseudo[b":path"], headers=headers)
        for event in (asked, h11.Data(data=self._body), h11.EndOfMessage()):
            server.sendall(self._http1.send(event) or b"")

    def _send(self, body: bytes = b"") -> None:
        data = self._http2.data_to_send()
        if data:
            self.forward(body, data)


if __name__ == "__main__":
    _Front(int(sys.argv[1])).run()
