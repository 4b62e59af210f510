"""Starts the server of the page and what feeds it, in a thread of its own, and opens the browser."""

from __future__ import annotations

import asyncio
import errno
import socket
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_urlsafe
from threading import Event, Thread
from time import monotonic, sleep
from typing import Any, Final

import uvicorn

from otel_itl.tools.command_error import CommandError
from otel_itl.tools.report.reading.documents import display_name
from otel_itl.tools.report.reading.skipped_input import SkippedInput
from otel_itl.tools.report.render.number_format import pluralize
from otel_itl.tools.view.server.app import ViewApp
from otel_itl.tools.view.server.assembler import Assembler
from otel_itl.tools.view.server.follow import FileFollower
from otel_itl.tools.view.server.safety import Guard, is_loopback
from otel_itl.tools.view.server.store import Store

DEFAULT_PORT: Final = 4318
"""OTLP over HTTP; the page is on the same port."""
DEFAULT_GRPC_PORT: Final = 4317
DEFAULT_KEEP: Final = 10_000
LOOPBACK: Final = "127.0.0.1"

_ANY: Final = {"0.0.0.0": LOOPBACK, "::": "::1"}  # noqa: S104 - compared, not bound
"""Addresses that stand for all of this machine, and the one under which it reaches itself."""
_FAR_AWAY: Final = ("192.0.2.1", 9)
"""An address for documentation (RFC 5737), to which nothing is sent."""
_START_SECONDS: Final = 10.0
_STOP_SECONDS: Final = 3.0
_REPORT_SECONDS: Final = 0.5


class CannotServeError(CommandError):
    """The server cannot start; the message is one sentence."""


class PortInUseError(CannotServeError):
    """Another process listens on the port."""


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """What the server listens on and what it shows.

    Args:
        sources: telemetry files to show and follow; none: telemetry is received.
        address: to listen on.
        port: of the page, and of OTLP over HTTP; 0: any that is free.
        grpc_port: of OTLP over gRPC; 0: any that is free; None: it is not received.
        keep: streams that are kept.
        name: what is shown, for the title.
        token: that requests need beyond loopback; empty: a new one is made.
    """

    sources: Sequence[str] = ()
    address: str = LOOPBACK
    port: int = DEFAULT_PORT
    grpc_port: int | None = DEFAULT_GRPC_PORT
    keep: int = DEFAULT_KEEP
    name: str = ""
    token: str = ""


