"""A log exporter or a callback that blocks for seconds delays no event loop, no other stream and no abort."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import openai
import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs import export as log_export

import otel_itl
from bench.lateness import LatenessMeter
from otel_itl import Stall, StallPolicy
from otel_itl.runtime import runtime
from otel_itl.testing import Script, ScriptedServer, capture_telemetry, chat, faults

pytestmark = pytest.mark.requirement("R44")

BLOCKED: Final = 1.5
"""Seconds for which each log event, or each callback, blocks its thread."""
THRESHOLD: Final = 0.2
ABORT_AFTER: Final = 0.9
PROMPT: Final = 0.25
"""Seconds after its threshold within which a stall is reported, on a machine that has time."""
LOOP_LAG: Final = 0.5
"""A third of `BLOCKED`: an event loop that waited for what blocks would be late by much more."""
TICK: Final = 0.01
ASKED: Any = [{"role": "user", "content": "hello"}]

# The first stream stalls and ends while its report blocks. The second stalls meanwhile, the third until it is aborted.
SCRIPTS: Final[dict[str, Script]] = {
    "first": chat.reply(2, first=0.05, gaps=0.7),
    "second": chat.reply(2, first=0.5, gaps=0.7),
    "held": chat.reply(1, first=0.05).cut() + faults.hold(),
}


class BlockingExporter:
    """A log exporter that notes when it is called, for which model and event, and then blocks."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.called: dict[tuple[str, str], int] = {}

    def export(self, batch: Sequence[Any]) -> Any:
        for one in batch:
            record = one.log_record
            self.called[record.attributes["gen_ai.request.model"], record.event_name] = time.perf_counter_ns()
        time.sleep(self._seconds)
        return getattr(log_export, "LogRecordExportResult", getattr(log_export, "LogExportResult", None)).SUCCESS

    def shutdown(self) -> None:
        """Do nothing."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Do nothing."""
        return True


@dataclass
class Run:
    """What three streams on one event loop met with."""

    logged: dict[tuple[str, str], int]
    """Model and log event → when the exporter got it (ns)."""
    called: dict[str, int] = field(default_factory=dict)
    """Model → when `on_stall` was called (ns)."""
    first_chunks: dict[str, int] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)
    errors: dict[str, BaseException] = field(default_factory=dict)
    longest_gap: float = 0.0
    """Seconds between two turns of a task that sleeps for `TICK`, at worst."""
    lateness: float = 0.0
    """By how many seconds this machine woke another thread up late, at worst."""

    def stall_began(self, model: str) -> int:
        """When the stream had been silent for as long as the threshold (ns)."""
        return self.first_chunks[model] + int(THRESHOLD * 1e9)


async def read(client: openai.AsyncOpenAI, model: str, run: Run) -> None:
    try:
        async for chunk in await client.chat.completions.create(model=model, messages=ASKED, stream=True):
            if chunk.choices and chunk.choices[0].delta.content:
                run.first_chunks.setdefault(model, time.perf_counter_ns())
    except openai.APIError as error:
        run.errors[model] = error
    run.ended[model] = time.perf_counter_ns()


async def tick(run: Run) -> None:
    before = time.perf_counter()
    while True:
        await asyncio.sleep(TICK)
        now = time.perf_counter()
        run.longest_gap = max(run.longest_gap, now - before)
        before = now


async def read_all(url: str, run: Run) -> None:
    http_client = openai.DefaultAsyncHttpxClient(verify=False)
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0, http_client=http_client) as client:
        async for _ in await client.chat.completions.create(model="warm", messages=ASKED, stream=True):
            pass
        ticking = asyncio.create_task(tick(run))
        await asyncio.gather(*(read(client, model, run) for model in SCRIPTS))
        ticking.cancel()


@pytest.fixture(scope="module", params=["log exporter", "callback"])
def run(request: pytest.FixtureRequest) -> Run:
    """Three streams of the real SDK, read while what blocks is called for each stall."""
    exporter = BlockingExporter(BLOCKED if request.param == "log exporter" else 0)
    logger_provider = LoggerProvider(shutdown_on_exit=False)
    logger_provider.add_log_record_processor(log_export.SimpleLogRecordProcessor(exporter))
    run = Run(exporter.called)

    def on_stall(stall: Stall) -> None:
        run.called[stall.request.model or ""] = time.perf_counter_ns()
        time.sleep(BLOCKED if request.param == "callback" else 0)

    with capture_telemetry() as telemetry, ScriptedServer() as server, LatenessMeter() as meter:
        for model, script in SCRIPTS.items():
            server.play(script, model=model)
        otel_itl.instrument(
            tracer_provider=telemetry.tracer_provider,
            meter_provider=telemetry.meter_provider,
            logger_provider=logger_provider,
            stall=StallPolicy(first_token=None, next_token=THRESHOLD, relative=None, abort_after=ABORT_AFTER),
            on_stall=on_stall,
        )
        asyncio.run(read_all(server.openai_url, run))
        run.lateness = meter.worst()
        assert runtime.callback_threads.wait_until_idle(
            10 * BLOCKED
        )  # those that wait are not called after the next line
        otel_itl.uninstrument()
        assert runtime.log_threads.wait_until_idle(10 * BLOCKED)
    return run


def test_the_event_loop_goes_on(run: Run) -> None:
    assert run.longest_gap < LOOP_LAG + run.lateness


def test_a_stream_whose_report_blocks_ends_in_time(run: Run) -> None:
    waited = (run.ended["first"] - run.first_chunks["first"]) / 1e9
    assert waited < 0.7 + LOOP_LAG + run.lateness


def test_the_stall_of_another_stream_is_logged_in_time(run: Run) -> None:
    late = (run.logged["second", "itl.stall.started"] - run.stall_began("second")) / 1e9
    assert late <= PROMPT + run.lateness


def test_a_stream_is_aborted_in_time(run: Run) -> None:
    late = (run.ended["held"] - run.first_chunks["held"]) / 1e9 - ABORT_AFTER
    assert (type(run.errors["held"]), late <= PROMPT + run.lateness) == (openai.APITimeoutError, True)


def test_every_stall_is_logged_when_it_begins_and_when_it_ends(run: Run) -> None:
    assert run.logged.keys() == {
        (model, event) for model in SCRIPTS for event in ("itl.stall.started", "itl.stall.ended")
    }


def test_every_callback_is_called(run: Run) -> None:
    assert run.called.keys() == set(SCRIPTS)
