"""What the caller's `classify` of `observe()` reports about the response."""

from __future__ import annotations

from otel_itl.core.stream import ResponseInfo
from otel_itl.core.timeline import OUTPUT
from otel_itl.sdks.values import short_str, valid_count


class ResponseFacts:
    """Takes what the chunks of one stream reveal about the response beside its text: ids, token counts, its end.

    A `classify` of two arguments gets it with every chunk.
    """

    __slots__ = ("_has_usage", "_info")

    def __init__(self, info: ResponseInfo) -> None:
        self._info = info
        self._has_usage = False

    def update(  # noqa: PLR0913 - the facts of a response
        self,
        *,
        response_id: str | None = None,
        model: str | None = None,
        finish_reason: str | None = None,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        reasoning_tokens: int | None = None,
        cache_read_tokens: int | None = None,
        cache_creation_tokens: int | None = None,
        error_type: str | None = None,
        is_reasoning_partial: bool | None = None,
    ) -> None:
        """Record what a chunk reveals. A value of None, or of another type than is expected, leaves a fact as it is.

        Args:
            response_id: `gen_ai.response.id`.
            model: the model that responds, `gen_ai.response.model`.
            finish_reason: why the model stopped; called for each choice that stopped.
            input_tokens: tokens of the prompt, cached ones included.
            output_tokens: tokens of the response so far, reasoning included. If already the first chunk of output has
                them, each chunk counts as many tokens as have come since the one before.
            reasoning_tokens: those of reasoning among the output tokens.
            cache_read_tokens: those read from a cache among the input tokens.
            cache_creation_tokens: those written to a cache among the input tokens.
            error_type: the kind of failure that the provider reports in this chunk: the stream ends as an error.
            is_reasoning_partial: whether the provider streams a summary of the reasoning, or nothing of it, while it
                counts the tokens of all of it.
        """
        info = self._info
        info.response_id = short_str(response_id) or info.response_id
        info.model = short_str(model) or info.model
        info.error_type = short_str(error_type) or info.error_type
        reason = short_str(finish_reason)
        if reason is not None:
            info.add_finish_reason(reason, len(info.finish_reasons))
        output = valid_count(output_tokens)
        info.update_token_counts(
            input_tokens=valid_count(input_tokens),
            output_tokens=output,
            reasoning_tokens=valid_count(reasoning_tokens),
            cache_read_tokens=valid_count(cache_read_tokens),
            cache_creation_tokens=valid_count(cache_creation_tokens),
        )
        self._has_usage = self._has_usage or output is not None
        if is_reasoning_partial is not None:
            info.is_reasoning_partial = bool(is_reasoning_partial)

    def take_new_tokens(self, kind: int) -> int:
        """Return the tokens that came with a chunk of this kind, once; 0: not known. Called by `observe()`."""
        has_usage, self._has_usage = self._has_usage, False
        return self._info.count_streamed(kind, has_usage=has_usage) if kind & OUTPUT else 0