class ViewServer:
    """The running server.

    Args:
        options: see there.

    Raises:
        CannotServeError: a port cannot be listened on.
    """

    def __init__(self, options: ServerOptions) -> None:
        self._options = options
        self._store = Store(options.keep)
        self.skipped = SkippedInput()
        self.assembler = Assembler(self._store, self.skipped)
        self._guard = Guard(
            options.address, None if is_loopback(options.address) else options.token or token_urlsafe(18)
        )
        self._follower = FileFollower(options.sources, self.assembler, self.skipped) if options.sources else None
        self._socket = self._listen()
        self.port: int = self._socket.getsockname()[1]
        self.grpc_port: int | None = None
        self._grpc: Any = None
        self._is_ready = Event()
        self._thread = Thread(target=lambda: asyncio.run(self._serve()), name="otel_itl view", daemon=True)
        self._server: uvicorn.Server | None = None

    @property
    def url(self) -> str:
        """The address of the page on this machine, with the token where one is needed."""
        bound: str = self._socket.getsockname()[0]
        if bound in _ANY:
            return self._url_of(_ANY[bound])
        return self._url_of(bound if is_loopback(self._options.address) else self._options.address)

    @property
    def remote_url(self) -> str | None:
        """The address of the page for other machines; None: it is `url`, or there is none."""
        bound = self._socket.getsockname()[0]
        return self._url_of(_find_own_address()) if bound in _ANY else None

    def _url_of(self, host: str) -> str:
        token = "" if self._guard.token is None else f"?token={self._guard.token}"
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/{token}"

    @property
    def receives(self) -> bool:
        """Whether telemetry is received, rather than read from files."""
        return self._follower is None

    def start(self) -> None:
        """Start everything; returns when the page can be opened.

        Raises:
            CannotServeError: the gRPC port cannot be listened on, or the server does not start.
        """
        if self.receives and self._options.grpc_port is not None:
            self._start_grpc(self._options.grpc_port)
        if self._follower is not None:
            self._follower.start()
        self._thread.start()
        if not self._is_ready.wait(_START_SECONDS):
            raise CannotServeError("the server of the page did not start within 10 s.")

    def stop(self) -> None:
        """Stop everything. Pages that are open say that the server does not answer."""
        if self._follower is not None:
            self._follower.stop()
        if self._grpc is not None:
            self._grpc.stop()
        if self._server is not None:
            self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS)
        self._socket.close()

    def wait(self, report: Callable[[], object] = lambda: None) -> None:
        """Wait until the server ends, or Ctrl-C; `report` is called twice a second."""
        while self._thread.is_alive():
            self._thread.join(_REPORT_SECONDS)
            report()

    def has_streams(self, seconds: float) -> bool:
        """Return whether there is anything to show; waits for it for at most `seconds`."""
        deadline = monotonic() + seconds
        while not len(self._store) and monotonic() < deadline:
            sleep(0.02)
        return len(self._store) > 0

    def open_browser(self) -> bool:
        """Open the page in a browser; returns False where there is none."""
        with suppress(webbrowser.Error):
            return webbrowser.open(self.url)
        return False

    def wait_until_read(self, seconds: float) -> None:
        """Wait until the files have been read to their end, for at most `seconds`; for benchmarks."""
        deadline = monotonic() + seconds
        while self._follower is not None and self._follower.is_reading and monotonic() < deadline:
            sleep(0.02)

    def describe(self) -> dict[str, Any]:
        """Return the facts that the page shows of this server."""
        names = [Path(display_name(source)).name for source in self._options.sources]
        name = self._options.name or (names[0] if len(names) == 1 else f"{len(names)} files" if names else "view")
        if self._follower is None:
            ports = f"OTLP on {self.port}" + (f" and {self.grpc_port} (gRPC)" if self.grpc_port else "")
            facts = {"name": name, "status": f"receiving, {ports}", "skipped": self._skipped()}
            return {**facts, "hints": self._hints(), "grown": True}
        following = self._follower.describe_change() or f"following {name}"
        status = f"reading {name}" if self._follower.is_reading else following
        return {"name": name, "status": status, "skipped": self._skipped(), "grown": self._follower.has_grown}

    def describe_skipped(self) -> Iterator[str]:
        """Yield a line for each part of the input that cannot be used, as the report does, once it has been read."""
        if self._follower is None or self._follower.is_reading:
            return
        yield from tuple(self._follower.unreadable)
        yield from self.skipped.describe()

    def _skipped(self) -> str:
        """Return in words what cannot be used; empty where there is nothing."""
        parts = [self.skipped.summarize()]
        if self._follower is not None:
            parts += self._follower.unreadable
            half_written = self._follower.half_written
            verb = "is" if half_written == 1 else "are"
            parts.append(f"{pluralize(half_written, 'last line')} {verb} half-written" if half_written else "")
        if self.assembler.foreign and not len(self._store):
            parts.append(f"{pluralize(self.assembler.foreign, 'span')} without a model")
        if self.assembler.failures:
            parts.append(f"measuring failed {pluralize(int(self.assembler.failures), 'time')} (itl.self.errors)")
        return ", ".join(filter(None, parts))

    def _hints(self) -> list[list[str]]:
        """Return how to send telemetry here: what to do, and the command."""
        endpoint = (self.remote_url or self.url).partition("/?")[0].removesuffix("/")
        token = self._guard.token
        header = f'OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer {token}"'
        return [
            ["Send telemetry from a program:", f"OTEL_EXPORTER_OTLP_ENDPOINT={endpoint}"],
            ["with OTLP over HTTP:", "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"],
            *([] if token is None else [["with the token:", header]]),
            ["See streams while they run:", "OTEL_ITL_PROGRESS=0.25"],
        ]

    def _listen(self) -> socket.socket:
        """Open the listening socket of the page; where its port is in use, the sentence names that of gRPC as well."""
        address, port, grpc_port = self._options.address, self._options.port, self._options.grpc_port
        try:
            return _listen(address, port)
        except PortInUseError:
            if self.receives and grpc_port:
                try:
                    _listen(address, grpc_port).close()
                except PortInUseError as error:
                    raise PortInUseError(
                        f"port {port} and port {grpc_port} for OTLP over gRPC are in use: give --port and --grpc-port "
                        "others, or 0 for any that is free."
                    ) from error
            raise

    def _start_grpc(self, port: int) -> None:
        """Receive OTLP over gRPC, where grpcio is installed."""
        try:
            from otel_itl.tools.view.server.grpc_receiver import GrpcReceiver  # noqa: PLC0415 - an extra of its own
        except ImportError:
            return
        host = self._options.address
        try:
            _listen(host, port).close()  # gRPC would print its own words about a port in use
            self._grpc = GrpcReceiver(f"{f'[{host}]' if ':' in host else host}:{port}", self.assembler, self._guard)
        except (OSError, CannotServeError) as error:
            raise CannotServeError(
                f"port {port} for OTLP over gRPC is in use: give --grpc-port another one, 0 for any that is free, "
                "or off."
            ) from error
        self.grpc_port = self._grpc.port

    async def _serve(self) -> None:
        """Answer requests until `stop()`. Runs on the thread."""
        app = ViewApp(self._store, self.assembler, self._guard, self.describe, receives=self.receives)
        config = uvicorn.Config(
            app.asgi, log_level="error", access_log=False, lifespan="off", timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(config)
        watcher = asyncio.create_task(self._watch(app))
        await self._server.serve(sockets=[self._socket])
        watcher.cancel()

    async def _watch(self, app: ViewApp) -> None:
        """Report the start, end streams that were lost, and end the events of the pages when the server is to end."""
        while self._server is not None:
            if self._server.started:
                self._is_ready.set()
            if self._server.should_exit:
                app.close()
                return
            self.assembler.end_lost_streams()
            await asyncio.sleep(0.05 if not self._is_ready.is_set() else 0.2)


def _find_own_address() -> str:
    """Return the address under which other machines are likely to reach this one, or its name where it has no route."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(_FAR_AWAY)  # of UDP: it chooses the route, and sends nothing
        return str(probe.getsockname()[0])
    return socket.gethostname()


def _listen(address: str, port: int) -> socket.socket:
    """Open the listening socket.

    Raises:
        PortInUseError: the port is in use.
        CannotServeError: there is no such address.
    """
    try:
        family = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0][0]
        with ExitStack() as failing:
            made = failing.enter_context(socket.socket(family, socket.SOCK_STREAM))
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((address, port))
            made.listen(128)
            failing.pop_all()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortInUseError(
                f"port {port} is in use: give --port another one, or 0 for any that is free."
            ) from error
        raise CannotServeError(f"{address} port {port} cannot be listened on ({error.strerror or error}).") from error
    return made
