"""Every emitted name, unit, description and bucket edge, once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

SCOPE: Final = "otel_itl"
"""Name of the instrumentation scope: of the tracer, the meter and the logger."""

# Standard span attributes: OpenTelemetry GenAI semantic conventions.
OPERATION_NAME: Final = "gen_ai.operation.name"
PROVIDER_NAME: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_STREAM: Final = "gen_ai.request.stream"
RESPONSE_ID: Final = "gen_ai.response.id"
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
RESPONSE_TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
USAGE_INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
USAGE_OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
USAGE_REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
USAGE_CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
USAGE_CACHE_CREATION_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
USAGE_CACHE_WRITE_TOKENS: Final = "gen_ai.usage.cache_write.input_tokens"
TOKEN_TYPE: Final = "gen_ai.token.type"
TOKEN_MODALITY: Final = "gen_ai.token.modality"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
ERROR_TYPE: Final = "error.type"

REQUEST_PARAMETERS: Final = {
    "max_tokens": "gen_ai.request.max_tokens",
    "max_completion_tokens": "gen_ai.request.max_tokens",
    "max_output_tokens": "gen_ai.request.max_tokens",
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "top_k": "gen_ai.request.top_k",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "presence_penalty": "gen_ai.request.presence_penalty",
    "seed": "gen_ai.request.seed",
    "n": "gen_ai.request.choice.count",
    "candidate_count": "gen_ai.request.choice.count",
    "stop": "gen_ai.request.stop_sequences",
    "stop_sequences": "gen_ai.request.stop_sequences",
}
"""Field of a request body → attribute. None of these holds a word of the prompt."""

FETCH_OPERATIONS: Final = frozenset({"fetch_response"})
"""Operations that fetch a response which another request began: its usage is not that of the chunks of this stream."""

# Ours, on the span.
CHUNK_COUNT: Final = "itl.chunk.count"
OUTPUT_CHUNK_COUNT: Final = "itl.output_chunk.count"
TOKEN_COUNT_SOURCE: Final = "itl.token_count.source"
PACE_ANSWER_ONLY: Final = "itl.pace.answer_only"
"""True: the reasoning was not streamed itself, so that time per token and tokens per chunk are the answer's."""
TIME_TO_FIRST_TOKEN_UNCERTAINTY: Final = "itl.time_to_first_token.uncertainty"
TIME_PER_OUTPUT_TOKEN_UNCERTAINTY: Final = "itl.time_per_output_token.uncertainty"
LATENCY_P99_UNCERTAINTY: Final = "itl.latency.p99.uncertainty"
"""Seconds by which the figure may be less."""
TIME_PER_OUTPUT_TOKEN_HIGHEST: Final = "itl.time_per_output_token.highest"
LATENCY_P99_HIGHEST: Final = "itl.latency.p99.highest"
"""Seconds that the figure may be."""
LATENCY_IMPUTED: Final = "itl.latency.imputed"
LATENCY_EXCLUDED: Final = "itl.latency.excluded"
CONSUMER_DURATION: Final = "itl.consumer.duration"
CONSUMER_BOUND: Final = "itl.consumer.bound"
HOST_DELAY: Final = "itl.host.delay"
HOST_BOUND: Final = "itl.host.bound"
BURST_BUFFERED: Final = "itl.burst.buffered"
STREAMS_AT_START: Final = "itl.streams.at_start"
STREAMS_MEAN: Final = "itl.streams.mean"
STREAM_OUTCOME: Final = "itl.stream.outcome"
STREAM_STATE: Final = "itl.stream.state"
REQUEST_ATTEMPTS: Final = "itl.request.attempts"
SERVER_DURATIONS: Final = {
    "total": "itl.server.total_duration",
    "load": "itl.server.load_duration",
    "prompt": "itl.server.prompt_duration",
    "decode": "itl.server.decode_duration",
    "first_byte": "itl.server.first_byte_duration",
}
"""What a server may report of its own time (a key of `ResponseInfo.server_durations`) → span attribute, in seconds."""
STALL_COUNT: Final = "itl.stall.count"
STALL_TOTAL_DURATION: Final = "itl.stall.total_duration"
"""All the stalls of a stream together, on its span."""
STALL_DURATION: Final = "itl.stall.duration"
"""One stall, on its event."""
STALL_MAX: Final = "itl.stall.max"
STALL_THRESHOLD: Final = "itl.stall.threshold"
STALL_RATIO: Final = "itl.stall.ratio"
STALL_PHASE: Final = "itl.stall.phase"
STALL_CAUSE: Final = "itl.stall.cause"
STALL_EVIDENCE: Final = "itl.stall.evidence"
STALL_ALIVE: Final = "itl.stall.alive"
STALL_END: Final = "itl.stall.end"
STALL_NUMBER: Final = "itl.stall.number"
STALL_START: Final = "itl.stall.start"
SLO_PROFILE: Final = "itl.slo.profile"
SLO_MET: Final = "itl.slo.met"
SLO_TTFT: Final = "itl.slo.ttft"
SLO_ITL: Final = "itl.slo.itl"
SLO_MISSED_TOKENS: Final = "itl.slo.missed_tokens"
SLO_FLUIDITY: Final = "itl.slo.fluidity"
SESSION_ID: Final = "session.id"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
SESSION_REQUEST_INDEX: Final = "itl.session.request.index"
SESSION_LATENCY_RATIO: Final = "itl.session.latency.ratio"
SESSION_STALL_COUNT: Final = "itl.session.stall.count"
SESSION_DECODE_DURATION: Final = "itl.session.decode.duration"
SESSION_DEGRADED: Final = "itl.session.degraded"
SESSION_DEGRADATION_SCOPE: Final = "itl.session.degradation.scope"
SESSION_MODEL_RATIO: Final = "itl.session.model.ratio"
TEST: Final = "itl.test"
"""A scripted stream of `otel-itl doctor`: in no metric, and in no report."""
SWEEP_LEVEL: Final = "itl.sweep.level"
"""Of a steady request of `otel-itl sweep` in a round that counts, as text, so that streams can be split by it."""
SWEEP_ROUND: Final = "itl.sweep.round"
SWEEP_STEADY: Final = "itl.sweep.steady"
SWEEP_SCHEDULE_DELAY: Final = "itl.sweep.schedule.delay"
SKETCH_SCALE: Final = "itl.latency.sketch.scale"
SKETCH_INDEXES: Final = "itl.latency.sketch.indexes"
SKETCH_COUNTS: Final = "itl.latency.sketch.counts"
SKETCH_ZERO_COUNT: Final = "itl.latency.sketch.zero_count"
UNCERTAIN_FIGURE: Final = "itl.uncertain.figure"
"""Which latency of a stream is not known: `ttft` or `itl`."""
UNCERTAIN_CAUSE: Final = "itl.uncertain.cause"
"""Why: `consumer` or `host`."""
SELF_WHERE: Final = "itl.self.where"
"""The step in which the instrumentation itself failed: a value of `Where`, on `itl.self.errors`."""


