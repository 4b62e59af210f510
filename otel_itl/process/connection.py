"""Connects streams to OpenTelemetry: makes the pipeline, and makes it again when the application sets a provider."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from otel_itl.config import Config
from otel_itl.core.metric_conventions import STANDARD_NAMES
from otel_itl.core.sessions import Sessions
from otel_itl.export.file.output import FileOutput
from otel_itl.export.flushes import Export, flushes_of
from otel_itl.export.identity_map import IdentityMap
from otel_itl.export.measured_spans import MeasuredSpans
from otel_itl.export.metrics import MetricsRegistry, StreamMetrics
from otel_itl.export.pipeline import Pipeline
from otel_itl.export.providers import Chosen, ProviderChoice, Providers, is_unset
from otel_itl.export.scope import get_logger, get_meter, get_tracer
from otel_itl.export.sdk_internals.processor_order import prepend_processor
from otel_itl.export.span import SpanSink, SpanStarter
from otel_itl.export.span_processor import SpanEventProcessor
from otel_itl.export.stand_ins import StandIns
from otel_itl.export.stream_log import EndLog
from otel_itl.export.summary_lines import SummaryLines
from otel_itl.recording.critical_sections import CriticalSections

logger = logging.getLogger("otel_itl")


class Connection:
    """The providers that streams are reported to, and what we attach to them.

    `connect`, `close` and `forget_after_fork` are called by one thread at a time; the properties by any.

    Args:
        file: the telemetry file.
        summary_lines: prints a line for each stream, where that is asked for.
        metrics: the metrics of this process, and its errors.
        measured_spans: spans that no processor is to measure again.
        flush: finalizes the streams that ended; called with a flush of a tracer provider.
        sections: the critical sections of the process.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what it connects
        self,
        file: FileOutput,
        summary_lines: SummaryLines,
        metrics: MetricsRegistry,
        measured_spans: MeasuredSpans,
        flush: Callable[[float], None],
        sections: CriticalSections,
    ) -> None:
        self.stand_ins = StandIns(file, metrics.errors)
        self.may_defer = False
        """Whether a flush of the providers finalizes streams whose end was put off."""
        self.choice = ProviderChoice(file, self.stand_ins)
        """The providers in force, and whether the application has set a global one since `connect` was called."""
        self._file, self._summary_lines, self._metrics = file, summary_lines, metrics
        self._measured_spans, self._flush, self._sections = measured_spans, flush, sections
        self._processors: IdentityMap[SpanEventProcessor] = IdentityMap()
        self._has_warned = False
        """Whether it was said that objectives have no metrics."""
        self._runs_first: IdentityMap[bool] = IdentityMap()
        """Tracer provider → whether our processor runs first: a flush finalizes pending streams before it exports."""

    @property
    def chosen(self) -> Chosen | None:
        """The providers in force; None: no stream has opened yet."""
        return self.choice.chosen

    @property
    def exports(self) -> list[Export]:
        """What exports the telemetry of the providers in force, and of those that were replaced."""
        applications = [provider for provider in self.chosen or () if provider not in self.stand_ins]
        return [*flushes_of(*applications), self.stand_ins.flush]

    def connect(self, config: Config, given: Providers, replaced: Pipeline | None) -> Pipeline:
        """Make the pipeline for these options and providers; also adds our processor to the tracer provider.

        Args:
            config: the options.
            given: the providers that were given.
            replaced: the pipeline to the providers before, with these options. Streams that are open go on to report to
                it, but for their metrics; None: there was none.
        """
        before = self.chosen
        chosen = self.choice.choose(given)
        stream_metrics = self._make_metrics(before, chosen, config, replaced)
        self.stand_ins.give_up_all_but(chosen, self._metrics.pending.record_all)
        self._add_processor(chosen.tracer_provider, stream_metrics, config)
        self._warn_of_lost_metrics(chosen, config)
        has_processors = hasattr(chosen.tracer_provider, "add_span_processor")
        is_flushed = self._runs_first.get(chosen.tracer_provider) or not has_processors
        # A flush of log events reaches nothing of ours.
        self.may_defer = is_flushed and config.token_events != "log"
        tracer = get_tracer(chosen.tracer_provider, config.standard_names)
        stream_logger = get_logger(chosen.logger_provider, config.standard_names)
        sessions = Sessions() if replaced is None else replaced.spans.sessions
        errors, generation = self._metrics.errors, STANDARD_NAMES[config.standard_names]
        return Pipeline(
            SpanStarter(tracer, sessions, self._measured_spans),
            SpanSink(self._measured_spans, generation, config.token_events, errors),
            EndLog(stream_logger, config.token_events, has_progress=config.progress is not None),
            logger=stream_logger,
            metrics=stream_metrics,
            objectives=config.slo,
            errors=errors,
            sections=self._sections,
            more_sinks=(self._summary_lines,) if config.summary else (),
        )

    def disable_processors(self) -> None:
        """Measure no more spans of others. A provider keeps its processors for good."""
        for processor in self._processors.values():
            processor.disable()

    def close(self, seconds: float) -> None:
        """Forget the providers, and shut our own down: for at most `seconds`, and then in the background."""
        self.choice.forget()
        self.stand_ins.shut_down(seconds)

    def forget_after_fork(self) -> None:
        """Leave the parent's providers to the parent."""
        self.choice.forget()
        self.stand_ins.forget_after_fork()

    def _make_metrics(
        self, before: Chosen | None, chosen: Chosen, config: Config, replaced: Pipeline | None
    ) -> StreamMetrics:
        """Return the metrics of the pipeline that is replaced, with instruments of another provider where that changed.

        The API's own instruments record by the application's provider as soon as that is set: they stay, too.
        """
        if replaced is not None and before is not None:
            provider = before.meter_provider
            if provider is chosen.meter_provider or is_unset(provider):
                return replaced.metrics
        made = self._metrics.create(
            get_meter(chosen.meter_provider, config.standard_names),
            STANDARD_NAMES[config.standard_names],
            model_limit=config.model_limit,
            objectives=config.slo,
            reports_process=True,
        )
        if replaced is None:
            return made
        self._metrics.pending.record_some(len(self._metrics.pending))  # what ended before
        replaced.metrics.instruments = made.instruments
        return replaced.metrics

    def _warn_of_lost_metrics(self, chosen: Chosen, config: Config) -> None:
        """Warn once where alerts on the objectives get no series: there are providers, but none of metrics."""
        if not config.slo.by_model or self._has_warned or not is_unset(chosen.meter_provider):
            return
        self._has_warned = True
        logger.warning(
            "The objectives (slo=%s) are judged on spans alone: no MeterProvider is set, and so alerts have no series. "
            "Set one with opentelemetry.metrics.set_meter_provider(), or give it to instrument(meter_provider=...).",
            config.slo,
        )

    def _add_processor(self, provider: Any, stream_metrics: StreamMetrics, config: Config) -> None:
        """Have the spans of a provider pass our processor; there is one for each, as none can be removed."""
        options: Any = {
            "chunk_events": config.chunk_events,
            "stall": config.stall,
            "objectives": config.slo,
            "stream_metrics": stream_metrics,
        }
        processor = self._processors.get(provider)
        if processor is not None:
            processor.reconfigure(**options)
        elif hasattr(provider, "add_span_processor"):
            processor = SpanEventProcessor(
                **options, measured_spans=self._measured_spans, errors=self._metrics.errors, flush=self._flush
            )
            self._runs_first[provider] = prepend_processor(provider, processor)
            self._processors[provider] = processor
