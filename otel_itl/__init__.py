"""Token-level latency of streaming LLM clients over OpenTelemetry: time to first token, inter-token latency.

    import otel_itl

    otel_itl.instrument()

Every streaming request of the openai and anthropic SDKs becomes one span with its per-token timeline, from which TTFT,
ITL percentiles, stalls and outcomes are derived into span attributes and metrics.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otel_itl.core.measures import Measures, measure
    from otel_itl.core.slo import SLO
    from otel_itl.core.stalls import Stall, StallPolicy
    from otel_itl.core.timeline import Kind, Outcome, Timeline
    from otel_itl.instrumentor import ITLInstrumentor
    from otel_itl.observing import observe
    from otel_itl.processor import ITLSpanProcessor
    from otel_itl.session_scope import session

__all__ = [
    "SLO",
    "ITLInstrumentor",
    "ITLSpanProcessor",
    "Kind",
    "Measures",
    "Outcome",
    "Stall",
    "StallPolicy",
    "Timeline",
    "instrument",
    "measure",
    "observe",
    "session",
    "uninstrument",
]

_HOMES = {
    "ITLInstrumentor": "otel_itl.instrumentor",
    "ITLSpanProcessor": "otel_itl.processor",
    "Kind": "otel_itl.core.timeline",
    "Measures": "otel_itl.core.measures",
    "Outcome": "otel_itl.core.timeline",
    "SLO": "otel_itl.core.slo",
    "Stall": "otel_itl.core.stalls",
    "StallPolicy": "otel_itl.core.stalls",
    "Timeline": "otel_itl.core.timeline",
    "measure": "otel_itl.core.measures",
    "observe": "otel_itl.observing",
    "session": "otel_itl.session_scope",
}
"""Loaded when they are first asked for: importing `otel_itl` is to cost an application nothing."""


def instrument(**options: Any) -> None:  # noqa: D417 - what it takes is listed by name
    """Measure every streaming request of the supported SDKs from here on, also of clients that exist already.

    Keyword Args:
        token_events: what a span carries per token: `packed` (default), `each`, `log` or `none`.
        sdks: which SDKs, of `openai` and `anthropic`; all that are installed by default.
        standard_names: generation of the standard metrics' names: `operation` (default) or `inference`.
        model_limit: how many model names the metrics tell apart (default 100); the rest become `other`.
        chunk_events: names of span events with which another instrumentation marks output chunks.
        stall: a `StallPolicy`: from when on a silence is a stall (10 s before the first token, 2 s between tokens of
            the answer by default); None or `off`: nobody looks out for stalls.
        on_stall: called with each `Stall` that begins, while the stream is silent, on a thread of its own.
        slo: an objective: `chat`, `code`, `agent`, `batch` or an `SLO`; by model as `{"gpt-4o*": "chat"}`.
        session_from: where a request says which session it belongs to: a field such as `metadata.session_id` or
            `user`, `header:NAME`, or a function of the request's body and headers.
        tracer_provider: instead of the global provider; likewise `meter_provider` and `logger_provider`.

    Where neither arguments nor the application give a provider, the SDK is set up from the `OTEL_*` environment when
    the first stream opens. Arguments win over `OTEL_ITL_*` variables, which win over defaults.

    Raises:
        TypeError: an option of another name.
        ValueError: a value that an option does not take.
    """
    from otel_itl.instrumentor import ITLInstrumentor  # noqa: PLC0415 - see _HOMES

    ITLInstrumentor().instrument(**options)


def uninstrument() -> None:
    """Measure no more. Streams that are open go on untouched; their recordings end as abandoned."""
    from otel_itl.instrumentor import ITLInstrumentor  # noqa: PLC0415 - see _HOMES

    ITLInstrumentor().uninstrument()


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
