"""Token-level latency of streaming LLM clients over OpenTelemetry: time to first token, inter-token latency.

    import otel_itl

    otel_itl.instrument()

Every streaming request of the supported SDKs becomes one span with its per-token timeline, from which TTFT, ITL
percentiles, stalls and outcomes are derived into span attributes and metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn

if TYPE_CHECKING:
    from os import PathLike

    from opentelemetry._logs import LoggerProvider
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from otel_itl.core.decoding import MalformedEventsError, read_timeline
    from otel_itl.core.measures import Measures, measure
    from otel_itl.core.slo import SLO
    from otel_itl.core.stalls import Stall, StallPolicy
    from otel_itl.core.timeline import Kind, Outcome, Timeline
    from otel_itl.instrumentor import ITLInstrumentor
    from otel_itl.observing import observe
    from otel_itl.processor import ITLSpanProcessor
    from otel_itl.recording.session_middleware import ASGISessionMiddleware, WSGISessionMiddleware
    from otel_itl.recording.session_scope import session
    from otel_itl.sdks.response_facts import ResponseFacts

__all__ = [
    "SLO",
    "ASGISessionMiddleware",
    "ITLInstrumentor",
    "ITLSpanProcessor",
    "Kind",
    "MalformedEventsError",
    "Measures",
    "Outcome",
    "ResponseFacts",
    "Stall",
    "StallPolicy",
    "Timeline",
    "WSGISessionMiddleware",
    "flush",
    "instrument",
    "measure",
    "observe",
    "read_timeline",
    "session",
    "uninstrument",
]

_HOMES: Final = {
    "ASGISessionMiddleware": "otel_itl.recording.session_middleware",
    "ITLInstrumentor": "otel_itl.instrumentor",
    "ITLSpanProcessor": "otel_itl.processor",
    "Kind": "otel_itl.core.timeline",
    "MalformedEventsError": "otel_itl.core.decoding",
    "Measures": "otel_itl.core.measures",
    "Outcome": "otel_itl.core.timeline",
    "ResponseFacts": "otel_itl.sdks.response_facts",
    "SLO": "otel_itl.core.slo",
    "Stall": "otel_itl.core.stalls",
    "StallPolicy": "otel_itl.core.stalls",
    "Timeline": "otel_itl.core.timeline",
    "WSGISessionMiddleware": "otel_itl.recording.session_middleware",
    "measure": "otel_itl.core.measures",
    "observe": "otel_itl.observing",
    "read_timeline": "otel_itl.core.decoding",
    "session": "otel_itl.recording.session_scope",
}
"""Public name → the module that is loaded when the name is first used: importing `otel_itl` loads nothing."""


MAX_FLUSH_SECONDS: Final = 86_400


class Unset:
    """Type of the default of an argument that was not given: its `OTEL_ITL_*` variable counts, else its default."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNSET"


_UNSET: Final = Unset()


