"""Every metric that is emitted, with its unit, description and bucket edges, once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from otel_itl.core.conventions import USAGE_CACHE_CREATION_TOKENS, USAGE_CACHE_WRITE_TOKENS


class Metric(NamedTuple):
    """Name, unit and description of an instrument, and for a histogram the bucket edges that it advises."""

    name: str
    unit: str
    description: str
    buckets: tuple[float, ...] = ()


LATENCY_BUCKETS: Final = (
    0.0005, 0.001, 0.0015, 0.002, 0.003, 0.004, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.075,
    0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip
"""Edges in seconds, from the 0.5 ms of a fast upstream to a 30 s silence."""

_OPERATION_BUCKETS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_USAGE_BUCKETS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)

INTER_TOKEN_LATENCY: Final = Metric(
    "itl.client.inter_token_latency",
    "s",
    "Time between successive output chunks of a streamed response, as the upstream delivered them.",
    LATENCY_BUCKETS,
)
TIME_TO_FIRST_TOKEN: Final = Metric(
    "itl.client.time_to_first_token",
    "s",
    "Time from the request to the first chunk that carries output.",
    (*LATENCY_BUCKETS, 60.0, 120.0),
)
TIME_PER_OUTPUT_TOKEN: Final = Metric(
    "itl.client.time_per_output_token",
    "s",
    "Mean time per output token after the first, by the provider's token count.",
    LATENCY_BUCKETS,
)
STREAM_COUNT: Final = Metric("itl.client.stream.count", "{stream}", "Open streams, by whether they are stalled now.")
STREAM_OUTCOMES: Final = Metric("itl.client.stream.outcomes", "{stream}", "Ended streams, by outcome.")
UNCERTAIN_STREAMS: Final = Metric(
    "itl.client.uncertain_streams",
    "{stream}",
    "Streams of which a latency is not known to half of itself, in the histograms or not.",
)
STALLS: Final = Metric("itl.client.stalls", "{stall}", "Stalls, each counted when it begins.")
STALL_DURATIONS: Final = Metric(
    "itl.client.stall.duration",
    "s",
    "Duration of a stall, recorded when it ends.",
    (0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 120.0, 300.0, 600.0),
)
SLO_TOKENS: Final = Metric(
    "itl.client.slo.tokens", "{token}", "Gaps between output chunks, by whether they met the ITL objective."
)
SLO_STREAMS: Final = Metric(
    "itl.client.slo.streams", "{stream}", "Streams, by whether the first token met its objective and none stalled."
)
SELF_ERRORS: Final = Metric(
    "itl.self.errors", "{error}", "Failures of the instrumentation itself, none of which reached the application."
)


class StandardNames(NamedTuple):
    """The standard names of one generation of the semantic conventions, where the generations differ.

    Token counts are keyed by their field of `ResponseInfo`.
    """

    schema_url: str | None
    """Schema URL of the instrumentation scope; None while the generation is not released."""
    duration: Metric
    time_to_first_chunk: Metric
    time_per_output_chunk: Metric
    token_usage: Metric | None
    """A histogram by `gen_ai.token.type`; None where the counters and histograms below have replaced it."""
    token_counters: Mapping[str, Metric]
    """Counters of consumed tokens by `gen_ai.token.modality`."""
    token_histograms: Mapping[str, Metric]
    """Histograms of the tokens of one request."""
    cache_write_attribute: str
    """Span attribute for the input tokens that were written to the provider's cache."""
    missing_finish_reason: str | None
    """Reported in place of a finish reason that never came; None: nothing is reported."""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """All the standard metrics of this generation."""
        single = tuple(value for value in self if isinstance(value, Metric))
        return (*single, *self.token_counters.values(), *self.token_histograms.values())


def _times(prefix: str, duration: str) -> dict[str, Metric]:
    """Build the metrics of time, which differ between the generations in their prefix and in one description."""
    described = {
        "duration": duration,
        "time_to_first_chunk": "Time to receive the first chunk, measured from when the client issues the generation "
        "request to when the first chunk is received in the response stream.",
        "time_per_output_chunk": "Time per output chunk, recorded for each chunk received after the first one, "
        "measured as the time elapsed from the end of the previous chunk to the end of the current chunk.",
    }
    return {name: Metric(f"{prefix}.{name}", "s", text, _OPERATION_BUCKETS) for name, text in described.items()}


_TOKEN_COUNTERS: Final = {
    "input_tokens": ("input_tokens", "The number of input (prompt) tokens used, including cached tokens."),
    "output_tokens": ("output_tokens", "The number of output (completion) tokens used, including reasoning tokens."),
    "cache_read_tokens": (
        "cache_read.input_tokens",
        "The number of input tokens served from a provider-managed cache.",
    ),
    "cache_creation_tokens": (
        "cache_write.input_tokens",
        "The number of input tokens written to a provider-managed cache.",
    ),
    "reasoning_tokens": (
        "reasoning.output_tokens",
        "The number of output tokens used for reasoning (e.g. chain-of-thought, extended thinking).",
    ),
}
_TOKEN_HISTOGRAMS: Final = {
    "input_tokens": "The number of input (prompt) tokens used per inference operation.",
    "output_tokens": "The number of output (completion) tokens used per inference operation.",
}

STANDARD_NAMES: Final[Mapping[str, StandardNames]] = {
    "operation": StandardNames(
        schema_url="https://opentelemetry.io/schemas/1.41.0",
        **_times("gen_ai.client.operation", "GenAI operation duration."),
        token_usage=Metric(
            "gen_ai.client.token.usage", "{token}", "Number of input and output tokens used.", _USAGE_BUCKETS
        ),
        token_counters={},
        token_histograms={},
        cache_write_attribute=USAGE_CACHE_CREATION_TOKENS,
        missing_finish_reason=None,
    ),
    "inference": StandardNames(
        schema_url=None,
        **_times("gen_ai.client.inference", "GenAI client inference operation duration."),
        token_usage=None,
        token_counters={
            field: Metric(f"gen_ai.client.inference.usage.{name}", "{token}", text)
            for field, (name, text) in _TOKEN_COUNTERS.items()
        },
        token_histograms={
            field: Metric(f"gen_ai.client.inference.operation.{field}", "{token}", text, _USAGE_BUCKETS)
            for field, text in _TOKEN_HISTOGRAMS.items()
        },
        cache_write_attribute=USAGE_CACHE_WRITE_TOKENS,
        missing_finish_reason="error",
    ),
}
"""`operation`: the last release of the main conventions that has GenAI in it. `inference`: the generation after it,
which is developed in a repository of its own and is not released yet."""


def default_generation(environ: Mapping[str, str]) -> str:
    """Choose the key of `STANDARD_NAMES` that is in force where neither an argument nor `OTEL_ITL_*` names one.

    `gen_ai_latest_experimental` in the comma-separated `OTEL_SEMCONV_STABILITY_OPT_IN` asks for the newest generation.
    """
    opted_in = {category.strip() for category in environ.get("OTEL_SEMCONV_STABILITY_OPT_IN", "").split(",")}
    return "inference" if "gen_ai_latest_experimental" in opted_in else "operation"
