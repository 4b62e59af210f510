"""Other instrumentations of the openai SDK: how each is put on and taken off, and which spans are its."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

Providers = Mapping[str, Any]
"""`tracer_provider`, `meter_provider` and `logger_provider`."""


@dataclass(frozen=True)
class Instrumentation:
    """One other instrumentation.

    `install` puts it on, with these providers, and returns what takes it off.
    """

    package: str
    module: str
    install: Callable[[Providers], Callable[[], None]]
    scope: str
    """The instrumentation scope of its spans."""
    beside: str
    """What a request looks like with both, for the documentation."""
    is_companion: bool = False
    """Its span is enriched; else a span of ours is beside it."""
    comes_off: bool = True
    """What it puts on is gone after `uninstrument()`."""

    def __str__(self) -> str:
        return self.package


def _instrumentor(module: str, name: str = "OpenAIInstrumentor") -> Callable[[Providers], Callable[[], None]]:
    def install(providers: Providers) -> Callable[[], None]:
        instrumentor = getattr(import_module(module), name)()
        instrumentor.instrument(**providers)
        remove: Callable[[], None] = instrumentor.uninstrument
        return remove

    return install


def _logfire(providers: Providers) -> Callable[[], None]:
    import logfire
    from opentelemetry.sdk.trace import SpanProcessor

    class Forwarded(SpanProcessor):
        """Hands the spans that Logfire has finished to those that the test looks at."""

        def on_end(self, span: Any) -> None:
            providers["tracer_provider"]._active_span_processor.on_end(span)

    local = logfire.configure(
        local=True,
        send_to_logfire=False,
        console=False,
        additional_span_processors=[Forwarded()],
        inspect_arguments=False,
    )
    undo: AbstractContextManager[None] = local.instrument_openai()

    def remove() -> None:
        with undo:
            pass

    return remove


def _http(providers: Providers) -> Callable[[], None]:
    import openai

    # From version 3 on the openai SDK speaks through httpx2.
    name = "HTTPX2ClientInstrumentor" if "2" in openai.DefaultHttpxClient.__mro__[1].__module__ else ""
    return _instrumentor("opentelemetry.instrumentation.httpx", name or "HTTPXClientInstrumentor")(
        {name: provider for name, provider in providers.items() if name != "logger_provider"}
    )


INSTRUMENTATIONS: Final = (
    Instrumentation(
        "opentelemetry-instrumentation-genai-openai",
        "opentelemetry.instrumentation.genai.openai",
        _instrumentor("opentelemetry.instrumentation.genai.openai"),
        "opentelemetry.instrumentation.genai.openai",
        "its span carries our attributes and the token timeline; the standard metrics are its own",
        is_companion=True,
    ),
    Instrumentation(
        "opentelemetry-instrumentation-openai",
        "opentelemetry.instrumentation.openai",
        _instrumentor("opentelemetry.instrumentation.openai"),
        "opentelemetry.instrumentation.openai.v1",
        "our span is a child of its span of a chat, whose duration and token usage it records; the rest is ours",
        comes_off=False,
    ),
    Instrumentation(
        "openinference-instrumentation-openai",
        "openinference.instrumentation.openai",
        _instrumentor("openinference.instrumentation.openai"),
        "openinference.instrumentation.openai",
        "our span is a child of its span; the standard metrics are ours",
    ),
    Instrumentation(
        "logfire",
        "logfire",
        _logfire,
        "logfire.openai",
        "our span is a child of its span, in spite of `suppress_other_instrumentation`; the standard metrics are ours",
    ),
    Instrumentation(
        "opentelemetry-instrumentation-httpx",
        "opentelemetry.instrumentation.httpx",
        _http,
        "opentelemetry.instrumentation.httpx",
        "its span is a child of ours",
    ),
)
