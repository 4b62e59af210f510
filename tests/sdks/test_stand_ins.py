"""Responses that no HTTP client made: built by hand without a request, or stand-ins with little of a response."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final

import pytest
from clients import make_client, sdk_of, skip_what_is_missing
from faces import Face, entered, run, settled, taken
from measuring import SHARED, bare, instrument
from scripts import WIRES
from surfaces import ANTHROPIC, CREATED, Surface

from otel_itl.testing import CapturedTelemetry

EVENT_STREAM: Final = {"content-type": "text/event-stream"}
MESSAGES: Final = next(surface for surface in CREATED if surface.host is ANTHROPIC)

created = pytest.mark.parametrize("surface", CREATED, ids=str)


class StandIn:
    """What the SDKs use of a response, and nothing else: it has no `extensions`."""

    status_code = 200
    is_success = True
    is_error = False
    http_version = "HTTP/1.1"
    reason_phrase = "OK"
    elapsed = None
    headers: Final = EVENT_STREAM

    def __init__(self, request: Any, body: bytes) -> None:
        self.request = request
        self.url = request.url
        self.is_closed = False
        self._body = body

    def raise_for_status(self) -> None:
        pass

    def iter_bytes(self) -> Iterator[bytes]:
        yield self._body

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        yield self._body

    @property
    def stream(self) -> AsyncIterator[bytes]:
        """What is left of the body, which the async client of openai reads before it closes a response."""
        return _nothing()

    def close(self) -> None:
        self.is_closed = True

    async def aclose(self) -> None:
        self.is_closed = True


class StreamlessStandIn(StandIn):
    """As a mock with a `spec` may be."""

    @property
    def stream(self) -> AsyncIterator[bytes]:
        raise AttributeError("stream")


async def _nothing() -> AsyncIterator[bytes]:
    for piece in ():
        yield piece


def body_of(surface: Surface) -> bytes:
    return b"".join(step.event.encode() for step in WIRES[surface.wire].script)


async def read(surface: Surface, client: Any) -> list[Any]:
    return await taken(await settled(surface.open(client)))


def read_stand_in(surface: Surface, face: Face, kind: type[StandIn] = StandIn) -> tuple[list[Any], StandIn]:
    """The chunks of a stream whose response is a stand-in, and the stand-in."""
    made: list[StandIn] = []

    def send(request: Any, **_: Any) -> StandIn:
        made.append(kind(request, body_of(surface)))
        return made[-1]

    async def send_async(request: Any, **_: Any) -> StandIn:
        return send(request)

    async def scenario() -> list[Any]:
        async with entered(make_client(surface.host, face, "http://127.0.0.1")) as client:
            skip_what_is_missing(surface, client)
            client._client.send = send_async if face == "async" else send
            return await read(surface, client)

    return run(face, scenario()), made[-1]


def answered_by_hand(face: Face, *, by: str) -> list[Any]:
    """The events of a message whose response a middleware, or the transport of the HTTP client, made by hand."""
    sdk: Any = sdk_of(ANTHROPIC)
    if by == "middleware" and not hasattr(sdk, "Middleware"):
        pytest.skip("this anthropic has no middleware")
    http = sys.modules[sdk.DefaultHttpxClient.__mro__[1].__module__.partition(".")[0]]

    def by_hand() -> Any:
        return http.Response(200, headers=EVENT_STREAM, content=body_of(MESSAGES))

    def handle(request: Any, _: Callable[[Any], Any]) -> Any:
        wrap = sdk.AsyncAPIResponse if face == "async" else sdk.APIResponse
        return wrap(
            raw=by_hand(),
            client=client,
            cast_to=request.cast_to,
            stream=request.stream,
            stream_cls=request.stream_cls,
            options=request.options,
        )

    async def handle_async(request: Any, call_next: Callable[[Any], Any]) -> Any:
        return handle(request, call_next)

    if by == "middleware":
        options = {"middleware": [handle_async if face == "async" else handle]}
    else:
        transport = http.MockTransport(lambda _: by_hand())
        options = {"http_client": (http.AsyncClient if face == "async" else http.Client)(transport=transport)}
    client = make_client(ANTHROPIC, face, "http://127.0.0.1", **options)

    async def scenario() -> list[Any]:
        async with entered(client):
            return await read(MESSAGES, client)

    return run(face, scenario())


def summary(telemetry: CapturedTelemetry, caplog: pytest.LogCaptureFixture) -> tuple[list[tuple[str, int]], list[str]]:
    """Outcome and number of chunks of each span, and what was logged by us."""
    return (
        [(span.attributes["itl.stream.outcome"], span.attributes["itl.chunk.count"]) for span in telemetry.spans],
        [record.getMessage() for record in caplog.records if record.name.startswith("otel_itl")],
    )


def completed(surface: Surface) -> tuple[list[tuple[str, int]], list[str]]:
    """The summary of a stream that was recorded to its end without a word in the log."""
    return [("completed", WIRES[surface.wire].chunks)], []


@created
def test_a_stream_of_a_stand_in_is_recorded_to_its_end(
    surface: Surface, face: Face, telemetry: CapturedTelemetry, caplog: pytest.LogCaptureFixture
) -> None:
    read_stand_in(surface, face)
    assert summary(telemetry, caplog) == completed(surface)


def test_a_stream_of_a_stand_in_without_a_body_is_recorded_to_its_end(
    face: Face, telemetry: CapturedTelemetry, caplog: pytest.LogCaptureFixture
) -> None:
    read_stand_in(MESSAGES, face, StreamlessStandIn)
    assert summary(telemetry, caplog) == completed(MESSAGES)


@pytest.mark.requirement("R9")
@created
def test_the_chunks_of_a_stand_in_are_those_without_instrumentation(surface: Surface, face: Face) -> None:
    bare()
    expected, _ = read_stand_in(surface, face)
    instrument(SHARED)
    actual, _ = read_stand_in(surface, face)
    assert actual == expected


@created
def test_a_stand_in_gets_no_attribute_of_ours(surface: Surface, face: Face) -> None:
    bare()
    _, expected = read_stand_in(surface, face)
    instrument(SHARED)
    _, actual = read_stand_in(surface, face)
    assert sorted(vars(actual)) == sorted(vars(expected))


@pytest.mark.parametrize("by", ["middleware", "transport"])
def test_a_stream_of_a_response_made_by_hand_is_recorded_to_its_end(
    by: str, face: Face, telemetry: CapturedTelemetry, caplog: pytest.LogCaptureFixture
) -> None:
    answered_by_hand(face, by=by)
    assert summary(telemetry, caplog) == completed(MESSAGES)


@pytest.mark.requirement("R9")
@pytest.mark.parametrize("by", ["middleware", "transport"])
def test_the_chunks_of_a_response_made_by_hand_are_those_without_instrumentation(by: str, face: Face) -> None:
    bare()
    expected = answered_by_hand(face, by=by)
    instrument(SHARED)
    assert answered_by_hand(face, by=by) == expected
