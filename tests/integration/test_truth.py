"""Measured against the truth: what the server knows of its own sending, on a consumer that does nothing but read."""

from __future__ import annotations

import asyncio
import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import anthropic
import openai
import pytest

import otel_itl
from otel_itl.testing import CapturedTelemetry, Script, ScriptedServer, capture_telemetry, chat, messages, responses

ATTEMPTS = 3
WIRES = {"chat": chat, "responses": responses, "messages": messages}
PACES = {"25 ms": (100, 0.025), "5 ms": (200, 0.005)}
FIRST = 0.1
"""Seconds to the first token."""
HIDING_DELAY = 0.001
"""A reader that the host delays by as many seconds between two chunks holds its stream: the next arrival is hidden."""


class Pace(NamedTuple):
    """The two numbers that are compared, in seconds."""

    ttft: float
    p99: float

    @classmethod
    def of(cls, called: int, outputs: list[int]) -> Pace:
        """The pace of output chunks at these moments, in nanoseconds, after the call."""
        gaps = [(after - before) / 1e9 for before, after in itertools.pairwise(outputs)]
        # Linear interpolation between closest ranks.
        return cls((outputs[0] - called) / 1e9, statistics.quantiles(gaps, n=100, method="inclusive")[-1])

    def near(self, truth: Pace, host_delay: float = 0.0) -> bool:
        """Each is within a millisecond of the truth, or within 2 %, plus what the host delayed the reader by."""
        return all(
            abs(mine - true) <= max(0.001, 0.02 * true) + host_delay for mine, true in zip(self, truth, strict=True)
        )

    def off(self, truth: Pace) -> str:
        """By how much, in milliseconds."""
        ttft, p99 = ((mine - true) * 1e3 for mine, true in zip(self, truth, strict=True))
        return f"TTFT {ttft:+.3f} ms, p99 ITL {p99:+.3f} ms"


class Attempt(NamedTuple):
    """One stream: as the server sent it, as we measured it, and as a stopwatch in the consumer's hand saw it."""

    truth: Pace
    measured: Pace
    watched: Pace
    host_delay: float | None
    """Seconds in which the reader was ready and got no CPU; None: this system does not show it."""

    @property
    def is_explained(self) -> bool:
        """The measurement is near the truth, but for what the host added: or the host hid the first token."""
        if self.host_delay is None:
            return False
        measured = self.measured
        if math.isinf(measured.ttft) and self.host_delay > HIDING_DELAY:
            measured = measured._replace(ttft=self.truth.ttft)
        if math.isinf(measured.p99) and self.host_delay > HIDING_DELAY:
            measured = measured._replace(p99=self.truth.p99)
        return measured.near(self.truth, self.host_delay)

    def __str__(self) -> str:
        """How far from the truth, and why it may be."""
        delay = "of an unknown delay" if self.host_delay is None else f"{self.host_delay * 1e3:.1f} ms"
        off = f"measured {self.measured.off(self.truth)}; stopwatch {self.watched.off(self.truth)}"
        return f"{off}; the host kept the reader from running for {delay}"


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


Watched = list[tuple[int, Any]]
"""When each chunk was in the consumer's hand, and the chunk."""


def read(wire: str, server: ScriptedServer) -> tuple[int, Watched]:
    """Read a stream to its end; returns the moment just before the call, and what came when."""
    watched: Watched = []
    with client_of(wire, server, is_async=False) as client:
        called = time.perf_counter_ns()
        for chunk in call_of(wire, client):
            watched.append((time.perf_counter_ns(), chunk))
    return called, watched


def aread(wire: str, server: ScriptedServer) -> tuple[int, Watched]:
    """The async face of `read`."""
    watched: Watched = []

    async def reading() -> int:
        async with client_of(wire, server, is_async=True) as client:
            called = time.perf_counter_ns()
            async for chunk in await call_of(wire, client):
                watched.append((time.perf_counter_ns(), chunk))
        return called

    return asyncio.run(reading()), watched


def carries_output(chunk: Any) -> bool:
    """Whether a chunk of these scripts does."""
    if hasattr(chunk, "choices"):
        return any(choice.delta.content for choice in chunk.choices)
    return chunk.type in {"response.output_text.delta", "content_block_delta"}


Reader = Callable[[str, ScriptedServer], tuple[int, Watched]]


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
def attempt(server: ScriptedServer, captured: CapturedTelemetry) -> Callable[[str, Reader, Script], Attempt]:
    """Play a script and read it."""

    def attempt(wire: str, reader: Reader, script: Script) -> Attempt:
        server.clear()
        captured.clear()
        server.play(script)
        called, watched = reader(wire, server)
        sent = server.wait_for(1)[0].output_times_ns
        (span,) = captured.spans
        attributes: Any = span.attributes
        return Attempt(
            truth=Pace.of(called, sent),
            # What the machine kept from being seen is absent.
            measured=Pace(*(attributes.get(name, math.inf) for name in ("itl.time_to_first_token", "itl.latency.p99"))),
            watched=Pace.of(called, [moment for moment, chunk in watched if carries_output(chunk)]),
            host_delay=attributes.get("itl.host.delay"),
        )

    return attempt


@pytest.mark.parametrize("pace", [pytest.param("25 ms", marks=pytest.mark.slow), "5 ms"])
@pytest.mark.parametrize("reader", [read, aread], ids=["sync", "async"])
@pytest.mark.parametrize("wire", list(WIRES))
def test_ttft_and_p99_itl_are_the_servers_within_a_millisecond_or_two_percent(
    wire: str, reader: Reader, pace: str, attempt: Callable[[str, Reader, Script], Attempt]
) -> None:
    """The best of a few attempts is to hold.

    Between the server's write and the client's read lies the operating system: on a machine with other work, a process
    that is ready waits for its turn for milliseconds, and the tail of a stream shows that delay. It did happen to the
    consumer, so to measure it is right; but it is no error of the measurement, which is what is tested. How long it
    was, the span shows: an attempt may be off by that much and no more. A measurement that is wrong is wrong in every
    attempt. Where the host does not explain it, and in no attempt even a stopwatch in the consumer's hand comes as near
    to the truth, something below the operating system took the time, and the machine is too busy to decide.
    """
    if not sdk_has(wire):
        pytest.skip(f"openai {openai.__version__} has no responses API")
    tokens, gap = PACES[pace]
    attempts: list[Attempt] = []
    while len(attempts) < ATTEMPTS and not any(made.measured.near(made.truth) for made in attempts):
        attempts.append(attempt(wire, reader, WIRES[wire].reply(tokens, first=FIRST, gaps=gap)))
        print(f"{wire}, {reader.__name__}, {tokens} tokens at {pace}: {attempts[-1]}")  # noqa: T201 - for `pytest -s`
    holds = any(made.measured.near(made.truth) or made.is_explained for made in attempts)
    if not holds and not any(made.watched.near(made.truth) for made in attempts):
        pytest.skip(f"this machine is too busy to decide: {'; '.join(map(str, attempts))}")
    assert holds, "; ".join(map(str, attempts))
