"""A real LiteLLM proxy between a client and a scripted server, instrumented at the client and at the proxy."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import openai
import pytest
from gateways import KEY, ExportedSpan, SpanReceiver, blocks, environment, litellm_proxy

import otel_itl
from otel_itl.testing import ScriptedServer, capture_telemetry, chat, messages

httpx_instrumentation = pytest.importorskip(
    "opentelemetry.instrumentation.httpx", reason="opentelemetry-instrumentation-httpx is not installed"
)

CHUNKS, FIRST, GAP = 60, 0.1, 0.018
STREAMS = 3
OURS = "otel_itl"
CHAT, REQUEST = "chat gpt-4o", "POST /chat/completions"
CLAUDE = "chat claude-sonnet-4-5"

pytestmark = pytest.mark.timeout(400)


@dataclass(frozen=True)
class Observed:
    """The spans of the same streams, in the order of their requests, at the client and at the proxy."""

    client: list[Any]
    claude: Any
    """The client's span of a stream that the proxy asks Anthropic for."""
    claude_at_proxy: ExportedSpan
    """The proxy's span of that stream, which litellm asks for by an HTTP client of its own."""
    program: ExportedSpan
    """The span of the page's program, in a process of its own."""
    http: list[Any]
    """The client's spans of its HTTP calls."""
    served: list[ExportedSpan]
    """The proxy's spans of the requests that it serves."""
    proxy: list[ExportedSpan]
    program_at_proxy: ExportedSpan | None
    """The proxy's span of the call for the page's program; None where it is in another trace."""
    records: list[str]
    """The names of all our spans at the proxy."""
    upstream: list[str]
    """The paths that the upstream was asked for."""


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    """Streams through a proxy that has just been started: the first of them finds it cold."""
    receiver = SpanReceiver()
    instrumentor = httpx_instrumentation.HTTPXClientInstrumentor()
    with (
        ScriptedServer(process=True) as server,
        litellm_proxy(tmp_path_factory.mktemp("litellm"), server, receiver) as url,
        capture_telemetry() as telemetry,
    ):
        server.always(chat.reply(CHUNKS, first=FIRST, gaps=GAP), model="gpt-4o")
        server.always(messages.reply(5, gaps=GAP), model="claude-sonnet-4-5")
        instrumentor.instrument(tracer_provider=telemetry.tracer_provider)
        otel_itl.instrument(tracer_provider=telemetry.tracer_provider, meter_provider=telemetry.meter_provider)
        try:
            with openai.OpenAI(base_url=url, api_key=KEY, max_retries=0) as client:
                for model in [*["gpt-4o"] * STREAMS, "claude"]:
                    asked: Any = [{"role": "user", "content": "hello"}]
                    for _ in client.chat.completions.create(model=model, messages=asked, stream=True):
                        pass
        finally:
            otel_itl.uninstrument()
            instrumentor.uninstrument()
        # The page's own program for both sides, of which only the address is another one.
        program = blocks("python")[1].replace("http://localhost:4000", url)
        subprocess.run(
            [sys.executable, "-c", program], env=environment(receiver, "application"), check=True, timeout=60
        )
        (program_span,) = receiver.wait_for_spans("application", CHAT, 1).values()
        ours = receiver.wait_for_spans("gateway", CHAT, STREAMS + 1)
        served = receiver.wait_for_spans("gateway", REQUEST, STREAMS + 2)
        (claude_at_proxy,) = receiver.wait_for_spans("gateway", CLAUDE, 1).values()
        *chats, claude = [span for span in telemetry.spans if span.instrumentation_scope.name == OURS]
        http = {trace_of(span): span for span in telemetry.spans if span.instrumentation_scope.name != OURS}
        yield Observed(
            client=chats,
            claude=claude,
            claude_at_proxy=claude_at_proxy,
            program=program_span,
            program_at_proxy=ours.get(program_span.trace_id),
            http=[http[trace_of(span)] for span in chats],
            served=[served[trace_of(span)] for span in chats],
            proxy=[ours[trace_of(span)] for span in chats],
            records=[span.name for span in receiver.spans() if (span.service, span.scope) == ("gateway", OURS)],
            upstream=[exchange.path for exchange in server.exchanges],
        )
    receiver.stop()


