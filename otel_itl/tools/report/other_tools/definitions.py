"""How each tool computes its figures: a table, read from the tools' own code and compared with what they print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from otel_itl.core.percentiles import percentile
from otel_itl.core.timeline import OUTPUT, Kind
from otel_itl.tools.report.other_tools import formulas
from otel_itl.tools.report.other_tools.facts import ANSWER_OR_TOOL, busiest_second, longest_gap, request_rate
from otel_itl.tools.report.other_tools.formulas import after_first
from otel_itl.tools.report.other_tools.schema import SAME, Figure, Percentiles, RunFigure, TokenChunks, ToolDefinition
from otel_itl.tools.report.other_tools.statistics import (
    exclusive_quantile,
    floored_index,
    histogram_quantile,
    nearest_rank,
)

ANSWERS_AND_TOOLS: Final = TokenChunks("answer and tool chunks, no reasoning", ANSWER_OR_TOOL)
OUTPUT_AND_FINISH: Final = TokenChunks(
    "output chunks and the finish chunk: reasoning, answer, tool, finish", OUTPUT | Kind.FINISH
)
TEXT: Final = TokenChunks("reasoning and answer chunks, no tool calls", int(Kind.ANSWER | Kind.REASONING))
ANSWERS: Final = TokenChunks("answer chunks alone: no reasoning, no tool calls", int(Kind.ANSWER))
OUTPUT_CHUNKS: Final = TokenChunks("output chunks: reasoning, answer, tool", OUTPUT)
EVERY_CHUNK: Final = TokenChunks("every chunk: role, finish and usage too", None)

LINEAR: Final = Percentiles("linear between closest ranks (numpy's default)", percentile)

DONE: Final = "`[DONE]` line (end of the timeline)"
CONNECTION: Final = "end of the connection (end of the timeline)"
USAGE_ONLY: Final = "N by usage; without it the tool counts the text itself, which a timeline does not contain"
USAGE_OR_NONE: Final = "N by usage, none without it"
LAST_TO_FIRST: Final = "(t last - t first output chunk) / (N - 1), for N > 1"


# fmt: off
def _define_vllm(
    name: str, tokens: TokenChunks, kinds: tuple[str, str], *, gaps: str, assumes: str
) -> ToolDefinition:
    """Define vLLM's figures, given which chunks are tokens to it; `kinds`: two words for these."""
    token = f"{' or '.join(kinds)} chunk"
    return ToolDefinition(
        name=name, compute=formulas.vllm, version="vllm 0.33.0, `vllm bench serve`", tokens=tokens, assumes=assumes,
        ends=f"last {token}", percentiles=LINEAR, statistics="mean median p50 p90 p99",
        label="{statistic}_{figure}", empty_statistic=0.0, needs_token=True,
        figures=(
            Figure("ttft", "ttft_ms", f"t of the first {token}", SAME),
            Figure("tpot", "tpot_ms", f"(e2el - ttft) / (N - 1), for N > 1; {USAGE_ONLY}", SAME),
            Figure("e2e", "e2el_ms", f"t of the last {token}", SAME),
            Figure("itl", "itl_list_ms", gaps, "itl_ms"),
            Figure("tokens", "output_tokens_from_usage", "N by usage, 0 without it"),
        ),
        run_figures=(
            RunFigure("max_output_tokens_per_s", busiest_second,
                      f"most {' and '.join(kinds)} chunks in one second, counted from the first request"),
        ),
    )


