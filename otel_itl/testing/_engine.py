"""The scripted server itself: sockets, a thread per connection, the choice of the script."""

from __future__ import annotations

import contextlib
import errno
import json
import re
import socket
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from . import bedrock, chat, cohere, completions, faults, gemini, interactions, messages, ollama, responses
from ._http import Connection, PeerLeftError, Received
from ._player import ConnectionDroppedError, Player
from .exchange import Progress, Request
from .script import CREATED, ID, MODEL, Script, Wire

HOST = "127.0.0.1"
_STOP_SECONDS = 5.0

_WIRES: tuple[tuple[Wire, re.Pattern[str]], ...] = (
    ("chat", re.compile(r"/chat/completions$")),
    ("completions", re.compile(r"/completions$")),
    ("responses", re.compile(r"/responses(/(?P<id>[^/]+))?$")),
    ("messages", re.compile(r"/messages$")),
    ("gemini", re.compile(r":streamGenerateContent$")),
    ("interactions", re.compile(r"/interactions(/(?P<id>[^/]+))?$")),
    ("converse", re.compile(r"/converse-stream$")),
    ("invoke_model", re.compile(r"/invoke-with-response-stream$")),
    ("ollama_chat", re.compile(r"/api/chat$")),
    ("ollama_generate", re.compile(r"/api/generate$")),
    ("cohere", re.compile(r"/v2/chat$")),
    ("cohere_v1", re.compile(r"/v1/chat$")),
)
_MODEL_IN_PATH = re.compile(r"/(?:deployments|model)/([^/]+)/|/([^/:]+):streamGenerateContent$")
_ID_PREFIX: Final[dict[Wire, str]] = {
    "chat": "chatcmpl",
    "completions": "cmpl",
    "responses": "resp",
    "messages": "msg",
    "gemini": "gemini",
    "interactions": "interaction",
    "converse": "bdrk",
    "invoke_model": "msg_bdrk",
    "ollama_chat": "ollama",
    "ollama_generate": "ollama",
    "cohere": "cohere",
    "cohere_v1": "cohere",
}
_DEFAULTS: Final[dict[Wire, Callable[[], Script]]] = {
    "chat": chat.reply,
    "completions": completions.reply,
    "responses": responses.reply,
    "messages": messages.reply,
    "gemini": gemini.reply,
    "interactions": interactions.reply,
    "converse": bedrock.reply,
    "invoke_model": bedrock.anthropic_reply,
    "ollama_chat": ollama.reply,
    "ollama_generate": ollama.generate_reply,
    "cohere": cohere.reply,
    "cohere_v1": cohere.v1_reply,
}


