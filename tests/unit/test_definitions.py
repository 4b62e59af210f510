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
from pathlib import Path
from typing import Any

import pytest

from otel_itl.core.timeline import Kind, Timeline
from otel_itl.report.other_tools import DEFINITIONS, TOOLS, Fluidity, fluidity, speak, speak_all

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "definitions.md"
GOLDEN = json.loads((ROOT / "tests" / "golden" / "golden.json").read_text(encoding="utf-8"))
MS = 1_000_000
KINDS = {
    "role": Kind.ROLE,
    "reasoning": Kind.REASONING,
    "content": Kind.ANSWER,
    "tool_call": Kind.TOOL,
    "finish": Kind.FINISH,
    "usage": Kind.USAGE,
}
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
    """The same stream, so many times faster."""
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


FIGURES = dict(leaves(GOLDEN["expected"]))

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
"""Figures that a timeline does not tell, and why. Every other figure is reproduced."""


def not_following(path: str) -> str | None:
    """Why a figure does not follow, if it does not."""
    return next((reason for pattern, reason in NOT_FOLLOWING.items() if fnmatchcase(path, pattern)), None)


FOLLOWING = [path for path in FIGURES if not_following(path) is None]


@cache
def one(tool: str, stream: str) -> Any:
    """One recorded stream in a tool's words."""
    return speak(recorded(stream, done=tool in STOPS_AT_DONE), tool)


@cache
def several(tool: str, *streams: str) -> Mapping[str, float | None]:
    """Recorded streams together, in a tool's words."""
    return speak_all([recorded(stream, done=tool in STOPS_AT_DONE) for stream in streams], tool).figures


def by_method(name: str, quantile: str) -> float | None:
    """A percentile of the recorded gaps by a tool's method: gaps of one stream, or streams with a gap each."""
    gaps = GOLDEN["expected"]["percentile_methods"]["gaps_ms"]
    if name.startswith("numpy"):
        return speak_all([recorded("A_main")], "aiperf").figures[f"inter_chunk_latency_ms.p{quantile}"]
    if name.startswith("histogram_quantile on OTel"):
        moments = [sum(gaps[:count]) for count in range(len(gaps) + 1)]
        return speak_all([answered(*moments)], "otel").figures[f"time_per_output_chunk_ms.p{quantile}"]
    if name.startswith("nearest rank"):
        return speak_all([recorded("A_main")], "evalscope").figures[f"itl_ms.p{quantile}"]
    pairs = [answered(100, 100 + gap, output_tokens=2) for gap in gaps]
    if name.startswith("inverse CDF"):
        statistic = "median" if quantile == "50" else f"p{quantile}"
        return speak_all(pairs, "guidellm").figures[f"inter_token_latency_ms.{statistic}"]
    if name.startswith("statistics.quantiles"):
        return speak_all(pairs, "llmeter").figures[f"time_per_output_token_ms.p{quantile}"]
    nanoseconds = speak_all(pairs, "mlperf").figures[f"time_per_output_token_ns.p{quantile}"]
    assert name.startswith("sorted[int(n*p)]")
    return None if nanoseconds is None else nanoseconds / MS


def ours(path: str) -> Any:  # noqa: C901, PLR0911, PLR0912 - one case for each shape that the recordings come in
    """What the timeline gives for a recorded figure."""
    aggregate = ("A_main", "B_smooth")
    match path.split("/"):
        case ["vllm" | "sglang" | "evalscope" as tool, "streams", stream, "itl_list_ms"]:
            return one(tool, stream).itl
        case ["vllm", "streams", stream, "summary_1_request", "output_lens"]:
            return [one("vllm", stream).figures["output_tokens_from_usage"]]
        case ["vllm" | "sglang" as tool, "streams", stream, "summary_1_request", figure]:
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
            return speak_all(pairs, "llmeter").figures[f"time_per_output_token_ms.{statistic}"]
        case ["mlperf_loadgen", "A_main_scaled_0.1_60_queries_n14", "expected", figure]:
            figures = speak(scaled(recorded("A_main"), divisor=10), "mlperf").figures
            if figure == "ttft_ms":
                return figures["first_token_latency_ns"] / MS  # type: ignore[operator]
            return figures["time_per_output_token_ns"]
        case ["otel", "streams", stream, "gen_ai.client.operation.time_to_first_chunk (ms)"]:
            return [one("otel", stream).figures["time_to_first_chunk_ms"]]
        case ["otel", "streams", stream, "gen_ai.client.operation.time_per_output_chunk observations (ms)"]:
            return one("otel", stream).itl
        case ["etalon", "streams", stream, "deadlines", objectives, figure]:
            deadlines = walked(recorded(stream, counted=True), objectives)
            rate = 1 - deadlines.index
            return {
                "missed": deadlines.missed,
                "total": deadlines.total,
                "fluidity_index": deadlines.index,
                "deadline_miss_rate": rate,
            }[figure]
        case ["percentile_methods", "results", method, quantile]:
            return by_method(method, quantile)
        case [tool, "streams", stream, figure]:
            return one(tool, stream).figures[figure]
    raise KeyError(path)


