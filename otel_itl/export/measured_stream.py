"""What the metrics need of an ended stream: its samples and a few scalars, neither its timeline nor its span."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN_CONTEXT, NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from otel_itl.core.columns import find_differences
from otel_itl.core.host_bound import find_host_part
from otel_itl.core.measures import MAX_HELD_WIDTH, Measures
from otel_itl.core.request import Request
from otel_itl.core.slo import SLOResult
from otel_itl.core.stream import FinishedStream
from otel_itl.core.timeline import Outcome, Timeline
from otel_itl.export.attributes import reported_usage

_NO_GAPS: Sequence[float] = ()
_NO_USAGE: Mapping[str, int] = MappingProxyType({})
_NO_CONTEXT: Final = Context()
_UNCERTAIN_FIELDS: Final = {"ttft": "time_to_first_token", "itl": "itl_mean"}
"""What is counted as uncertain → the field of `Measures` whose bounds decide it."""


class MeasuredStream(NamedTuple):
    """An ended stream, as the metrics record it. Times are seconds, samples and gaps are nanoseconds.

    The defaults are those of a stream that could not be measured: of that, the outcome and the duration are left.
    """

    request: Request
    outcome: Outcome
    error_type: str | None
    duration: float
    records_standard: bool
    """The `gen_ai.client.*` metrics are recorded here; False: another instrumentation is in charge of the request."""
    recorded_elsewhere: frozenset[str] = frozenset()
    """Standard metrics that another instrumentation records all the same, by their field of `StandardNames`."""
    span_context: SpanContext = INVALID_SPAN_CONTEXT
    """The ids of the stream's span, which exemplars refer to."""
    response_model: str | None = None
    first_chunk_ns: int | None = None
    """When the first chunk arrived, after the request; None: no chunk came."""
    time_to_first_token: float | None = None
    """None: there is no such figure, or it is not known well enough; likewise those that follow."""
    time_per_output_token: float | None = None
    samples: Sequence[float] = ()
    """The ITL samples, ascending."""
    uncertain: Sequence[tuple[str, str]] = ()
    """Which figures are not known well enough (`ttft`, `itl`), and why (`consumer`, `host`)."""
    other_gaps: Sequence[float] = ()
    """The gaps between chunks that are not among `samples`."""
    gaps_are_samples: bool = False
    """Every ITL sample is also the gap between two chunks: `chunk_gaps` consists of `samples` and `other_gaps`."""
    usage: Mapping[str, int] = _NO_USAGE
    """The token counts that the stream reports, by their field of `ResponseInfo`."""
    slo_result: SLOResult | None = None
    """The result for the objective in force; None: there is none."""

    @property
    def context(self) -> Context:
        """Make a context that holds the ids of the stream's span and nothing else, as instruments take it."""
        return set_span_in_context(NonRecordingSpan(self.span_context), _NO_CONTEXT)

    @property
    def common(self) -> tuple[Hashable, ...]:
        """What streams that are recorded together have in common, beside their attributes."""
        slo = None if self.slo_result is None else self.slo_result.slo.profile
        is_sampled = self.span_context.trace_flags & TraceFlags.SAMPLED
        return self.outcome, self.error_type, slo, is_sampled, self.records_standard, self.recorded_elsewhere

    @property
    def chunk_gaps(self) -> Sequence[float]:
        """The time between every two chunks, ascending."""
        if not self.gaps_are_samples:
            return self.other_gaps
        return sorted([*self.samples, *self.other_gaps]) if self.other_gaps else self.samples


def measured_stream(  # noqa: PLR0913 - the parts of the pipeline's result
    finished: FinishedStream,
    measures: Measures,
    slo_result: SLOResult | None,
    span_context: SpanContext,
    *,
    records_standard: bool,
    recorded_elsewhere: frozenset[str] = frozenset(),
) -> MeasuredStream:
    """Take from an ended stream what its metrics need, so that its timeline and its span can be freed."""
    timeline = finished.timeline
    gaps_are_samples, other_gaps = _other_gaps(timeline, measures) if records_standard else (False, _NO_GAPS)
    return MeasuredStream(
        request=finished.request,
        response_model=finished.response.model,
        outcome=timeline.outcome,
        error_type=finished.error_type,
        span_context=span_context,
        duration=measures.duration,
        first_chunk_ns=timeline.arrived[0] if timeline.arrived else None,
        time_to_first_token=measures.time_to_first_token if measures.is_known("time_to_first_token") else None,
        time_per_output_token=measures.time_per_output_token if measures.is_known("time_per_output_token") else None,
        samples=measures.upstream_samples.nanoseconds,
        uncertain=_find_uncertain(finished.host_delay, measures) if measures.bounds else (),
        other_gaps=other_gaps,
        gaps_are_samples=gaps_are_samples,
        usage=reported_usage(finished),
        slo_result=slo_result,
        records_standard=records_standard,
        recorded_elsewhere=recorded_elsewhere,
    )


def _find_uncertain(host_delay: float | None, measures: Measures) -> tuple[tuple[str, str], ...]:
    """Return which figures of a stream are not known to half of themselves, and why."""
    uncertain = {
        "ttft": measures.is_uncertain("time_to_first_token"),
        "itl": measures.pace_uncertainty >= MAX_HELD_WIDTH,
    }
    found = []
    for name, field in _UNCERTAIN_FIELDS.items():
        if uncertain[name]:
            is_host = 2 * find_host_part(host_delay, measures, field) > measures.bounds[field].width
            found.append((name, "host" if is_host else "consumer"))
    return tuple(found)


def _other_gaps(timeline: Timeline, measures: Measures) -> tuple[bool, Sequence[float]]:
    """Return whether every sample is a gap between two chunks, and the gaps that are not among the samples.

    For most streams the samples are such gaps, and sorting them a second time is saved. Tokens per chunk, choices,
    uncertain arrivals and bursts make the samples differ from the gaps: then all the gaps are returned, ascending.
    """
    arrived = timeline.arrived
    first, last = timeline.output_bounds
    samples_differ = (
        timeline.tokens
        or timeline.choices
        or timeline.skipped
        or measures.bounds
        or measures.burst_ratio
        or measures.output_chunk_count != last - first + 1
    )
    if samples_differ:
        return False, sorted(find_differences(arrived))
    return True, [*find_differences(arrived[: first + 1]), *find_differences(arrived[last:])]
