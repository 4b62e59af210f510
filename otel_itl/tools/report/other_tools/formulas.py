"""The formulas of other tools, a function for each: from the facts of one stream to the tool's figures of it.

Each returns the tool's own name of every figure → its value. Times are nanoseconds, whatever the name's unit; None is
absent, and so is what follows from it; UNKNOWN is a number that the tool has and a timeline does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_itl.core.measures import measure
from otel_itl.core.timeline import SECOND
from otel_itl.tools.report.other_tools.facts import StreamFacts

Values = Mapping[str, Any]
Number = float | None


def vllm(stream: StreamFacts) -> Values:
    """Return the figures of `vllm bench serve`."""
    first, last = stream.first_token, stream.last_token
    return {
        "ttft_ms": first,
        "tpot_ms": over(minus(last, first), after_first(stream.tokens)),
        "e2el_ms": last,
        "itl_list_ms": stream.gaps,
        "output_tokens_from_usage": stream.usage or 0,
    }


def sglang(stream: StreamFacts) -> Values:
    """Return the figures of SGLang's `bench_serving`."""
    first = stream.first_token or 0
    return {
        "ttft_ms": first,
        "tpot_ms": over(stream.end - first, after_first(stream.tokens)),
        "itl_list_ms": stream.gaps,
        "e2e_ms": stream.end,
        "output_len": stream.tokens,
    }


def aiperf(stream: StreamFacts) -> Values:
    """Return the figures of AIPerf."""
    first, last, usage = stream.first_token, stream.last_token, stream.usage
    decode = minus(last, first)
    per_token = over(decode, after_first(usage))
    return {
        "time_to_first_token_ms": first,
        "time_to_first_output_token_ms": stream.first_answer,
        "time_to_second_token_ms": minus(stream.second_token, first),
        "inter_token_latency_ms": per_token,
        "request_latency_ms": last,
        "inter_chunk_latency_ms": stream.gaps,
        "decode_duration_ms": decode,
        "stream_setup_latency_ms": stream.timeline.headers,
        "stream_prefill_latency_ms": minus(first, stream.timeline.headers),
        "output_sequence_length": usage,
        "output_token_throughput_per_user": over(SECOND, per_token),
        "e2e_output_token_throughput": over(usage, over(last, SECOND)),
    }


def guidellm(stream: StreamFacts) -> Values:
    """Return the figures of GuideLLM."""
    first, last, chunks = stream.first_token, stream.last_token, len(stream.moments)
    tokens = stream.usage if stream.usage is not None else chunks or None
    return {
        "time_to_first_token_ms": first,
        "time_to_first_output_token_ms": stream.first_answer,
        "inter_token_latency_ms": over(minus(last, first), after_first(tokens)),
        "time_per_output_token_ms": over(stream.end if last is None else last, tokens),
        "request_latency_ms": stream.end,
        "output_tokens": tokens,
        "token_iterations": chunks,
        "iter_tokens_per_iteration": over(after_first(tokens), after_first(chunks)),
        "output_tokens_per_second": over(tokens or None, stream.end / SECOND),
    }


def inference_perf(stream: StreamFacts) -> Values:
    """Return the figures of inference-perf."""
    first, last, end = stream.first_token, stream.last_token, stream.end
    ttft = None if stream.second_token is None else first
    return {
        "request_latency_ms": end,
        "normalized_time_per_output_token_ms": over(end, stream.tokens) or 0,
        "time_per_output_token_ms": over(minus(last, ttft), after_first(stream.tokens)),
        "time_to_first_token_ms": ttft,
        "inter_token_latency_deltas_ms": stream.gaps,
        "inter_token_latency_ms": over(minus(last, first), after_first(len(stream.moments))),
        "output_tokens": stream.tokens,
    }


def llmperf(stream: StreamFacts) -> Values:
    """Return the figures of LLMPerf."""
    last, events = stream.last_token or 0, stream.count_chunks_but_usage()
    return {
        "inter_token_latency_ms_main_loop": over(last, events),
        "ttft_ms": stream.first_token or 0,
        "sum_time_to_next_token_ms": last,
        "sse_data_events": events,
        "e2e_ms": stream.end,
    }


def evalscope(stream: StreamFacts) -> Values:
    """Return the figures of EvalScope."""
    first, latency, decoded = stream.first_token or 0, stream.last_chunk or 0, stream.count_decode_chunks()
    later_tokens = after_first(stream.tokens)
    return {
        "ttft_ms": first,
        "itl_list_ms": stream.gaps,
        "tpot_ms": over(latency - first, later_tokens) or 0,
        "latency_ms": latency,
        "completion_tokens": stream.tokens,
        "n_decode_chunks": decoded,
        "decoded_tokens_per_iter": over(later_tokens, after_first(decoded)) or 0,
    }


def llmeter(stream: StreamFacts) -> Values:
    """Return the figures of LLMeter."""
    first, last = stream.first_token, stream.last_token
    return {
        "time_to_first_token_ms": first,
        "time_to_last_token_ms": last,
        "time_per_output_token_ms": over(minus(last, first), after_first(stream.usage)),
        "num_tokens_output": stream.usage,
        "num_tokens_output_reasoning": stream.timeline.reasoning_tokens,
    }


def mlperf(stream: StreamFacts) -> Values:
    """Return the figures of MLPerf's loadgen, whose nanoseconds are whole."""
    first, finish, later_tokens = stream.first_token, stream.finish, after_first(stream.tokens)
    decode = minus(finish, first)
    return {
        "first_token_latency_ns": first,
        "time_per_output_token_ns": None if decode is None or later_tokens is None else decode // later_tokens,
        "sample_latency_ns": finish,
        "n_tokens": stream.tokens,
    }


def otel(stream: StreamFacts) -> Values:
    """Return the figures of OpenTelemetry's GenAI instrumentations."""
    return {"time_to_first_chunk_ms": stream.first_token, "time_per_output_chunk_ms": stream.gaps}


def otel_itl(stream: StreamFacts) -> Values:
    """Return our own figures."""
    measures = measure(stream.timeline)

    def time(seconds: float | None) -> Number:
        """Return seconds in nanoseconds."""
        return None if seconds is None else seconds * SECOND

    return {
        "ttft_ms": time(measures.time_to_first_token),
        "time_to_first_answer_token_ms": time(measures.time_to_first_answer_token),
        "itl_ms": measures.itl_samples.nanoseconds,
        "tpot_ms": time(measures.time_per_output_token),
        "time_per_output_chunk_ms": time(measures.time_per_output_chunk),
        "e2e_ms": time(measures.duration),
        "output_tokens": stream.usage,
        "output_speed": measures.output_speed,
    }


def minus(number: Number, other: Number) -> Number:
    """Subtract; None where either is absent."""
    return None if number is None or other is None else number - other


def over(part: Number, whole: Number) -> Number:
    """Divide; None where either is absent, or the divisor is 0."""
    return None if part is None or not whole else part / whole


def after_first(count: Number) -> Number:
    """Return how many there are after the first; None where there are none."""
    return None if count is None or count <= 1 else count - 1
