"""The variants that are compared: the bare SDK, the floor, `otel_itl` with its settings, other instrumentations."""

from __future__ import annotations

from array import array
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from time import perf_counter_ns
from typing import Any

from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON

import otel_itl
from bench.inside import finish_background_work
from bench.overhead.peers import install_langfuse, install_openai_v2, install_sentry
from bench.overhead.subjects import Subject

UNINSTRUMENTED = "uninstrumented"
FLOOR = "floor"
OURS = "otel_itl"
OFFICIAL = "official"


class Spans(SpanProcessor):
    """Counts the ended spans and keeps them on demand; exports nothing."""

    def __init__(self) -> None:
        self.ended = 0
        self.kept: list[ReadableSpan] | None = None

    def on_end(self, span: ReadableSpan) -> None:
        """Count a span; keep it if `kept` is a list."""
        self.ended += 1
        if self.kept is not None:
            self.kept.append(span)

    def read(self) -> None:
        """Read the attributes of all events of the kept spans, as every exporter does, and drop the spans."""
        for span in self.kept or ():
            for event in span.events:
                dict(event.attributes or ())
        self.kept = None


class Pipeline:
    """OpenTelemetry providers without exporters: metrics are collected on demand, ended spans are dropped."""

    def __init__(self, *, sampled: bool = True, exponential: bool = False) -> None:
        self.sampled = sampled
        self.spans = Spans()
        aggregation: Any = {Histogram: ExponentialBucketHistogramAggregation()} if exponential else None
        self._reader = InMemoryMetricReader(preferred_aggregation=aggregation)
        self.meter_provider = MeterProvider(metric_readers=[self._reader], shutdown_on_exit=False)
        self.logger_provider = LoggerProvider(shutdown_on_exit=False)

    def providers(self) -> dict[str, Any]:
        """Return the provider arguments of `instrument()`.

        The tracer provider is a new one, because instrumentations leave their processors on it.
        """
        tracer_provider = TracerProvider(sampler=ALWAYS_ON if self.sampled else ALWAYS_OFF, shutdown_on_exit=False)
        tracer_provider.add_span_processor(self.spans)
        return {
            "tracer_provider": tracer_provider,
            "meter_provider": self.meter_provider,
            "logger_provider": self.logger_provider,
        }

    def collect(self) -> int:
        """Finish the background work and collect the metrics, as a periodic reader does.

        Returns:
            The number of data points.
        """
        finish_background_work()
        data = self._reader.get_metrics_data()
        return sum(
            len(metric.data.data_points)
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
        )


Install = Callable[[Subject, Pipeline], AbstractContextManager[None]]


@dataclass(frozen=True)
class Variant:
    """One instrumentation of an SDK, or none, with its settings."""

    name: str
    install: Install
    packages: Mapping[str, str] = field(default_factory=dict)
    """The distribution that it needs, by SDK; empty: none."""
    sampled: bool = True
    exponential: bool = False
    spans: bool = True
    """Whether it has to end one span per stream, where spans are sampled."""

    def supports(self, subject: Subject) -> bool:
        """Return whether it can instrument this SDK, once it is installed."""
        return not self.packages or subject.package in self.packages

    def installed(self, subject: Subject) -> str | None:
        """Return the version of its distribution: '' where it needs none, None where it is not installed."""
        if not self.packages:
            return ""
        try:
            return version(self.packages[subject.package])
        except (KeyError, PackageNotFoundError):
            return None

    def pipeline(self) -> Pipeline:
        """Return new providers for it."""
        return Pipeline(sampled=self.sampled, exponential=self.exponential)

    @contextmanager
    def around(self, subject: Subject, pipeline: Pipeline) -> Iterator[None]:
        """Install it while the block runs; afterwards restore the classes of the SDK, whatever it left behind."""
        classes = [getattr(import_module(module), name) for module, name in subject.patched]
        pristine = [dict(vars(patched)) for patched in classes]
        try:
            with self.install(subject, pipeline):
                yield
        finally:
            for patched, before in zip(classes, pristine, strict=True):
                _restore(patched, before)

    def check(self, pipeline: Pipeline, streams: int) -> None:
        """Assert that it ended one span for each of the streams."""
        expected = streams if self.spans and self.sampled else 0
        assert pipeline.spans.ended == expected, f"{self.name}: {pipeline.spans.ended} spans of {streams} streams"


def _restore(patched: type, before: dict[str, Any]) -> None:
    now = dict(vars(patched))
    for name in now.keys() - before.keys():
        delattr(patched, name)
    for name, value in before.items():
        if now.get(name) is not value:
            setattr(patched, name, value)


@contextmanager
def _nothing(_: Subject, __: Pipeline) -> Iterator[None]:
    yield


