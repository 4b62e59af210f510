"""The scripted server itself: sockets, a thread per connection, the choice of the script."""

from __future__ import annotations

import contextlib
import errno
import itertools
import socket
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from . import faults
from ._http import Connection, ConnectionOverError, PeerLeftError
from ._player import Player
from ._wires import WIRES, find_model, find_wire, make_values
from .exchange import Exchange, Progress, Received, Record
from .script import Script

if TYPE_CHECKING:
    from ._player import Stream

HOST = "127.0.0.1"
_STOP_SECONDS = 5.0


class Engine(Record):
    """A server in threads of this process."""

    def __init__(self) -> None:
        """Make a server that is not running yet."""
        super().__init__()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._queued: defaultdict[str | None, deque[Script]] = defaultdict(deque)
        self._standing: dict[str | None, Script] = {}
        self._numbers = itertools.count()
        self._connections: dict[threading.Thread, Connection] = {}
        self._listener: socket.socket | None = None
        self._acceptor: threading.Thread | None = None

    def start(self, port: int) -> int:
        """Listen, and return the port.

        Raises:
            OSError: the port is in use.
            ValueError: it is not a port.

        """
        if not 0 <= port <= 65535:  # noqa: PLR2004 - the range of ports
            raise ValueError(f"a port is a number from 0 (any free one) to 65535, not {port}")
        try:
            self._listener = socket.create_server((HOST, port), backlog=1024)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            message = f"port {port} on {HOST} is in use already; choose another one, or none to get any that is free"
            raise OSError(errno.EADDRINUSE, message) from None
        self._acceptor = threading.Thread(
            target=self._accept, args=(self._listener,), name="scripted-server", daemon=True
        )
        self._acceptor.start()
        port_in_use: int = self._listener.getsockname()[1]
        return port_in_use

    def stop(self) -> Record:
        """Drop all connections and end all threads; returns what stays readable. Stopping twice is stopping once."""
        record = Record()
        record.by_number = self.by_number
        if self._listener is None or self._acceptor is None:
            return record
        self._stopping.set()
        # Closing a listener does not wake its accept() everywhere; a visitor does.
        with contextlib.suppress(OSError):
            socket.create_connection(self._listener.getsockname(), timeout=1).close()
        deadline = time.monotonic() + _STOP_SECONDS
        self._acceptor.join(_STOP_SECONDS)
        self._listener.close()
        self._listener = None
        with self._lock:
            open_now = dict(self._connections)
        for connection in open_now.values():
            connection.drop()
        for thread in open_now:
            thread.join(max(0.0, deadline - time.monotonic()))
        return record

    def play(self, scripts: Iterable[Script], model: str | None) -> None:
        """Queue scripts, each for one request (of this model)."""
        with self._lock:
            self._queued[model].extend(scripts)

    def always(self, script: Script, model: str | None) -> None:
        """Play this script whenever nothing is queued (for this model)."""
        with self._lock:
            self._standing[model] = script

    def clear(self) -> None:
        """Forget all scripts and exchanges."""
        with self._lock:
            for known in (self._queued, self._standing, self.by_number):
                known.clear()

    def _accept(self, listener: socket.socket) -> None:
        """Accept connections until the server stops, and start a thread for each. Runs on the acceptor's thread."""
        for number in itertools.count():
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            if self._stopping.is_set():
                sock.close()
                return
            connection = Connection(sock, self._stopping)
            name = f"scripted-server-{number}"
            thread = threading.Thread(target=self._serve, args=(connection, number), name=name, daemon=True)
            with self._lock:
                self._connections[thread] = connection
            thread.start()

    def _serve(self, connection: Connection, number: int) -> None:
        """Answer the requests of one connection until either side closes it. Runs on the connection's thread."""
        turns = itertools.count()

        def answer(stream: Stream, received: Received) -> None:
            self._answer(stream, received, number, reused=next(turns) > 0)

        # What is raised: there is nothing to answer, the script or the client has ended it, or what an
        # optional package speaks is asked for without that.
        with contextlib.suppress(ConnectionOverError, OSError, ValueError, ImportError):
            if connection.speaks_http2():
                from ._http2 import HTTP2Connection  # noqa: PLC0415 - an optional dependency

                HTTP2Connection(connection, answer).serve()
            while (received := connection.receive()) is not None:
                if received.headers.get("upgrade", "").lower() == "websocket":
                    from ._websocket import WebSocketConnection  # noqa: PLC0415 - an optional dependency

                    WebSocketConnection(connection, answer, received).serve()
                    break
                answer(connection, received)
                if received.headers.get("connection", "").lower() == "close":
                    break
        connection.close()
        with self._lock:
            del self._connections[threading.current_thread()]

    def _answer(self, connection: Stream, received: Received, number: int, *, reused: bool) -> None:
        """Record a request, choose its script and play it; how far it has come can be read meanwhile."""
        url = urlsplit(received.path)
        wire, response_id = find_wire(url.path)
        model = find_model(wire, received.body, url.path)
        progress = Progress()
        with self._lock:
            exchange = Exchange(
                **vars(received),
                number=next(self._numbers),
                connection=number,
                reused=reused,
                wire=wire,
                model=model,
                last=progress,
            )
            self.by_number[exchange.number] = exchange
            script = self._choose(exchange, progress)
        try:
            values = make_values(wire, exchange.number, model, response_id)
            sequence = int(parse_qs(url.query).get("starting_after", ["-1"])[0]) + 1
            player = Player(connection, progress, received.arrived_ns, values, sequence)
            headers = dict.fromkeys(("x-request-id", "request-id", "x-amzn-requestid"), f"req_{exchange.number}")
            player.play(script, headers, WIRES[wire].content_type if wire else "application/json")
        except PeerLeftError:
            if self._stopping.is_set():
                progress.error = "the server was stopped"
            else:
                progress.closed_early = True
            raise
        except ValueError as error:
            progress.error = f"the script cannot be sent: {error!r}"
            raise
        finally:
            progress.ended_ns = time.perf_counter_ns()

    def _choose(self, exchange: Exchange, progress: Progress) -> Script:
        """Choose the script for a request; where there is none, one that answers with an error that explains it."""
        wire, path = exchange.wire, exchange.path
        if wire is None:
            progress.error = f"{path} is not a path that streams"
            return faults.status(404, progress.error, kind="not_found_error")
        found = (self._next(model) for model in dict.fromkeys((exchange.model, None)))
        script = next((script for script in found if script is not None), None)
        if script is None:
            script = WIRES[wire].reply()
        if script.wire not in (None, wire):
            progress.error = f"the script speaks {script.wire}, but {path} was asked, which speaks {wire}"
            return faults.status(400, progress.error, kind="invalid_request_error")
        return script

    def _next(self, model: str | None) -> Script | None:
        """Return the next script that is queued for a model, or else its standing one; None for none."""
        queued = self._queued.get(model)
        return queued.popleft() if queued else self._standing.get(model)
