"""Measured against the truth: what the server knows of its own sending, on a consumer that does nothing but read."""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import anthropic
import openai
import pytest

import otel_itl
from otel_itl.testing import CapturedTelemetry, ScriptedServer, capture_telemetry, chat, messages, responses

ATTEMPTS = 3
WIRES = {"chat": chat, "responses": responses, "messages": messages}
PACES = {"25 ms": (100, 0.025), "5 ms": (200, 0.005)}
FIRST = 0.1
"""Seconds to the first token."""


class Errors(NamedTuple):
    """How far a stream's measures were from the truth, in seconds, and how far they may be."""

    ttft: float
    ttft_allowed: float
    p99: float
    p99_allowed: float

    @property
    def hold(self) -> bool:
        """Both are within the allowance."""
        return abs(self.ttft) <= self.ttft_allowed and abs(self.p99) <= self.p99_allowed

    def __str__(self) -> str:
        """In milliseconds."""
        return f"TTFT {self.ttft * 1e3:+.3f} ms, p99 ITL {self.p99 * 1e3:+.3f} ms"


def allowed(truth: float) -> float:
    """A millisecond or 2 %, whichever is more."""
    return max(0.001, 0.02 * truth)


def sdk_has(wire: str) -> bool:
    """Whether the installed SDK has this API."""
    return wire != "responses" or hasattr(openai.OpenAI, "responses")


def call_of(wire: str, client: Any) -> Any:
    if wire == "chat":
        return client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hello"}], stream=True)
    if wire == "responses":
        return client.responses.create(model="m", input="hello", stream=True)
    asked: Any = [{"role": "user", "content": "hello"}]
    return client.messages.create(model="m", max_tokens=999, messages=asked, stream=True)


def client_of(wire: str, server: ScriptedServer, *, is_async: bool) -> Any:
    sdk: Any = anthropic if wire == "messages" else openai
    kind = ("Async" if is_async else "") + ("Anthropic" if sdk is anthropic else "OpenAI")
    http_client = (sdk.DefaultAsyncHttpxClient if is_async else sdk.DefaultHttpxClient)(verify=False)
    url = server.anthropic_url if sdk is anthropic else server.openai_url
    return getattr(sdk, kind)(base_url=url, api_key="none", max_retries=0, http_client=http_client)


def read(wire: str, server: ScriptedServer) -> int:
    """Read a stream to its end; returns the moment just before the call."""
    with client_of(wire, server, is_async=False) as client:
        called = time.perf_counter_ns()
        for _ in call_of(wire, client):
            pass
    return called


def aread(wire: str, server: ScriptedServer) -> int:
    """The async face of `read`."""

    async def reading() -> int:
        async with client_of(wire, server, is_async=True) as client:
            called = time.perf_counter_ns()
            async for _ in await call_of(wire, client):
                pass
        return called

    return asyncio.run(reading())


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(process=True) as running:
        yield running


@pytest.fixture(scope="module")
def captured(server: ScriptedServer) -> Iterator[CapturedTelemetry]:
    with capture_telemetry() as telemetry:
        otel_itl.instrument(
            tracer_provider=telemetry.tracer_provider,
            meter_provider=telemetry.meter_provider,
            logger_provider=telemetry.logger_provider,
        )
        # The first call of its kind imports modules and works out types, before it makes any request.
        for wire in WIRES:
            if sdk_has(wire):
                read(wire, server)
                aread(wire, server)
        yield telemetry
        otel_itl.uninstrument()


@pytest.fixture
def errors(server: ScriptedServer, captured: CapturedTelemetry) -> Callable[..., Errors]:
    """Play a script and compare."""

    def compare(wire: str, reader: Callable[[str, ScriptedServer], int], script: Any) -> Errors:
        server.clear()
        captured.clear()
        server.play(script)
        called = reader(wire, server)
        sent = server.wait_for(1)[0].output_times_ns
        gaps = [(after - before) / 1e9 for before, after in itertools.pairwise(sent)]
        true_ttft = (sent[0] - called) / 1e9
        # Linear interpolation between closest ranks.
        true_p99 = statistics.quantiles(gaps, n=100, method="inclusive")[-1]
        (span,) = captured.spans
        attributes: Any = span.attributes
        return Errors(
            attributes["itl.time_to_first_token"] - true_ttft,
            allowed(true_ttft),
            attributes["itl.latency.p99"] - true_p99,
            allowed(true_p99),
        )

    return compare


@pytest.mark.parametrize("pace", [pytest.param("25 ms", marks=pytest.mark.slow), "5 ms"])
@pytest.mark.parametrize("reader", [read, aread], ids=["sync", "async"])
@pytest.mark.parametrize("wire", list(WIRES))
def test_ttft_and_p99_itl_are_the_servers_within_a_millisecond_or_two_percent(
    wire: str, reader: Callable[[str, ScriptedServer], int], pace: str, errors: Callable[..., Errors]
) -> None:
    """The best of a few attempts is to hold.

    Between the server's write and the client's read lies the operating system: on a machine with other work, a process
    that is ready waits for its turn for milliseconds, and the tail of one stream in a few shows that delay. It did
    happen to the consumer, so to measure it is right; but it is no error of the measurement, which is what is tested.
    A measurement that is wrong is wrong in every attempt.
    """
    if not sdk_has(wire):
        pytest.skip(f"openai {openai.__version__} has no responses API")
    tokens, gap = PACES[pace]
    attempts: list[Errors] = []
    while len(attempts) < ATTEMPTS and not any(attempt.hold for attempt in attempts):
        attempts.append(errors(wire, reader, WIRES[wire].reply(tokens, first=FIRST, gaps=gap)))
        print(f"{wire}, {reader.__name__}, {tokens} tokens at {pace}: {attempts[-1]}")  # noqa: T201 - for `pytest -s`
    assert any(attempt.hold for attempt in attempts), [str(attempt) for attempt in attempts]
