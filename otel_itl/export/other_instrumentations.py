"""What is known of other instrumentations: which are in charge of a request, what they suppress, what they record."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from opentelemetry.context import (
    _SUPPRESS_INSTRUMENTATION_KEY,
    Context,
    attach,
    detach,
    get_current,
    get_value,
    set_value,
)
from opentelemetry.instrumentation.utils import is_instrumentation_enabled
from opentelemetry.trace import Span, get_current_span

FOREIGN_INFERENCE: Final = "opentelemetry.genai.client.inference.context"
"""Context key under which the official GenAI instrumentation publishes the inference that it is in charge of."""

_SUPPRESSIONS: Final = (_SUPPRESS_INSTRUMENTATION_KEY, "suppress_instrumentation")
"""Context keys of `opentelemetry.instrumentation.utils.suppress_instrumentation()`."""

_SUPPRESSING: Final = frozenset({"logfire.openai", "logfire.anthropic"})
"""Scopes of spans that come with a suppression of their own, which is meant for the instrumentation of HTTP."""


class _Recording(NamedTuple):
    """Spans of another instrumentation, by scope and beginning of the name, and the standard metrics it records."""

    scope: str
    name: str
    metrics: frozenset[str]


_RECORDINGS: Final = (
    _Recording("opentelemetry.instrumentation.openai.v1", "openai.chat", frozenset({"duration", "token_usage"})),
    _Recording("pydantic-ai", "chat ", frozenset({"time_to_first_chunk", "token_usage"})),
)


def in_charge(context: Context) -> bool:
    """Whether another instrumentation has begun the span of this very request, for others to enrich."""
    return get_value(FOREIGN_INFERENCE, context) is not None


def suppressed() -> bool:
    """Whether requests are not to be recorded here, by the caller's wish."""
    return not is_instrumentation_enabled() and _scope_of(get_current_span()) not in _SUPPRESSING


@contextmanager
def unsuppressed() -> Iterator[None]:
    """Within, spans may begin and end: what is recorded at all is recorded in spite of a suppression around it."""
    context = get_current()
    for key in _SUPPRESSIONS:
        if get_value(key, context):
            context = set_value(key, None, context)
    token = attach(context)
    try:
        yield
    finally:
        detach(token)


def recorded_by(span: Span) -> frozenset[str]:
    """The standard metrics that are recorded for a request within this span, by their field in `StandardNames`."""
    scope, name = _scope_of(span), getattr(span, "name", "")
    for recording in _RECORDINGS:
        if scope == recording.scope and name.startswith(recording.name):
            return recording.metrics
    return frozenset()


def _scope_of(span: Span) -> str:
    return getattr(getattr(span, "instrumentation_scope", None), "name", "")