class Where:
    """The values of `itl.self.where`: short and stable, for dashboards and alerts."""

    CALLBACK_ON_STALL: Final = "callback.on_stall"
    CALLBACK_SESSION_FROM: Final = "callback.session_from"
    CHUNK_CLASSIFY: Final = "chunk.classify"
    EVENT_LOOP_WATCH: Final = "event_loop.watch"
    FILE_ENCODE: Final = "file.encode"
    FILE_WRITE: Final = "file.write"
    METRICS_OBSERVE: Final = "metrics.observe"
    METRICS_RECORD: Final = "metrics.record"
    PROCESS_END: Final = "process.end"
    PROCESSOR_FLUSH: Final = "processor.flush"
    QUEUE_ABANDONED: Final = "queue.abandoned"
    QUEUE_CALLBACKS: Final = "queue.callbacks"
    QUEUE_FILE: Final = "queue.file"
    QUEUE_REPORTS: Final = "queue.reports"
    QUEUE_SUMMARY: Final = "queue.summary"
    QUEUE_UNSENT: Final = "queue.unsent"
    RESPONSE_FOLLOW: Final = "response.follow"
    SDK_SETUP: Final = "sdk.setup"
    SPAN_ENRICH: Final = "span.enrich"
    SPAN_MEASURE: Final = "span.measure"
    SSE_READ: Final = "sse.read"
    STALL_REPORT: Final = "stall.report"
    STALL_WATCH: Final = "stall.watch"
    STREAM_ABORT: Final = "stream.abort"
    STREAM_DROP: Final = "stream.drop"
    STREAM_END: Final = "stream.end"
    STREAM_FINALIZE: Final = "stream.finalize"
    STREAM_OPEN: Final = "stream.open"
    STREAM_PROGRESS: Final = "stream.progress"
    STREAM_READ: Final = "stream.read"
    SUMMARY_PRINT: Final = "summary.print"
    THREAD_START: Final = "thread.start"
    TOKEN_EVENTS_BUILD: Final = "token_events.build"


