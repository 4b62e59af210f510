"""A page's server on this machine, and a browser to look at it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browsers import Browser, opened_browser

from otel_itl.testing import captured_telemetry
from otel_itl.tools.view.bundle import render_page
from otel_itl.tools.view.document import describe_page

if TYPE_CHECKING:
    from otel_itl.tools.view.server.serve import ViewServer

__all__ = ["captured_telemetry"]


class Client:
    """Talks to a page's server over HTTP as anything on the network could."""

    def __init__(self, server: ViewServer) -> None:
        self.server = server

    def request(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Send a request; returns status, headers and body. Underscores in names of headers stand for dashes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=10)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, named)
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read()
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> int:
        """The status of a GET request."""
        return self.request("GET", path, **headers)[0]

    def send(self, document: Any, signal: str = "traces", **headers: str) -> int:
        """Send a document as OTLP JSON; returns the status."""
        body = json.dumps(document).encode()
        return self.request("POST", f"/v1/{signal}", body, **{"Content_Type": "application/json", **headers})[0]

    def streams(self) -> list[dict[str, Any]]:
        """The streams as a page that connects now gets them, with the chunks of those that run under `parts`."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=10)
        connection.request("GET", "/events")
        response, found, event = connection.getresponse(), dict[str, dict[str, Any]](), ""
        while True:
            line = response.readline().decode().strip()
            if line.startswith("event: "):
                event = line[7:]
            elif line.startswith("data: "):
                data = json.loads(line[6:])
                if event == "streams":
                    found |= {stream["id"]: stream for stream in data}
                elif event == "patches":
                    for patch in data:
                        found[patch["id"]].update(patch.get("set", {}))
                        found[patch["id"]].setdefault("parts", []).extend([patch["t"]] if "t" in patch else [])
                elif event == "gone":
                    connection.close()
                    return list(found.values())


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser at 1,280 by 900 pixels."""
    with opened_browser() as opened:
        opened.resize(1280, 900)
        yield opened


@pytest.fixture
def serve() -> Iterator[Callable[..., Client]]:
    """Starts servers with options, on free ports; they end with the test."""
    pytest.importorskip("starlette", reason="the extra `view` is not installed")
    from otel_itl.tools.view.server.serve import ServerOptions, ViewServer

    started: list[ViewServer] = []

    def start(**options: Any) -> Client:
        server = ViewServer(ServerOptions(**{"port": 0, "grpc_port": None, **options}))
        started.append(server)
        server.start()
        return Client(server)

    yield start
    for server in started:
        server.stop()


@pytest.fixture
def save(tmp_path: Path) -> Callable[..., str]:
    """Returns the address of a saved page with described streams."""

    def write(streams: list[dict[str, Any]]) -> str:
        path = tmp_path / "page.html"
        path.write_text(render_page(describe_page(streams, "spans.jsonl", {})))
        return path.as_uri()

    return write
