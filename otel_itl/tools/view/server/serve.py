"""Starts the server of the page and what feeds it, in a thread of its own, and opens the browser."""

from __future__ import annotations

import errno
import socket
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from itertools import repeat
from pathlib import Path
from secrets import token_urlsafe
from threading import Thread
from time import monotonic, sleep
from typing import Any, Final

import uvicorn

from otel_itl.tools.command_error import CommandError
from otel_itl.tools.report.reading.documents import display_name
from otel_itl.tools.report.reading.skipped_input import SkippedInput
from otel_itl.tools.report.render.number_format import pluralize
from otel_itl.tools.report.selection import Selection
from otel_itl.tools.view.document import number_same_names
from otel_itl.tools.view.server.app import ViewApp
from otel_itl.tools.view.server.assembler import Assembler
from otel_itl.tools.view.server.follow import FileFollower
from otel_itl.tools.view.server.safety import Guard, is_loopback
from otel_itl.tools.view.server.store import Store

DEFAULT_PORT: Final = 4318
"""OTLP over HTTP; the page is on the same port."""
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


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """What the server listens on and what it shows.

    Args:
        sources: telemetry files to show and follow; none: telemetry is received.
        compares: each file is a side of its own.
        address: to listen on.
        port: of the page, and of OTLP over HTTP; 0: any that is free.
        grpc_port: of OTLP over gRPC; 0: any that is free; None: it is not received.
        keep: streams that are kept.
        name: what is shown, for the title.
        token: that requests need beyond loopback; empty: a new one is made.
        selection: the streams that are shown.
        by: the attribute that each model is split by; None: by none.
    """

    sources: Sequence[str] = ()
    compares: bool = False
    address: str = LOOPBACK
    port: int = DEFAULT_PORT
    grpc_port: int | None = 4317
    keep: int = 10_000
    name: str = ""
    token: str = ""
    selection: Selection = field(default_factory=Selection)
    by: str | None = None


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
        assemble = partial(Assembler, self._store, self.skipped, selection=options.selection, by=options.by)
        self.assembler = assemble()
        token = None if is_loopback(options.address) else options.token or token_urlsafe(18)
        self._guard = Guard(options.address, token)
        self._sides = _name_sides(options.sources) if options.compares else []
        of_sides = [assemble(side) for side in range(len(self._sides))]
        self._assemblers = of_sides or [self.assembler]
        sources = list(zip(options.sources, of_sides or repeat(self.assembler), strict=False))
        self._follower = FileFollower(sources, self.skipped) if sources else None
        self._receives_grpc = self.receives and options.grpc_port is not None and find_spec("grpc") is not None
        self._socket = _open_ports(options, has_grpc=self._receives_grpc)
        self.port: int = self._socket.getsockname()[1]
        self.grpc_port: int | None = None
        self._grpc: Any = None
        app = ViewApp(self.assembler, self._guard, self.describe, self._is_closing, receives=self.receives)
        quiet: dict[str, Any] = {"log_level": "error", "access_log": False, "lifespan": "off"}
        self._server = uvicorn.Server(uvicorn.Config(app.asgi, timeout_graceful_shutdown=1, **quiet))
        self._thread = Thread(target=self._server.run, args=([self._socket],), name="otel_itl view", daemon=True)

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
        return f"http://{_bracketed(host)}:{self.port}/{token}"

    @property
    def receives(self) -> bool:
        """Whether telemetry is received, rather than read from files."""
        return self._follower is None

    def start(self) -> None:
        """Start everything; returns when the page can be opened.

        Raises:
            CannotServeError: the server does not start.
        """
        if self._receives_grpc:
            from otel_itl.tools.view.server.grpc_receiver import GrpcReceiver  # noqa: PLC0415 - an extra of its own

            address = f"{_bracketed(self._options.address)}:{self._options.grpc_port}"
            self._grpc = GrpcReceiver(address, self.assembler, self._guard)
            self.grpc_port = self._grpc.port
        if self._follower is not None:
            self._follower.start()
        self._thread.start()
        if not _wait_until(lambda: self._server.started, _START_SECONDS):
            raise CannotServeError(f"the server of the page did not start within {_START_SECONDS:.0f} s.")

    def stop(self) -> None:
        """Stop everything. Pages that are open say that the server does not answer."""
        if self._follower is not None:
            self._follower.stop()
        if self._grpc is not None:
            self._grpc.stop()
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
        return _wait_until(lambda: len(self._store) > 0, seconds)

    def open_browser(self) -> bool:
        """Open the page in a browser; returns False where there is none."""
        with suppress(webbrowser.Error):
            return webbrowser.open(self.url)
        return False

    def describe(self) -> dict[str, Any]:
        """Return the facts that the page shows of this server."""
        names = [Path(display_name(source)).name for source in self._options.sources]
        name = self._options.name or (names[0] if len(names) == 1 else f"{len(names)} files" if names else "view")
        selected = {"selected": self._options.selection.describe()}
        if self._follower is None:
            ports = f"OTLP on {self.port}" + (f" and {self.grpc_port} (gRPC)" if self.grpc_port else "")
            facts = {"name": name, "status": f"receiving, {ports}", "skipped": self._skipped(), **selected}
            return {**facts, "hints": self._hints(), "grown": True}
        following = self._follower.describe_change() or f"following {name}"
        status = f"reading {name}" if self._follower.is_reading else following
        sides = {"sides": self._sides} if self._sides else {}
        facts = {"name": name, "status": status, "skipped": self._skipped(), **selected}
        return {**facts, "grown": self._follower.has_grown, **sides}

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
        if let_go := sum(assembler.let_go for assembler in self._assemblers):
            waited = "let go while spans and token events waited for each other (--keep keeps more)"
            parts.append(f"{let_go:,} {waited}")
        foreign = sum(assembler.foreign for assembler in self._assemblers)
        if foreign and not len(self._store):
            parts.append(f"{pluralize(foreign, 'span')} without a model")
        failures = int(sum(assembler.failures for assembler in self._assemblers))
        if failures:
            parts.append(f"measuring failed {pluralize(failures, 'time')} (itl.self.errors)")
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

    def _is_closing(self) -> bool:
        return self._server.should_exit


