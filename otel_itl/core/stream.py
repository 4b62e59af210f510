"""What was asked of whom, what the response said of itself, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_itl.core.timeline import Timeline

if TYPE_CHECKING:
    from otel_itl.core.stalls import Stall

MOST_REASONS = 128
"""Finish reasons that are kept: one for each choice, where the provider behaves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One streaming request, as its span and its metrics name it. Holds no word of the prompt."""

    operation: str
    provider: str
    model: str | None = None
    server_address: str | None = None
    server_port: int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """`gen_ai.request.*` attributes of the parameters that were given."""
    session_id: str | None = None


class ResponseInfo:
    """What the chunks of one response said besides their text; filled in by an SDK's `classify`."""

    __slots__ = (
        "cache_creation_tokens",
        "cache_read_tokens",
        "failure",
        "finish_reasons",
        "input_tokens",
        "model",
        "output_tokens",
        "reasoning_tokens",
        "response_id",
        "streamed_tokens",
        "terminated",
    )

    def __init__(self) -> None:
        self.response_id: str | None = None
        self.model: str | None = None
        self.finish_reasons: list[str] = []
        self.input_tokens: int | None = None
        self.output_tokens: int | None = None
        self.reasoning_tokens: int | None = None
        self.cache_read_tokens: int | None = None
        self.cache_creation_tokens: int | None = None
        self.streamed_tokens: int | None = None
        """Tokens so far, where the provider counts on every chunk (continuous usage)."""
        self.terminated = False
        """The provider's own end-of-stream marker was seen."""
        self.failure: str | None = None
        """Error type of a failure that the provider reported inside the stream."""

    def finish(self, reason: str) -> None:
        """Take down why a choice is finished."""
        if len(self.finish_reasons) < MOST_REASONS:
            self.finish_reasons.append(reason)

    def use(self, **tokens: int | None) -> None:
        """Take down token counts, where the provider gives them: what it does not say again still holds."""
        for name, number in tokens.items():
            if number is not None:
                setattr(self, name, number)

    @property
    def finished(self) -> bool:
        """The provider said that it was done, in one way or another."""
        return self.terminated or bool(self.finish_reasons)


@dataclass(frozen=True, slots=True)
class Concurrency:
    """Streams of this process that were in flight, this one included."""

    at_start: int
    mean: float
    """Time-mean over the life of the stream."""


class FinishedStream(NamedTuple):
    """A stream that is over."""

    request: Request
    answer: ResponseInfo
    timeline: Timeline
    concurrency: Concurrency
    error_type: str | None
    stalls: tuple[Stall, ...] = ()
    stall_threshold: float | None = None
    """What was in force at the end, in seconds; None: nobody looked out for stalls."""
