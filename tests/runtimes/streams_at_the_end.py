"""What the programs of test_end_of_process.py do: streams that complete, one that stays open, and web applications."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

import otel_itl

LEFT_OPEN: list[Any] = []
PIECES = ["a", "b", "c"]
PAUSE_SECONDS = 0.3
"""Between the pieces of a slow response."""


def complete() -> None:
    """Read a stream to its end."""
    list(otel_itl.observe(PIECES, provider="test", model="complete"))


def leave_open() -> None:
    """Read the beginning of a stream, and keep it."""
    stream = otel_itl.observe(iter(PIECES), provider="test", model="open")
    next(stream)
    LEFT_OPEN.append(stream)


def complete_one_and_leave_one_open() -> None:
    """What each of the programs does before it ends."""
    complete()
    leave_open()


def own_the_sdk() -> None:
    """Set a tracer provider, as an application does that sets up the SDK."""
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)


def announce() -> None:
    """Let the test go on. Celery takes `sys.stdout` for its log."""
    os.write(1, b"ready\n")


def be_stopped() -> None:
    """Wait for a signal for as long as any test.

    One that comes just before a sleep begins does not end it: Python calls the handler after it.
    """
    announce()
    for _ in range(1_200):
        time.sleep(0.05)


def handle_sigterm(handler: Callable[[int, Any], object]) -> None:
    """Set a handler of the application's own."""
    signal.signal(signal.SIGTERM, handler)


def _pieces() -> Iterator[str]:
    for piece in PIECES:
        yield piece
        time.sleep(PAUSE_SECONDS)


async def _pieces_async() -> AsyncIterator[str]:
    for piece in PIECES:
        yield piece
        await asyncio.sleep(PAUSE_SECONDS)


def wsgi(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
    """A stream, and one that stays open; at /slow, a stream that is passed on piece by piece."""
    start_response("200 OK", [("content-type", "text/plain")])
    if environ["PATH_INFO"] == "/slow":
        return (piece.encode() for piece in otel_itl.observe(_pieces(), provider="test", model="slow"))
    complete_one_and_leave_one_open()
    return [str(os.getpid()).encode()]


async def asgi(scope: dict[str, Any], receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
    """The same as `wsgi`."""
    if scope["type"] == "lifespan":
        while True:
            event = (await receive())["type"]
            await send({"type": f"{event}.complete"})
            if event == "lifespan.shutdown":
                return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    if scope["path"] == "/slow":
        async for piece in otel_itl.observe(_pieces_async(), provider="test", model="slow"):
            await send({"type": "http.response.body", "body": piece.encode(), "more_body": True})
    else:
        complete_one_and_leave_one_open()
    await send({"type": "http.response.body", "body": b""})
