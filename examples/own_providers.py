"""Providers of your own: a sampler, and exponential histograms, which merge exactly over a whole fleet."""

import openai
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased

import otel_itl

resource = Resource.create({"service.name": "own-providers"})

# One stream in ten thousand gets a span. The metrics know them all: streams are measured whether sampled or not.
tracer_provider = TracerProvider(sampler=TraceIdRatioBased(0.0001), resource=resource)
tracer_provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))

latency = View(instrument_name="itl.client.inter_token_latency", aggregation=ExponentialBucketHistogramAggregation())
meter_provider = MeterProvider(
    [PeriodicExportingMetricReader(OTLPMetricExporter())], resource=resource, views=[latency]
)

otel_itl.instrument(tracer_provider=tracer_provider, meter_provider=meter_provider)

stream = openai.OpenAI().chat.completions.create(
    model="gpt-4o-mini", messages=[{"role": "user", "content": "Why is the sky blue?"}], stream=True
)
for chunk in stream:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)
print()

tracer_provider.shutdown()
meter_provider.shutdown()
