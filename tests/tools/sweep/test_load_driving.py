"""A sweep's load over real sockets: the SDKs against a scripted server."""

from __future__ import annotations

import asyncio
import re
import signal
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from otel_itl.core.slo import SLO
from otel_itl.core.timeline import Outcome
from otel_itl.testing import Script, ScriptedServer, chat, faults, messages
from otel_itl.tools.command_error import CommandError
from otel_itl.tools.compare.sides import SideReader
from otel_itl.tools.report.reading.skipped_input import SkippedInput
from otel_itl.tools.report.reading.streams import read_streams
from otel_itl.tools.report.selection import find_attribute
from otel_itl.tools.sweep import brakes, judging, rounds
from otel_itl.tools.sweep.driver import run_sweep
from otel_itl.tools.sweep.endpoint import Endpoint
from otel_itl.tools.sweep.judging import describe_driver_limit
from otel_itl.tools.sweep.knee import analyze
from otel_itl.tools.sweep.plan import SweepPlan
from otel_itl.tools.sweep.prices import Price
from otel_itl.tools.sweep.progress import Phase, Progress
from otel_itl.tools.sweep.prompts import load_prompts, make_filler
from otel_itl.tools.sweep.records import DueRequest, Sweep
from otel_itl.tools.sweep.render.words import headline
from otel_itl.tools.sweep.results import Standing
from otel_itl.tools.sweep.traffic import read_traffic

pytest.importorskip("openai")

QUICK = chat.reply(3, first=0.02, gaps=0.01)
PLAN: dict[str, Any] = {
    "peak": 2,
    "prompts": make_filler([(20, 5)]),
    "levels": (1,),
    "rounds": 1,
    "arrivals": "constant",
    "warmup_seconds": 0.05,
    "steady_seconds": 0.3,
    "drain_seconds": 2.0,
    "request_duration": 0.1,
}
"""20 requests per second at 1x, for 0.35 s and as long as steady streams are open."""


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        yield running


@pytest.fixture
def drive(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Sweep]:
    """Drive the server, which plays the script for each request after the queued ones.

    Other tests run on this machine at the same time: that it could not drive more is a result of one test only.
    """
    server.clear()
    monkeypatch.setattr(judging, "describe_driver_limit", lambda *_: None)

    def driven(
        script: Script = QUICK,
        *queued: Script,
        sdk: Any = "openai",
        on_progress: Callable[[Progress], None] = lambda _: None,
        **options: Any,
    ) -> Sweep:
        server.always(script)
        server.play(*queued)
        url = server.openai_url if sdk == "openai" else server.anthropic_url
        endpoint = Endpoint(sdk=sdk, model="m", base_url=url)
        return asyncio.run(run_sweep(SweepPlan(**{**PLAN, **options}), endpoint, on_progress))

    return driven


def steady(sweep: Sweep) -> list[DueRequest]:
    return [request for request in sweep.requests if request.is_steady]


def streams(sweep: Sweep, level: float) -> int:
    """How many steady streams of a level were measured."""
    return sum(request.measured is not None and request.level == level for request in steady(sweep))


# --- The load --------------------------------------------------------------------------------------------------------


def test_a_search_begins_at_the_peak_and_reports_the_levels_that_it_chose(drive: Callable[..., Sweep]) -> None:
    sweep = drive(is_search=True, levels=(1, 2), objective=SLO(ttft=5.0, itl=1.0))
    driven = [one.level for one in sweep.rounds]
    assert (driven[0], len(driven) > 1, list(sweep.levels)) == (1.0, True, sorted(set(driven)))


def test_an_open_loop_keeps_its_schedule_however_slow_the_server_is(drive: Callable[..., Sweep]) -> None:
    found = steady(drive(chat.reply(2, first=0.5)))
    due = [request.due for request in found]
    # All are sent before the first one has ended.
    assert len(found) == pytest.approx(6, abs=1)
    assert [b - a for a, b in pairwise(due)] == pytest.approx([0.05] * (len(found) - 1))
    assert max(request.sent or 9 for request in found) < min(request.ended or 0 for request in found)


def test_the_ttft_counts_from_the_moment_when_a_request_was_due(drive: Callable[..., Sweep]) -> None:
    found = steady(drive())
    measured = [(one, one.measured.time_to_first_token) for one in found if one.measured]
    known = [(one, since_sent) for one, since_sent in measured if since_sent is not None]
    assert len(known) > 0
    for request, since_sent in known:
        assert request.sent is not None
        assert request.time_to_first_token == request.sent - request.due + since_sent > 0.02