SPAN_MEASURES: Final = {
    RESPONSE_TIME_TO_FIRST_CHUNK: "time_to_first_chunk",
    "itl.time_to_first_token": "time_to_first_token",
    "itl.time_to_first_answer_token": "time_to_first_answer_token",
    CHUNK_COUNT: "chunk_count",
    OUTPUT_CHUNK_COUNT: "output_chunk_count",
    "itl.latency.p50": "itl_p50",
    "itl.latency.p90": "itl_p90",
    "itl.latency.p95": "itl_p95",
    "itl.latency.p99": "itl_p99",
    "itl.latency.max": "itl_max",
    "itl.latency.mean": "itl_mean",
    "itl.latency.stddev": "itl_stddev",
    LATENCY_IMPUTED: "imputed",
    LATENCY_EXCLUDED: "excluded",
    "itl.time_per_output_token": "time_per_output_token",
    "itl.tokens_per_chunk": "tokens_per_chunk",
    "itl.burst.ratio": "burst_ratio",
    BURST_BUFFERED: "is_buffered",
    "itl.burst.pace": "buffered_pace",
    "itl.drift": "drift",
    CONSUMER_DURATION: "consumer_time",
    CONSUMER_BOUND: "is_consumer_bound",
}
"""Span attribute → the field of `Measures` that it carries; absent where the field is None."""
SPAN_UNCERTAINTIES: Final = {
    TIME_TO_FIRST_TOKEN_UNCERTAINTY: "ttft_uncertainty",
    TIME_PER_OUTPUT_TOKEN_UNCERTAINTY: "tpot_uncertainty",
    TIME_PER_OUTPUT_TOKEN_HIGHEST: "tpot_highest",
    LATENCY_P99_UNCERTAINTY: "itl_p99_uncertainty",
    LATENCY_P99_HIGHEST: "itl_p99_highest",
}
"""Likewise for how well the figures are known, of a stream with uncertain arrivals."""

