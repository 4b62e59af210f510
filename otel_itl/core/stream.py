"""A stream that ended, with everything that was recorded of it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from otel_itl.core.request import Request
from otel_itl.core.stalls import Stall
from otel_itl.core.timeline import Kind, Timeline

MAX_FINISH_REASONS = 128
"""Finish reasons that are kept of a stream: a provider sends one for each choice, and no more than 128 choices."""
_REASONING: Final = int(Kind.REASONING)
_ANSWER: Final = int(Kind.ANSWER | Kind.TOOL)
_NO_DURATIONS: Final[Mapping[str, float]] = MappingProxyType({})


class ResponseInfo:
    """The metadata of one response: ids, token counts, finish reasons. An SDK's `classify` fills it in chunk by chunk.

    It never holds text of the response.
    """

    __slots__ = (
        "_finish_reasons",
        "_streamed",
        "cache_creation_tokens",
        "cache_read_tokens",
        "error_type",
        "has_choices",
        "input_tokens",
        "is_background",
        "is_interrupted",
        "is_reasoning_partial",
        "is_settled",
        "is_terminated",
        "model",
        "output_tokens",
        "reasoning_tokens",
        "request_id",
        "response_id",
        "server_durations",
    )

    def __init__(self) -> None:
        self.response_id: str | None = None
        """Id as the chunks have it; empty: they have one that means nothing."""
        self.request_id: str | None = None
        """Id of the request in the headers, which stands for that of a response without one."""
        self.model: str | None = None
        self.input_tokens: int | None = None
        self.output_tokens: int | None = None
        self.reasoning_tokens: int | None = None
        self.cache_read_tokens: int | None = None
        self.cache_creation_tokens: int | None = None
        self.has_choices = False
        """Another choice than the first has output."""
        self.is_settled = False
        """The first output chunk was looked at in full, and had no usage: a chunk of plain text is nothing but text."""
        self.is_reasoning_partial = False
        """The provider's format shows that the chunks carry a summary of the reasoning, or none of it."""
        self.is_background = False
        """The response goes on without this stream, so that another request may fetch the rest of it."""
        self.is_interrupted = False
        """The provider ended the response early, because the caller gave it other input meanwhile."""
        self.is_terminated = False
        """The provider's own end-of-stream marker arrived, such as `[DONE]`."""
        self.error_type: str | None = None
        """Type of a failure that the provider reported inside the stream; None: it reported none."""
        self.server_durations = _NO_DURATIONS
        """Seconds that the server itself reports, by the keys of `conventions.SERVER_DURATIONS`; usually none."""
        self._finish_reasons: dict[int, str] = {}
        self._streamed = (0, 0)
        """Output tokens and those of reasoning by the usage of the last output chunk."""

    @property
    def finish_reasons(self) -> list[str]:
        """The finish reasons that came, in the order of their choices."""
        return [reason for _, reason in sorted(self._finish_reasons.items())]

    def add_finish_reason(self, reason: str, choice: int = 0) -> None:
        """Set the finish reason of a choice; a later one replaces it, as where a filter cuts off a finished answer.

        Those of the choices from `MAX_FINISH_REASONS` on are one.
        """
        self._finish_reasons[min(choice, MAX_FINISH_REASONS - 1)] = reason

    def fill_finish_reasons(self, choices: int, missing: str) -> list[str]:
        """Return one finish reason for each choice that was asked for, and up to the last that has one.

        Args:
            choices: how many were asked for.
            missing: stands for a finish reason that never came.
        """
        count = max(1, min(choices, MAX_FINISH_REASONS), *(choice + 1 for choice in self._finish_reasons))
        return [self._finish_reasons.get(choice, missing) for choice in range(count)]

    def set_identity(self, response_id: str | None, model: str | None) -> None:
        """Set id and model as a chunk has them; what an earlier chunk had stays."""
        if self.response_id is None:
            self.response_id = response_id
        if self.model is None:
            self.model = model

    def count_streamed(self, kind: int, *, has_usage: bool) -> int:
        """Return the tokens of an output chunk, where every output chunk has a usage (continuous usage), else 0.

        Called with the output chunks in order, until `is_settled`, after their usage was recorded. Tokens of reasoning
        that was not streamed itself are those of no chunk.

        Args:
            kind: flags of `Kind`.
            has_usage: whether the chunk has a usage.
        """
        if self.is_settled or not has_usage:
            self.is_settled = True
            return 0
        before, self._streamed = self._streamed, (self.output_tokens or 0, self.reasoning_tokens or 0)
        new, new_reasoning = self._streamed[0] - before[0], self._streamed[1] - before[1]
        if self.is_reasoning_partial and not kind & _ANSWER:
            return 0
        if self.is_reasoning_partial or not kind & _REASONING:
            new -= new_reasoning
        return max(new, 0)

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


class Concurrency(NamedTuple):
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
    host_delay: float | None = None
    """Seconds in which the thread that read the stream was ready to run and got no CPU; None: not known."""
    reports_usage: bool | None = None
    """Whether the stream reports its token usage; None: unless it fetches a response that another request began."""
