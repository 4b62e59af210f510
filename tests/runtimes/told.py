"""What a program of these tests runs with: clients of the server that it is given, a report of what was recorded."""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import otel_itl
from otel_itl.runtime import runtime
from otel_itl.testing import CapturedTelemetry

CAPTURED = CapturedTelemetry()
ASKED: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "stream": True}


def instrument() -> None:
    """Measure from here on, into memory."""
    otel_itl.instrument(
        tracer_provider=CAPTURED.tracer_provider,
        meter_provider=CAPTURED.meter_provider,
        logger_provider=CAPTURED.logger_provider,
    )


def client(**options: Any) -> Any:
    """A sync client."""
    import openai

    http_client = openai.DefaultHttpxClient(verify=False)
    return openai.OpenAI(base_url=os.environ["SERVER"], http_client=http_client, api_key="none", **options)


def async_client(**options: Any) -> Any:
    """An async client."""
    import openai

    http_client = openai.DefaultAsyncHttpxClient(verify=False)
    return openai.AsyncOpenAI(base_url=os.environ["SERVER"], http_client=http_client, api_key="none", **options)


def text(chunks: Any) -> str:
    """What the chunks say."""
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def open_files() -> int:
    """How many file descriptors this process has; 0 where that cannot be seen."""
    gc.collect()
    listed = Path("/proc/self/fd")
    return len(list(listed.iterdir())) if listed.exists() else 0


def told(*, flush: bool = True) -> dict[str, Any]:
    """What was recorded since the last time, and what runs on; a flush hastens what waits for our own thread."""
    if flush:
        CAPTURED.tracer_provider.force_flush()
    attributes = [dict(span.attributes or {}) for span in CAPTURED.spans]
    outcomes = CAPTURED.metrics.get("itl.client.stream.outcomes", ())
    report = {
        "outcomes": [found.get("itl.stream.outcome") for found in attributes],
        "chunks": [found.get("itl.output_chunk.count") for found in attributes],
        "ttft": [found.get("itl.time_to_first_token") for found in attributes],
        "itl": [found.get("itl.latency.p50") for found in attributes],
        "counted": sum(point.value for point in outcomes),
        "failures": dict(runtime.errors.counts),
        "threads": sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("otel_itl")),
    }
    CAPTURED.clear()
    return report


def tell(**more: Any) -> None:
    """Print what was recorded as a line of JSON."""
    sys.stdout.write(json.dumps({**told(), **more}) + "\n")
    sys.stdout.flush()
