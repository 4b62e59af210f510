"""Streams taken together: pooled samples, weighted rates, the worst stream."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from otel_itl.core.metric_conventions import LATENCY_BUCKETS
from otel_itl.core.timeline import Outcome, Timeline
from otel_itl.tools.report.other_tools import TOOLS, figures_as, summary_as
from otel_itl.tools.report.reading.streams import StoredStream
from otel_itl.tools.report.render.json import report_to_data
from otel_itl.tools.report.summary import ModelSummary, Report, summarize
from otel_itl.tools.report.worst_stream import ChunkGap
from tests.tools.report.conftest import store

MS = 1_000_000


def stream(timeline: Timeline, provider: str = "openai", model: str = "m", operation: str = "chat") -> StoredStream:
    return store(timeline, provider=provider, model=model, operation=operation)


def row_of(*timelines: Timeline) -> ModelSummary:
    (row,) = summarize(stream(timeline) for timeline in timelines).rows
    return row


@pytest.mark.requirement("R38")
def test_percentiles_are_of_the_pooled_samples_and_not_averaged(made: Any) -> None:
    # The pool: 100 gaps of 10 ms, one of 110, one of 410. The p99 has rank 0.99 * 101 = 99.99, between the last 10 and
    # the 110. Averaged, the p99s of the two streams, 11 and 406 ms, would be 208 ms.
    latency = row_of(made.timeline(*[10] * 99, 110), made.timeline(10, 410)).inter_token_latency
    assert (latency.count, latency.p50, latency.max) == (102, 0.01, 0.41)
    assert latency.p99 == pytest.approx(0.01 + 0.1 * 0.99)
    assert latency.mean == pytest.approx((100 * 0.01 + 0.11 + 0.41) / 102)


def test_the_time_per_token_is_weighted_by_tokens(made: Any) -> None:
    row = row_of(made.timeline(*[10] * 30), made.timeline(*[40] * 10))
    assert (row.time_per_output_token, row.output_speed) == pytest.approx((0.7 / 40, 40 / 0.7))


def test_streams_whose_tokens_are_unknown_do_not_weigh(made: Any) -> None:
    unknown = replace(made.timeline(*[500] * 9), output_tokens=None)
    assert row_of(made.timeline(*[10] * 30), unknown).time_per_output_token == pytest.approx(0.01)


def test_an_unknown_time_per_token_is_absent(made: Any) -> None:
    row = row_of(replace(made.timeline(10, 10), output_tokens=None))
    assert (row.time_per_output_token, row.output_speed) == (None, None)


def test_time_to_first_token_has_a_sample_per_stream(made: Any) -> None:
    row = row_of(*(made.timeline(10, 10, first=first) for first in (100, 200, 300)))
    distribution = row.time_to_first_token
    assert (distribution.count, distribution.p50, distribution.max, distribution.mean) == (3, 0.2, 0.3, 0.2)


@pytest.mark.requirement("R41")
def test_a_stream_without_a_token_has_no_sample_of_its_first(made: Any) -> None:
    nothing = Timeline(request_unix_ns=1, end=5 * MS, outcome=Outcome.ERROR)
    row = row_of(nothing)
    assert (row.time_to_first_token.count, row.time_to_first_token.p50, row.streams) == (0, None, 1)


def test_one_gap_has_no_distribution(made: Any) -> None:
    latency = row_of(made.timeline(10)).inter_token_latency
    assert (latency.count, latency.p50, latency.max) == (1, None, None)


def test_outcomes_are_counted(made: Any) -> None:
    outcomes = [Outcome.COMPLETED, Outcome.CLOSED, Outcome.COMPLETED, Outcome.ERROR]
    row = row_of(*(made.timeline(10, outcome=outcome) for outcome in outcomes))
    assert row.outcomes == {"closed": 1, "completed": 2, "error": 1}


def test_rows_are_by_provider_and_model(made: Any) -> None:
    named = [("openai", "b"), ("anthropic", "z"), ("openai", "a"), ("openai", "b")]
    report = summarize(stream(made.timeline(10, 10), *name) for name in named)
    expected = [("anthropic", "z", 1), ("openai", "a", 1), ("openai", "b", 2)]
    assert [(row.provider, row.model, row.streams) for row in report.rows] == expected


def test_the_operations_of_a_row_are_listed(made: Any) -> None:
    report = summarize(stream(made.timeline(10, 10), operation=name) for name in ("text_completion", "chat", "chat"))
    assert report.rows[0].operations == ["chat", "text_completion"]


def test_every_sample_is_in_one_bucket(made: Any) -> None:
    row = row_of(made.timeline(20, 20.1), made.timeline(4, 4.1), made.timeline(19, 40_000))
    held = {index: number for index, number in enumerate(row.latency_buckets) if number}
    at = LATENCY_BUCKETS.index
    assert held == {at(0.004): 1, at(0.005): 1, at(0.02): 2, at(0.025): 1, len(LATENCY_BUCKETS): 1}


def test_hidden_gaps_and_slow_callers_are_counted(made: Any) -> None:
    # The caller works for 50 ms on every chunk: all but the first were there when they were asked for.
    arrived = array("q", [100 * MS, 150 * MS, 200 * MS, 250 * MS])
    asked = array("q", [0, *(moment - 10_000 for moment in arrived[1:])])
    slow = Timeline(request_unix_ns=1, asked=asked, arrived=arrived, kinds=b"\2" * 4, end=260 * MS)
    row = row_of(slow, made.timeline(10, 10))
    assert (row.imputed, row.excluded, row.consumer_bound) == (0, 3, 1)


def test_streams_of_a_slow_caller_are_a_count_even_if_there_is_one(made: Any) -> None:
    assert type(row_of(made.timeline(10, 10)).consumer_bound) is int


BURSTS = [*[0.1] * 7, 159.3] * 8
"""The gaps (ms) of bursts of eight, one every 160 ms; what follows the last is a chunk that comes alone."""


def test_streams_whose_pace_is_a_proxys_are_summed_up(made: Any) -> None:
    # Of 65 chunks 56 come with the one before. After the first burst, 8 pauses of 160 ms brought 57 chunks.
    row = row_of(made.timeline(*BURSTS), made.timeline(*BURSTS), made.timeline(*[20] * 64))
    assert row.buffered is not None
    assert (row.streams, row.buffered.streams, row.buffered.burst_ratio) == (3, 2, 56 / 65)
    assert row.buffered.pace == pytest.approx(1.28 / 57)


def test_a_pace_that_no_stream_has_is_absent(made: Any) -> None:
    row = row_of(made.timeline(*[0.1] * 20))
    assert row.buffered is not None
    assert (row.buffered.streams, row.buffered.pace) == (1, None)


def test_a_model_without_a_buffered_stream_has_no_sum_of_them(made: Any) -> None:
    assert row_of(made.timeline(10, 10)).buffered is None


# --- as another tool defines it --------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", TOOLS)
def test_the_figures_of_a_row_are_the_tools_summary_of_its_streams(made: Any, tool: str) -> None:
    timelines = [made.timeline(10, 30), made.timeline(10, 410)]
    (row,) = summarize(map(stream, timelines), tool=tool).rows
    assert row.figures == summary_as(timelines, tool)


def test_only_finished_streams_are_in_another_tools_figures(made: Any) -> None:
    outcomes = [Outcome.COMPLETED, Outcome.TRUNCATED, Outcome.ERROR, Outcome.CLOSED, Outcome.CANCELLED]
    gaps = [10, 20, 1_000, 1_000, 1_000]
    timelines = [made.timeline(gap, gap, outcome=outcome) for gap, outcome in zip(gaps, outcomes, strict=True)]
    (row,) = summarize(map(stream, timelines), tool="vllm").rows
    assert row.figures is not None
    assert (row.streams, row.finished, row.figures["mean_itl_ms"]) == (5, 2, 15)


def test_the_worst_stream_has_the_figures_of_the_tool(made: Any) -> None:
    timeline = made.timeline(5, 700)
    assert worst_of(summarize([stream(timeline)], tool="llmeter")).figures == figures_as(timeline, "llmeter").figures


@pytest.mark.parametrize("tool", TOOLS)
def test_every_figure_of_a_tool_comes_with_its_formula(made: Any, tool: str) -> None:
    data = report_to_data(summarize([stream(made.timeline(5, 700, 5))], tool=tool))
    figures = data["rows"][0]["figures"].keys() | data["worst"]["figures"].keys()
    assert figures - data["formulas"].keys() == set()


# --- the worst stream -------------------------------------------------------------------------------------------------


def worst_of(report: Report) -> Any:
    assert report.worst is not None
    return report.worst


def test_the_worst_stream_has_the_longest_single_gap(made: Any) -> None:
    quick, stalled, slow = made.timeline(*[5] * 9), made.timeline(5, 5, 700, 5), made.timeline(*[300] * 9)
    worst = worst_of(summarize(map(stream, (quick, stalled, slow))))
    assert (worst.stream.timeline, worst.longest) == (stalled, 0.7)


def test_the_gap_is_found_where_it_lies(made: Any) -> None:
    worst = worst_of(summarize([stream(made.timeline(5, 5, 700, 5))]))
    assert worst.gap == ChunkGap(210 * MS, 910 * MS, 4)


def test_a_gap_of_a_chunk_with_several_tokens_is_found(made: Any) -> None:
    timeline = replace(made.timeline(5, 900, 5), tokens=array("I", [1, 1, 3, 1]))
    worst = worst_of(summarize([stream(timeline)]))
    assert (worst.longest, worst.gap) == (0.3, ChunkGap(205 * MS, 1_105 * MS, 3))


def test_gaps_are_looked_for_within_one_choice(made: Any) -> None:
    timeline = replace(made.timeline(10, 400, 10), choices=bytes([0, 1, 0, 1]))
    worst = worst_of(summarize([stream(timeline)]))
    assert (worst.longest, worst.gap) == (0.41, ChunkGap(200 * MS, 610 * MS, 2))


def test_a_gap_that_is_shared_out_lies_nowhere(made: Any) -> None:
    # The caller sleeps 200 ms after the second chunk; the third was there, the fourth was waited for.
    arrived = array("q", [100 * MS, 110 * MS, 310 * MS, 410 * MS])
    asked = array("q", [0, 100 * MS, 310 * MS - 10_000, 310 * MS])
    timeline = Timeline(request_unix_ns=1, asked=asked, arrived=arrived, kinds=b"\2" * 4, end=420 * MS)
    worst = worst_of(summarize([stream(timeline)]))
    assert (worst.longest, worst.gap) == (0.15, None)


def test_streams_without_gaps_have_no_worst(made: Any) -> None:
    assert summarize([stream(made.timeline())]).worst is None


def test_a_report_of_nothing_has_no_rows() -> None:
    report = summarize([])
    assert (report.rows, report.streams, report.worst) == ([], 0, None)


KEYS = {
    "": "schema as streams rows worst slo sessions session skipped_input",
    "row": "provider model group operations streams outcomes output_tokens output_chunks imputed excluded "
    "consumer_bound blocked host_bound host_delay errors without_token waited buffered "
    "server stalls streams_with_derived_stalls finished",
    "worst": "provider model operation trace_id span_id where outcome duration output_chunks longest_latency "
    "longest_latency_uncertainty longest_latency_uncertainty_above gap",
}
"""The keys of a report, of a row and of its worst stream, whoever's figures they have."""
OWN_KEYS = {
    "": "latency_bucket_edges",
    "row": "time_to_first_token inter_token_latency latency_buckets time_per_output_token output_speed known",
    "worst": "time_to_first_token time_to_first_token_uncertainty",
}
KEYS_OF_A_TOOL = {
    "": "version assumes counts ends percentiles formulas",
    "row": "figures",
    "worst": "figures",
}


