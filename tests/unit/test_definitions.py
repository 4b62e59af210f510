"""Other tools' numbers, against those that each tool's own code gave for the same recorded streams.

Run as a script, this renews the generated parts of docs/definitions.md.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from math import isnan, nan
from pathlib import Path
from typing import Any

import pytest

from otel_itl.core.timeline import Kind, Timeline
from otel_itl.tools.report.other_tools import TOOLS, figures_as, summary_as
from otel_itl.tools.report.other_tools.facts import StreamFacts
from otel_itl.tools.report.other_tools.formulas import after_first, minus, over

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "definitions.md"
GOLDEN = json.loads((ROOT / "tests" / "golden" / "golden.json").read_text(encoding="utf-8"))
EXPECTED = {tool: figures for tool, figures in GOLDEN["expected"].items() if tool != "etalon"}
"""What each tool printed. Etalon's deadlines are no definition of a latency, and are tested with the fluidity index."""
MS = 1_000_000
KINDS = {
    "role": Kind.ROLE,
    "reasoning": Kind.REASONING,
    "content": Kind.ANSWER,
    "tool_call": Kind.TOOL,
    "finish": Kind.FINISH,
    "usage": Kind.USAGE,
}
OLDER_VLLM = "vllm-reasoning-content"
"""The definition for the wire form of the recorded streams: reasoning in `reasoning_content`, which vLLM ignores."""
STOPS_AT_DONE = {"sglang", "guidellm"}
"""Tools whose request ends with the `[DONE]` line; to the others that look so far it ends with the connection."""


# --- Recorded streams as timelines ----------------------------------------------------------------------------------


def recorded(stream: str, *, done: bool = False, counted: bool = False) -> Timeline:
    """A recorded stream as an attentive consumer sees it: it asks for the next chunk as soon as it has one.

    Args:
        stream: its name.
        done: whether the SDK stops at the `[DONE]` line (as openai 3.52) or reads to the end of the connection (2.0).
        counted: whether the provider says how many tokens each chunk carried.
    """
    facts = GOLDEN["streams"][stream]
    chunks = [event for event in facts["events"] if event["kind"] != "done"]
    (terminator,) = [event["t_ms"] for event in facts["events"] if event["kind"] == "done"]
    arrived = array("q", [event["t_ms"] * MS for event in chunks])
    usage: dict[str, Any] = next((event["usage"] for event in chunks if event["kind"] == "usage"), {})
    return Timeline(
        request_unix_ns=0,
        asked=array("q", [facts["headers_ms"] * MS, *arrived[:-1]]),
        arrived=arrived,
        kinds=bytes(KINDS[event["kind"]] for event in chunks),
        tokens=array("I", [event["tokens"] for event in chunks] if counted else ()),
        headers=facts["headers_ms"] * MS,
        end=(terminator if done else facts["eof_ms"]) * MS,
        input_tokens=usage.get("prompt_tokens"),
        output_tokens=usage.get("completion_tokens"),
        reasoning_tokens=usage.get("completion_tokens_details", {}).get("reasoning_tokens"),
    )


