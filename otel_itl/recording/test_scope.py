"""Marks requests as tests: they get a span, and stay out of the metrics and of reports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace

from otel_itl.core.request import Request

_is_test: ContextVar[bool] = ContextVar("otel_itl_test", default=False)


@contextmanager
def mark_as_test() -> Iterator[None]:
    """Mark the requests that are made in the `with` block, in this thread or task, as tests."""
    token = _is_test.set(True)
    try:
        yield
    finally:
        _is_test.reset(token)


def apply_test_scope(request: Request) -> Request:
    """Return the request, marked where the scope that makes it marks tests."""
    return replace(request, is_test=True) if _is_test.get() else request