_TABLE = (
    _define_vllm(
        "vllm", OUTPUT_AND_FINISH, ("output", "finish"),
        gaps="gaps between output chunks, the finish chunk included",
        assumes="the server sends reasoning in the field `reasoning` and an empty content with the finish reason, as "
                "vLLM's own servers do today; for `reasoning_content` and no content: vllm-reasoning-content",
    ),
    _define_vllm(
        "vllm-reasoning-content", ANSWERS_AND_TOOLS, ("answer", "tool"),
        gaps="gaps between answer and tool chunks",
        assumes="the server sends reasoning in the field `reasoning_content`, which the tool ignores, and no content "
                "with the finish reason; for vLLM's own servers of today: vllm",
    ),
    ToolDefinition(
        name="sglang", compute=formulas.sglang, version="sglang 0.5.23, `bench_serving` on the OpenAI chat API",
        tokens=TEXT,
        ends=DONE, percentiles=LINEAR, statistics="mean median std p90 p95 p99",
        label="{statistic}_{figure}", empty_statistic=0.0,
        figures=(
            Figure("ttft", "ttft_ms", "t of the first reasoning or answer chunk, 0 if there is none", SAME),
            Figure("tpot", "tpot_ms", "(e2e - ttft) / (N - 1), for N > 1", SAME),
            Figure("itl", "itl_list_ms", "gaps between reasoning and answer chunks", "itl_ms"),
            Figure("e2e", "e2e_ms", f"t of the {DONE}", "e2e_latency_ms"),
            Figure("tokens", "output_len",
                   "N by usage; without it the length asked for, which a timeline does not contain"),
        ),
        run_figures=(
            RunFigure("max_itl_ms", longest_gap, "longest gap between reasoning and answer chunks"),
            RunFigure("max_output_tokens_per_s", busiest_second,
                      "most reasoning and answer chunks in one second, counted from the first request; a stream "
                      "without any counts as one chunk at its request"),
        ),
    ),
    ToolDefinition(
        name="aiperf", compute=formulas.aiperf, version="aiperf 0.13.0, token counts of the server",
        tokens=OUTPUT_CHUNKS,
        ends="last output chunk", percentiles=LINEAR, statistics="avg min max std p50 p90 p95 p99",
        figures=(
            Figure("ttft", "time_to_first_token_ms", "t of the first output chunk", SAME),
            Figure("", "time_to_first_output_token_ms", "t of the first answer or tool chunk"),
            Figure("", "time_to_second_token_ms", "gap between the first two output chunks"),
            Figure("tpot", "inter_token_latency_ms", LAST_TO_FIRST, SAME),
            Figure("e2e", "request_latency_ms", "t of the last output chunk", SAME),
            Figure("itl", "inter_chunk_latency_ms", "gaps between output chunks", SAME),
            Figure("", "decode_duration_ms", "request_latency - time_to_first_token"),
            Figure("", "stream_setup_latency_ms", "t of the response headers"),
            Figure("", "stream_prefill_latency_ms", "time_to_first_token - stream_setup_latency"),
            Figure("tokens", "output_sequence_length", USAGE_OR_NONE),
            Figure("speed", "output_token_throughput_per_user", "1 / inter_token_latency, tokens/s"),
            Figure("", "e2e_output_token_throughput", "N / request_latency, tokens/s"),
        ),
    ),
    ToolDefinition(
        name="guidellm", compute=formulas.guidellm, version="guidellm 0.8.1", tokens=OUTPUT_CHUNKS,
        ends=f"{DONE}; per token, the last output chunk", statistics="mean median p90 p95 p99 count",
        percentiles=Percentiles("inverse CDF, no interpolation; what is per token is weighted by tokens",
                                nearest_rank),
        figures=(
            Figure("ttft", "time_to_first_token_ms", "t of the first output chunk", SAME),
            Figure("", "time_to_first_output_token_ms", "t of the first answer or tool chunk"),
            Figure("tpot", "inter_token_latency_ms", LAST_TO_FIRST, SAME,
                   weight=lambda figures: after_first(figures["output_tokens"])),
            Figure("", "time_per_output_token_ms",
                   "t of the last output chunk / N, so the wait for the first token is in it", SAME,
                   weight=lambda figures: figures["output_tokens"]),
            Figure("e2e", "request_latency_ms", f"t of the {DONE}"),
            Figure("tokens", "output_tokens", "N by usage, without it the number of output chunks"),
            Figure("", "token_iterations", "number of output chunks"),
            Figure("", "iter_tokens_per_iteration", "(N - 1) / (token_iterations - 1)"),
            Figure("speed", "output_tokens_per_second", "N / request_latency"),
        ),
    ),
    ToolDefinition(
        name="inference-perf", compute=formulas.inference_perf, tokens=ANSWERS,
        version="inference-perf 0.7.0, `use_server_output_tokens`, gaps not corrected by a tokenizer",
        ends=f"{CONNECTION}; per token, the last answer chunk",
        percentiles=LINEAR, statistics="mean median min max p90 p99",
        figures=(
            Figure("e2e", "request_latency_ms", f"t of the {CONNECTION}", SAME),
            Figure("", "normalized_time_per_output_token_ms", "request_latency / N, 0 for N = 0", SAME),
            Figure("tpot", "time_per_output_token_ms", "(t last - t first answer chunk) / (N - 1), for N > 1", SAME),
            Figure("ttft", "time_to_first_token_ms", "t of the first answer chunk, where there are two or more", SAME),
            Figure("itl", "inter_token_latency_deltas_ms", "gaps between answer chunks",
                   "inter_token_latency_ms"),
            Figure("", "inter_token_latency_ms", "mean gap between answer chunks"),
            Figure("tokens", "output_tokens", USAGE_ONLY),
        ),
        run_figures=(RunFigure("requests_per_sec", request_rate, "streams / (last end - first request)"),),
    ),
    ToolDefinition(
        name="llmperf", compute=formulas.llmperf, version="llmperf main@f1d6bed47e45", tokens=ANSWERS,
        ends=f"{CONNECTION}; per token, the last answer chunk", statistics="mean stddev p25 p50 p75 p90 p95 p99",
        percentiles=Percentiles("linear between closest ranks (pandas' default)", percentile),
        figures=(
            Figure("tpot", "inter_token_latency_ms_main_loop",
                   "t of the last answer chunk / sse_data_events: no token is counted", "inter_token_latency_ms"),
            Figure("ttft", "ttft_ms", "t of the first answer chunk, 0 if there is none", SAME),
            Figure("", "sum_time_to_next_token_ms", "t of the last answer chunk, 0 if there is none"),
            Figure("", "sse_data_events", "number of chunks of any kind but usage, which the tool does not ask for"),
            Figure("e2e", "e2e_ms", f"t of the {CONNECTION}", "end_to_end_latency_ms"),
        ),
    ),
    ToolDefinition(
        name="evalscope", compute=formulas.evalscope, version="evalscope 1.14.1, `evalscope perf`",
        tokens=OUTPUT_CHUNKS,
        ends="last chunk of any kind", statistics="avg p50 p90 p95 p99",
        percentiles=Percentiles("nearest rank, rounded to 4 decimals",
                                lambda values, q: round(nearest_rank(values, q), 4)),
        figures=(
            Figure("ttft", "ttft_ms", "t of the first output chunk, 0 if there is none"),
            Figure("itl", "itl_list_ms", "gaps between output chunks", "itl_ms"),
            Figure("tpot", "tpot_ms", "(latency - ttft) / (N - 1), 0 for N = 1", SAME,
                   weight=lambda figures: int(figures["tpot_ms"] != 0)),
            Figure("e2e", "latency_ms", "t of the last chunk of any kind, usage too"),
            Figure("tokens", "completion_tokens", USAGE_ONLY),
            Figure("", "n_decode_chunks", "number of chunks from the first output chunk on, usage left out"),
            Figure("", "decoded_tokens_per_iter",
                   "(N - 1) / (n_decode_chunks - 1), 0 for N = 1"),
        ),
    ),
    ToolDefinition(
        name="llmeter", compute=formulas.llmeter, version="llmeter 0.2.0", tokens=ANSWERS,
        ends="last answer chunk", statistics="average p50 p90 p95 p99",
        percentiles=Percentiles(
            "exclusive (`statistics.quantiles`), which extrapolates beyond the longest of few values",
            exclusive_quantile),
        figures=(
            Figure("ttft", "time_to_first_token_ms", "t of the first answer chunk"),
            Figure("e2e", "time_to_last_token_ms", "t of the last answer chunk"),
            Figure("tpot", "time_per_output_token_ms",
                   "(time_to_last_token - time_to_first_token) / (N - 1), for N > 1", SAME),
            Figure("tokens", "num_tokens_output", USAGE_OR_NONE),
            Figure("", "num_tokens_output_reasoning", "reasoning tokens by usage"),
        ),
    ),
    ToolDefinition(
        name="mlperf", compute=formulas.mlperf, version="mlcommons-loadgen 6.0.17, token latencies",
        tokens=OUTPUT_CHUNKS, needs_token=True,
        ends="finish chunk, when the query is reported complete", statistics="mean min max p50 p90 p95 p97 p99",
        percentiles=Percentiles("value at index floor(n * p), no interpolation", floored_index),
        figures=(
            Figure("ttft", "first_token_latency_ns", "t of the first output chunk", SAME),
            Figure("tpot", "time_per_output_token_ns", "(sample_latency - first_token_latency) // (N - 1), for N > 1",
                   SAME),
            Figure("e2e", "sample_latency_ns",
                   "t of the finish chunk; of the last output chunk where that is later or alone"),
            Figure("tokens", "n_tokens", "N by usage, as a system under test reports it"),
        ),
    ),
    ToolDefinition(
        name="otel", compute=formulas.otel, version="opentelemetry-util-genai 1.3b0", tokens=EVERY_CHUNK,
        ends="last chunk of any kind", statistics="mean p50 p90 p95 p99",
        percentiles=Percentiles("`histogram_quantile` over the buckets 0.01, 0.02, 0.04 to 81.92 s",
                                histogram_quantile),
        figures=(
            Figure("ttft", "time_to_first_chunk_ms", "t of the first chunk of any kind", SAME),
            Figure("itl", "time_per_output_chunk_ms", "gaps between chunks of any kind", SAME),
        ),
    ),
    ToolDefinition(
        name="otel_itl", compute=formulas.otel_itl, version="this package", tokens=OUTPUT_CHUNKS,
        needs_every_chunk=False,
        ends="end of the timeline; per token, the last output chunk",
        percentiles=LINEAR, statistics="mean max p50 p90 p95 p99",
        figures=(
            Figure("ttft", "ttft_ms", "t of the first output chunk", SAME),
            Figure("", "time_to_first_answer_token_ms", "t of the first answer or tool chunk"),
            Figure("itl", "itl_ms",
                   "gaps between output chunks as the upstream delivered them; a chunk of n tokens is n of gap / n",
                   SAME),
            Figure("tpot", "tpot_ms", f"{LAST_TO_FIRST}; of the answer where reasoning was not streamed itself", SAME),
            Figure("", "time_per_output_chunk_ms", "(t last - t first output chunk) / (output chunks - 1)"),
            Figure("e2e", "e2e_ms", "end of the timeline", SAME),
            Figure("tokens", "output_tokens", USAGE_OR_NONE),
            Figure("speed", "output_speed", "1 / tpot, tokens/s"),
        ),
    ),
)
# fmt: on

TOOLS: Final[Mapping[str, ToolDefinition]] = {definition.name: definition for definition in _TABLE}
"""Name of a tool → its definition."""
