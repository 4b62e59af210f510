"""A caller that holds its stream, on a machine on which decoding takes milliseconds: no figure of the caller's time.

Decoding is made slow by computing in the SDK's decoder, for longer than the time that once decided what blocks.
"""

from __future__ import annotations

import asyncio
import importlib.util
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import openai
import pytest

import otel_itl
from otel_itl.testing import CapturedTelemetry, ScriptedServer, capture_telemetry, chat

DECODE_SECONDS = 0.0015
"""What each line of the stream takes to decode; an event has two."""
GAP, HOLD, CHUNKS = 0.01, 0.05, 15


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(process=True) as running:
        yield running


@pytest.fixture
def captured(server: ScriptedServer) -> Iterator[CapturedTelemetry]:
    server.clear()
    with capture_telemetry() as telemetry:
        otel_itl.instrument(
            tracer_provider=telemetry.tracer_provider,
            meter_provider=telemetry.meter_provider,
            logger_provider=telemetry.logger_provider,
        )
        yield telemetry
        otel_itl.uninstrument()


@pytest.fixture
def _slow_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder: Any = openai._streaming.SSEDecoder
    decode = decoder.decode

    def decode_slowly(self: Any, line: str) -> Any:
        end = time.thread_time() + DECODE_SECONDS
        while time.thread_time() < end:
            pass
        return decode(self, line)

    monkeypatch.setattr(decoder, "decode", decode_slowly)


def request(client: Any, model: str = "m") -> Any:
    return client.chat.completions.create(model=model, messages=[{"role": "user", "content": "hello"}], stream=True)


def read(server: ScriptedServer) -> None:
    with openai.OpenAI(base_url=server.openai_url, api_key="none") as client:
        for _ in request(client):
            time.sleep(HOLD)


async def aread(server: ScriptedServer) -> None:
    async with openai.AsyncOpenAI(base_url=server.openai_url, api_key="none") as client:
        async for _ in await request(client):
            await asyncio.sleep(HOLD)


def read_on_uvloop(server: ScriptedServer) -> None:
    uvloop = pytest.importorskip("uvloop", reason="uvloop is not installed")
    uvloop.run(aread(server))


def find_lowest_p99(attributes: Any) -> float:
    return attributes["itl.latency.p99"] - attributes.get("itl.latency.p99.uncertainty", 0.0)


READERS = {"sync": read, "asyncio": lambda server: asyncio.run(aread(server)), "uvloop": read_on_uvloop}


@pytest.mark.usefixtures("_slow_decoding")
@pytest.mark.parametrize("is_compressed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("reader", READERS)
def test_the_callers_time_is_within_the_uncertainty(
    reader: str, is_compressed: bool, server: ScriptedServer, captured: CapturedTelemetry
) -> None:
    server.play(replace(chat.reply(CHUNKS, first=0.02, gaps=GAP), gzip=is_compressed))
    READERS[reader](server)
    attributes = captured.spans[0].attributes or {}
    assert (attributes["itl.consumer.bound"], find_lowest_p99(attributes) < 3 * GAP) == (True, True)


@pytest.mark.skipif(importlib.util.find_spec("h2") is None, reason="h2 is not installed")
@pytest.mark.usefixtures("_slow_decoding")
def test_over_http_2_as_well(server: ScriptedServer, captured: CapturedTelemetry) -> None:
    server.play(chat.reply(CHUNKS, first=0.02, gaps=GAP))
    http_client = openai.DefaultHttpxClient(http1=False, http2=True)
    with openai.OpenAI(base_url=server.openai_url, api_key="none", http_client=http_client) as client:
        for _ in request(client):
            time.sleep(HOLD)
    attributes = captured.spans[0].attributes or {}
    assert (attributes["itl.consumer.bound"], find_lowest_p99(attributes) < 3 * GAP) == (True, True)


@pytest.mark.skipif(importlib.util.find_spec("h2") is None, reason="h2 is not installed")
def test_what_another_stream_reads_from_a_shared_connection_is_known_however_long_the_caller_holds(
    server: ScriptedServer, captured: CapturedTelemetry
) -> None:
    server.always(chat.reply(4 * CHUNKS, first=0.02, gaps=GAP))

    async def read_shared() -> None:
        http_client = openai.DefaultAsyncHttpxClient(http1=False, http2=True)
        async with openai.AsyncOpenAI(base_url=server.openai_url, api_key="none", http_client=http_client) as client:
            await asyncio.gather(aread_chunks(client, "held", hold=HOLD), *(aread_chunks(client, "read") for _ in "12"))

    asyncio.run(read_shared())
    (held,) = (span.attributes or {} for span in captured.spans if span.name == "chat held")
    # The last chunks are handed out when the other streams are over: then nothing reads for this one.
    assert held["itl.latency.p50"] < 3 * GAP


async def aread_chunks(client: openai.AsyncOpenAI, model: str, hold: float = 0.0) -> None:
    async for _ in await request(client, model):
        await asyncio.sleep(hold)


def test_what_the_host_added_is_on_the_span(server: ScriptedServer, captured: CapturedTelemetry) -> None:
    if otel_itl.runtime.runtime.evidence.run_queues.read() is None:
        pytest.skip("this system does not count it")
    server.play(chat.reply(3))
    with openai.OpenAI(base_url=server.openai_url, api_key="none") as client:
        for _ in request(client):
            pass
    attributes = captured.spans[0].attributes or {}
    found = (type(attributes["itl.host.delay"]), type(attributes["itl.host.bound"]))
    assert found == (float, bool)
