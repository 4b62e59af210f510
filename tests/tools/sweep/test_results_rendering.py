"""The answer in a sentence, and the forms that it is printed in."""

from __future__ import annotations

import io
import json
import re
import zlib
from base64 import b64decode
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from otel_itl.core.slo import SLO
from otel_itl.core.timeline import Outcome
from otel_itl.tools.report.certainty import Cause
from otel_itl.tools.report.render.terminal import open_terminal
from otel_itl.tools.sweep.brakes import RoundEnd
from otel_itl.tools.sweep.knee import SweepResult, analyze
from otel_itl.tools.sweep.progress import Phase, Progress
from otel_itl.tools.sweep.render.backlog import note_backlog
from otel_itl.tools.sweep.render.json import SCHEMA, sweep_to_json
from otel_itl.tools.sweep.render.page import sweep_to_page
from otel_itl.tools.sweep.render.progress import describe_progress
from otel_itl.tools.sweep.render.terminal import print_sweep
from otel_itl.tools.sweep.render.words import describe_notes, headline
from otel_itl.tools.sweep.results import Standing
from tests.tools.sweep.sweeps import LEVELS, Law, due_request, measured, one_round, simulate, sweep_of

DOCS = Path(__file__).parents[3] / "docs" / "sweep.md"


def batching(streams: float) -> float:
    return 0.02 * (1 + (streams / 48) ** 2 / 2)


def steady(_: float) -> float:
    return 0.02


def slow(_: float) -> float:
    return 0.2


def analyzed(gap: Law = steady, **given: Any) -> SweepResult:
    sweep = simulate(gap, **{"seconds": 8.0, "rounds": 2, **given})
    return analyze(sweep)


DRIVER = {"void_reason": "this machine could not drive more: the event loop was 40 ms late", "is_driver_bound": True}
LIMITED = {"void_reason": "429 from the endpoint"}
PAUSE = "the endpoint asked for a pause of 500 s, more than 120 s"


CHAT_72 = "Carries at least 72 streams within chat's objective; "


@pytest.mark.parametrize(
    ("gap", "given", "begin", "end"),
    [
        (
            batching,
            {},
            "Carries 72 streams within chat's objective; at 120 ",
            " % of the gaps are longer than 100 ms (1 % may), the wait is upstream's, at every token.",
        ),
        (
            steady,
            {"capacity": 34.0, "seconds": 18.0},
            "Carries 24 streams within chat's objective; at 36 ",
            "500 ms, or are not completed (1 % may), the wait is upstream's, before the first token.",
        ),
        (
            steady,
            {"capacity": 30.0, "objective": None},
            "Carries 24 streams; at 36 the added load does not come out as more completed requests, ",
            "the wait is upstream's, before the first token.",
        ),
        (steady, {}, "Carries at least 120 streams within chat's objective; ", "more was not tried."),
        (
            steady,
            {"levels": (1.0, 1.5), "stop_reason": "--max-requests 500 was reached"},
            "Carries at least 36 streams within chat's objective; ",
            "more was not tried: --max-requests 500 was reached.",
        ),
        (
            steady,
            {"void": {5.0: DRIVER}},
            CHAT_72,
            "this machine could not drive more: at 120 streams (5x) the event loop was 40 ms late.",
        ),
        (
            steady,
            {"void": {5.0: LIMITED}},
            CHAT_72,
            "at 120 streams (5x) nothing is known: 429 from the endpoint.",
        ),
        (
            slow,
            {},
            "Does not carry 24 streams (1x the expected peak of 24) within chat's objective: ",
            " % of the gaps are longer than 100 ms (1 % may), the wait is upstream's, at every token.",
        ),
        (
            steady,
            {"objective": SLO(itl=0.0362), "levels": (1.0,), "seconds": 8.0},
            "It is not known whether 24 streams (1x the expected peak of 24) are carried within the objective: ",
            " would decide.",
        ),
        (
            steady,
            {"void": dict.fromkeys(LEVELS, LIMITED)},
            "The sweep did not measure what the endpoint carries: ",
            "429 from the endpoint.",
        ),
        (
            steady,
            {"void": dict.fromkeys(LEVELS, LIMITED), "levels": (1.0,), "stop_reason": PAUSE},
            "The sweep did not measure what the endpoint carries: 429 from the endpoint, and ",
            "the endpoint asked for a pause of 500 s, more than 120 s.",
        ),
        (
            steady,
            {
                "void": {5.0: LIMITED},
                "stop_reason": "429 from the endpoint at 5 times the peak: higher levels were not tried",
            },
            CHAT_72,
            "at 120 streams (5x) nothing is known: 429 from the endpoint.",
        ),
        (
            steady,
            {"void": dict.fromkeys(LEVELS, DRIVER)},
            "This machine could not drive 24 streams (1x), and nothing is known of the endpoint: ",
            "the event loop was 40 ms late.",
        ),
        (steady, {"levels": (), "stop_reason": "interrupted"}, "Nothing was measured: ", "interrupted."),
    ],
    ids=[
        *("batch", "queue", "no objective", "all carried", "brake", "driver-bound", "429", "none carried"),
        *("uncertain", "all void", "long pause", "429 ended it", "all driver-bound", "nothing driven"),
    ],
)
def test_the_answer_is_one_sentence(gap: Law, given: dict[str, Any], begin: str, end: str) -> None:
    sentence = headline(analyzed(gap, **given))
    assert (sentence[: len(begin)], sentence[-len(end) :]) == (begin, end)