def instrument(  # noqa: PLR0913 - each option is an argument, for completion and type checkers
    *,
    token_events: Literal["packed", "each", "log", "none"] | Unset = _UNSET,
    sdks: Iterable[str] | Unset = _UNSET,
    standard_names: Literal["operation", "inference"] | Unset = _UNSET,
    model_limit: int | Unset = _UNSET,
    chunk_events: Iterable[str] | Unset = _UNSET,
    stall: StallPolicy | str | Literal[False] | Unset | None = _UNSET,
    on_stall: Callable[[Stall], object] | Unset | None = _UNSET,
    slo: SLO | str | Mapping[str, SLO | str] | Unset | None = _UNSET,
    session_from: str | Callable[[Mapping[str, Any], Mapping[str, Any]], object] | Unset | None = _UNSET,
    file: str | PathLike[str] | Unset | None = _UNSET,
    summary: bool | Unset = _UNSET,
    progress: float | str | Unset | None = _UNSET,
    tracer_provider: TracerProvider | Unset | None = _UNSET,
    meter_provider: MeterProvider | Unset | None = _UNSET,
    logger_provider: LoggerProvider | Unset | None = _UNSET,
    **misspelled: NoReturn,
) -> None:
    """Measure every streaming request of the supported SDKs from now on, also of clients that exist already.

    Arguments win over `OTEL_ITL_*` variables, which win over defaults. docs/configuration.md has the values that each
    argument accepts. A second call changes nothing, and logs a warning if it has arguments.

    Args:
        token_events: How the timings of tokens are recorded: `packed` arrays on the span, an event for `each` output
            chunk, the arrays as `log` events, or `none`.
        sdks: Which SDKs to instrument; by default all that are supported. Those that are not installed are skipped.
        standard_names: Generation of the standard metrics: `operation` (`gen_ai.client.operation.*`) or `inference`.
        model_limit: How many request models, response models and servers the metrics distinguish; the rest become
            `other`.
        chunk_events: Names of the span events by which another instrumentation marks output chunks: its spans are
            measured when they end.
        stall: How long the caller has to wait for a chunk, in seconds, before that is a stall.
        on_stall: A function that is called with each `Stall` when it begins, while the stream is silent, on a thread
            for such calls.
        slo: The objectives for TTFT and ITL, one for all models or by model.
        session_from: Where a request names the session that it belongs to.
        file: A file that spans, metrics and log events are appended to as OTLP JSON lines, beside whatever exporters
            there are.
        summary: Whether a line about each stream that ended is printed on the standard error.
        progress: Seconds between the log events with the chunks of a stream that runs, which show it before it ends.
        tracer_provider: Makes the spans; None: the global provider.
        meter_provider: Makes the metrics; None: the global provider.
        logger_provider: Makes the log events; None: the global provider. Where neither these arguments nor the
            application provide any, providers of otel_itl's own export as the `OTEL_*` environment has it, until the
            application sets its own. No provider is made global.
        **misspelled: Refused; here so that the message can name the nearest argument.

    Raises:
        TypeError: a provider that is none, or an argument that there is not: the message names the nearest one.
        ValueError: an option does not accept a value.
    """
    given = {name: value for name, value in locals().items() if not isinstance(value, Unset)}
    given |= given.pop("misspelled")
    from otel_itl.instrumentor import ITLInstrumentor  # noqa: PLC0415 - see _HOMES

    ITLInstrumentor().instrument(**given)


def uninstrument() -> None:
    """Stop measuring. Streams that are open go on untouched; their recordings end as abandoned."""
    from otel_itl.instrumentor import ITLInstrumentor  # noqa: PLC0415 - see _HOMES

    ITLInstrumentor().uninstrument()


def flush(seconds: float = 2.0) -> bool:
    """Export the streams that have ended, before the process is frozen or leaves by `os._exit()`.

    Finalizes them and flushes the tracer, meter and logger provider that they are reported to, all at once. Streams
    that are open stay open. Blocks the caller for at most `seconds`; on an event loop, `await
    asyncio.to_thread(otel_itl.flush)`.

    Args:
        seconds: how long to wait for exporters. One that takes longer goes on in the background.

    Returns:
        Whether all was exported in time. True where this process has recorded no stream.

    Raises:
        ValueError: `seconds` is not a positive number.
    """
    if type(seconds) not in {int, float} or not 0 < seconds <= MAX_FLUSH_SECONDS:
        message = f"flush(seconds={seconds!r}) is not accepted: it takes a number of seconds above 0, up to a day."
        raise ValueError(message)
    from otel_itl.runtime import runtime  # noqa: PLC0415 - see _HOMES

    return runtime.flusher.flush(seconds)


def __getattr__(name: str) -> Any:
    """Load the module that defines a public name and return what the name stands for. Called by Python (PEP 562).

    It is called once for each name: importing takes locks, which the handler of a signal may interrupt.
    """
    home = _HOMES.get(name)
    if home is None:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    found = globals()[name] = getattr(import_module(home), name)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