def _name_sides(sources: Sequence[str]) -> list[str]:
    """Return a name for each file: its own, or its whole path where several have the same, numbered where those do."""
    paths = [Path(display_name(source)) for source in sources]
    own = [path.name for path in paths]
    return number_same_names(
        [name if own.count(name) == 1 else str(path) for name, path in zip(own, paths, strict=True)]
    )


def _find_own_address() -> str:
    """Return the address under which other machines are likely to reach this one, or its name where it has no route."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(_FAR_AWAY)  # of UDP: it chooses the route, and sends nothing
        return str(probe.getsockname()[0])
    return socket.gethostname()


def _wait_until(is_reached: Callable[[], bool], seconds: float) -> bool:
    """Wait for something for at most so long, and return whether it is reached."""
    deadline = monotonic() + seconds
    while not is_reached() and monotonic() < deadline:
        sleep(0.02)
    return is_reached()


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _open_ports(options: ServerOptions, *, has_grpc: bool) -> socket.socket:
    """Open the listening socket of the page; that of gRPC is only tried, as gRPC would print its own words about it.

    Raises:
        CannotServeError: a port is in use, or there is no such address.
    """
    ports = {"--port": options.port, **({"--grpc-port": options.grpc_port} if has_grpc else {})}
    opened: dict[str, socket.socket] = {}
    with ExitStack() as failing:
        for option, port in ports.items():
            try:
                opened[option] = failing.enter_context(_listen(options.address, port or 0))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    reason = f"cannot be listened on ({error.strerror or error})"
                    raise CannotServeError(f"{options.address} port {port} {reason}.") from error
        if in_use := tuple(ports.keys() - opened.keys()):
            page, grpc = f"port {options.port}", f"port {options.grpc_port} for OTLP over gRPC"
            if len(in_use) > 1:
                sentence = (
                    f"{page} and {grpc} are in use: give --port and --grpc-port others, or 0 for any that is free."
                )
            elif "--port" in in_use:
                sentence = f"{page} is in use: give --port another one, or 0 for any that is free."
            else:
                sentence = f"{grpc} is in use: give --grpc-port another one, 0 for any that is free, or off."
            raise CannotServeError(sentence)
        failing.pop_all()
    if has_grpc:
        opened["--grpc-port"].close()
    return opened["--port"]


def _listen(address: str, port: int) -> socket.socket:
    """Open a listening socket; raises OSError where the port is in use, or there is no such address."""
    family = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0][0]
    is_dual = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    return socket.create_server((address, port), family=family, backlog=128, dualstack_ipv6=is_dual)
