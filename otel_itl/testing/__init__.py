"""Tools for testing applications that stream from language models: a scripted server, a clock, captured telemetry."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from . import (
    azure,
    bedrock,
    chat,
    cohere,
    completions,
    conversations,
    faults,
    gemini,
    interactions,
    messages,
    mistral,
    ollama,
    responses,
    text_generation,
    xai,
)
from .clock import FakeClock
from .exchange import Exchange, Sent
from .script import Event, Script, Step
from .server import ScriptedServer

if TYPE_CHECKING:
    from .pytest import captured_telemetry as captured_telemetry
    from .telemetry import CapturedTelemetry, Log, Point, capture_telemetry

# The fixture `captured_telemetry` can be imported from here, too. It is not listed: `import *` must not need pytest.
__all__ = [
    "CapturedTelemetry",
    "Event",
    "Exchange",
    "FakeClock",
    "Log",
    "Point",
    "Script",
    "ScriptedServer",
    "Sent",
    "Step",
    "azure",
    "bedrock",
    "capture_telemetry",
    "chat",
    "cohere",
    "completions",
    "conversations",
    "faults",
    "gemini",
    "interactions",
    "messages",
    "mistral",
    "ollama",
    "responses",
    "text_generation",
    "xai",
]

# Loaded when asked for: what imports the OpenTelemetry SDK, or pytest.
_LAZY: Final = {
    "CapturedTelemetry": "telemetry",
    "Log": "telemetry",
    "Point": "telemetry",
    "capture_telemetry": "telemetry",
    "captured_telemetry": "pytest",
}


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