def walked(timeline: Timeline, objectives: str) -> Fluidity:
    """Etalon's deadlines by its name for them: text alone is a token to it."""
    ttft, tbt = map(int, re.findall(r"\d+", objectives))
    deadlines = fluidity(timeline, ttft * MS, tbt * MS, counted=Kind.ANSWER)
    assert deadlines is not None
    return deadlines


def to_its_digits(path: str, value: Any) -> Any:
    """A figure with as many decimals as the recordings have."""
    if isinstance(value, (list, tuple)):
        return [to_its_digits(path, item) for item in value]
    return round(value, 5 if path.startswith("guidellm/") else 6) if isinstance(value, float) else value


@pytest.mark.parametrize("path", FOLLOWING)
def test_a_figure_of_another_tool_follows_from_the_timeline(path: str) -> None:
    expected = "unavailable" if "/unavailable/" in path else FIGURES[path]
    assert expected == to_its_digits(path, ours(path))


@pytest.mark.parametrize("pattern", NOT_FOLLOWING)
def test_what_does_not_follow_is_named_as_it_is_recorded(pattern: str) -> None:
    assert [path for path in FIGURES if fnmatchcase(path, pattern)] != []


def scalars(value: Any) -> int:
    """How many numbers, words and nulls there are, but for where they came from."""
    if isinstance(value, dict):
        return sum(scalars(inner) for key, inner in value.items() if key not in METADATA)
    return sum(map(scalars, value)) if isinstance(value, list) else 1


def test_every_recorded_number_is_one_of_the_figures() -> None:
    assert scalars(GOLDEN["expected"]) == sum(map(scalars, FIGURES.values()))


def test_every_figure_follows_or_has_one_reason_why_not() -> None:
    reasons = {path: [pattern for pattern in NOT_FOLLOWING if fnmatchcase(path, pattern)] for path in FIGURES}
    assert [path for path, found in reasons.items() if not found] == FOLLOWING
    assert [path for path, found in reasons.items() if len(found) > 1] == []


@pytest.mark.parametrize("tool", [tool for tool in TOOLS if tool != "otel_itl"])
def test_each_tool_has_recorded_figures_that_follow(tool: str) -> None:
    recordings = {"inference-perf": "inference_perf", "mlperf": "mlperf_loadgen"}
    assert any(path.startswith(f"{recordings.get(tool, tool)}/") for path in FOLLOWING)


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


@pytest.mark.parametrize("call", [lambda tool: speak(answered(1), tool), lambda tool: speak_all([], tool)])
def test_an_unknown_tool_is_refused_with_the_names_that_are_known(call: Callable[[str], object]) -> None:
    with pytest.raises(ValueError, match=r"'genai-perf'.*vllm, sglang, aiperf, .*, otel_itl"):
        call("genai-perf")


@pytest.mark.parametrize("tool", TOOLS)
def test_every_figure_has_its_formula(tool: str) -> None:
    spoken, together = one(tool, "A_main"), speak_all([recorded("A_main"), recorded("B_smooth")], tool)
    assert set(together.figures) == set(together.formulas)
    assert set(spoken.figures) == set(spoken.formulas) - {DEFINITIONS[tool].roles.get("itl")}


@pytest.mark.parametrize("tool", TOOLS)
def test_a_role_names_a_figure_of_the_tool(tool: str) -> None:
    assert set(DEFINITIONS[tool].roles.values()) <= set(DEFINITIONS[tool].formulas)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_stream_without_a_chunk_has_no_latency_but_zero(tool: str) -> None:
    spoken = speak(answered(), tool)
    assert {value for value in spoken.figures.values() if value} == set()
    assert list(spoken.itl) == []


