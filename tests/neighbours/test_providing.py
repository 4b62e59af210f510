"""A framework sets its OpenTelemetry providers when streams have been measured already: none of them is refused."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest
from providing import PROVIDING, Providing

from otel_itl.testing import ScriptedServer, chat

pytestmark = pytest.mark.requirement("R67")

PROGRAM = """
import json, os
import otel_itl
from opentelemetry import trace
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

spans = InMemorySpanExporter()

def stream(model):
    return list(otel_itl.observe(iter("abc"), provider="test", model=model))

otel_itl.instrument()
stream("first")
before = type(trace.get_tracer_provider()).__name__
{setup}
stream("second")
otel_itl.flush(10)
names = [span.name for span in spans.get_finished_spans()]
with open("shown.json", "w") as shown:
    json.dump([before, names], shown)
os._exit(0)  # what some frameworks do at their exit needs their backends
"""


FOREIGN = ("OTEL_", "APPLICATIONINSIGHTS_", "DD_", "LANGFUSE_", "LOGFIRE_", "PHOENIX_", "TRACELOOP_")
"""Variables by which whoever runs the tests may have a framework sample, or be silent."""


def ran(program: str, folder: Any, **variables: str) -> subprocess.CompletedProcess[str]:
    """A program in a process of its own, which prints our spans."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    environ |= {"OTEL_TRACES_EXPORTER": "console", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}
    environ |= {"TRACELOOP_TELEMETRY": "false", "LOGFIRE_IGNORE_NO_CONFIG": "1"}
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        cwd=folder, env=environ | variables, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip


def names_printed(text: str) -> list[str]:
    """The names of the spans that the console exporter has printed."""
    return re.findall(r'^    "name": "(.*)"', text, re.MULTILINE)


@pytest.mark.parametrize("framework", PROVIDING, ids=str)
def test_a_framework_that_sets_its_providers_after_the_first_stream_gets_the_streams_from_then_on(
    framework: Providing, tmp_path: Any
) -> None:
    package = framework.module.partition(".")[0]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{framework.package} is not installed")
    pytest.importorskip(framework.module, reason=f"{framework.package} is not installed")
    done = ran(PROGRAM.format(setup=framework.setup), tmp_path)
    before, theirs = json.loads((tmp_path / "shown.json").read_text())
    assert "Overriding" not in done.stderr
    assert (before, theirs, names_printed(done.stdout)) == ("ProxyTracerProvider", ["chat second"], ["chat first"])


CALLS = """
import openai
from opentelemetry.instrumentation import httpx as instrumentations
import otel_itl

is_newer = "2" in openai.DefaultHttpxClient.__mro__[1].__module__
getattr(instrumentations, "HTTPX2ClientInstrumentor" if is_newer else "HTTPXClientInstrumentor")().instrument()
otel_itl.instrument()
with openai.OpenAI() as client:
    list(client.chat.completions.create(model="m", messages=[], stream=True))
"""


def test_the_instrumentation_of_an_http_client_sends_our_span_along_where_no_provider_is_global(tmp_path: Any) -> None:
    pytest.importorskip("opentelemetry.instrumentation.httpx")
    with ScriptedServer(chat.reply(3)) as server:
        done = ran(CALLS, tmp_path, OPENAI_BASE_URL=server.openai_url, OPENAI_API_KEY="none")
        (exchange,) = server.exchanges
        sent = exchange.headers["traceparent"].split("-")[1:3]
    ids = re.findall(r'"(?:trace|span)_id": "0x(\w+)"', done.stdout)
    assert (names_printed(done.stdout), sent) == (["chat m"], ids[:2])