def trace_of(span: Any) -> str:
    return format(span.context.trace_id, "032x")


def hex_of(span_id: int) -> str:
    return format(span_id, "016x")


def test_a_request_is_one_record_at_the_client_and_one_at_the_proxy(observed: Observed) -> None:
    asked = [path for path in observed.upstream if path.endswith("/chat/completions")]
    assert (len(observed.client), len(asked)) == (STREAMS, STREAMS + 1)  # one more is that of the page's program
    assert sorted(observed.records) == [CLAUDE, *[CHAT] * (STREAMS + 1)]


def test_a_model_that_the_proxy_asks_without_an_sdk_is_recorded_by_litellm(observed: Observed) -> None:
    assert [path for path in observed.upstream if path.endswith("/messages")] == ["/v1/messages"]
    attributes = observed.claude_at_proxy.attributes
    assert (observed.claude.attributes["itl.output_chunk.count"], attributes["itl.output_chunk.count"]) == (5, 5)
    assert attributes["gen_ai.provider.name"] == "anthropic"
    assert attributes["itl.stream.outcome"] == "completed"


def test_the_program_of_the_page_is_in_one_trace_with_the_proxy(observed: Observed) -> None:
    assert observed.program.attributes["itl.output_chunk.count"] == CHUNKS
    assert observed.program_at_proxy is not None


def test_the_spans_of_a_request_are_one_trace(observed: Observed) -> None:
    # The client's span ▸ its HTTP call ▸ the proxy's request ▸ the proxy's span of its own call.
    call, served, ours = observed.http[-1], observed.served[-1], observed.proxy[-1]
    parents = (hex_of(call.parent.span_id), served.parent_id, ours.parent_id)
    assert parents == (hex_of(observed.client[-1].context.span_id), hex_of(call.context.span_id), served.span_id)


def test_both_records_name_the_server_that_they_asked(observed: Observed) -> None:
    ports = {observed.client[-1].attributes["server.port"], observed.proxy[-1].attributes["server.port"]}
    assert len(ports) == 2


def test_the_first_token_is_later_at_the_client_than_at_the_proxy(observed: Observed) -> None:
    client, proxy = observed.client[-1].attributes, observed.proxy[-1].attributes
    name = "itl.time_to_first_token"
    assert FIRST <= proxy[name] <= client[name] < FIRST + 0.5


def test_a_warm_proxy_passes_the_pace_of_the_upstream_on(observed: Observed) -> None:
    client, proxy = observed.client[-1].attributes, observed.proxy[-1].attributes
    means = [attributes["itl.latency.mean"] for attributes in (client, proxy)]
    assert means == pytest.approx([GAP, GAP], rel=0.15)
    assert (client["itl.burst.buffered"], proxy["itl.burst.buffered"]) == (False, False)


def test_the_first_token_of_a_cold_proxy_takes_longer(observed: Observed) -> None:
    cold, *_, warm = [span.attributes["itl.time_to_first_token"] for span in observed.client]
    assert cold > 2 * warm


def test_the_first_stream_of_a_cold_proxy_is_right_or_marked_at_the_client(observed: Observed) -> None:
    cold = observed.client[0].attributes
    assert cold["itl.burst.buffered"] or cold["itl.latency.mean"] == pytest.approx(GAP, rel=0.3)


def test_the_first_stream_of_a_cold_proxy_is_right_or_marked_at_the_proxy(observed: Observed) -> None:
    # Modules are loaded on the event loop that reads the stream: the process held up the chunks that came meanwhile.
    cold = observed.proxy[0].attributes
    mean = cold.get("itl.latency.mean")
    assert mean is None or cold["itl.consumer.bound"] or mean == pytest.approx(GAP, rel=0.3)