@pytest.mark.parametrize("tool", TOOLS)
def test_no_streams_together_have_no_figures_but_zero(tool: str) -> None:
    assert {value for value in speak_all([], tool).figures.values() if value} == set()


@pytest.mark.parametrize("tool", set(TOOLS) - {"otel_itl"})
@pytest.mark.parametrize("lack", [{"unrecorded": 3}, {"skipped": array("I", [0, 5])}])
def test_a_timeline_that_leaves_chunks_out_has_no_figures_of_a_tool_that_counts_every_chunk(
    tool: str, lack: dict[str, Any]
) -> None:
    partial = answered(100, 200, output_tokens=8, **lack)
    figures = {**speak(partial, tool).figures, **speak_all([partial, recorded("B_smooth")], tool).figures}
    assert set(figures.values()) == {None}


def test_a_timeline_that_leaves_chunks_out_has_our_own_figures() -> None:
    assert speak(answered(100, 200, unrecorded=3), "otel_itl").figures["ttft_ms"] == 100.0


@pytest.mark.parametrize(
    ("tool", "figure"),
    [("vllm", "mean_tpot_ms"), ("sglang", "mean_tpot_ms"), ("evalscope", "tpot_ms.avg")],
)
def test_one_stream_without_usage_leaves_the_mean_per_token_unknown(tool: str, figure: str) -> None:
    assert several(tool, "A_main", "F_no_usage")[figure] is None


def test_a_stream_of_one_token_has_no_part_in_the_mean_per_token() -> None:
    # 1200 / 13 of A_main alone
    assert to_its_digits("", several("vllm", "A_main", "C_single_token")["mean_tpot_ms"]) == 92.307692


def test_a_stream_that_vllm_holds_to_have_failed_has_no_part_in_its_means() -> None:
    silent = answered(100, 200, kinds=bytes([Kind.REASONING] * 2))
    together = speak_all([recorded("B_smooth"), silent], "vllm").figures
    assert together["mean_ttft_ms"] == 200.0


def test_chunks_of_a_second_are_those_since_the_first_request() -> None:
    # 900 and 1100 ms after a request of its own, which began 500 ms after the first: 1400 and 1600 join 1200.
    first, second = answered(100, 1200), answered(900, 1100, request_unix_ns=500 * MS)
    assert speak_all([first, second], "vllm").figures["max_output_tokens_per_s"] == 3.0


@pytest.mark.parametrize("tool", ["sglang", "guidellm"])
def test_the_done_line_is_the_end_where_the_sdk_stops_there(tool: str) -> None:
    role = DEFINITIONS[tool].roles["e2e"]
    assert speak(recorded("A_main", done=True), tool).figures[role] == 1851.0


@pytest.mark.parametrize("tool", ["sglang", "guidellm", "inference-perf", "llmperf", "otel_itl"])
def test_the_end_of_the_connection_is_the_end_where_the_sdk_waits_for_it(tool: str) -> None:
    role = DEFINITIONS[tool].roles["e2e"]
    assert speak(recorded("A_main"), tool).figures[role] == 1860.0


# --- The fluidity index ---------------------------------------------------------------------------------------------


def test_without_token_counts_a_chunk_is_a_token() -> None:
    # 600 is 50 early; then 40, 40, 40: 80 ms of slack. 1000 is 870 late: 1 + 17 missed. 40, 40 are met: 4 + 2.
    assert Fluidity(missed=18, total=24) == walked(recorded("A_main"), "ttft<=650ms,tbt<=50ms")


def test_reasoning_and_tool_calls_are_tokens_unless_told_otherwise() -> None:
    assert Fluidity(missed=0, total=3) == fluidity(recorded("D_tool_call"), 300 * MS, 40 * MS)


def test_a_token_on_its_deadline_is_met_and_one_nanosecond_later_is_missed() -> None:
    stream = answered(100, 150)
    assert Fluidity(missed=0, total=2) == fluidity(stream, 100 * MS, 50 * MS)
    assert Fluidity(missed=1, total=2) == fluidity(stream, 100 * MS, 50 * MS - 1)


