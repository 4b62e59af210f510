"""Streams through a real nginx: which settings release them in bursts, and what is measured then."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest
from gateways import HAS_NGINX, nginx

import otel_itl
from otel_itl import Measures
from otel_itl.testing import ScriptedServer, capture_telemetry, chat
from otel_itl.testing.exchange import Exchange

pytestmark = pytest.mark.skipif(not HAS_NGINX, reason="nginx is not on this machine")

CHUNKS, FIRST, GAP = 100, 0.1, 0.018
PASSED_ON = ("chunked", "unbuffered", "compressed-unbuffered")
COLLECTED = ("buffered", "compressed")


@pytest.fixture(scope="module")
def exchanges() -> dict[str, Exchange]:
    """What the upstream of each location sent, and when: a machine with other work has it be late."""
    return {}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, exchanges: dict[str, Exchange]) -> Iterator[dict[str, Measures]]:
    """What a client measures behind each location of one nginx, of the same upstream."""
    with (
        ScriptedServer(process=True) as server,
        nginx(tmp_path_factory.mktemp("nginx"), server.url) as url,
        capture_telemetry() as telemetry,
    ):
        server.play(chat.reply(1))
        server.always(chat.reply(CHUNKS, first=FIRST, gaps=GAP))
        read_stream(server.openai_url, "warm-up")  # what an SDK does once would be in the first token's time
        otel_itl.instrument(tracer_provider=telemetry.tracer_provider, meter_provider=telemetry.meter_provider)
        try:
            with ThreadPoolExecutor(len(PASSED_ON)) as pool:
                list(pool.map(read_stream, [f"{url}/{location}/v1" for location in PASSED_ON], PASSED_ON))
            for location in COLLECTED:
                lines = lines_of(f"{url}/{location}/v1", location)
                list(otel_itl.observe(lines, provider="p", model=location))
        finally:
            otel_itl.uninstrument()
        exchanges.update((json.loads(each.body)["model"], each) for each in server.exchanges)
        yield {
            span.attributes["gen_ai.request.model"]: otel_itl.measure(otel_itl.read_timeline(span))
            for span in telemetry.spans
        }


def lines_of(url: str, model: str) -> Iterator[str]:
    """The lines of a stream: an SDK may take so long to parse a hundred of them that they are no burst any more."""
    asked = {"model": model, "messages": [], "stream": True}
    with httpx.stream("POST", f"{url}/chat/completions", json=asked) as response:
        yield from filter(None, response.iter_lines())


def read_stream(url: str, model: str) -> None:
    """Read a stream to its end."""
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        for _ in client.chat.completions.create(model=model, messages=[], stream=True):
            pass


def gap_of(exchange: Exchange) -> float:
    """Seconds between the chunks that the upstream sent, on average."""
    sent = exchange.output_times_ns
    return (sent[-1] - sent[0]) / (len(sent) - 1) / 1e9


@pytest.mark.parametrize("location", PASSED_ON)
def test_a_stream_that_nginx_passes_on_has_the_pace_of_the_upstream(
    measured: dict[str, Measures], exchanges: dict[str, Exchange], location: str
) -> None:
    measures = measured[location]
    assert (measures.is_buffered, measures.buffered_pace) == (False, None)
    assert measures.itl_mean == pytest.approx(gap_of(exchanges[location]), rel=0.1)
    assert measures.time_to_first_token is not None
    assert FIRST <= measures.time_to_first_token < measures.duration / 2


@pytest.mark.requirement("R37")
def test_a_stream_that_nginx_collects_is_buffered(measured: dict[str, Measures]) -> None:
    measures = measured["buffered"]
    assert measures.is_buffered
    assert measures.itl_p50 == pytest.approx(0, abs=0.001)
    assert measures.burst_ratio is not None
    assert measures.burst_ratio > 0.8


def test_the_pace_from_burst_to_burst_is_that_of_the_upstream(
    measured: dict[str, Measures], exchanges: dict[str, Exchange]
) -> None:
    assert measured["buffered"].buffered_pace == pytest.approx(gap_of(exchanges["buffered"]), rel=0.1)


def test_the_time_to_first_token_of_a_collected_stream_contains_the_first_burst(measured: dict[str, Measures]) -> None:
    # A buffer of 4 kB is filled by some 20 chunks; however large it is, those of the first burst took their time.
    ttft = measured["buffered"].time_to_first_token
    assert ttft is not None
    assert ttft > FIRST + 5 * GAP


@pytest.mark.requirement("R37")
def test_a_compressed_stream_that_comes_at_once_is_buffered_and_has_no_pace(
    measured: dict[str, Measures], exchanges: dict[str, Exchange]
) -> None:
    measures, upstream = measured["compressed"], exchanges["compressed"]
    assert (measures.is_buffered, measures.buffered_pace) == (True, None)
    assert measures.time_to_first_token is not None
    assert measures.time_to_first_token >= (upstream.output_times_ns[-1] - upstream.arrived_ns) / 1e9