def scaled(timeline: Timeline, *, divisor: int) -> Timeline:
    """The same stream, faster by this factor."""
    return replace(
        timeline,
        asked=array("q", (moment // divisor for moment in timeline.asked)),
        arrived=array("q", (moment // divisor for moment in timeline.arrived)),
        end=timeline.end // divisor,
    )


def answered(*moments: float, output_tokens: int | None = None, **facts: Any) -> Timeline:
    """A stream of answer chunks that arrive at these milliseconds, and of nothing else."""
    arrived = array("q", [round(moment * MS) for moment in moments])
    return Timeline(
        **{
            "request_unix_ns": 0,
            "asked": array("q", [0, *arrived[:-1]][: len(arrived)]),
            "arrived": arrived,
            "kinds": bytes([Kind.ANSWER]) * len(arrived),
            "end": max(arrived, default=0),
            "output_tokens": output_tokens,
            **facts,
        }
    )


# --- Every recorded figure, and ours --------------------------------------------------------------------------------

METADATA = {"obtained", "version", "files", "note", "settings_attrs", "gaps_ms"}
"""Keys beside the figures: where they came from."""


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every figure under a value, by path. A list of numbers is one figure; so is a line of text."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in METADATA:
                yield from leaves(inner, f"{path}/{key}" if path else key)
    elif isinstance(value, list) and any(isinstance(item, str) for item in value):
        for line in value:
            yield f"{path}/{line}", line
    else:
        yield path, value


FIGURES = dict(leaves(EXPECTED))

TOKENIZER = "the tool counts tokens of the text with a tokenizer of its own; a timeline holds no text"
RUN = "the length of the whole run, which the tool measures around its requests, is in no timeline"
OBJECTIVE = "depends on objectives that the tool was given for the run"
NO_FIGURE = "no figure: whether the tool counts the request as failed, and why"
INVALID = "an invalid run: the loadgen refuses a single token, and prints garbage"
LOADGEN = "from a run in real time: the loadgen's own jitter and run length are in it"
SERVER_BUCKETS = "buckets of the server's own histogram, which no client sees"

NOT_FOLLOWING = {
    "vllm/streams/*/success": NO_FIGURE,
    "vllm/streams/*/error": NO_FIGURE,
    "vllm/streams/*/summary_1_request/output_throughput": RUN,
    "vllm/streams/*/summary_1_request/request_goodput": OBJECTIVE,
    "vllm/streams/F_no_usage/summary_1_request/*_tpot_ms": TOKENIZER,
    "vllm/streams/F_no_usage/summary_1_request/output_lens": TOKENIZER,
    "sglang/streams/*/success": NO_FIGURE,
    "sglang/streams/*/error": NO_FIGURE,
    "sglang/streams/*/summary_1_request/output_throughput": RUN,
    "sglang/streams/*/summary_1_request/output_throughput_retokenized": TOKENIZER,
    "sglang/streams/F_no_usage/output_len": "without usage, the length that the tool asked for",
    "sglang/streams/F_no_usage/summary_1_request/*_tpot_ms": "without usage, over the length that the tool asked for",
    "sglang/A_main_retokenized_itl_when_accept_length_given/output_throughput": RUN,
    "sglang/A_main_retokenized_itl_when_accept_length_given/output_throughput_retokenized": TOKENIZER,
    "sglang/A_main_retokenized_itl_when_accept_length_given/*_itl_ms": TOKENIZER,
    "sglang/A_main_native_generate_backend/*": "another stream: SGLang's own protocol, where each chunk says how many "
    "tokens there are so far and the finish chunk is one of them; no SDK speaks it",
    "sglang/aggregate_A_plus_B_duration_2s/output_throughput": RUN,
    "sglang/aggregate_A_plus_B_duration_2s/output_throughput_retokenized": TOKENIZER,
    "aiperf/streams/*/client/output_sequence_length": TOKENIZER,
    "aiperf/streams/*/client/e2e_output_token_throughput": TOKENIZER,
    "aiperf/streams/*/client/inter_token_latency_ms": TOKENIZER,
    "aiperf/streams/*/client/output_token_throughput_per_user": TOKENIZER,
    "aiperf/streams/*/client/unavailable/inter_token_latency": TOKENIZER,
    "aiperf/streams/*/client/unavailable/output_token_throughput_per_user": TOKENIZER,
    "aiperf/aggregate_A_plus_B/inter_chunk_latency_pooled_tdigest/p*": "the estimate of a sketch (not the tool's "
    "default), which depends on the order in which samples came; exact percentiles follow",
    "aiperf/goodput_itl100_ttft600/*": OBJECTIVE,
    "inference_perf/streams/*/client_tokens": TOKENIZER,
    "inference_perf/streams/*/token_count_mismatch": TOKENIZER,
    "inference_perf/streams/*/default_client_tokens_ms/normalized_time_per_output_token": TOKENIZER,
    "inference_perf/streams/*/default_client_tokens_ms/time_per_output_token": TOKENIZER,
    "inference_perf/streams/*/default_client_tokens_ms/inter_token_latency": TOKENIZER,
    "inference_perf/streams/*/default_client_tokens_ms/inter_token_latency_deltas": TOKENIZER,
    "inference_perf/streams/*/use_server_output_tokens_ms/inter_token_latency": TOKENIZER,
    "inference_perf/streams/*/use_server_output_tokens_ms/inter_token_latency_deltas": TOKENIZER,
    "inference_perf/streams/F_no_usage/use_server_output_tokens_ms/normalized_time_per_output_token": TOKENIZER,
    "inference_perf/streams/F_no_usage/use_server_output_tokens_ms/time_per_output_token": TOKENIZER,
    "inference_perf/streams/*/without_tokenizer_correction_ms/normalized_time_per_output_token": TOKENIZER,
    "inference_perf/streams/*/without_tokenizer_correction_ms/time_per_output_token": TOKENIZER,
    "inference_perf/summary_*/normalized_time_per_output_token/*": TOKENIZER,
    "inference_perf/summary_*/time_per_output_token/*": TOKENIZER,
    "inference_perf/summary_*/inter_token_latency/*": TOKENIZER,
    "inference_perf/throughput_*/input_tokens_per_sec": TOKENIZER,
    "inference_perf/throughput_*/output_tokens_per_sec": TOKENIZER,
    "inference_perf/throughput_*/total_tokens_per_sec": TOKENIZER,
    "inference_perf/throughput_*/images_per_sec": "what a request held is in no timeline",
    "inference_perf/throughput_*/videos_per_sec": "what a request held is in no timeline",
    "inference_perf/throughput_*/audios_per_sec": "what a request held is in no timeline",
    "llmperf/streams/*/inter_token_latency_ms_tail_path": TOKENIZER,
    "llmperf/streams/*/num_output_tokens": TOKENIZER,
    "llmperf/streams/*/request_output_throughput_token_per_s": TOKENIZER,
    "llmperf/A_main_with_usage_chunk/*": "the tool fails on a usage chunk; ours are its figures as if there were none",
    "evalscope/streams/F_no_usage/completion_tokens": TOKENIZER,
    "evalscope/streams/F_no_usage/tpot_ms": TOKENIZER,
    "evalscope/streams/F_no_usage/decoded_tokens_per_iter": TOKENIZER,
    "mlperf_loadgen/A_main_scaled_0.1_60_queries_n14/summary_lines/*": LOADGEN,
    "mlperf_loadgen/n_tokens_1/summary_lines/*": INVALID,
    "mlperf_loadgen/n_tokens_1/detail_errors/*": INVALID,
    "percentile_methods/results/histogram_quantile on vLLM*": SERVER_BUCKETS,
    "percentile_methods/results/histogram_quantile on SGLang*": SERVER_BUCKETS,
}
"""Figures that do not follow from a timeline, and why. Every other figure is reproduced."""


def not_following(path: str) -> str | None:
    """Why a figure does not follow, if it does not."""
    return next((reason for pattern, reason in NOT_FOLLOWING.items() if fnmatchcase(path, pattern)), None)


FOLLOWING = [path for path in FIGURES if not_following(path) is None]


@cache
def one(tool: str, stream: str) -> Any:
    """The figures of one recorded stream as a tool defines them."""
    return figures_as(recorded(stream, done=tool in STOPS_AT_DONE), tool)


@cache
def several(tool: str, *streams: str) -> Mapping[str, float | None]:
    """The figures of recorded streams together, as a tool defines them."""
    return summary_as([recorded(stream, done=tool in STOPS_AT_DONE) for stream in streams], tool)


def by_method(name: str, quantile: str) -> float | None:
    """A percentile of the recorded gaps by a tool's method: gaps of one stream, or streams with a gap each."""
    gaps = GOLDEN["expected"]["percentile_methods"]["gaps_ms"]
    if name.startswith("numpy"):
        return summary_as([recorded("A_main")], "aiperf")[f"inter_chunk_latency_ms.p{quantile}"]
    if name.startswith("histogram_quantile on OTel"):
        moments = [sum(gaps[:count]) for count in range(len(gaps) + 1)]
        return summary_as([answered(*moments)], "otel")[f"time_per_output_chunk_ms.p{quantile}"]
    if name.startswith("nearest rank"):
        return summary_as([recorded("A_main")], "evalscope")[f"itl_ms.p{quantile}"]
    pairs = [answered(100, 100 + gap, output_tokens=2) for gap in gaps]
    if name.startswith("inverse CDF"):
        statistic = "median" if quantile == "50" else f"p{quantile}"
        return summary_as(pairs, "guidellm")[f"inter_token_latency_ms.{statistic}"]
    if name.startswith("statistics.quantiles"):
        return summary_as(pairs, "llmeter")[f"time_per_output_token_ms.p{quantile}"]
    nanoseconds = summary_as(pairs, "mlperf")[f"time_per_output_token_ns.p{quantile}"]
    assert name.startswith("sorted[int(n*p)]")
    return None if nanoseconds is None else nanoseconds / MS


def ours(path: str) -> Any:  # noqa: C901, PLR0911, PLR0912 - one case for each shape that the recordings come in
    """What the timeline gives for a recorded figure."""
    aggregate = ("A_main", "B_smooth")
    match path.split("/"):
        case ["vllm", *rest]:  # the recorded streams have the older wire form
            return ours("/".join([OLDER_VLLM, *rest]))
        case ["vllm-reasoning-content" | "sglang" | "evalscope" as tool, "streams", stream, "itl_list_ms"]:
            return one(tool, stream).itl
        case ["vllm-reasoning-content" as tool, "streams", stream, "summary_1_request", "output_lens"]:
            return [one(tool, stream).figures["output_tokens_from_usage"]]
        case ["vllm-reasoning-content" | "sglang" as tool, "streams", stream, "summary_1_request", figure]:
            return several(tool, stream)[figure]
        case ["sglang", "A_main_retokenized_itl_when_accept_length_given", figure]:
            return several("sglang", "A_main")[figure]
        case ["sglang", "aggregate_A_plus_B_duration_2s", figure]:
            return several("sglang", *aggregate)[figure]
        case ["aiperf", "streams", stream, _, "inter_chunk_latency_ms"]:
            return one("aiperf", stream).itl
        case ["aiperf", "streams", stream, _, "unavailable", "inter_chunk_latency"]:
            return one("aiperf", stream).itl or "unavailable"
        case ["aiperf", "streams", stream, _, "unavailable", figure]:
            figures = one("aiperf", stream).figures
            value = figures[figure if figure in figures else f"{figure}_ms"]
            return "unavailable" if value is None else value
        case ["aiperf", "streams", stream, _, figure]:
            return one("aiperf", stream).figures[figure]
        case ["aiperf", "aggregate_A_plus_B", figure, statistic]:
            return several("aiperf", *aggregate)[f"{re.sub('_pooled.*', '', figure)}_ms.{statistic}"]
        case ["guidellm", "aggregate_A_plus_B", figure, statistic]:
            return several("guidellm", *aggregate)[f"{figure.split()[0]}.{statistic}"]
        case ["inference_perf", "streams", stream, "server_usage", *keys]:
            timeline = recorded(stream)
            return {
                (): timeline.output_tokens,
                ("prompt_tokens",): timeline.input_tokens,
                ("completion_tokens",): one("inference-perf", stream).figures["output_tokens"],
                ("total_tokens",): (timeline.input_tokens or 0) + (timeline.output_tokens or 0),
                ("completion_tokens_details", "reasoning_tokens"): timeline.reasoning_tokens,
            }[tuple(keys)]
        case ["inference_perf", "streams", stream, _, "inter_token_latency_deltas"]:
            return one("inference-perf", stream).itl
        case ["inference_perf", "streams", stream, _, figure]:
            return one("inference-perf", stream).figures[f"{figure}_ms"]
        case ["inference_perf", "summary_A_main", figure, statistic]:
            return several("inference-perf", "A_main")[f"{figure}_ms.{statistic}"]
        case ["inference_perf", "summary_aggregate_A_plus_B", figure, statistic]:
            return several("inference-perf", *aggregate)[f"{figure}_ms.{statistic}"]
        case ["inference_perf", "throughput_A_main", figure]:
            return several("inference-perf", "A_main")[figure]
        case ["inference_perf", "throughput_aggregate_A_plus_B", figure]:
            return several("inference-perf", *aggregate)[figure]
        case ["llmperf", "aggregate_A_plus_B", figure, statistic]:
            name = f"{figure.removesuffix('_s')}_ms.{statistic.removesuffix('(ddof=1)')}"
            return several("llmperf", *aggregate)[name]
        case ["evalscope", "streams", stream, "itl_percentiles_nearest_rank", quantile]:
            return several("evalscope", stream)[f"itl_ms.p{quantile}"]
        case ["evalscope", "aggregate_A_plus_B", "itl_avg" | "tpot_avg" as figure]:
            return several("evalscope", *aggregate)[f"{figure.removesuffix('_avg')}_ms.avg"]
        case ["evalscope", "aggregate_A_plus_B", figure, quantile]:
            return several("evalscope", *aggregate)[f"{figure}_ms.p{quantile}"]
        case ["llmeter", "aggregate_A_plus_B_tpot_ms", statistic]:
            return several("llmeter", *aggregate)[f"time_per_output_token_ms.{statistic}"]
        case ["llmeter", "percentile_method_demo [40]*7+[1000]", statistic]:
            pairs = [answered(100, 100 + gap, output_tokens=2) for gap in [40] * 7 + [1000]]
            return summary_as(pairs, "llmeter")[f"time_per_output_token_ms.{statistic}"]
        case ["mlperf_loadgen", "A_main_scaled_0.1_60_queries_n14", "expected", figure]:
            figures = figures_as(scaled(recorded("A_main"), divisor=10), "mlperf").figures
            if figure == "ttft_ms":
                return figures["first_token_latency_ns"] / MS  # type: ignore[operator]
            return figures["time_per_output_token_ns"]
        case ["otel", "streams", stream, "gen_ai.client.operation.time_to_first_chunk (ms)"]:
            return [one("otel", stream).figures["time_to_first_chunk_ms"]]
        case ["otel", "streams", stream, "gen_ai.client.operation.time_per_output_chunk observations (ms)"]:
            return one("otel", stream).itl
        case ["percentile_methods", "results", method, quantile]:
            return by_method(method, quantile)
        case [tool, "streams", stream, figure]:
            return one(tool, stream).figures[figure]
    raise KeyError(path)


def to_its_digits(path: str, value: Any) -> Any:
    """A figure with as many decimals as the recordings have."""
    if isinstance(value, (list, tuple)):
        return [to_its_digits(path, item) for item in value]
    return round(value, 5 if path.startswith("guidellm/") else 6) if isinstance(value, float) else value


@pytest.mark.parametrize("tool", sorted({path.partition("/")[0] for path in FOLLOWING}))
def test_a_figure_of_another_tool_follows_from_the_timeline(tool: str) -> None:
    paths = [path for path in FOLLOWING if path.partition("/")[0] == tool]
    expected = {path: "unavailable" if "/unavailable/" in path else FIGURES[path] for path in paths}
    assert expected == {path: to_its_digits(path, ours(path)) for path in paths}


def test_what_does_not_follow_is_named_as_it_is_recorded() -> None:
    assert [pattern for pattern in NOT_FOLLOWING if not any(fnmatchcase(path, pattern) for path in FIGURES)] == []


def scalars(value: Any) -> int:
    """How many numbers, words and nulls there are, but for where they came from."""
    if isinstance(value, dict):
        return sum(scalars(inner) for key, inner in value.items() if key not in METADATA)
    return sum(map(scalars, value)) if isinstance(value, list) else 1


def test_every_recorded_number_is_one_of_the_figures() -> None:
    assert scalars(EXPECTED) == sum(map(scalars, FIGURES.values()))


def test_every_figure_follows_or_has_one_reason_why_not() -> None:
    reasons = {path: [pattern for pattern in NOT_FOLLOWING if fnmatchcase(path, pattern)] for path in FIGURES}
    assert [path for path, found in reasons.items() if not found] == FOLLOWING
    assert [path for path, found in reasons.items() if len(found) > 1] == []


@pytest.mark.parametrize("tool", [tool for tool in TOOLS if tool != "otel_itl"])
def test_each_tool_has_recorded_figures_that_follow(tool: str) -> None:
    recordings = {"inference-perf": "inference_perf", "mlperf": "mlperf_loadgen", OLDER_VLLM: "vllm"}
    assert any(path.startswith(f"{recordings.get(tool, tool)}/") for path in FOLLOWING)


# --- The interpreter ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (over(minus(5, 2), 2), 1.5),
        (minus(2, None), None),
        (over(None, 2), None),
        (over(2, 0), None),
        (over(2, None), None),
        (after_first(5), 4),
        (after_first(1), None),
        (after_first(None), None),
    ],
)
def test_what_follows_from_something_absent_is_absent(value: float | None, expected: float | None) -> None:
    assert value == expected


def test_an_unknown_number_stays_unknown() -> None:
    assert isnan(over(2, after_first(nan)) or 0)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_definition_has_words_for_each_figure_that_it_computes(tool: str) -> None:
    definition = TOOLS[tool]
    computed = definition.compute(StreamFacts(recorded("A_main"), definition.tokens.flags))
    assert [*computed] == [figure.name for figure in definition.figures]


# --- Our own figures ------------------------------------------------------------------------------------------------


def test_our_own_figures_of_the_worked_stream() -> None:
    expected = {
        "ttft_ms": 500.0,
        "time_to_first_answer_token_ms": 600.0,
        "tpot_ms": 100.0,  # (1800 - 500) / 13
        "time_per_output_chunk_ms": 162.5,  # 1300 / 8
        "e2e_ms": 1860.0,
        "output_tokens": 14,
        "output_speed": 10.0,
    }
    assert expected == {name: to_its_digits("", value) for name, value in one("otel_itl", "A_main").figures.items()}


def test_our_own_percentiles_pool_the_gaps_of_all_streams() -> None:
    figures = several("otel_itl", "A_main", "B_smooth")
    # 20 four times, 40 six times, 60, 1000: rank 0.95 · 11 = 10.45
    assert to_its_digits("", [figures["itl_ms.p50"], figures["itl_ms.p95"]]) == [40.0, 60 + 0.45 * 940]


# --- What is not known ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [lambda tool: figures_as(answered(1), tool), lambda tool: summary_as([], tool)])
def test_an_unknown_tool_is_refused_with_the_names_that_are_known(call: Callable[[str], object]) -> None:
    with pytest.raises(ValueError, match=r"'genai-perf'.*vllm, vllm-reasoning-content, sglang, .*, otel_itl"):
        call("genai-perf")


@pytest.mark.parametrize("tool", TOOLS)
def test_every_figure_has_its_formula(tool: str) -> None:
    single, together = one(tool, "A_main"), summary_as([recorded("A_main"), recorded("B_smooth")], tool)
    assert {*together, *single.figures} == set(TOOLS[tool].formulas) - {TOOLS[tool].roles.get("itl")}


@pytest.mark.parametrize("tool", TOOLS)
def test_a_role_names_a_figure_of_the_tool(tool: str) -> None:
    assert set(TOOLS[tool].roles.values()) <= set(TOOLS[tool].formulas)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_stream_without_a_chunk_has_no_latency_but_zero(tool: str) -> None:
    single = figures_as(answered(), tool)
    assert {value for value in single.figures.values() if value} == set()
    assert list(single.itl) == []


@pytest.mark.parametrize("tool", TOOLS)
def test_no_streams_together_have_no_figures_but_zero(tool: str) -> None:
    assert {value for value in summary_as([], tool).values() if value} == set()


@pytest.mark.parametrize("tool", sorted(set(TOOLS) - {"otel_itl"}))
@pytest.mark.parametrize("lack", [{"unrecorded": 3}, {"skipped": array("I", [0, 5])}])
def test_a_timeline_that_leaves_chunks_out_has_no_figures_of_a_tool_that_counts_every_chunk(
    tool: str, lack: dict[str, Any]
) -> None:
    partial = answered(100, 200, output_tokens=8, **lack)
    figures = {**figures_as(partial, tool).figures, **summary_as([partial, recorded("B_smooth")], tool)}
    assert set(figures.values()) == {None}


def test_a_timeline_that_leaves_chunks_out_has_our_own_figures() -> None:
    assert figures_as(answered(100, 200, unrecorded=3), "otel_itl").figures["ttft_ms"] == 100.0


@pytest.mark.parametrize(
    ("tool", "figure"),
    [("vllm", "mean_tpot_ms"), ("sglang", "mean_tpot_ms"), ("evalscope", "tpot_ms.avg")],
)
def test_one_stream_without_usage_leaves_the_mean_per_token_unknown(tool: str, figure: str) -> None:
    assert several(tool, "A_main", "F_no_usage")[figure] is None


def test_a_stream_of_one_token_has_no_part_in_the_mean_per_token() -> None:
    # 1200 / 13 of A_main alone
    assert to_its_digits("", several(OLDER_VLLM, "A_main", "C_single_token")["mean_tpot_ms"]) == 92.307692


def test_a_stream_that_vllm_holds_to_have_failed_has_no_part_in_its_means() -> None:
    silent = answered(100, 200, kinds=bytes([Kind.REASONING] * 2))
    together = summary_as([recorded("B_smooth"), silent], OLDER_VLLM)
    assert together["mean_ttft_ms"] == 200.0


def test_to_vllm_reasoning_is_a_token_as_its_own_servers_send_it() -> None:
    assert (one("vllm", "A_main").figures["ttft_ms"], one(OLDER_VLLM, "A_main").figures["ttft_ms"]) == (500.0, 600.0)


def test_to_vllm_the_empty_content_of_the_finish_chunk_is_a_token() -> None:
    kinds = bytes([Kind.ANSWER, Kind.ANSWER, Kind.FINISH])
    assert figures_as(answered(100, 140, 150, kinds=kinds), "vllm").itl == [40.0, 10.0]


@pytest.mark.parametrize(("tool", "other"), [("vllm", OLDER_VLLM), (OLDER_VLLM, "vllm")])
def test_an_assumption_names_the_definition_for_the_other_form(tool: str, other: str) -> None:
    assert re.search(rf"\b{other}$", TOOLS[tool].assumes)


def test_chunks_of_a_second_are_those_since_the_first_request() -> None:
    # 900 and 1100 ms after a request of its own, which began 500 ms after the first: 1400 and 1600 join 1200.
    first, second = answered(100, 1200), answered(900, 1100, request_unix_ns=500 * MS)
    assert summary_as([first, second], "vllm")["max_output_tokens_per_s"] == 3.0


@pytest.mark.parametrize("tool", ["sglang", "guidellm"])
def test_the_done_line_is_the_end_where_the_sdk_stops_there(tool: str) -> None:
    role = TOOLS[tool].roles["e2e"]
    assert figures_as(recorded("A_main", done=True), tool).figures[role] == 1851.0


@pytest.mark.parametrize("tool", ["sglang", "guidellm", "inference-perf", "llmperf", "otel_itl"])
def test_the_end_of_the_connection_is_the_end_where_the_sdk_waits_for_it(tool: str) -> None:
    role = TOOLS[tool].roles["e2e"]
    assert figures_as(recorded("A_main"), tool).figures[role] == 1860.0


# --- The page -------------------------------------------------------------------------------------------------------

ROLES = {"ttft": "TTFT", "itl": "ITL", "tpot": "TPOT", "e2e": "E2E", "tokens": "token count"}


def table(*rows: Sequence[str]) -> str:
    """A Markdown table; the first row is the head."""
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in lines)


def number(value: float | None) -> str:
    """A figure as the page shows it."""
    return "none" if value is None else f"{value:.3f}".rstrip("0").rstrip(".")


def formulas_table() -> str:
    """Each tool's name for each figure, and how it comes about."""
    rows = []
    for tool, definition in TOOLS.items():
        cells = [
            f"`{definition.roles[role]}`: {definition.formulas[definition.roles[role]]}"
            if role in definition.roles
            else "none"
            for role in ROLES
        ]
        rows.append([f"`{tool}`", *cells, definition.percentiles.words, definition.ends])
    return table(["tool", *ROLES.values(), "percentiles", "end point"], *rows)


def read_table() -> str:
    """Which version of each tool was read, and which chunks count for it."""
    return table(
        ["tool", "read", "which chunks are tokens"],
        *([f"`{tool}`", definition.version, definition.tokens.words] for tool, definition in TOOLS.items()),
    )


def worked_table() -> str:
    """The numbers of each tool for the worked stream."""
    rows = []
    for tool, definition in TOOLS.items():
        single = one(tool, "A_main")
        cells = []
        for role in ROLES:
            name = definition.roles.get(role)
            if name is None:
                cells.append("none")
            elif role == "itl":
                cells.append(f"{number(sum(single.itl) / len(single.itl))} (mean of {len(single.itl)})")
            else:
                scale = MS if name.endswith("_ns") else 1
                cells.append(number((single.figures[name] or 0) / scale))
        rows.append([f"`{tool}`", *cells])
    return table(["tool", *ROLES.values()], *rows)


def per_token_sentence() -> str:
    """The most and the least that the worked stream is per token."""
    figures = GOLDEN["expected"]
    default = figures["inference_perf"]["streams"]["A_main"]["default_client_tokens_ms"]
    vllm = one(OLDER_VLLM, "A_main").figures["tpot_ms"]
    perf = one("inference-perf", "A_main").figures["normalized_time_per_output_token_ms"]
    loop = one("llmperf", "A_main").figures["inter_token_latency_ms_main_loop"]
    return (
        f"So the same stream is {vllm:.1f} ms per token for vLLM (with `reasoning_content`: the answer's time over the "
        f"server's 14 tokens) and "
        f"{default['normalized_time_per_output_token']:.0f} ms for inference-perf as it comes (the whole request over "
        f"the 10 tokens that its own tokenizer finds in the answer). With the server's 14 tokens inference-perf prints "
        f"{perf:.1f} ms, which is what follows from a timeline. LLMPerf prints {loop:.1f} ms, and counts no tokens."
    )


def percentiles_table() -> str:
    """One list of gaps by each method."""
    results = GOLDEN["expected"]["percentile_methods"]["results"]
    rows = [
        [method.replace("*", "\\*"), *(number(by_method(method, quantile)) for quantile in values)]
        for method, values in results.items()
        if not_following(f"percentile_methods/results/{method}/50") is None
    ]
    return table(["method", "p50", "p90", "p95", "p99"], *rows)


def not_following_table() -> str:
    """What does not follow, and why."""
    rows: dict[tuple[str, str], list[str]] = {}
    for pattern, reason in NOT_FOLLOWING.items():
        if reason != NO_FIGURE:
            tool, _, figure = pattern.partition("/")
            rows.setdefault((tool, reason), []).append(f"`{figure.removeprefix('streams/*/')}`")
    head = ["recording", "figures", "why"]
    return table(head, *([tool, ", ".join(figures), reason] for (tool, reason), figures in rows.items()))


GENERATED: dict[str, Callable[[], str]] = {
    "tools": read_table,
    "formulas": formulas_table,
    "worked": worked_table,
    "per token": per_token_sentence,
    "percentiles": percentiles_table,
    "not following": not_following_table,
}


def renewed(page: str) -> str:
    """The page with its generated parts as the code has them now."""
    for name, made in GENERATED.items():
        begin, end = f"<!-- generated: {name} -->", f"<!-- end of generated: {name} -->"
        head, _, rest = page.partition(begin)
        _, found, tail = rest.partition(end)
        if not found:
            message = f"{PAGE.name} has no part {begin} … {end}"
            raise ValueError(message)
        page = f"{head}{begin}\n{made()}\n{end}{tail}"
    return page


def test_the_blocks_of_the_page_run() -> None:
    text = PAGE.read_text(encoding="utf-8")
    names: dict[str, Any] = {"timeline": recorded("A_main"), "timelines": [recorded("A_main"), recorded("B_smooth")]}
    for block in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        # Empty lines in front, so that a failure names the line of the page.
        code = "\n" * text.count("\n", 0, block.start(1)) + block[1]
        exec(compile(code, str(PAGE), "exec"), names)  # noqa: S102 - our own page
    assert {"vllm", "deadlines"} <= names.keys()


def test_the_page_is_current() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert renewed(page) == page, f"run `python {Path(__file__).relative_to(ROOT)}`"


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