def test_the_level_beyond_the_knee_has_the_streams_of_the_table() -> None:
    result = analyzed(batching, peak=1.74)
    rounded = [replace(one, concurrency=8.7) for one in result.levels]
    assert "; at 8.7 2" in headline(replace(result, levels=rounded))


def test_requests_without_a_token_are_the_answer_where_the_percentile_falls_among_them() -> None:
    good = [due_request(number / 10, of=measured()) for number in range(190)]
    failed = [due_request(number, status=503, error="InternalServerError") for number in range(10)]
    sweep = sweep_of([one_round()], [*good, *failed])
    sentence = headline(analyze(sweep))
    assert "chat's objective: 5.00 % of the requests get no token (1 % may), the wait is upstream's" in sentence


def printed(result: SweepResult, columns: int) -> str:
    """What a terminal of this width gets."""
    file = io.StringIO()
    print_sweep(result, open_terminal(file, columns))
    return file.getvalue()


@pytest.fixture(scope="module")
def batch() -> SweepResult:
    return analyzed(batching, long_gaps={1.0: 0.001}, model="m\x1b[31m<script>")


@pytest.mark.parametrize("columns", [40, 80, 132])
def test_a_terminal_of_any_width_gets_no_longer_lines(batch: SweepResult, columns: int) -> None:
    assert max(map(len, printed(batch, columns).splitlines())) <= columns


def test_five_levels_stand_beside_each_other_in_80_columns(batch: SweepResult) -> None:
    assert re.search(r"^ +1x +1\.5x +2x +3x +5x$", printed(batch, 80), re.MULTILINE)


def test_a_pipe_gets_ascii(batch: SweepResult) -> None:
    assert printed(batch, 80).isascii()


def test_a_sweep_without_a_figure_is_printed() -> None:
    assert "5x is void: 429 from the endpoint." in printed(analyzed(void=dict.fromkeys(LEVELS, LIMITED)), 80)


def document_of(page: str) -> dict[str, Any]:
    """The document in a page."""
    packed = re.search(r'id="data">([^<]+)<', page)
    assert packed is not None
    found: dict[str, Any] = json.loads(zlib.decompress(b64decode(packed.group(1))))
    return found


def test_the_levels_are_the_sides_of_the_page() -> None:
    streams = [
        due_request(level, of=measured(), level=level, described={"id": f"{level}", "start": level})
        for level in (1.0, 1.5)
    ]
    rounds = [one_round(1.0), one_round(1.5), one_round(1.5, 1, void_reason="429 from the endpoint")]
    void = due_request(3.0, of=measured(), level=1.5, round=1, described={"id": "3", "start": 3.0})
    document = document_of(sweep_to_page(analyze(sweep_of(rounds, [*streams, void]))))
    sides = [stream["side"] for stream in document["streams"]]
    assert (document["sides"], sides) == (["1x", "1.5x"], [1, 0])


def keys_of(data: Any) -> set[str]:
    """All keys of an object of JSON, but those that are data."""
    if isinstance(data, list):
        return set().union(*map(keys_of, data))
    if not isinstance(data, dict):
        return set()
    own = {key for key in data if not re.fullmatch(r"(ttft|itl)_p\d+|goodput|tokens|stalls|upstream|500 .*", key)}
    return own.union(*map(keys_of, data.values()))


def test_every_key_of_the_json_is_documented() -> None:
    failed = due_request(1.0, status=500, error="InternalServerError", stall_causes=Counter(upstream=1))
    sweep = sweep_of([one_round()], [failed, due_request(2.0, of=measured())])
    data = json.loads(sweep_to_json(analyze(sweep), "answer", 1))
    documented = set(re.findall(r"`(\w+)`", DOCS.read_text("utf-8")))
    assert (data["schema"], keys_of(data) - documented) == (SCHEMA, set())


