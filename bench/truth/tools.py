"""The tools that are compared: `otel_itl`, the official instrumentation, and a clock in the caller's own loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from itertools import pairwise
from typing import Any, Final

from opentelemetry.metrics import Histogram, Meter, NoOpHistogram, NoOpMeter, NoOpMeterProvider
from opentelemetry.sdk.trace import TracerProvider

import otel_itl
from bench.truth.callers import Read
from bench.truth.figures import Stream
from otel_itl.core.decoding import decode
from otel_itl.testing import capture_telemetry

OURS, OFFICIAL, NAIVE = "otel_itl", "official", "naive"
DISTRIBUTIONS: Final = tuple(f"opentelemetry-instrumentation-genai-{sdk}" for sdk in ("openai", "anthropic"))
"""Packages of the official instrumentation."""

Readings = dict[str, Stream]
"""Figures by requested model, of which each stream has its own. Filled in when the instrumentation is removed."""

WarmUp = Callable[[], None]
"""Reads a stream that is not measured."""
Instrumentation = Callable[[WarmUp], AbstractContextManager[Readings]]

_REQUEST_MODEL = "gen_ai.request.model"
_FIRST = "gen_ai.client.operation.time_to_first_chunk"
_NEXT = "gen_ai.client.operation.time_per_output_chunk"
_SECOND = 1e9


@contextmanager
def ours(warm_up: WarmUp) -> Iterator[Readings]:
    """Measure with `otel_itl`; the figures are read from its spans and their token events, as an exporter does."""
    readings: Readings = {}
    with capture_telemetry() as captured:
        otel_itl.instrument(
            tracer_provider=captured.tracer_provider,
            meter_provider=captured.meter_provider,
            logger_provider=captured.logger_provider,
        )
        try:
            warm_up()
            captured.clear()
            yield readings
        finally:
            otel_itl.uninstrument()
        for span in captured.spans:
            attributes = span.attributes or {}
            measures = otel_itl.measure(
                decode((event.name, event.timestamp, event.attributes or {}) for event in span.events)
            )
            # The samples, which are pooled over streams, are those of the attributes.
            assert attributes.get("itl.latency.p99") == _rounded(measures.itl_p99)
            assert attributes.get("itl.time_to_first_token") == _rounded(measures.time_to_first_token)
            ttft = measures.time_to_first_token
            readings[str(attributes[_REQUEST_MODEL])] = Stream(
                ttft=None if ttft is None else ttft * _SECOND,
                samples=measures.itl_samples.nanoseconds,
                imputed=measures.imputed,
                excluded=measures.excluded,
                consumer_bound=attributes["itl.consumer.bound"] is True,
            )


def official(sdk: str) -> Instrumentation | None:
    """Return the official instrumentation, whose histogram values are read one by one, without buckets.

    None where it is not installed.
    """
    try:
        module: Any = import_module(f"opentelemetry.instrumentation.genai.{sdk}")
    except ModuleNotFoundError:
        return None
    instrumentor = module.OpenAIInstrumentor() if sdk == "openai" else module.AnthropicInstrumentor()

    @contextmanager
    def instrumentation(warm_up: WarmUp) -> Iterator[Readings]:
        meter_provider = _Values()
        instrumentor.instrument(tracer_provider=TracerProvider(shutdown_on_exit=False), meter_provider=meter_provider)
        readings: Readings = {}
        try:
            warm_up()
            meter_provider.by_model.clear()
            yield readings
        finally:
            instrumentor.uninstrument()
        for model, recorded in meter_provider.by_model.items():
            first = recorded.get(_FIRST)
            readings[model] = Stream(
                ttft=first[0] * _SECOND if first else None, samples=[gap * _SECOND for gap in recorded.get(_NEXT, ())]
            )

    return instrumentation


def naive(reads: list[Read]) -> Readings:
    """Return the figures of the caller's clock, which takes each chunk for a token."""
    return {
        read.model: Stream(
            ttft=read.chunks_ns[0] - read.called_ns,
            samples=[after - before for before, after in pairwise(read.chunks_ns)],
        )
        for read in reads
    }


def instrumentations(sdk: str) -> dict[str, Instrumentation]:
    """Return the installed instrumentations of an SDK by name; each is run by itself."""
    theirs = official(sdk)
    return {OURS: ours} if theirs is None else {OURS: ours, OFFICIAL: theirs}


class _Values(NoOpMeterProvider):
    """A meter provider whose histograms store each value."""

    def __init__(self) -> None:
        self.by_model: dict[str, dict[str, list[float]]] = {}

    def get_meter(self, name: str, *_: Any, **__: Any) -> Meter:
        """Return a meter of such histograms."""
        return _ValueMeter(name, self.by_model)


class _ValueMeter(NoOpMeter):
    def __init__(self, name: str, by_model: dict[str, dict[str, list[float]]]) -> None:
        super().__init__(name)
        self._by_model = by_model

    def create_histogram(self, name: str, *_: Any, **__: Any) -> Histogram:
        return _ValueHistogram(name, self._by_model)


class _ValueHistogram(NoOpHistogram):
    def __init__(self, name: str, by_model: dict[str, dict[str, list[float]]]) -> None:
        super().__init__(name)
        self._name = name
        self._by_model = by_model

    def record(self, amount: float, attributes: Any = None, context: Any = None) -> None:  # noqa: ARG002 - the API's
        recorded = self._by_model.setdefault(str((attributes or {}).get(_REQUEST_MODEL)), {})
        recorded.setdefault(self._name, []).append(amount)


def _rounded(seconds: float | None) -> float | None:
    """Return seconds as they are on a span: to the microsecond."""
    return None if seconds is None else round(seconds, 6)
