"""Read how many more events a span can take: the SDK drops the oldest of too many without a word."""

# ruff: noqa: SLF001, PLC0415 - reaching into the SDK is what this module is for, and it does so when it is first used

from __future__ import annotations

from functools import cache
from typing import Any, Final

from opentelemetry.sdk.trace import SpanLimits

from otel_itl.export.sdk_internals.global_providers import without_own_metrics

DEFAULT_EVENT_LIMIT: Final = 128
"""The limit of a span of another SDK than OpenTelemetry's."""
UNLIMITED: Final = 1 << 31


def event_limit(span: Any) -> int:
    """Return how many more events a span can take, at least 0.

    Where the SDK does not show a span's limits, the limit of the `OTEL_*` environment counts, which is 128 by default.
    """
    if can_read_limits():
        limit = getattr(getattr(span, "_limits", None), "max_events", DEFAULT_EVENT_LIMIT)
    else:
        limit = SpanLimits().max_events
    return max((UNLIMITED if limit is None else limit) - len(getattr(span, "events", ())), 0)


@cache
def can_read_limits() -> bool:
    """Prove, once, on a span of our own, that the limit that can be read is the one that was set."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON

    try:
        # The arguments keep the `OTEL_*` environment out of the trial.
        provider = without_own_metrics(TracerProvider)(
            ALWAYS_ON, Resource.get_empty(), shutdown_on_exit=False, span_limits=SpanLimits(max_events=7)
        )
        span: Any = provider.get_tracer("otel_itl.trial").start_span("trial")
        return bool(span._limits.max_events == 7)  # noqa: PLR2004 - as set above
    except Exception:  # noqa: BLE001 - an SDK that has changed inside may raise anything
        return False
