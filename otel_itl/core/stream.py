"""A stream that ended, with everything that was recorded of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from otel_itl.core.request import Request
from otel_itl.core.stalls import Stall
from otel_itl.core.timeline import Timeline

MAX_FINISH_REASONS = 128
"""Finish reasons that are kept of a stream: a provider sends one for each choice."""
_NO_DURATIONS: Final[Mapping[str, float]] = MappingProxyType({})


class ResponseInfo:
    """The metadata of one response: ids, token counts, finish reasons. An SDK's `classify` fills it in chunk by chunk.

    It never holds text of the response.
    """

    __slots__ = (
        "cache_creation_tokens",
        "cache_read_tokens",
        "error_type",
        "finish_reasons",
        "input_tokens",
        "is_terminated",
        "model",
        "output_tokens",
        "reasoning_tokens",
        "response_id",
        "server_durations",
        "streamed_tokens",
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
        """Tokens so far, where the provider sends the count with every chunk (continuous usage)."""
        self.is_terminated = False
        """The provider's own end-of-stream marker arrived, such as `[DONE]`."""
        self.error_type: str | None = None
        """Type of a failure that the provider reported inside the stream; None: it reported none."""
        self.server_durations = _NO_DURATIONS
        """Seconds that the server itself reports, by the keys of `conventions.SERVER_DURATIONS`; usually none."""

    def add_finish_reason(self, reason: str) -> None:
        """Append the finish reason of a choice; beyond `MAX_FINISH_REASONS` it is dropped."""
        if len(self.finish_reasons) < MAX_FINISH_REASONS:
            self.finish_reasons.append(reason)

    def update_token_counts(self, **counts: int | None) -> None:
        """Set token counts by the name of their field; a count of None leaves the earlier value as it is."""
        for name, count in counts.items():
            if count is not None:
                setattr(self, name, count)

    def update_server_durations(self, **seconds: float | None) -> None:
        """Set durations that the server reports, by key; a duration of None leaves the earlier value as it is."""
        reported = {name: value for name, value in seconds.items() if value is not None}
        if reported:
            self.server_durations = {**self.server_durations, **reported}

    @property
    def is_finished(self) -> bool:
        """Whether the provider ended the response itself, by a finish reason or by its end-of-stream marker."""
        return self.is_terminated or bool(self.finish_reasons)


@dataclass(frozen=True, slots=True)
class Concurrency:
    """How many streams of this process were open together with one stream, that one included."""

    at_start: int
    """When the stream's request was made."""
    mean: float
    """Time-weighted mean over the life of the stream."""


ALONE: Final = Concurrency(at_start=1, mean=1.0)
"""No other stream was open, or it is not known whether one was."""


class FinishedStream(NamedTuple):
    """Everything that was recorded of a stream that ended: the input of the measures and of every export."""

    request: Request
    response: ResponseInfo
    timeline: Timeline
    concurrency: Concurrency
    error_type: str | None
    """`error.type` of the stream; None: it did not fail."""
    stalls: tuple[Stall, ...] = ()
    stall_threshold: float | None = None
    """The stall threshold in force when the stream ended, in seconds; None: stall detection was off."""
