"""`otel-itl view`: runs the server of the page, alone or beside a program that is measured."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from otel_itl.view.server.serve import DEFAULT_PORT, LOOPBACK, CannotServeError, ServerOptions, ViewServer

READ_BEFORE_END_SECONDS = 3.0
"""How long the page is given to read what a program has written last."""


@dataclass(frozen=True, kw_only=True)
class ViewOptions:
    """The arguments of `otel-itl view`."""

    files: tuple[str, ...]
    port: int | None
    grpc_port: int | None
    address: str = LOOPBACK
    keep: int
    opens: bool


def show_until_interrupted(options: ViewOptions) -> None:
    """Serve the page until Ctrl-C.

    Raises:
        CannotServeError: a port cannot be listened on.
    """
    port = options.port if options.port is not None else 0 if options.files else DEFAULT_PORT
    server = ViewServer(
        ServerOptions(
            sources=options.files,
            address=options.address,
            port=port,
            grpc_port=options.grpc_port,
            keep=options.keep,
        )
    )
    try:
        server.start()
        _announce("view", server, opens=options.opens)
        with suppress(KeyboardInterrupt):
            server.wait()
    finally:
        server.stop()


@contextmanager
def shown_file(path: Path, command: str, *, opens: bool) -> Iterator[ViewServer]:
    """Show a file that grows on a page for the `with` block.

    Args:
        path: of the file; it may not be there yet.
        command: names the command that shows it.
        opens: open a browser.

    Raises:
        CannotServeError: the server does not start.
    """
    server = ViewServer(ServerOptions(sources=(str(path),), port=0, grpc_port=None, name=f"otel-itl {command}"))
    try:
        server.start()
        _announce(command, server, opens=opens)
        yield server
    finally:
        server.stop()


def wait_for_reader(server: ViewServer, command: str) -> None:
    """Keep the page after its program has ended, until Ctrl-C."""
    print(f"otel-itl {command}: the page stays at {server.url} until Ctrl-C", file=sys.stderr)
    with suppress(KeyboardInterrupt):
        server.wait()


def _announce(command: str, server: ViewServer, *, opens: bool) -> None:
    """Print where the page is, and open it in a browser."""
    lines = [f"otel-itl {command}: {server.url}"]
    if command == "view" and server.receives:
        grpc = f", OTLP over gRPC on port {server.grpc_port}" if server.grpc_port else ""
        lines.append(f"OTLP over HTTP on the same port{grpc}; Ctrl-C ends it")
        if server.grpc_port is None:
            lines.append("OTLP over gRPC is not received: it needs grpcio, or was switched off")
    print("\n".join(lines), file=sys.stderr, flush=True)
    if opens and not server.open_browser():
        print("otel-itl: there is no browser here: open the address yourself", file=sys.stderr, flush=True)


__all__ = ["CannotServeError", "ViewOptions", "show_until_interrupted", "shown_file", "wait_for_reader"]
