"""Sends one scripted stream through the first SDK that is hooked, marked as a test."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from otel_itl.recording.test_scope import mark_as_test
from otel_itl.runtime import runtime
from otel_itl.testing import Script, bedrock, chat, gemini, messages
from otel_itl.tools.demo.sdks import SDKS
from otel_itl.tools.doctor.facts import StreamFacts

MODEL: Final = "otel-itl-doctor"


def scripts() -> dict[str, Script]:
    """Return the scripts that the server has to play: model → script."""
    words = ["one ", "two ", "three"]
    wires = {"": chat, "-messages": messages, "-gemini": gemini, "-converse": bedrock}
    return {MODEL + suffix: wire.reply(words, first=0.01, gaps=0.01) for suffix, wire in wires.items()}


def send_scripted_stream(server_url: str, names: Iterable[str]) -> StreamFacts | None:
    """Stream from a scripted server, through the providers in force.

    Args:
        server_url: the server, which plays `scripts()`.
        names: the SDKs to choose from.

    Returns:
        What came of it; None: none of the SDKs can be used.
    """
    name = next((name for name in names if name in SDKS and SDKS[name].is_installed), None)
    if name is None:
        return None
    sdk = SDKS[name]
    model = MODEL if sdk.wire == "chat" else f"{MODEL}-{sdk.wire}"
    spans: list[Any] = []
    error: str | None = None
    try:
        with (
            mark_as_test(),
            sdk.make_client(server_url, is_async=False) as client,
            sdk.requester(client)(model) as stream,
        ):
            for _ in stream:
                spans = spans or [_span_of_open_stream()]
    except Exception as raised:  # noqa: BLE001 - whatever the SDK raises is the finding
        error = type(raised).__qualname__
    context = spans[0].get_span_context() if spans and spans[0] is not None else None
    if context is None or not context.is_valid:
        return StreamFacts(sdk=name, error=error)
    return StreamFacts(
        sdk=name,
        trace_id=f"{context.trace_id:032x}",
        is_sampled=context.trace_flags.sampled,
        error=error,
    )


def _span_of_open_stream() -> Any:
    """Return the span of the scripted stream, which is open; None: it is not being recorded."""
    for recorder in runtime.open_streams.recorders():
        if recorder.request.is_test:
            return recorder.span_handle.span
    return None