def test_a_choice_has_deadlines_of_its_own() -> None:
    # Side by side, each choice has a token every 100 ms.
    stream = answered(100, 110, 200, 210, choices=bytes([0, 1, 0, 1]))
    assert Fluidity(missed=2, total=4) == fluidity(stream, 110 * MS, 80 * MS)


def test_a_stream_without_a_token_is_fluid() -> None:
    deadlines = fluidity(answered(), 1, 1)
    assert deadlines is not None
    assert deadlines.index == 1.0


def test_deadlines_are_not_known_of_a_consumer_that_was_too_slow() -> None:
    # The third chunk is asked for 500 ms late, and is there: when it came is not known.
    slow = answered(100, 150, 650, 700, asked=array("q", [0, 100 * MS, 650 * MS - 1000, 650 * MS]))
    assert fluidity(slow, 100 * MS, 50 * MS) is None


def test_deadlines_are_not_known_where_chunks_were_left_out() -> None:
    assert fluidity(answered(100, 150, unrecorded=1), 100 * MS, 50 * MS) is None


@pytest.mark.parametrize("objectives", [(0, 1), (1, 0), (-1, 1)])
def test_an_objective_that_is_not_positive_is_refused(objectives: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="positive number of nanoseconds"):
        fluidity(answered(100), *objectives)


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
    for tool, definition in DEFINITIONS.items():
        cells = [
            f"`{definition.roles[role]}`: {definition.formulas[definition.roles[role]]}"
            if role in definition.roles
            else "none"
            for role in ROLES
        ]
        rows.append([f"`{tool}`", *cells, definition.percentiles, definition.ends])
    return table(["tool", *ROLES.values(), "percentiles", "end point"], *rows)


def read_table() -> str:
    """Which version of each tool was read, and which chunks count for it."""
    return table(
        ["tool", "read", "which chunks are tokens"],
        *([f"`{tool}`", definition.version, definition.counts] for tool, definition in DEFINITIONS.items()),
    )


def worked_table() -> str:
    """The numbers of each tool for the worked stream."""
    rows = []
    for tool, definition in DEFINITIONS.items():
        spoken = one(tool, "A_main")
        cells = []
        for role in ROLES:
            name = definition.roles.get(role)
            if name is None:
                cells.append("none")
            elif role == "itl":
                cells.append(f"{number(sum(spoken.itl) / len(spoken.itl))} (mean of {len(spoken.itl)})")
            else:
                scale = MS if name.endswith("_ns") else 1
                cells.append(number((spoken.figures[name] or 0) / scale))
        rows.append([f"`{tool}`", *cells])
    return table(["tool", *ROLES.values()], *rows)


def per_token_sentence() -> str:
    """The most and the least that the worked stream is per token."""
    figures = GOLDEN["expected"]
    default = figures["inference_perf"]["streams"]["A_main"]["default_client_tokens_ms"]
    vllm = one("vllm", "A_main").figures["tpot_ms"]
    perf = one("inference-perf", "A_main").figures["normalized_time_per_output_token_ms"]
    loop = one("llmperf", "A_main").figures["inter_token_latency_ms_main_loop"]
    return (
        f"So the same stream is {vllm:.1f} ms per token for vLLM (the answer's time over the server's 14 tokens) and "
        f"{default['normalized_time_per_output_token']:.0f} ms for inference-perf as it comes (the whole request over "
        f"the 10 tokens that its own tokenizer finds in the answer). With the server's 14 tokens inference-perf says "
        f"{perf:.1f} ms, which is what follows from a timeline. LLMPerf says {loop:.1f} ms, and counts no token at all."
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


def fluidity_table() -> str:
    """Deadlines of the worked stream, as Etalon counts them and over all output chunks."""
    rows = []
    for objectives in GOLDEN["expected"]["etalon"]["streams"]["A_main"]["deadlines"]:
        ttft, itl = map(int, re.findall(r"\d+", objectives))
        etalon = walked(recorded("A_main", counted=True), objectives)
        own = fluidity(recorded("A_main"), ttft * MS, itl * MS)
        assert own is not None
        cells = [f"{each.missed} of {each.total}: {number(each.index)}" for each in (etalon, own)]
        rows.append([f"{ttft} ms", f"{itl} ms", *cells])
    return table(["TTFT objective", "ITL objective", "Etalon (words of the answer)", "output chunks"], *rows)


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
    "fluidity": fluidity_table,
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
