"""Every name that is emitted on spans, events and logs, once."""

from __future__ import annotations

from typing import Final

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
CONNECTION_OPENED_EVENT: Final = "itl.connection.opened"
CONNECTION_CLOSED_EVENT: Final = "itl.connection.closed"
"""Begin and end of a connection that carries several requests; the end has totals of it."""
CONNECTION_DURATION: Final = "itl.connection.duration"
CONNECTION_RESPONSES: Final = "itl.connection.responses"
CONNECTION_MESSAGES: Final = "itl.connection.messages"
CONNECTION_BYTES: Final = "itl.connection.bytes"
STALL_EVENT: Final = "itl.stall"
"""A span event for one stall, at the moment at which it began."""
MAX_REPORTED_STALLS: Final = 10
"""Stalls of one stream that get a span event and log events. The counters include every stall."""
