"""Summarizes streams into a report: of each provider and model, each SLO and each session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from otel_itl.core.slo import Objectives
from otel_itl.tools.report.certainty import Known
from otel_itl.tools.report.model_summary import KNOWN, ModelCollector, ModelSummary
from otel_itl.tools.report.reading.skipped_input import SkippedInput
from otel_itl.tools.report.reading.streams import StoredStream
from otel_itl.tools.report.render.number_format import ABSENT
from otel_itl.tools.report.selection import find_attribute
from otel_itl.tools.report.sessions import SessionCollector, SessionSummary
from otel_itl.tools.report.set_aside import KnownCollector
from otel_itl.tools.report.slo import SLOCollector, SLOSummary
from otel_itl.tools.report.stalls import collect_stalls
from otel_itl.tools.report.worst_stream import WorstStream, describe_worst, longest_latency


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The latency of a number of streams."""

    rows: Sequence[ModelSummary]
    """Ordered by provider and model."""
    streams: int
    worst: WorstStream | None
    """None where no stream has a gap."""
    known: Mapping[str, Known] = field(default_factory=dict)
    """As of a row, of the streams of all rows together."""
    slo: Sequence[SLOSummary] = ()
    """One for each SLO that any stream was judged by."""
    sessions: Sequence[SessionSummary] = ()
    """The worst first."""
    skipped_input: dict[str, int] = field(default_factory=dict)
    """What of the input could not be used: value of `SkipReason` → count."""
    tool: str | None = None
    """The tool whose definitions the latency figures follow, a key of `other_tools.TOOLS`; None: our own."""


def summarize(
    streams: Iterable[StoredStream],
    skipped: SkippedInput | None = None,
    tool: str | None = None,
    slo: Objectives | None = None,
    by: str | None = None,
) -> Report:
    """Summarize many streams. Percentiles are of the pooled samples, never averages of percentiles.

    Streams are taken one at a time, and only the worst is kept. Memory: 8 bytes for each latency sample, 16 where the
    stream belongs to a session; with `tool`, the timelines of finished streams as well, 24 bytes for each chunk.

    Args:
        streams: in any order.
        skipped: what their reading skipped; counted once `streams` is exhausted.
        tool: the tool whose figures are computed instead of ours, a key of `other_tools.TOOLS`.
        slo: the SLOs to judge all streams by; None: those on their spans.
        by: an attribute of the spans or their resources: each of its values has rows of its own; None: there is none.
    """
    collectors: dict[tuple[str, str, str | None], ModelCollector] = {}
    slos, sessions = SLOCollector(slo), SessionCollector()
    worst: StoredStream | None = None
    count = 0
    for stream in streams:
        count += 1
        stalls = collect_stalls(stream)
        group = None if by is None else find_attribute(stream.span_facts.attributes, by) or ABSENT
        collectors.setdefault((stream.provider, stream.model, group), ModelCollector(tool)).add(stream, stalls)
        verdict = slos.add(stream, stalls)
        sessions.add(stream, sum(stall.count for stall in stalls), verdict)
        if stream.measures.upstream_samples.nanoseconds and (
            worst is None or longest_latency(stream) > longest_latency(worst)
        ):
            worst = stream
    return Report(
        rows=[collectors[key].summary(*key) for key in sorted(collectors, key=lambda key: (*key[:2], key[2] or ""))],
        streams=count,
        worst=None if worst is None else describe_worst(worst, tool),
        known={figure: _merge([one.known[figure] for one in collectors.values()]) for figure in KNOWN},
        slo=slos.summaries(),
        sessions=sessions.summaries(),
        skipped_input=(skipped or SkippedInput()).by_name,
        tool=tool,
    )


def _merge(collectors: Iterable[KnownCollector]) -> Known:
    """Return how well a figure of the streams of several collectors is known."""
    merged = KnownCollector("")
    for collector in collectors:
        merged.add_all(collector)
    return merged.summary()
