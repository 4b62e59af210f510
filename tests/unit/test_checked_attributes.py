"""Attributes that are put into a span without a check: the same to a reader, and not where the span's limits say so."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.trace import INVALID_SPAN

from otel_itl.export.sdk_internals.spans import set_checked_attributes

FIRST = {"model": "gpt", "kept": 1}
SECOND = {"model": "gpt-1", "p50": 0.5, "chunks": 3, "is_bound": False, "reasons": ("stop",)}


def span_with(**limits: int) -> Any:
    """A span of a provider with these limits, which has attributes already."""
    provider = TracerProvider(shutdown_on_exit=False, span_limits=SpanLimits(**limits))
    return provider.get_tracer("test").start_span("stream", attributes=FIRST)


def read(span: Any) -> tuple[dict[str, Any], int]:
    """What an exporter sees."""
    return dict(span.attributes), span.dropped_attributes


@pytest.mark.parametrize(
    "limits",
    [{}, {"max_span_attributes": 7}, {"max_span_attributes": 4}, {"max_span_attribute_length": 3}],
    ids=["no limit", "room for all", "room for some", "short texts"],
)
def test_a_reader_sees_what_the_sdk_would_have_set(limits: dict[str, int]) -> None:
    ours, expected = span_with(**limits), span_with(**limits)
    set_checked_attributes(ours, SECOND)
    expected.set_attributes(SECOND)
    assert read(ours) == read(expected)


def test_a_span_that_has_ended_takes_no_more() -> None:
    span = span_with()
    span.end()
    set_checked_attributes(span, SECOND)
    assert read(span) == (FIRST, 0)


def test_a_span_that_another_has_altered_is_asked() -> None:
    span, seen = span_with(), []
    span.set_attributes = seen.append
    set_checked_attributes(span, SECOND)
    assert seen == [SECOND]


def test_a_span_of_no_sdk_takes_them_as_well() -> None:
    set_checked_attributes(INVALID_SPAN, SECOND)
