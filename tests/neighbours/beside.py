"""What passes between a caller and a server, and both instrumentations put on in any order and taken off again."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import openai
from openai.resources import responses as responses_module

import otel_itl
from otel_itl import testing
from otel_itl.runtime import runtime
from otel_itl.testing import CapturedTelemetry, ScriptedServer, chat, faults, responses

if TYPE_CHECKING:
    from instrumentations import Instrumentation


@dataclass(frozen=True)
class Exchanged:
    """What the caller got, and what the server was sent: request bodies byte for byte."""

    output: Any
    bodies: list[bytes]


CLAUDE, GEMINI, NOVA = "claude-sonnet-4-5", "gemini-2.5-pro", "amazon.nova-lite-v1:0"
MISTRAL, LLAMA = "mistral-large", "llama3"
"""Models that the server plays, each in the format of its SDK."""

Ask = Callable[[str], Any]
"""Streams from the server at this base URL; returns what the caller got."""


def exchanged(ask: Ask) -> Exchanged:
    """What passes when the question is asked of a fresh server, whose responses are therefore the same each time."""
    with ScriptedServer() as server:
        server.always(chat.reply(5, first=0.01, gaps=0.005), model="gpt-4o")
        server.always(responses.reply(5, first=0.01, gaps=0.005), model="gpt-5")
        server.always(
            chat.reply(0, tools=[("Answer", ['{"na', 'me":"A', 'da","age":', "36}"])], first=0.01, gaps=0.005),
            model="gpt-4o-tools",
        )
        for wire, model in (
            ("messages", CLAUDE),
            ("gemini", GEMINI),
            ("bedrock", NOVA),
            ("mistral", MISTRAL),
            ("ollama", LLAMA),
        ):
            if hasattr(testing, wire):
                server.always(getattr(testing, wire).reply(5, first=0.01, gaps=0.005), model=model)
        server.always(faults.status(404, "nothing is here"), model="refused")
        output = ask(server.openai_url)
        return Exchanged(settled(output), [exchange.body for exchange in server.exchanges])


def settled(output: Any) -> Any:
    """Output that compares: the time of the response is of no interest."""
    return json.loads(re.sub(r'("created(?:_at)?": )[\d.]+', r"\1 0", json.dumps(output, default=plain)))


def plain(value: Any) -> Any:
    """A chunk as data, with the name of its type."""
    dump = getattr(value, "model_dump", None)
    return [type(value).__name__, dump(mode="json", warnings=False) if dump is not None else str(value)]


def run(coroutine: Any) -> Any:
    """The result of a coroutine, in a loop of its own."""
    return asyncio.run(coroutine)


WRAPPED = (
    openai.OpenAI,
    openai.AsyncOpenAI,
    openai.resources.chat.Completions,
    openai.resources.chat.AsyncCompletions,
    openai.resources.Completions,
    openai.resources.AsyncCompletions,
    responses_module.Responses,
    responses_module.AsyncResponses,
)
"""Classes of the SDK in which other instrumentations put their wrappers."""


@contextmanager
def restored() -> Iterator[None]:
    """After the block the SDK has its own functions again: not everybody takes off what they put on."""
    before = [dict(vars(owner)) for owner in WRAPPED]
    try:
        yield
    finally:
        for owner, found in zip(WRAPPED, before, strict=True):
            for name, value in dict(vars(owner)).items():
                if name not in found:
                    delattr(owner, name)
                elif value is not found[name]:
                    setattr(owner, name, found[name])


class Pair:
    """otel_itl, `ours`, and another instrumentation, `theirs`: put on and taken off in any order."""

    def __init__(self, other: Instrumentation | None, captured: CapturedTelemetry) -> None:
        self._other = other
        self._removals: dict[str, Callable[[], None]] = {}
        self.captured = captured
        self._providers = {
            "tracer_provider": captured.tracer_provider,
            "meter_provider": captured.meter_provider,
            "logger_provider": captured.logger_provider,
        }

    def put_on(self, *whose: str) -> None:
        for name in whose:
            if name == "theirs" and self._other is not None:
                self._removals[name] = self._other.install(self._providers)
            if name == "ours":
                otel_itl.instrument(**self._providers)
                self._removals[name] = otel_itl.uninstrument

    def take_off(self, *whose: str) -> None:
        for name in whose:
            removal = self._removals.pop(name, None)
            if removal is not None:
                removal()

    def records(self) -> int:
        """How many streams were recorded since the telemetry was cleared; nothing of ours failed meanwhile."""
        self.captured.tracer_provider.force_flush()
        assert runtime.errors.counts == {}
        return int(sum(point.value for point in self.captured.metrics.get("itl.client.stream.outcomes", ())))

    def spans(self, scope: str) -> list[Any]:
        """The spans of a scope."""
        return [span for span in self.captured.spans if span.instrumentation_scope.name == scope]
