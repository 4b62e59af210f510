"""A request belongs to the session that a framework or another instrumentation keeps, with no code for that."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from keeping import HELLO, KEEPING, Keeping, _pydantic_agent, ask_both, astream, stream

from otel_itl.testing import ScriptedServer, chat

if TYPE_CHECKING:
    from beside import Pair

PROGRAM = """
import asyncio, json, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import otel_itl
from keeping import KEEPING, ask_both

spans, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)
otel_itl.instrument()
(keeping,) = [each for each in KEEPING if str(each) == sys.argv[1]]
expected = asyncio.run(ask_both(keeping, sys.argv[2]))
ours = [span for span in spans.get_finished_spans() if "itl.output_chunk.count" in span.attributes]
shown = [[span.attributes["gen_ai.request.model"], span.attributes.get("session.id")] for span in ours]
print(json.dumps([expected, shown]))
"""


def missing(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is None
    except ModuleNotFoundError:
        return True


def case(keeping: Keeping) -> Any:
    skip = pytest.mark.skipif(missing(keeping.module), reason=f"{keeping.package} is not installed")
    return pytest.param(keeping, id=str(keeping), marks=skip)


def program_shows(keeping: Keeping, url: str) -> Any:
    """Stream in a process whose global tracer provider records."""
    here = Path(__file__).parent
    paths = os.pathsep.join([str(here), str(here.parents[1]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, str(keeping), url],
        env={**os.environ, "PYTHONPATH": paths, "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("keeping", [case(keeping) for keeping in KEEPING])
def test_each_of_two_sessions_at_once_has_its_own_requests_and_no_others(keeping: Keeping, pair: Pair) -> None:
    with ScriptedServer() as server:
        for model in keeping.models:
            server.always(keeping.reply.reply(3, gaps=0.005), model=model)
        if keeping.needs_global_provider:
            expected, shown = program_shows(keeping, server.openai_url)
        else:
            pair.put_on("ours")
            expected = asyncio.run(ask_both(keeping, server.openai_url))
            pair.records()
            attributes = [dict(span.attributes) for span in pair.spans("otel_itl")]
            shown = [(found["gen_ai.request.model"], found.get("session.id")) for found in attributes]
        asked = len(server.exchanges)
    assert (set(map(tuple, shown)), len(shown)) == (set(expected.items()), asked)


OPENAI = [case(keeping) for keeping in KEEPING if not keeping.needs_global_provider]


@pytest.mark.parametrize("keeping", OPENAI)
def test_what_follows_in_the_same_thread_or_task_belongs_to_no_session(keeping: Keeping, pair: Pair) -> None:
    async def ask(url: str) -> None:
        await keeping.ask(url, "gpt-4o", "session")
        await astream(url, "gpt-4o-mini")

    with ScriptedServer(chat.reply(3)) as server:
        pair.put_on("ours")
        if asyncio.iscoroutinefunction(keeping.ask):
            asyncio.run(ask(server.openai_url))
        else:
            keeping.ask(server.openai_url, "gpt-4o", "session")
            stream(server.openai_url, "gpt-4o-mini")
    pair.records()
    last = dict(pair.spans("otel_itl")[-1].attributes)
    assert (last["gen_ai.request.model"], last.get("session.id")) == ("gpt-4o-mini", None)


@pytest.mark.skipif(missing("pydantic_ai.models.openai"), reason="pydantic-ai-slim is not installed")
def test_a_run_of_pydantic_ai_is_in_the_conversation_that_it_continues_and_the_first_is_in_none(pair: Pair) -> None:
    from pydantic_ai.models.instrumented import InstrumentationSettings

    captured = pair.captured

    async def ask(url: str) -> str:
        agent = _pydantic_agent(url, "gpt-4o")
        # Its own spans carry the id in any case.
        agent.instrument = InstrumentationSettings(
            tracer_provider=captured.tracer_provider, meter_provider=captured.meter_provider
        )
        history: Any = None
        for _ in range(2):
            async with agent.run_stream(HELLO, message_history=history) as result:
                await result.get_output()
            history = result.all_messages()
        return str(history[-1].conversation_id)

    with ScriptedServer(chat.reply(3)) as server:
        pair.put_on("ours")
        conversation = asyncio.run(ask(server.openai_url))
    pair.records()
    shown = [dict(span.attributes).get("session.id") for span in pair.spans("otel_itl")]
    assert shown == [None, conversation]


def test_the_table_of_kept_sessions_is_current() -> None:
    """If not: `python docs/generate_sessions.py`."""
    docs = Path(__file__).parents[2] / "docs"
    text = (docs / "sessions.md").read_text(encoding="utf-8")
    assert text == runpy.run_path(str(docs / "generate_sessions.py"))["page"](text)
