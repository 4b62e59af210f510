"""A server that answers every request alike: a short stream of events, or a WebSocket with one message."""

from __future__ import annotations

import base64
import hashlib
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from not_measured import TLS

MESSAGE: Final = b'{"type": "message"}'
EVENTS: Final = b"data: " + MESSAGE + b"\n\ndata: [DONE]\n\n"
_TLS_HANDSHAKE: Final = b"\x16"
_MAGIC: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""RFC 6455."""


class PlainServer:
    """The server, and what it was asked."""

    def __init__(self) -> None:
        asked = self.asked = list[str]()

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                """Answer one request."""
                if self.rfile.peek(1)[:1] == _TLS_HANDSHAKE:
                    asked.append(TLS)
                    return
                line = self.rfile.readline().decode().split()
                headers = dict(_read_headers(self.rfile))
                if len(line) < 3:
                    return
                asked.append(line[1].partition("?")[0])
                key = headers.get("sec-websocket-key")
                if key is not None:
                    self.wfile.write(_answer_handshake(key) + _frame(1, MESSAGE) + _frame(8, b"\x03\xe8"))
                    self.rfile.read(1)
                    return
                self.rfile.read(int(headers.get("content-length", 0)))
                head = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len(EVENTS)}\r\n"
                self.wfile.write(f"{head}connection: close\r\n\r\n".encode() + EVENTS)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.origin = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def plain_server() -> Iterator[PlainServer]:
    server = PlainServer()
    try:
        yield server
    finally:
        server.close()


def _read_headers(lines: Any) -> Iterator[tuple[str, str]]:
    while line := lines.readline().strip():
        name, _, value = line.decode().partition(":")
        yield name.lower(), value.strip()


def _answer_handshake(key: str) -> bytes:
    accepted = base64.b64encode(hashlib.sha1(key.encode() + _MAGIC, usedforsecurity=False).digest()).decode()
    return (
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
        f"sec-websocket-accept: {accepted}\r\n\r\n"
    ).encode()


def _frame(kind: int, data: bytes) -> bytes:
    return bytes([0x80 | kind, len(data)]) + data