@contextmanager
def _floor(subject: Subject, _: Pipeline) -> Iterator[None]:
    """Replace the SDK's iterator, where `otel_itl` hooks, by a generator that reads the clock twice per chunk."""
    streaming = import_module(f"{subject.package}._streaming")
    plain, plain_async = streaming.Stream.__stream__, streaming.AsyncStream.__stream__
    streaming.Stream.__stream__ = lambda stream: _stamped(plain(stream), array("q"), array("q"))
    streaming.AsyncStream.__stream__ = lambda stream: _stamped_async(plain_async(stream), array("q"), array("q"))
    yield


def _stamped(source: Iterator[Any], asked: array[int], arrived: array[int]) -> Iterator[Any]:
    clock, ask, arrive = perf_counter_ns, asked.append, arrived.append
    ask(clock())
    for chunk in source:
        arrive(clock())
        yield chunk
        ask(clock())


async def _stamped_async(source: AsyncIterator[Any], asked: array[int], arrived: array[int]) -> AsyncIterator[Any]:
    clock, ask, arrive = perf_counter_ns, asked.append, arrived.append
    ask(clock())
    async for chunk in source:
        arrive(clock())
        yield chunk
        ask(clock())


def ours(**options: Any) -> Install:
    """Return what installs `otel_itl` with these options."""

    @contextmanager
    def install(subject: Subject, pipeline: Pipeline) -> Iterator[None]:
        otel_itl.instrument(sdks=[subject.package], **pipeline.providers(), **options)
        try:
            yield
        finally:
            otel_itl.uninstrument()

    return install


def _other(modules: Mapping[str, str], **options: Any) -> Install:
    """Return what installs another instrumentation, given the path of its instrumentor's class by SDK."""

    @contextmanager
    def install(subject: Subject, pipeline: Pipeline) -> Iterator[None]:
        module, _, name = modules[subject.package].rpartition(".")
        instrumentor = getattr(import_module(module), name)()
        instrumentor.instrument(**pipeline.providers(), **{key: make() for key, make in options.items()})
        try:
            yield
        finally:
            instrumentor.uninstrument()

    return install


def _without_content() -> Any:
    return import_module("openinference.instrumentation").TraceConfig(hide_inputs=True, hide_outputs=True)


_official = _other(
    {
        "openai": "opentelemetry.instrumentation.genai.openai.OpenAIInstrumentor",
        "anthropic": "opentelemetry.instrumentation.genai.anthropic.AnthropicInstrumentor",
    }
)
_openllmetry = _other(
    {
        "openai": "opentelemetry.instrumentation.openai.OpenAIInstrumentor",
        "anthropic": "opentelemetry.instrumentation.anthropic.AnthropicInstrumentor",
    }
)
_openinference = _other(
    {
        "openai": "openinference.instrumentation.openai.OpenAIInstrumentor",
        "anthropic": "openinference.instrumentation.anthropic.AnthropicInstrumentor",
    },
    config=_without_content,
)
_OFFICIAL = {sdk: f"opentelemetry-instrumentation-genai-{sdk}" for sdk in ("openai", "anthropic")}
_OPENLLMETRY = {sdk: f"opentelemetry-instrumentation-{sdk}" for sdk in ("openai", "anthropic")}
_OPENINFERENCE = {sdk: f"openinference-instrumentation-{sdk}" for sdk in ("openai", "anthropic")}

MAIN = (
    Variant(UNINSTRUMENTED, _nothing, spans=False),
    Variant(FLOOR, _floor, spans=False),
    Variant(OURS, ours()),
    Variant(OFFICIAL, _official, _OFFICIAL),
    Variant("OpenLLMetry", _openllmetry, _OPENLLMETRY),
    Variant("OpenInference", _openinference, _OPENINFERENCE),
)
"""The variants with sampled spans and explicit buckets."""
PEERS = (
    # It cannot be installed beside the official one of today: it is measured in an environment of its own.
    Variant("openai-v2", install_openai_v2, {"openai": "opentelemetry-instrumentation-openai-v2"}),
    Variant("langfuse", install_langfuse, {"openai": "langfuse"}),
    Variant("sentry", install_sentry, {"openai": "sentry-sdk"}, spans=False),
)
"""Others that trace a stream of the openai SDK and keep no latency between its tokens."""
COMPARED = (*MAIN, *PEERS)
"""The variants of the tables of times and of instructions."""
SETTINGS = (
    Variant("otel_itl, not sampled", ours(), sampled=False),
    Variant("otel_itl, exponential", ours(), exponential=True),
    Variant("otel_itl, not sampled, exponential", ours(), sampled=False, exponential=True),
    Variant("official, not sampled", _official, _OFFICIAL, sampled=False),
    Variant("official, exponential", _official, _OFFICIAL, exponential=True),
    Variant("OpenLLMetry, not sampled", _openllmetry, _OPENLLMETRY, sampled=False),
    Variant("OpenInference, not sampled", _openinference, _OPENINFERENCE, sampled=False),
)
"""The variants with unsampled spans, or with exponential histograms."""
FORMS = tuple(
    Variant(f"otel_itl, token_events={form}", ours(token_events=form)) for form in ("packed", "each", "log", "none")
)
"""`otel_itl` with each form of the token events."""