@pytest.mark.parametrize(("tool", "more"), [(None, OWN_KEYS), ("otel", KEYS_OF_A_TOOL)])
def test_the_data_of_a_report_has_these_keys(made: Any, tool: str | None, more: dict[str, str]) -> None:
    data = report_to_data(summarize([stream(made.timeline(5, 700, 5))], tool=tool))
    found = {"": data, "row": data["rows"][0], "worst": data["worst"]}
    assert {part: set(keys) for part, keys in found.items()} == {
        part: {*KEYS[part].split(), *more[part].split()} for part in KEYS
    }


def test_a_distribution_and_a_gap_have_these_keys(made: Any) -> None:
    data = report_to_data(summarize([stream(made.timeline(5, 700, 5))]))
    assert [*data["rows"][0]["inter_token_latency"]] == ["count", "p50", "p95", "p99", "max", "mean", "too_few"]
    assert data["worst"]["gap"] == {"start": 0.205, "end": 0.905, "position": 3}


@pytest.mark.parametrize("tool", [None, "vllm"])
def test_every_key_of_the_data_is_documented(made: Any, read: Any, tool: str | None) -> None:
    def keys(data: Any) -> Iterator[str]:
        if isinstance(data, dict):
            for key, value in data.items():
                yield key
                if key not in {"errors", "figures", "formulas"}:
                    yield from keys(value)
        elif isinstance(data, list):
            for item in data:
                yield from keys(item)

    page = (Path(__file__).parents[3] / "docs" / "report.md").read_text(encoding="utf-8")
    everything = {"itl.slo.profile": "chat", "session.id": "agent-7", "itl.stall.count": 1}
    report = summarize(read(made.spans(made.span(made.timeline(0.1, 0.1, 700), **everything))).streams, tool=tool)
    assert report.rows[0].buffered is not None
    data = report_to_data(report, *report.sessions)
    assert [key for key in keys(data) if not re.search(rf"`\.?{key}(\[\])?`", page)] == []