def test_a_closed_loop_has_as_many_callers_as_streams_are_planned(drive: Callable[..., Sweep]) -> None:
    sweep = drive(levels=(1, 2), is_open_loop=False)
    assert [(one.level, one.rate, one.max_concurrency) for one in sweep.rounds] == [(1, None, 2), (2, None, 4)]


def test_rates_follow_from_the_measured_duration_by_littles_law(drive: Callable[..., Sweep]) -> None:
    phases = set()
    sweep = drive(levels=(1, 1.5), request_duration=None, on_progress=lambda one: phases.add(one.phase))
    # A request takes 0.04 s, and what this machine adds: 2 streams at a time are less than 50 requests per second.
    low, high = (one.rate for one in sweep.rounds)
    assert 0 < (low or 0) < 50
    assert high == pytest.approx(1.5 * (low or 0))
    assert Phase.CALIBRATION in phases


def test_anthropics_sdk_drives_as_well(drive: Callable[..., Sweep]) -> None:
    pytest.importorskip("anthropic")
    sweep = drive(messages.reply(3, first=0.02, gaps=0.01), sdk="anthropic")
    found = steady(sweep)
    assert {request.measured.tokens for request in found if request.measured} == {3}
    assert {request.error for request in found} == {None}


def test_the_streams_are_in_a_file_that_can_be_compared_by_level(drive: Callable[..., Sweep], tmp_path: Path) -> None:
    output = str(tmp_path / "sweep.jsonl")
    sweep = drive(levels=(1, 2), output=output, request_duration=None)
    stored = list(read_streams([output], SkippedInput()))
    is_steady = [find_attribute(stream.span_facts.attributes, "itl.sweep.steady") == "true" for stream in stored]
    assert sum(is_steady) == streams(sweep, 1) + streams(sweep, 2) > 0
    split = "itl.sweep.level=1,2"
    sides = SideReader(SkippedInput()).read_by_attribute([output], split)
    counted = [sum(one.measured is not None for one in steady(sweep) if one.level == level) for level in (1, 2)]
    assert [len(side.requests) for side in sides] == counted
    traffic = read_traffic([output], SkippedInput())
    assert (len(traffic.inter_arrivals) + 1, set(traffic.lengths)) == (len(stored), {(10, 3)})


def test_a_stream_that_does_not_end_in_time_is_cut_off(drive: Callable[..., Sweep]) -> None:
    found = steady(drive(chat.reply(3, gaps=0.01).cut() + faults.hold(), drain_seconds=0.2))
    assert {(one.ended, one.measured.outcome if one.measured else None) for one in found} == {(None, Outcome.CANCELLED)}


def test_a_machine_that_does_not_keep_up_voids_its_round(
    drive: Callable[..., Sweep], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "describe_driver_limit", describe_driver_limit)
    (one,) = drive(on_progress=lambda _: time.sleep(0.1), steady_seconds=1.0).rounds
    assert one.void_reason is not None
    assert (one.void_reason.startswith("this machine could not drive more: "), one.is_driver_bound) == (True, True)


# --- Brakes ----------------------------------------------------------------------------------------------------------


def test_a_429_voids_its_round_and_nothing_is_sent_until_its_time_is_over(
    drive: Callable[..., Sweep], server: ScriptedServer
) -> None:
    refusal = faults.status(429, headers={"retry-after-ms": "600"})
    sweep = drive(QUICK, *[QUICK] * 4, refusal, levels=(1, 2), rounds=2)
    assert (sweep.rounds[0].void_reason, sweep.rounds[0].is_driver_bound) == ("429 from the endpoint", False)
    assert [(one.level, one.round) for one in sweep.rounds] == [(1, 0), (1, 1)]
    assert sweep.stop_reason == "429 from the endpoint at 1 times the peak: higher levels were not tried"
    assert [(one.status, one.error) for one in sweep.requests if one.error] == [(429, "RateLimitError")]
    arrivals = sorted(exchange.arrived_ns / 1e9 for exchange in server.exchanges)
    refused = arrivals[4]
    # What was already on its way may still arrive.
    assert [moment for moment in arrivals[5:] if refused + 0.2 < moment < refused + 0.6] == []


def test_a_longer_pause_than_allowed_ends_the_sweep(drive: Callable[..., Sweep], server: ScriptedServer) -> None:
    sweep = drive(faults.status(429, headers={"retry-after": "3600"}), rounds=3)
    assert sweep.stop_reason == "the endpoint asked for a pause of 3,600 s, more than 120 s"
    assert (len(server.exchanges) > 0, len(sweep.rounds) <= 1) == (True, True)