@pytest.mark.parametrize("objective", [None, SLO(ttft=0.5)], ids=["no objective", "objective"])
def test_a_level_most_of_whose_requests_failed_does_not_hold(objective: SLO | None) -> None:
    refused = {"error": "APIConnectionError", "detail": "connection refused"}
    requests = [due_request(number, **refused) for number in range(3)]
    sweep = sweep_of([one_round(concurrency=0.0)], requests, objective=objective)
    result = analyze(sweep)
    sentence = "All 3 requests failed at 1x the expected peak of 24 (APIConnectionError: connection refused)."
    assert (headline(result), result.judged[0].standing, result.exit_code) == (sentence, Standing.FAILING, 1)
    assert "1x: failed: 3 APIConnectionError: connection refused." in describe_notes(result)


def test_failures_of_the_warm_up_that_end_a_round_are_the_answer() -> None:
    sweep = sweep_of([one_round(is_failing=True)], [due_request(1.0, of=measured())])
    result = analyze(sweep)
    assert (headline(result), result.exit_code) == ("Too many requests failed at 1x the expected peak of 24.", 1)


def test_the_lowest_level_adds_no_load() -> None:
    cut_off = [due_request(number, of=measured(outcome=Outcome.CANCELLED)) for number in range(3)]
    sweep = sweep_of([one_round(concurrency=0.01)], cut_off, objective=None)
    assert headline(analyze(sweep)) == (
        "Does not carry fewer than 0.1 streams (1x the expected peak of 24): fewer than half of the requests are "
        "completed."
    )


def test_figures_of_rounds_that_this_machine_could_not_drive_are_marked() -> None:
    text = printed(analyzed(void=dict.fromkeys(LEVELS, DRIVER)), 80)
    assert re.search(r"TTFT p50, ms +(\(\d+\) *){5}", text)
    assert "Figures in parentheses are of void rounds" in text


def test_a_backlog_of_this_machine_has_what_was_asked_for_and_the_way_out() -> None:
    one = one_round(concurrency=40.0, rate=900.0, end=RoundEnd.SATURATED, **DRIVER)
    result = analyze(sweep_of([one], [due_request(0.0, of=measured())], levels=(1.0,)))
    assert headline(result).startswith("This machine could not drive 24 streams (1x), ")
    assert list(note_backlog(result)) == [
        (
            "1x: 24 streams of so short answers are 900 requests/s, and what else was open waited for this machine: "
            "ask for longer answers, or with --closed again only when one has ended."
        )
    ]


def test_the_server_s_own_figures_are_shown_where_this_machine_could_not_drive_the_load() -> None:
    sweep = sweep_of([one_round(**DRIVER)], [due_request(0.0, of=measured())], levels=(1.0,), has_server_metrics=True)
    assert analyze(sweep).levels[0].server is not None


def test_an_infinite_figure_is_null_in_json() -> None:
    sweep = sweep_of([one_round()], [due_request(1.0, error="ReadTimeout"), due_request(2.0, of=measured())])
    data = json.loads(sweep_to_json(analyze(sweep), "answer", 1))
    assert data["levels"][0]["figures"]["ttft_p99"]["value"] is None


def test_notes_name_failures_stalls_and_what_was_set_aside() -> None:
    requests = [
        due_request(1.0, of=measured(), stall_causes=Counter(upstream=2)),
        due_request(2.0, status=500, error="InternalServerError"),
        due_request(3.0, of=measured(), held_up_by=Cause.HOST),
    ]
    sweep = sweep_of([one_round(), one_round(number=1, **LIMITED)], requests, stop_reason="interrupted", cost=1.5)
    assert list(describe_notes(analyze(sweep))) == [
        "1x: 1 of 2 rounds void: 429 from the endpoint.",
        "1x: stalls by cause: 2 upstream.",
        "1x: failed: 1 500 InternalServerError.",
        "1x: 1 request without a token counts as infinitely late.",
        "1x: 1 of 3 set aside: its machine was busy.",
        "~ fewer than ten independent samples would lie beyond this percentile: its interval is too narrow.",
        "It ended before the last level: interrupted.",
        "By --prices it cost 1.50.",
    ]


def test_progress_has_the_level_the_round_and_an_estimate_of_the_end() -> None:
    progress = Progress(
        phase=Phase.STEADY,
        level=1.5,
        seconds_left=360.0,
        rounds_over=4,
        rounds_planned=15,
        requests=1_540,
        open=36,
        errors=2,
        cost=None,
        stopping=None,
    )
    assert describe_progress(progress) == (
        "1.5x, round 5 of 15 measures: 36 open, 1,540 sent, 2 failed; about 6 min left"
    )
