"""Installs other products that trace the openai SDK and keep no inter-token latency: what a trace alone costs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from bench.overhead.subjects import Subject


@contextmanager
def install_openai_v2(_: Subject, pipeline: Any) -> Iterator[None]:
    """Install `opentelemetry-instrumentation-openai-v2`, on the providers of the benchmark."""
    instrumentor = import_module("opentelemetry.instrumentation.openai_v2").OpenAIInstrumentor()
    instrumentor.instrument(**pipeline.providers())
    try:
        yield
    finally:
        instrumentor.uninstrument()


@contextmanager
def install_langfuse(_: Subject, pipeline: Any) -> Iterator[None]:
    """Install langfuse's drop-in, with a client that sends nothing."""
    provider: Any = pipeline.providers()["tracer_provider"]
    os.environ["LANGFUSE_TIMEOUT"] = "1"
    langfuse: Any = import_module("langfuse")
    client = langfuse.Langfuse(
        public_key="pk-bench", secret_key="sk-bench", host="http://127.0.0.1:9", tracer_provider=provider,
        span_exporter=_NoExporter(), flush_interval=3_600,
    )  # fmt: skip
    is_imported = "langfuse.openai" in sys.modules
    drop_in: Any = import_module("langfuse.openai")  # which patches the SDK when it is imported
    if is_imported:
        drop_in.register_tracing()
        drop_in._openai_stream_iter_hook_installed = False  # noqa: SLF001 - the benchmark restored the class
        drop_in._install_openai_stream_iteration_hooks()  # noqa: SLF001
    try:
        yield
    finally:
        client.shutdown()


@contextmanager
def install_sentry(_: Subject, __: Any) -> Iterator[None]:
    """Install sentry's integration, with a transport that sends nothing, inside a transaction as a web request has."""
    sentry: Any = import_module("sentry_sdk")
    integration: Any = import_module("sentry_sdk.integrations.openai").OpenAIIntegration
    sentry.init(
        dsn="http://key@127.0.0.1:9/1",
        transport=lambda _: None,
        traces_sample_rate=1.0,
        default_integrations=False,
        auto_enabling_integrations=False,
        integrations=[integration(include_prompts=False)],
    )
    integration.setup_once()
    try:
        with sentry.start_transaction(name="bench", op="bench"):
            yield
    finally:
        sentry.init()


class _NoExporter:
    """A span exporter that drops everything."""

    def export(self, spans: Any) -> Any:
        """Drop the spans."""
        del spans
        return import_module("opentelemetry.sdk.trace.export").SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Do nothing."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Have nothing to send."""
        del timeout_millis
        return True
