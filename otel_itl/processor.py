"""The public span processor."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from opentelemetry import metrics

from otel_itl.config import load
from otel_itl.core.metric_conventions import STANDARD_NAMES, default_generation
from otel_itl.core.slo import SLO
from otel_itl.core.stalls import StallPolicy
from otel_itl.export import scope
from otel_itl.export.span_processor import SpanEventProcessor
from otel_itl.runtime import runtime


class ITLSpanProcessor(SpanEventProcessor):
    """Derives TTFT, ITL percentiles, stalls and outcomes from the events of finished spans, as metrics.

    It measures spans that carry token events of ours (replayed ones, for instance), and with `chunk_events` also spans
    of *another* instrumentation that have an event per chunk. Add it to a tracer provider of yours; `instrument()`
    adds one of its own. A stream that this process measured where it was recorded is not measured again.

    Args:
        chunk_events: names of the span events that stand for one output chunk each.
        meter_provider: where the metrics go; None: the global provider.
        standard_names: the generation of the standard metrics' names, `operation` or `inference`; None: `operation`,
            unless `OTEL_SEMCONV_STABILITY_OPT_IN` has `gen_ai_latest_experimental` in it.
        standard_metrics: record the `gen_ai.client.*` metrics as well; off, as the other instrumentation has its own.
        model_limit: how many request models, response models and servers the metrics keep apart; the rest become
            `other`.
        stall: from when on a silence in such a span is a stall, as `instrument()` takes it; None: stalls are not
            looked for.
        slo: the objectives for such spans, as `instrument()` takes them; None: there are none.

    Raises:
        ValueError: a value that an option does not take.
    """

    def __init__(  # noqa: PLR0913 - options by keyword
        self,
        chunk_events: Iterable[str] = (),
        *,
        meter_provider: metrics.MeterProvider | None = None,
        standard_names: str | None = None,
        standard_metrics: bool = False,
        model_limit: int = 100,
        stall: StallPolicy | str | None = StallPolicy(),  # noqa: B008 - immutable
        slo: SLO | str | Mapping[str, SLO | str] | None = None,
    ) -> None:
        generation = default_generation(os.environ) if standard_names is None else standard_names
        options = {"stall": stall, "slo": slo, "standard_names": generation, "model_limit": model_limit}
        config = load(options, {})
        stream_metrics = runtime.metrics.create(
            scope.get_meter(meter_provider or metrics.get_meter_provider(), generation),
            STANDARD_NAMES[generation],
            model_limit=config.model_limit,
            objectives=config.slo,
        )
        super().__init__(
            chunk_events=[chunk_events] if isinstance(chunk_events, str) else chunk_events,
            stall=config.stall,
            objectives=config.slo,
            stream_metrics=stream_metrics,
            measured_spans=runtime.measured_spans,
            errors=runtime.errors,
            flush=lambda _: runtime.metrics.pending.record_all(),
            standard_metrics=standard_metrics,
        )
