"""Beside other instrumentations: whether one is in charge of a request, suppresses ours, or records its metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Final, NamedTuple

from opentelemetry.context import Context, attach, detach, get_current, get_value, set_value
from opentelemetry.instrumentation.utils import is_instrumentation_enabled, suppress_instrumentation
from opentelemetry.trace import Span, get_current_span

FOREIGN_INFERENCE: Final = "opentelemetry.genai.client.inference.context"
"""Context key under which the official GenAI instrumentation publishes the inference that it is in charge of."""

_SUPPRESSING_SCOPES: Final = frozenset({"logfire.openai", "logfire.anthropic"})
"""Scopes of spans that come with a suppression of their own, which is meant for the instrumentation of HTTP."""


_NO_SUPPRESSION: Final = nullcontext()
_NONE_RECORDED: Final[frozenset[str]] = frozenset()


class _RecordedMetrics(NamedTuple):
    """The standard metrics that another instrumentation records within certain spans of its own."""

    scope: str
    span_name_prefix: str
    metrics: frozenset[str]
    """By their field of `StandardNames`."""


_RECORDED_METRICS: Final = (
    _RecordedMetrics("opentelemetry.instrumentation.openai.v1", "openai.chat", frozenset({"duration", "token_usage"})),
    _RecordedMetrics("pydantic-ai", "chat ", frozenset({"time_to_first_chunk", "token_usage"})),
)


def is_other_in_charge(context: Context) -> bool:
    """Return whether another instrumentation has started the span of this very request, for others to enrich."""
    return get_value(FOREIGN_INFERENCE, context) is not None


def is_suppressed() -> bool:
    """Return whether the caller has suppressed instrumentations, so that its requests are not recorded."""
    if not any(map(get_current().get, _suppression_keys())):  # as nearly always
        return False
    return not is_instrumentation_enabled() and _scope_of(get_current_span()) not in _SUPPRESSING_SCOPES


def without_suppression() -> AbstractContextManager[None]:
    """Let spans start and end inside the block: a request that is recorded at all is recorded despite a suppression."""
    context, keys = get_current(), _suppression_keys()
    return _without(keys, context) if any(map(context.get, keys)) else _NO_SUPPRESSION


@contextmanager
def _without(keys: Iterable[str], context: Context) -> Iterator[None]:
    """Make a context current, without these keys, in the block."""
    for key in keys:
        context = set_value(key, None, context)
    token = attach(context)
    try:
        yield
    finally:
        detach(token)


def metrics_recorded_within(span: Span) -> frozenset[str]:
    """Return the standard metrics that another instrumentation records for a request within this span of its own.

    They are named by their field of `StandardNames`; empty for every other span.
    """
    scope, name = _scope_of(span), getattr(span, "name", "")
    if not scope:
        return _NONE_RECORDED
    for recorded in _RECORDED_METRICS:
        if scope == recorded.scope and name.startswith(recorded.span_name_prefix):
            return recorded.metrics
    return _NONE_RECORDED


@cache
def _suppression_keys() -> tuple[str, ...]:
    """Find the context keys that `suppress_instrumentation()` sets. They have no public names."""
    token = attach(Context())
    try:
        with suppress_instrumentation():
            return tuple(get_current())
    finally:
        detach(token)


def _scope_of(span: Span) -> str:
    return getattr(getattr(span, "instrumentation_scope", None), "name", "")