def test_a_redirect_is_not_followed(drive: Callable[..., Sweep], server: ScriptedServer) -> None:
    with ScriptedServer() as other:
        redirect = Script(status=307, headers={"location": f"{other.openai_url}/chat/completions"}, body=b"{}")
        sweep = drive(redirect, levels=(1, 2))
        assert len(other.exchanges) == 0
    assert {one.status for one in sweep.requests if one.sent is not None} == {307}
    reason = sweep.stop_reason or ""
    assert reason.startswith("100% of the requests failed (307 APIStatusError: a redirect to http://127.0.0.1:")
    assert reason.endswith(", which is not followed) at 1 times the peak: it and higher levels were not tried again")


def test_an_endpoint_that_dies_in_a_round_has_stopped_answering_there(drive: Callable[..., Sweep]) -> None:
    sweep = drive(Script((faults.close(),)), *[QUICK] * 8, steady_seconds=1.0)
    result = analyze(sweep)
    assert (result.knee, result.judged, result.exit_code) == (None, [], 3)
    assert "the endpoint stopped answering in round 1 of 1, at 1x: the last " in headline(result)
    assert not any(one.is_held_up for one in sweep.requests if one.error is not None)


def test_an_endpoint_that_fails_in_the_warm_up_does_not_hold(drive: Callable[..., Sweep]) -> None:
    sweep = drive(faults.status(500), warmup_seconds=3.0)
    result = analyze(sweep)
    assert (result.judged, result.exit_code) == ([], 1)
    assert "it ended in its warm-up: 100% of the requests failed (500 InternalServerError: " in headline(result)


def test_a_failed_request_is_not_sent_again(drive: Callable[..., Sweep], server: ScriptedServer) -> None:
    sweep = drive(faults.status(500))
    assert len(server.exchanges) == sum(request.sent is not None for request in sweep.requests) >= 5


def test_no_more_requests_are_sent_than_allowed(drive: Callable[..., Sweep], server: ScriptedServer) -> None:
    sweep = drive(max_requests=4, steady_seconds=1.0)
    assert (len(server.exchanges), sweep.stop_reason) == (4, "--max-requests 4 was reached")
    assert sweep.rounds[0].void_reason == "it was cut short: --max-requests 4 was reached"


def test_tokens_and_cost_stay_below_their_limits_with_streams_under_way(drive: Callable[..., Sweep]) -> None:
    # Each of 10 input and 3 output tokens costs 0.00011, and reserves more while it is open.
    slow = chat.reply(3, first=0.3)
    sweep = drive(
        slow,
        max_cost=0.006,
        price=Price(5.0, 20.0),
        steady_seconds=5.0,
    )
    assert (sweep.stop_reason or "").startswith("--max-cost 0.006 would be exceeded by a further request (0.00")
    assert sweep.cost is not None
    assert 0.004 < sweep.cost <= 0.006


def test_no_level_above_one_whose_queue_grows_is_tried(drive: Callable[..., Sweep]) -> None:
    growing = [chat.reply(2, first=0.02 + 0.05 * number) for number in range(60)]
    sweep = drive(QUICK, *growing, peak=3, levels=(1, 2), steady_seconds=1.4)
    assert [one.level for one in sweep.rounds] == [1]
    assert sweep.stop_reason is not None
    assert sweep.stop_reason.endswith("at 1 times the peak: higher levels were not tried")


def test_more_open_streams_than_allowed_end_the_round(
    drive: Callable[..., Sweep], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "MAX_OPEN_FACTOR", 1)
    monkeypatch.setattr(rounds, "MIN_OPEN_ABOVE", 2)
    sweep = drive(chat.reply(2, first=0.6), levels=(1, 2))
    assert sweep.stop_reason == "6 streams were open at 1 times the peak: higher levels were not tried"


def test_ctrl_c_lets_open_streams_end_and_returns_what_was_measured(drive: Callable[..., Sweep]) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.phase is Phase.STEADY and progress.stopping is None:
            signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    sweep = drive(chat.reply(3, first=0.3), steady_seconds=5.0, on_progress=interrupt)
    assert (sweep.stop_reason, sweep.rounds[0].void_reason) == ("interrupted", "it was cut short: interrupted")
    assert {one.measured.outcome if one.measured else None for one in sweep.requests if one.sent} == {Outcome.COMPLETED}
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_cuts_open_streams_off(drive: Callable[..., Sweep]) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.phase in {Phase.STEADY, Phase.DRAIN}:
            signal.raise_signal(signal.SIGINT)

    sweep = drive(faults.never(), steady_seconds=5.0, drain_seconds=30.0, on_progress=interrupt)
    assert sweep.stop_reason == "interrupted"
    assert {one.ended for one in sweep.requests} == {None}


