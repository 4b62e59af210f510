"""The SDKs' clients over a transport in memory: a response comes in given pieces, and may break anywhere."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import aws_wire
import grpc_wire
import hugging_face_clients
import mistral_clients
from clients import make_client, sdk_of
from surfaces import BEDROCK, COHERE, GEMINI, HUGGING_FACE, MISTRAL, OLLAMA, XAI

if TYPE_CHECKING:
    from faces import Face
    from surfaces import Host, Surface

EVENT_STREAM: Final = (("content-type", "text/event-stream"), ("x-request-id", "req_1"), ("request-id", "req_1"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """What comes back over the wire."""

    pieces: Iterable[bytes]
    fault: str | None = None
    """Name of the HTTP client's exception that is raised where the pieces end."""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = EVENT_STREAM
    refused: str | None = None
    """Name of the HTTP client's exception with which the request fails, before there is a response."""


@dataclass(slots=True)
class Line:
    """The far end of a client: what it was asked, and what became of the responses."""

    wire: Wire
    before_response: Callable[[], None] = lambda: None
    """Called with each request, before it is answered."""
    requests: list[bytes] = field(default_factory=list)
    sent: int = 0
    """Pieces that were pulled."""
    closed: int = 0
    """Times that a body was closed."""

    def take(self, request: bytes) -> None:
        """Take a request, which the caller answers."""
        self.requests.append(request)
        self.before_response()


def http_of(host: Host) -> ModuleType:
    """The HTTP client's package under an SDK: httpx, or what replaced it."""
    sdk = sdk_of(host)
    if host.sdk == MISTRAL.sdk:
        return mistral_clients.http_package(host)
    if host is HUGGING_FACE:
        return hugging_face_clients.http_package()
    if host.sdk == GEMINI.sdk:
        return sys.modules["httpx2" if getattr(sdk._api_client, "httpx2", None) is not None else "httpx"]
    if host.sdk in {OLLAMA.sdk, COHERE.sdk}:
        return sys.modules["httpx"]
    return sys.modules[sdk.DefaultHttpxClient.__mro__[1].__module__.partition(".")[0]]


def client_on(line: Line, surface: Surface, face: Face, **options: Any) -> Any:
    """A client of the surface's SDK at the near end of `line`."""
    if surface.host is BEDROCK:
        return aws_wire.client_on(line, face)
    if surface.host is XAI:
        return grpc_wire.client_on(line, face)
    http = http_of(surface.host)
    is_async = face == "async"

    def handle(request: Any) -> Any:
        line.take(request.content)
        if line.wire.refused is not None:
            raise getattr(http, line.wire.refused)("refused", request=request)
        return http.Response(line.wire.status, headers=list(line.wire.headers), stream=_body(http, line))

    transport = http.MockTransport(handle)
    http_client = (http.AsyncClient if is_async else http.Client)(transport=transport)
    origin = f"http://{surface.host.name}"
    return make_client(surface.host, face, origin, http_client=http_client, **options)


def _body(http: ModuleType, line: Line) -> Any:
    wire = line.wire

    class Body(http.SyncByteStream, http.AsyncByteStream):  # type: ignore[misc,name-defined]
        def __iter__(self) -> Iterator[bytes]:
            for piece in wire.pieces:
                line.sent += 1
                yield piece
            if wire.fault is not None:
                raise getattr(http, wire.fault)("broken")

        async def __aiter__(self) -> AsyncIterator[bytes]:
            for piece in self:
                await asyncio.sleep(0)  # where a task can be cancelled, and others run
                yield piece

        def close(self) -> None:
            line.closed += 1

        async def aclose(self) -> None:
            line.closed += 1

    return Body()