class Engine:
    """A server in threads of this process."""

    def __init__(self) -> None:
        """Make a server that is not running yet."""
        self._condition = threading.Condition()
        self._stopping = threading.Event()
        self._queued: defaultdict[str | None, deque[Script]] = defaultdict(deque)
        self._standing: dict[str | None, Script] = {}
        self._requests: list[Request] = []
        self._progress: dict[int, Progress] = {}
        self._numbers = 0
        self._connections: dict[int, tuple[Connection, threading.Thread]] = {}
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
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
            listener.listen(1024)
        except OSError as error:
            listener.close()
            if error.errno == errno.EADDRINUSE:
                raise OSError(
                    errno.EADDRINUSE,
                    f"port {port} on {HOST} is in use already; choose another one, or none to get any that is free",
                ) from None
            raise
        self._listener = listener
        self._acceptor = threading.Thread(target=self._accept, name="scripted-server", daemon=True)
        self._acceptor.start()
        port_in_use: int = listener.getsockname()[1]
        return port_in_use

    def stop(self) -> None:
        """Drop all connections and end all threads. Stopping twice is stopping once."""
        if self._listener is None:
            return
        self._stopping.set()
        # Closing a listener does not wake its accept() everywhere; a visitor does.
        with contextlib.suppress(OSError):
            socket.create_connection(self._listener.getsockname(), timeout=1).close()
        deadline = time.monotonic() + _STOP_SECONDS
        if self._acceptor is not None:
            self._acceptor.join(_STOP_SECONDS)
        self._listener.close()
        self._listener = None
        with self._condition:
            open_now = list(self._connections.values())
        for connection, _ in open_now:
            connection.interrupt()
        for _, thread in open_now:
            thread.join(max(0.0, deadline - time.monotonic()))

    def play(self, scripts: Iterable[Script], model: str | None) -> None:
        """Queue scripts, each for one request (of this model)."""
        with self._condition:
            self._queued[model].extend(scripts)

    def always(self, script: Script, model: str | None) -> None:
        """Play this script whenever nothing is queued (for this model)."""
        with self._condition:
            self._standing[model] = script

    def clear(self) -> None:
        """Forget all scripts and exchanges."""
        with self._condition:
            self._queued.clear()
            self._standing.clear()
            self._requests.clear()
            self._progress.clear()

    def snapshot(self) -> tuple[list[Request], dict[int, Progress]]:
        """Return all requests, and by their number how far their answers have come."""
        with self._condition:
            return list(self._requests), dict(self._progress)

    def requests(self, count: int = 0, timeout: float | None = 0.0) -> list[Request]:
        """Return the requests so far, in order of arrival, waiting up to `timeout` seconds for `count` of them."""
        with self._condition:
            self._condition.wait_for(lambda: len(self._requests) >= count, timeout)
            return list(self._requests)

    def progress(self, number: int) -> Progress | None:
        """Return how far the answer to request `number` has come; None where it was cleared."""
        with self._condition:
            return self._progress.get(number)

    def wait_ended(self, number: int, timeout: float | None) -> bool:
        """Wait up to `timeout` seconds (None: for ever) for an exchange to end; returns whether it has."""
        with self._condition:
            progress = self._progress.get(number)
            return progress is None or self._condition.wait_for(lambda: progress.ended_ns is not None, timeout)

    def _accept(self) -> None:
        """Accept connections until the server stops, and start a thread for each. Runs on the acceptor's thread."""
        listener = self._listener
        number = 0
        while listener is not None:
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
            with self._condition:
                self._connections[number] = (connection, thread)
            thread.start()
            number += 1

    def _serve(self, connection: Connection, number: int) -> None:
        """Answer the requests of one connection until either side closes it. Runs on the connection's thread."""
        reused = False
        try:
            while (received := connection.receive()) is not None:
                self._answer(connection, received, number, reused=reused)
                if received.headers.get("connection", "").lower() == "close":
                    break
                reused = True
        except (ConnectionDroppedError, PeerLeftError, ValueError):
            # There is nothing to answer, or the client has left.
            pass
        finally:
            connection.close()
            with self._condition:
                del self._connections[number]

    def _answer(self, connection: Connection, received: Received, number: int, *, reused: bool) -> None:
        """Record a request, choose its script and play it; how far it has come can be read meanwhile."""
        url = urlsplit(received.path)
        wire, response_id = _wire_of(url.path)
        model = _model_of(received.body, url.path)
        progress = Progress()
        with self._condition:
            request = Request(
                number=self._numbers,
                method=received.method,
                path=received.path,
                headers=received.headers,
                body=received.body,
                arrived_ns=received.arrived_ns,
                connection=number,
                reused=reused,
                wire=wire,
            )
            self._numbers += 1
            self._requests.append(request)
            self._progress[request.number] = progress
            script = self._chosen(model, wire, received.path, progress)
            self._condition.notify_all()
        try:
            values = _values_of(request, model, response_id)
            sequence = int(parse_qs(url.query).get("starting_after", ["-1"])[0]) + 1
            player = Player(connection, progress, arrived_ns=received.arrived_ns, values=values, sequence=sequence)
            request_id = f"req_{request.number}"
            player.play(script, dict.fromkeys(("x-request-id", "request-id", "x-amzn-requestid"), request_id))
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
            with self._condition:
                progress.ended_ns = time.perf_counter_ns()
                self._condition.notify_all()

    def _chosen(self, model: str | None, wire: Wire | None, path: str, progress: Progress) -> Script:
        """Choose the script for a request; where there is none, one that answers with an error that explains it."""
        if wire is None:
            progress.error = f"{path} is not a path that streams"
            return faults.status(404, progress.error, kind="not_found_error")
        script = self._next(model)
        if script is None and model is not None:
            script = self._next(None)
        if script is None:
            script = _DEFAULTS[wire]()
        if script.wire not in (None, wire):
            progress.error = f"the script speaks {script.wire}, but {path} was asked, which speaks {wire}"
            return faults.status(400, progress.error, kind="invalid_request_error")
        return script

    def _next(self, model: str | None) -> Script | None:
        queued = self._queued.get(model)
        return queued.popleft() if queued else self._standing.get(model)


def _wire_of(path: str) -> tuple[Wire | None, str | None]:
    for wire, pattern in _WIRES:
        if found := pattern.search(path):
            return wire, found.groupdict().get("id")
    return None, None


def _model_of(body: bytes, path: str) -> str | None:
    """Return the model that a request asks for, in its body or (Azure, AWS, Gemini) in its path; None: none."""
    try:
        model = json.loads(body)["model"]
    except (ValueError, LookupError, TypeError):
        found = _MODEL_IN_PATH.search(path)
        return unquote(found[1] or found[2]) if found else None
    return str(model)


def _values_of(request: Request, model: str | None, response_id: str | None) -> dict[str, str]:
    """Return the JSON texts that stand for `ID`, `MODEL` and `CREATED` in the events of an answer."""
    prefix = _ID_PREFIX[request.wire] if request.wire else "none"
    return {
        ID: json.dumps(response_id or f"{prefix}_{request.number}"),
        MODEL: json.dumps(model or "scripted-model"),
        CREATED: str(int(time.time())),
    }