# --- What cannot begin -----------------------------------------------------------------------------------------------


def test_an_endpoint_that_refuses_everything_is_not_swept(drive: Callable[..., Sweep]) -> None:
    with pytest.raises(CommandError, match=r"failed at the expected peak \(401 AuthenticationError: "):
        drive(faults.status(401), request_duration=None)


@pytest.mark.parametrize(
    "answer",
    [
        Script(headers={"content-type": "text/html"}, body=b"<html>vLLM</html>"),
        Script(headers={"content-type": "application/json"}, body=b'{"choices": [{"message": {"content": "Hi"}}]}'),
        Script(headers={"content-type": "text/event-stream"}, body=b"data: [DONE]\n\n"),
    ],
    ids=["page", "not a stream", "only the end"],
)
def test_an_endpoint_that_answers_without_a_token_gets_a_handful_of_requests(
    drive: Callable[..., Sweep], server: ScriptedServer, answer: Script
) -> None:
    with pytest.raises(CommandError, match=r"answered without a token: is this the right base URL, and does it"):
        drive(answer, request_duration=None, peak=50)
    assert len(server.exchanges) <= 6


def test_an_answer_without_a_token_is_a_failure_in_a_round(drive: Callable[..., Sweep]) -> None:
    empty = Script(headers={"content-type": "text/event-stream"}, body=b"data: [DONE]\n\n")
    found = steady(drive(QUICK, *[empty] * 2))
    assert {one.error for one in found if one.time_to_first_token is None} <= {"NoToken"}


@pytest.mark.parametrize("script", [faults.never(), chat.reply(3).cut() + faults.hold()], ids=["no answer", "no end"])
def test_ctrl_c_ends_the_measurement_of_a_request(
    drive: Callable[..., Sweep], monkeypatch: pytest.MonkeyPatch, script: Script
) -> None:
    monkeypatch.setattr(brakes, "INTERRUPTED_DRAIN", 0.3)

    def interrupt(progress: Progress) -> None:
        if progress.open and progress.stopping is None:
            signal.raise_signal(signal.SIGINT)

    began = time.monotonic()
    sweep = drive(script, request_duration=None, on_progress=interrupt, drain_seconds=None)
    assert (sweep.stop_reason, sweep.rounds, sweep.request_count) == ("interrupted", [], 2)
    assert time.monotonic() - began < 3


def test_an_endpoint_that_dies_is_described_by_its_failures(drive: Callable[..., Sweep]) -> None:
    sweep = drive(Script((faults.close(),)), max_error_share=1.0)
    result = analyze(sweep)
    sentence = headline(result)
    assert re.fullmatch(
        r"All \d requests failed at 1x the expected peak of 2 \(APIConnectionError: the connection was closed in the "
        r"middle of the answer\)\.",
        sentence,
    )
    assert (result.judged[0].standing, result.exit_code) == (Standing.FAILING, 1)


def test_a_429_at_once_counts_the_requests_that_were_sent(drive: Callable[..., Sweep], server: ScriptedServer) -> None:
    sweep = drive(faults.status(429, headers={"retry-after": "3600"}), request_duration=None)
    assert sweep.request_count == len(server.exchanges) >= 1


def test_the_requests_of_the_calibration_are_counted(drive: Callable[..., Sweep], server: ScriptedServer) -> None:
    sweep = drive(request_duration=None)
    assert sweep.request_count == len(server.exchanges) > len(sweep.requests) + 10


def test_a_prompt_that_cannot_be_made_ends_the_sweep(drive: Callable[..., Sweep]) -> None:
    with pytest.raises(CommandError, match=r"^json:loads\(0\) raised TypeError"):
        drive(prompts=load_prompts("json:loads", 9))


def test_an_output_file_that_exists_is_left_as_it_is(drive: Callable[..., Sweep], tmp_path: Path) -> None:
    output = tmp_path / "sweep.jsonl"
    output.write_text("mine")
    with pytest.raises(FileExistsError):
        drive(output=str(output))
    assert output.read_text() == "mine"


def test_a_switch_that_forbids_measuring_is_named(drive: Callable[..., Sweep], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_ITL_DISABLED", "true")
    with pytest.raises(CommandError, match="OTEL_ITL_DISABLED"):
        drive()
