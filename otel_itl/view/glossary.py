"""The terms that the page explains on hover: the sentences of docs/glossary.md, without links."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

GLOSSARY: Final = MappingProxyType(
    {
        "stream": "The response to one request, from the request to its end; one stream is one span.",
        "request": "One HTTP call of an SDK that asks a model for a streamed response; retries belong to it.",
        "TTFT": "Time to first token: from the request to the first output chunk.",
        "TTFA": "Time to first answer token: from the request to the first chunk of the answer or of a tool call.",
        "ITL": "Inter-token latency: the distribution of a stream's samples, reported as percentiles, maximum, mean and standard deviation.",
        "TPOT": "Time per output token: the time from the first to the last output chunk, divided by the provider's token count minus one.",
        "E2E": "End-to-end duration: from the request to the end of the stream.",
        "output speed": "The reciprocal of TPOT, in tokens per second.",
        "output chunk": "A chunk that carries reasoning, a piece of the answer, or a piece of a tool call.",
        "chunk": "One object that the SDK yields while the stream is read.",
        "imputed": "A gap that shares the time between two observed arrivals, because an arrival in between is hidden.",
        "excluded": "A gap that is counted but not measured, because no observed arrival bounds it.",
        "hold": "The time from the arrival of a chunk to the next pull: the consumer keeps the stream waiting.",
        "stall": "An interval in which the consumer waited for longer than a threshold and no output chunk came.",
        "session": "The requests of one agent loop, chat or task, in the order in which they started.",
        "latency ratio": "A request's mean inter-token latency divided by its session's baseline.",
        "objective": "A time to first token and an inter-token latency that a given share of tokens and streams has to meet.",
        "consumer time": "The sum of the holds of a stream (itl.consumer.duration).",
        "consumer-bound": "A stream of which more than half of the gaps are not exact, or whose first token's arrival is hidden; its figures describe the caller at least as much as the upstream.",
        "buffered": "A stream of which most gaps are inside bursts, or that began with a backlog: its pace is that of a buffer on the way; itl.burst.buffered.",
        "attempt": "One of the HTTP calls that an SDK makes for a request until one succeeds; itl.request.attempts counts them.",
        "degradation": "The state of a session between an alarm and its recovery; the log event itl.session.degraded reports its beginning once.",
        "cause": "Who stalled, by evidence: upstream, event_loop or process.",
        "phase": "What the consumer waits for: first_token, reasoning or decode.",
        "alive": "A stall during which pings or empty chunks arrived: the server is there, and makes no progress.",
        "concurrency": "How many streams this process had open: at the start of a stream and on average over its life (itl.streams.*).",
    }
)