# Token events. Moments are microseconds after the request.
TOKENS_EVENT: Final = "itl.tokens"
TOKEN_EVENT: Final = "itl.token"
TOKENS_OFFSETS: Final = "itl.tokens.offsets"
TOKENS_WAITS: Final = "itl.tokens.waits"
TOKENS_KINDS: Final = "itl.tokens.kinds"
TOKENS_LATENESS: Final = "itl.tokens.lateness"
TOKENS_COUNTS: Final = "itl.tokens.counts"
TOKENS_CHOICES: Final = "itl.tokens.choices"
TOKENS_SKIPPED: Final = "itl.tokens.skipped"
TOKENS_INDEXES: Final = "itl.tokens.indexes"
TOKENS_RECORDED: Final = "itl.tokens.recorded"
TOKENS_DROPPED: Final = "itl.tokens.dropped"
TOKENS_UNRECORDED: Final = "itl.tokens.unrecorded"
TOKEN_INDEX: Final = "itl.token.index"
TOKEN_WAIT: Final = "itl.token.wait"
TOKEN_LATENESS: Final = "itl.token.lateness"
TOKEN_KIND: Final = "itl.token.kind"
TOKEN_COUNT: Final = "itl.token.count"
TOKEN_CHOICE: Final = "itl.token.choice"
STREAM_REQUEST_TIME: Final = "itl.stream.request_time"
STREAM_HEADERS: Final = "itl.stream.headers"
STREAM_END: Final = "itl.stream.end"
REASONING_PARTIAL: Final = "itl.reasoning.partial"
"""True: by the provider's format, the stream carried a summary of the reasoning, or nothing of it; else absent."""

# Milestones of a stream: span events without attributes, at the moment at which the chunk arrived.
FIRST_TOKEN_EVENT: Final = "itl.first_token"
LAST_TOKEN_EVENT: Final = "itl.last_token"

SPAN_EXCEPTION_EVENT: Final = "exception"
EXCEPTION_TYPE: Final = "exception.type"
EXCEPTION_MESSAGE: Final = "exception.message"
"""The class again: an exception's own text may quote the prompt."""

# Log events.
EXCEPTION_EVENT: Final = "gen_ai.client.operation.exception"
STALL_STARTED_EVENT: Final = "itl.stall.started"
STALL_ENDED_EVENT: Final = "itl.stall.ended"
TRUNCATED_EVENT: Final = "itl.stream.truncated"
PROGRESS_EVENT: Final = "itl.stream.progress"
"""The chunks of a stream that runs, since the event before; with `progress` only."""
PROGRESS_INDEX: Final = "itl.progress.index"
"""Number of chunks in the events before."""
PROGRESS_OFFSET: Final = "itl.progress.offset"
"""When the stream was looked at."""
PROGRESS_WAITED: Final = "itl.progress.waited"
"""For how long the consumer has been waiting then; absent while it holds the stream."""
STALL_EVENT: Final = "itl.stall"
"""A span event for one stall, at the moment at which it began."""
MAX_REPORTED_STALLS: Final = 10
"""Stalls of one stream that get a span event and log events. The counters include every stall."""


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


PROVIDER_BY_HOST: Final = {
    "api.openai.com": "openai",
    "openai.azure.com": "azure.ai.openai",
    "cognitiveservices.azure.com": "azure.ai.openai",
    "models.inference.ai.azure.com": "azure.ai.inference",
    "services.ai.azure.com": "azure.ai.inference",
    "api.anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "gcp.gemini",
    "aiplatform.googleapis.com": "gcp.vertex_ai",
    "amazonaws.com": "aws.bedrock",
    "api.groq.com": "groq",
    "api.deepseek.com": "deepseek",
    "api.mistral.ai": "mistral_ai",
    "api.perplexity.ai": "perplexity",
    "api.x.ai": "x_ai",
    "api.cohere.com": "cohere",
    "api.cohere.ai": "cohere",
    "ml.cloud.ibm.com": "ibm.watsonx.ai",
    "api.together.xyz": "together_ai",
    "api.together.ai": "together_ai",
    "api.fireworks.ai": "fireworks_ai",
    "api.cerebras.ai": "cerebras",
    "openrouter.ai": "openrouter",
}
"""Host, or the domain that it ends with → `gen_ai.provider.name`."""


@lru_cache(maxsize=256)
def provider_of(host: str | None, default: str) -> str:
    """Return the provider that serves `host`, by the longest known domain; `default` where the host is unknown."""
    name = "." + (host or "").lower()
    known = [domain for domain in PROVIDER_BY_HOST if name.endswith(("." + domain, "-" + domain))]
    return PROVIDER_BY_HOST[max(known, key=len)] if known else default
