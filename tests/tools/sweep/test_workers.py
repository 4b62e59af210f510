"""A sweep whose requests are sent by several processes."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from otel_itl.core.slo import SLO
from otel_itl.core.timeline import Outcome
from otel_itl.testing import Script, ScriptedServer, chat, faults
from otel_itl.tools.command_error import CommandError
from otel_itl.tools.report.reading.skipped_input import SkippedInput
from otel_itl.tools.report.reading.streams import read_streams
from otel_itl.tools.sweep import judging, pool
from otel_itl.tools.sweep.driver import run_sweep
from otel_itl.tools.sweep.endpoint import Endpoint
from otel_itl.tools.sweep.plan import SweepPlan
from otel_itl.tools.sweep.pool import CHUNKS_A_SECOND, WorkerPool, count_needed
from otel_itl.tools.sweep.progress import Phase, Progress
from otel_itl.tools.sweep.prompts import make_filler
from otel_itl.tools.sweep.records import Sweep

pytest.importorskip("openai")

PLAN: dict[str, Any] = {
    "peak": 2,
    "prompts": make_filler([(20, 5)]),
    "levels": (1,),
    "rounds": 1,
    "arrivals": "constant",
    "warmup_seconds": 0.05,
    "steady_seconds": 0.5,
    "drain_seconds": 2.0,
    "request_duration": 0.1,
    "workers": 2,
}
asked: set[int] = set()
"""The processes that got a request of the first sweep."""


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        yield running


def drive(server: ScriptedServer, script: Script, on_progress: Any = lambda _: None, **options: Any) -> Sweep:
    server.clear()
    server.always(script)
    endpoint = Endpoint(sdk="openai", model="m", base_url=server.openai_url)
    return asyncio.run(run_sweep(SweepPlan(**{**PLAN, **options}), endpoint, on_progress))


@pytest.fixture(scope="module")
def swept(server: ScriptedServer, tmp_path_factory: pytest.TempPathFactory) -> tuple[Sweep, Path]:
    """A sweep, and the file with its streams."""
    output = tmp_path_factory.mktemp("workers") / "sweep.jsonl"
    ask = pool._Worker.ask
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judging, "describe_driver_limit", lambda *_: None)
        patch.setattr(pool._Worker, "ask", lambda worker, *given: asked.add(id(worker)) or ask(worker, *given))
        return drive(server, chat.reply(3, first=0.1, gaps=0.01), output=str(output)), output


def test_every_request_is_measured_by_one_of_the_processes(swept: tuple[Sweep, Path]) -> None:
    assert {one.measured.tokens if one.measured else 0 for one in swept[0].requests} == {3}
    assert len(asked) == 2


def test_the_moments_are_of_one_clock(swept: tuple[Sweep, Path]) -> None:
    for one in swept[0].requests:
        moments = [one.due, one.sent or 0.0, one.first_token or 0.0, one.ended or 0.0]
        assert (sorted(moments), moments[2] - moments[1] >= 0.1) == (moments, True)


def test_the_file_has_the_streams_of_all_processes(swept: tuple[Sweep, Path]) -> None:
    sweep, output = swept
    assert len(list(read_streams([str(output)], SkippedInput()))) == len(sweep.requests) > 5


def test_the_round_has_how_late_the_processes_were(swept: tuple[Sweep, Path]) -> None:
    assert swept[0].rounds[0].loop_lag_p99 > 0


def test_a_429_ends_the_round(server: ScriptedServer) -> None:
    sweep = drive(server, faults.status(429, headers={"retry-after-ms": "100"}))
    assert (sweep.rounds[0].void_reason, sweep.requests[0].status) == ("429 from the endpoint", 429)


def test_a_stream_that_does_not_end_in_time_is_cut_off(server: ScriptedServer) -> None:
    sweep = drive(server, chat.reply(3, gaps=0.01).cut() + faults.hold(), drain_seconds=0.2)
    found = {(one.ended, one.measured.outcome if one.measured else None) for one in sweep.requests}
    assert found == {(None, Outcome.CANCELLED)}


def test_no_more_requests_are_sent_than_allowed(server: ScriptedServer) -> None:
    sweep = drive(server, chat.reply(3, first=0.05), max_requests=4)
    assert (len(server.exchanges), sweep.stop_reason) == (4, "--max-requests 4 was reached")


def test_a_process_that_ends_ends_the_sweep(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    start = pool._start_process
    monkeypatch.setattr(pool, "_start_process", lambda one: started.append(start(one)) or started[-1])

    def kill(progress: Progress) -> None:
        if progress.phase is Phase.STEADY and started[0].poll() is None:
            os.kill(started[0].pid, signal.SIGKILL)

    with pytest.raises(CommandError, match=r"^a worker process of the sweep has ended: "):
        drive(server, chat.reply(3, first=0.1), kill, steady_seconds=5.0)
    assert [one.poll() is not None for one in started] == [True, True]


def test_what_a_process_cannot_do_is_one_sentence() -> None:
    async def start() -> None:
        await WorkerPool.start(2, Endpoint(sdk="openai", model="m", base_url="no address"), SLO(ttft=1.0))

    with pytest.raises(CommandError, match=r"^base URL 'no address' is not accepted"):
        asyncio.run(start())


@pytest.mark.parametrize(("cores", "expected"), [(1, 1), (4, 3), (8, 3)])
def test_as_many_processes_as_the_load_needs_and_no_more_than_cores(
    monkeypatch: pytest.MonkeyPatch, cores: int, expected: int
) -> None:
    monkeypatch.setattr(pool, "count_cores", lambda: cores)
    assert count_needed(2.5 * CHUNKS_A_SECOND) == expected
