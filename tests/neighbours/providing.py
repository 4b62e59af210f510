"""Frameworks that set OpenTelemetry providers: how each is set up, with its spans in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Providing:
    """One framework.

    `setup` is the code that sets it up; its `spans` then is an exporter of OpenTelemetry that keeps spans in memory.
    """

    package: str
    module: str
    setup: str
    call: str
    """For the documentation."""
    signals: str = "traces"
    """Of which it sets providers."""

    def __str__(self) -> str:
        return self.package


LOCAL: Final = "InstrumentationKey=00000000-0000-0000-0000-000000000000;IngestionEndpoint=http://127.0.0.1:9"

PROVIDING: Final = (
    Providing(
        "logfire",
        "logfire",
        """
import logfire
logfire.configure(
    send_to_logfire=False, console=False, inspect_arguments=False,
    additional_span_processors=[SimpleSpanProcessor(spans)],
)
""",
        "logfire.configure()",
        "traces, metrics, logs",
    ),
    Providing(
        "arize-phoenix-otel",
        "phoenix.otel",
        """
from phoenix.otel import register
register(
    endpoint="http://127.0.0.1:9/v1/traces", protocol="http/protobuf", batch=False, verbose=False
).add_span_processor(SimpleSpanProcessor(spans))
""",
        "phoenix.otel.register()",
    ),
    Providing(
        "langfuse",
        "langfuse",
        """
from langfuse import Langfuse
Langfuse(public_key="none", secret_key="none", host="http://127.0.0.1:9")
trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(spans))
""",
        "Langfuse()",
    ),
    Providing(
        "traceloop-sdk",
        "traceloop.sdk",
        """
from traceloop.sdk import Traceloop
from traceloop.sdk.instruments import Instruments
Traceloop.init(app_name="app", exporter=spans, disable_batch=True, instruments={Instruments.REDIS})
""",
        "Traceloop.init()",
    ),
    Providing(
        "azure-monitor-opentelemetry",
        "azure.monitor.opentelemetry",
        f"""
from azure.monitor.opentelemetry import configure_azure_monitor
configure_azure_monitor(
    connection_string={LOCAL!r}, span_processors=[SimpleSpanProcessor(spans)], sampling_ratio=1.0,
    disable_offline_storage=True
)
""",
        "configure_azure_monitor()",
        "traces, metrics, logs",
    ),
    Providing(
        "ddtrace",
        "ddtrace",
        """
from types import SimpleNamespace
from ddtrace.opentelemetry import TracerProvider
from ddtrace.trace import TraceFilter, tracer

class Keep(TraceFilter):
    "Takes what ddtrace would send to its agent."

    def process_trace(self, finished):
        spans.export([SimpleNamespace(name=span.resource) for span in finished])

tracer.configure(trace_processors=[Keep()])
trace.set_tracer_provider(TracerProvider())
""",
        "trace.set_tracer_provider(ddtrace.opentelemetry.TracerProvider())",
    ),
)
