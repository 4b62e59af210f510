"""A process of the fleet: the real client, measured by the real package, asks a scripted server until its time is over.

The plan is JSON on standard input: {"model", "streams" (at once), "tokens" (of a stream), "phases": [[seconds, gap,
first token, longest gap], …]}. When it is through, the truth goes to standard output as JSON: every ITL sample in
nanoseconds, the number of streams, and the Unix time at which each phase began.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from contextlib import suppress
from typing import Any

import openai
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import otel_itl
from otel_itl.core.decoding import decode
from otel_itl.core.measures import measure
from otel_itl.testing import ScriptedServer, chat


def main() -> None:
    """Carry the plan out."""
    plan = json.load(sys.stdin)
    kept = InMemorySpanExporter()
    tracing = TracerProvider(shutdown_on_exit=False)
    tracing.add_span_processor(SimpleSpanProcessor(kept))
    tracing.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(), schedule_delay_millis=500))
    metering = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())], shutdown_on_exit=False)
    logging = LoggerProvider(shutdown_on_exit=False)
    logging.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(), schedule_delay_millis=500))
    otel_itl.instrument(tracer_provider=tracing, meter_provider=metering, logger_provider=logging)
    with ScriptedServer() as server:
        truth = asyncio.run(_ask(plan, server))
    otel_itl.uninstrument()
    for provider in (tracing, metering, logging):
        provider.shutdown()
    samples: list[int] = []
    for span in kept.get_finished_spans():
        events = [(event.name, event.timestamp, event.attributes) for event in span.events]
        samples += [int(sample) for sample in measure(decode(events)).itl_samples.nanoseconds]
    json.dump({"samples": samples, **truth}, sys.stdout)


async def _ask(plan: dict[str, Any], server: ScriptedServer) -> dict[str, Any]:
    client = openai.AsyncOpenAI(base_url=server.openai_url, api_key="none", max_retries=0)
    pace = random.Random(os.environ["OTEL_SERVICE_NAME"] + plan["model"])  # noqa: S311 - a pace, not a secret
    asked: Any = [{"role": "user", "content": "hello"}]
    truth: dict[str, Any] = {"streams": 0, "began": []}

    async def one_after_the_other(until: float, gap: float, first: float, longest: float) -> None:
        while time.monotonic() < until:
            gaps = [pace.lognormvariate(0.0, 0.4) * gap for _ in range(plan["tokens"] - 1)]
            gaps[len(gaps) // 2] += longest
            server.play(chat.reply(plan["tokens"], first=first, gaps=gaps), model=plan["model"])
            with suppress(openai.APIError):
                async for _ in await client.chat.completions.create(
                    model=plan["model"], messages=asked, stream=True, stream_options={"include_usage": True}
                ):
                    pass
            truth["streams"] += 1

    for seconds, gap, first, longest in plan["phases"]:
        truth["began"].append(time.time())
        until = time.monotonic() + seconds
        await asyncio.gather(*(one_after_the_other(until, gap, first, longest) for _ in range(plan["streams"])))
    return truth


main()
