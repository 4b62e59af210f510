"""Shows streams on a page: runs its server, alone or beside a program that is measured."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Final

from otel_itl.tools.stderr import print_line
from otel_itl.tools.view.server.serve import ServerOptions, ViewServer

_STOP_SECONDS: Final = 3.0
_READ_SECONDS: Final = 0.5
"""Within this time the last lines of a file are on its page."""
_ENDING: Final = "Ctrl-C ends it"
_ADDRESS: Final = re.compile(r"http://\S+")


def show_until_interrupted(options: ServerOptions, *, opens: bool) -> None:
    """Serve the page until Ctrl-C, and open it in a browser if `opens`.

    Raises:
        CannotServeError: a port cannot be listened on.
    """
    server, printed = ViewServer(options), set[str]()

    def print_skipped() -> None:
        """Print what the server skipped of its input, each line once."""
        for line in server.describe_skipped():
            key = line.rpartition(": ")[2] if line.startswith("... and ") else line  # a count that grows is no news
            if key not in printed:
                printed.add(key)
                print_line(line)

    try:
        server.start()
        _announce("view", server, opens=opens)
        with suppress(KeyboardInterrupt):
            server.wait(print_skipped)
    finally:
        server.stop()


@contextmanager
def shown_file(path: Path, command: str, *, opens: bool) -> Iterator[Callable[[], None]]:
    """Show a file that grows on a page for the `with` block.

    Args:
        path: of the file; it may not be there yet.
        command: names the command that writes it.
        opens: open a browser.

    Yields:
        A function that keeps the page after the file's end, until Ctrl-C; a page that has no stream is not kept.

    Raises:
        CannotServeError: the server does not start.
    """
    server = ViewServer(ServerOptions(sources=(str(path),), port=0, grpc_port=None, name=f"otel-itl {command}"))

    def keep_page() -> None:
        if server.has_streams(_READ_SECONDS):
            print(f"otel-itl {command}: the page stays at {server.url} until Ctrl-C", file=sys.stderr, flush=True)
            with suppress(KeyboardInterrupt):
                server.wait()

    try:
        with _signals_kept():
            server.start()
        _announce(command, server, opens=opens)
        yield keep_page
    finally:
        server.stop()


class PageProcess:
    """A process that serves a page. What it prints is passed on to standard error.

    Args:
        process: `otel-itl view`, with a pipe as its standard error.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._url = ""
        self._printer = Thread(target=self._pass_on, name="otel_itl view messages", daemon=True)
        self._printer.start()

    def wait_for_reader(self) -> None:
        """Keep the page until Ctrl-C, or `end()`."""
        if self._process.poll() is None:
            where = f" at {self._url}" if self._url else ""
            print(f"otel-itl: the page stays{where} until Ctrl-C", file=sys.stderr, flush=True)
            self._process.wait()

    def end(self) -> None:
        """End the page; does not wait for its process."""
        self._process.terminate()

    def stop(self) -> None:
        """End the page, and wait for its process."""
        self.end()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP_SECONDS)
            self._printer.join(_READ_SECONDS)  # a browser that was opened may keep the pipe open

    def _pass_on(self) -> None:
        """Print what the process prints. Runs on a thread."""
        for line in self._process.stderr or ():
            found = _ADDRESS.search(line)
            self._url = self._url or (found[0] if found else "")
            if line.strip() == _ENDING:  # Ctrl-C ends the command first
                continue
            with suppress(OSError):  # the terminal is gone
                print(line, end="", file=sys.stderr, flush=True)


@contextmanager
def shown_by_process(path: Path, *, opens: bool) -> Iterator[PageProcess]:
    """Show a file that grows on a page, served by a process of its own, for the `with` block.

    The measured clients of this process are not delayed by the page. The process prints where the page is.
    """
    options = ["--port", "0", *([] if opens else ["--no-open"])]
    command = [sys.executable, "-m", "otel_itl", "view", *options, "--", str(path)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)  # noqa: S603 - ourselves
    page = PageProcess(process)
    try:
        yield page
    finally:
        page.stop()


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Have the threads that are started in the `with` block leave all signals to the main thread."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    former = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


def _announce(command: str, server: ViewServer, *, opens: bool) -> None:
    """Print where the page is, and open it in a browser."""
    lines = [f"otel-itl {command}: {server.url}"]
    if server.remote_url is not None:
        lines.append(f"from other machines: {server.remote_url}")
    if command == "view" and server.receives:
        grpc = f", OTLP over gRPC on port {server.grpc_port}" if server.grpc_port else ""
        lines.append(f"OTLP over HTTP on the same port{grpc}; Ctrl-C ends it")
        if server.grpc_port is None:
            lines.append("OTLP over gRPC is not received: it needs grpcio, or was switched off")
    elif command == "view":
        lines.append(_ENDING)
    print("\n".join(lines), file=sys.stderr, flush=True)
    if opens and not server.open_browser():
        print("otel-itl: there is no browser here: open the address yourself", file=sys.stderr, flush=True)
