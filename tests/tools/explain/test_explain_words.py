"""The sentences of an explanation: sizes with intervals, own load, moments, and silence where there is nothing."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from otel_itl.tools.explain.findings import Change, Driver, Effect, Explanation, Finding, Target, Unit, Window
from otel_itl.tools.explain.render.amounts import format_amount, format_silence, format_window
from otel_itl.tools.explain.render.json import explanation_to_json
from otel_itl.tools.explain.render.page import describe_for_page
from otel_itl.tools.explain.render.words import (
    describe_basis,
    describe_finding,
    describe_short_input,
    describe_silence,
    describe_switch,
    describe_too_few,
    describe_undecided,
    describe_untested,
)
from otel_itl.tools.report.certainty import Cause, Flag, Known, Uncertain
from tests.tools.explain.made_explanations import (
    AT,
    CHANGED,
    IDLE,
    OWN_LOAD,
    PROMPT,
    TUESDAY,
    make_explanation,
    make_facts,
    make_finding,
    make_switch,
)

ROOT = Path(__file__).parents[3]
SECONDS, SHARE = Unit.SECONDS, Unit.SHARE
SHOWN = """\
openai / gpt-4o, 480 streams: together 63 % of the variance of ITL and 41 % of the
variance of TTFT
   41 %  TTFT  After 10 minutes of silence the first token takes 4.0 s longer (3.1 to
               4.8). Points upstream.
   30 %  ITL   Tuesday 9-11 h is 40 % slower (31 to 50) from token to token at the same
               load of your own 12 processes. Points upstream.
   22 %  ITL   Each further 1,000 prompt tokens cost 0.8 ms a token (0.7 to 0.9). It comes
               with the request.
    5 %  ITL   With each further open stream of your own 12 processes a token takes 0.4 ms
               longer (0.3 to 0.5). It goes with your own load; where requests follow
               slowness (retries, hedging) it looks the same, and otel-itl sweep decides.
  < 1 %  ITL   From 2026-11-03 14:20 UTC gpt-4o answered as gpt-4o-2026-11 instead of
               gpt-4o-2026-08: a token takes 12 % longer (8 to 16). Points upstream.
From 2026-11-03 14:20 UTC gpt-4o was at b instead of a; it was not examined apart.

zeta / none, 480 streams
Nothing that was examined explains TTFT or ITL, over 480 streams; examined: hour and
weekday, own load, prompt tokens, silence before the request.

Over 480 streams of 12 processes, hours in UTC. Shares are of the variance between
streams; in brackets, 95 % intervals.
"""


def sentence(finding: Finding, **more: object) -> str:
    """The sentence of a finding in a fleet of 12 processes."""
    return describe_finding(finding, make_explanation(finding, **more))


@pytest.mark.parametrize(
    ("finding", "expected"),
    [
        (PROMPT, "Each further 1,000 prompt tokens cost 0.8 ms a token (0.7 to 0.9)."),
        (IDLE, "After 10 minutes of silence the first token takes 4.0 s longer (3.1 to 4.8)."),
        (
            TUESDAY,
            "Tuesday 9–11 h is 40 % slower (31 to 50) from token to token at the same load of your own 12 processes.",  # noqa: RUF001 - the dash of a range
        ),
        (OWN_LOAD, "With each further open stream of your own 12 processes a token takes 0.4 ms longer (0.3 to 0.5)."),
        (
            CHANGED,
            (
                "From 2026-11-03 14:20 UTC gpt-4o answered as gpt-4o-2026-11 instead of gpt-4o-2026-08: "
                "a token takes 12 % longer (8 to 16)."
            ),
        ),
        (
            make_finding(Driver.PROMPT, Effect(0.120, 0.110, 0.130, SECONDS, 1_000), Target.TTFT),
            "Each further 1,000 prompt tokens cost 120 ms before the first token (110 to 130).",
        ),
        (
            make_finding(Driver.TOKENS_PER_CHUNK, Effect(-0.005, -0.006, -0.004, SECONDS, 1)),
            "Each further token per chunk saves 5 ms a token (4 to 6).",
        ),
        (
            make_finding(Driver.POSITION, Effect(0.031, 0.025, 0.037, SHARE, 1_000)),
            "Each further 1,000 tokens into the answer make a token 3.1 % slower (2.5 to 3.7).",
        ),
        (
            make_finding(Driver.RETRIES, Effect(1.2, 0.9, 1.5, SECONDS, 1), Target.TTFT),
            "Each retry costs 1.2 s before the first token (0.9 to 1.5).",
        ),
        (
            make_finding(
                Driver.SERVER_ADDRESS,
                Effect(-0.2, -0.3, -0.1, SHARE),
                Target.TTFT,
                change=Change("a:443", "b:443", None),
            ),
            "Where gpt-4o is at b:443 instead of a:443: the first token takes 20 % less (10 to 30).",
        ),
    ],
    ids=lambda value: f"{value.target.value} {value.driver.value}" if isinstance(value, Finding) else "",
)
def test_a_finding_is_a_sentence_with_its_size_and_interval(finding: Finding, expected: str) -> None:
    assert sentence(finding) == expected


def test_the_load_of_a_single_process_is_that_in_the_file() -> None:
    assert sentence(TUESDAY, instances=1).endswith("at the same load in this file.")


def test_prompt_tokens_outside_the_cache_are_named_where_the_cache_is_known() -> None:
    facts = make_facts(tested={Target.TTFT: (Driver.PROMPT, Driver.CACHED_PROMPT)})
    finding = make_finding(Driver.PROMPT, Effect(0.1, 0.09, 0.11, SECONDS, 1_000), Target.TTFT)
    expected = "Each further 1,000 prompt tokens outside the cache cost 100 ms before the first token (90 to 110)."
    assert sentence(finding, models=(facts,)) == expected


@pytest.mark.parametrize(
    ("effect", "expected"),
    [
        (Effect(0.0008, 0.0007, 0.0009, SECONDS), ("0.8 ms", "0.7 to 0.9", False)),
        (Effect(0.95, 0.7, 1.2, SECONDS), ("0.9 s", "0.7 to 1.2", False)),
        (Effect(2.4, 1.1, 35, SECONDS), ("2 s", "1 to 35", False)),
        (Effect(-0.25, -0.31, -0.19, SHARE), ("25 %", "19 to 31", True)),
        (Effect(0.00002, 0.00001, 0.00003, SECONDS), ("0.02 ms", "0.01 to 0.03", False)),
        (Effect(0.05, 0.05, 0.05, SECONDS), ("50 ms", "50 to 50", False)),
    ],
)
def test_a_size_has_the_digits_that_its_interval_warrants(effect: Effect, expected: tuple[str, str, bool]) -> None:
    assert format_amount(effect) == expected


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (Window((1,), 9, 11), "Tuesday 9-11 h"),
        (Window((0, 1, 2, 3, 4), 9, 18), "Monday to Friday 9-18 h"),
        (Window((5, 6), 0, 24), "Saturday and Sunday"),
        (Window((0, 2, 4), 0, 6), "Monday, Wednesday and Friday 0-6 h"),
        (Window((0, 1, 2, 3, 4, 5, 6), 20, 24), "Every day 20-24 h"),
    ],
)
def test_a_window_is_named_as_people_name_it(window: Window, expected: str) -> None:
    assert format_window(window).replace("\N{EN DASH}", "-") == expected


def test_a_silence_has_the_unit_that_people_use() -> None:
    times = (1, 30, 90, 120, 600, 5_400, 7_200, 36_000)
    expected = "1 second, 30 seconds, 90 seconds, 2 minutes, 10 minutes, 90 minutes, 2 hours, 10 hours"
    assert ", ".join(map(format_silence, times)) == expected


def test_a_model_that_nothing_explains_has_one_line_with_what_was_examined() -> None:
    expected = (
        "Nothing that was examined explains TTFT or ITL, over 480 streams; examined: hour and weekday, own load, "
        "prompt tokens, silence before the request."
    )
    assert describe_silence(make_facts(), make_explanation()) == expected


def test_a_latency_with_a_finding_is_not_among_those_that_nothing_explains() -> None:
    both = make_explanation(PROMPT, IDLE)
    assert (describe_silence(make_facts(), make_explanation(PROMPT))[:39], describe_silence(make_facts(), both)) == (
        "Nothing that was examined explains TTFT",
        "",
    )


def test_a_model_with_too_few_streams_beside_others_is_one_line() -> None:
    few = make_facts("openai / rare", streams=9, tested={})
    assert describe_silence(few, make_explanation(PROMPT, models=(make_facts(), few))) == (
        "Too few streams to explain anything."
    )


def test_streams_without_a_first_token_are_named_as_not_examined() -> None:
    facts = make_facts(streams=840, known={Target.TTFT: 358}, untested={})
    (said,) = describe_untested(facts)
    assert said.startswith("TTFT is known for 358 of 840 streams; what kept the others from having it was not examined")


def test_a_silent_change_without_an_effect_is_named_with_its_moment() -> None:
    expected = "From 2026-11-03 14:20 UTC gpt-4o was at b instead of a; no latency is seen to have changed with it."
    examined = make_explanation(models=(make_facts(tested={Target.TTFT: [Driver.SERVER_ADDRESS]}),))
    assert describe_switch(make_switch(Change("a", "b", AT), Driver.SERVER_ADDRESS), examined) == expected


def test_of_a_change_that_was_not_examined_nothing_is_said() -> None:
    expected = "From 2026-11-03 14:20 UTC gpt-4o was at b instead of a; it was not examined apart."
    other = make_explanation(models=(make_facts(tested={Target.TTFT: [Driver.RESPONSE_MODEL]}),))
    assert describe_switch(make_switch(Change("a", "b", AT), Driver.SERVER_ADDRESS), other) == expected


def test_what_varies_together_with_a_driver_is_named_beside_its_effect() -> None:
    finding = replace(PROMPT, twins=(Driver.RESPONSE_MODEL,))
    said = describe_finding(finding, make_explanation(finding))
    assert said.removeprefix(describe_finding(PROMPT, make_explanation(PROMPT))) == (
        " The response model varies together with it: the effect may be of either."
    )


def test_too_few_streams_are_one_sentence_with_what_is_needed() -> None:
    known = {Target.TTFT: 24, Target.ITL: 24}
    few = make_explanation(models=(make_facts(streams=24, tested={}, known=known),))
    expected = (
        "--explain needs 60 streams of one model, and five days of them for hours and weekdays: "
        "openai / gpt-4o has 24 streams."
    )
    assert describe_too_few(few, 60) == expected


@pytest.fixture
def explanation() -> Explanation:
    """Five findings of one model, and a change that one of them has beside one that none has."""
    switches = (make_switch(), make_switch(Change("a", "b", AT), Driver.SERVER_ADDRESS))
    models = (make_facts("zeta / none"), make_facts(explained={Target.ITL: 0.63, Target.TTFT: 0.41}))
    return make_explanation(IDLE, TUESDAY, PROMPT, OWN_LOAD, CHANGED, switches=switches, models=models)


def test_a_terminal_shows_findings_by_model_with_their_shares_and_where_they_point(explanation: Explanation) -> None:
    pytest.importorskip("rich", reason="the extra `tools` is not installed")
    from otel_itl.tools.explain.render.terminal import print_explanation
    from otel_itl.tools.report.render.terminal import open_terminal

    printed = io.StringIO()
    print_explanation(explanation, open_terminal(printed, 90))
    assert printed.getvalue() == SHOWN


def test_json_has_each_finding_with_its_sentence_and_a_change_once(explanation: Explanation) -> None:
    data = json.loads(explanation_to_json(explanation, {"not JSON": 1}))
    first = data["findings"][0]
    assert (data["schema"], data["skipped_input"], [one["driver"] for one in data["findings"]]) == (
        "otel-itl.explain.v1",
        {"not JSON": 1},
        ["idle", "calendar", "prompt_tokens", "own_load", "response_model"],
    )
    assert (first["points_to"], first["effect"]["interval"], first["curve"][0]["streams"]) == (
        "upstream",
        [3.1, 4.8],
        40,
    )
    assert [switch["sentence"] is None for switch in data["switches"]] == [True, False]


def test_the_documentation_has_every_key_of_the_json(explanation: Explanation) -> None:
    data = json.loads(explanation_to_json(explanation, {}))
    schema = (ROOT / "docs" / "explain.md").read_text().partition("## JSON")[2]
    inner = [*data["models"][0], *data["findings"][0], *data["switches"][0], *data["findings"][0]["curve"][0]]
    inner += [key for name in ("effect", "window") for key in data["findings"][1][name]]
    assert [key for key in {*data, *inner} if not re.search(rf"`\.?{key}(\[\])?`", schema)] == []


def test_the_points_of_a_picture_lie_between_both_ends_of_its_axis(explanation: Explanation) -> None:
    findings = describe_for_page(explanation)["models"][0]["findings"]
    assert [[point["at"] for point in one["points"]] for one in findings] == [[0, 1], [0, 1], [0, 1], [0, 1], []]
    assert [point["label"] for point in findings[2]["points"]] == ["0", "4,000"]


def test_what_the_callers_machine_decides_is_a_sentence_with_what_to_do() -> None:
    known = {Target.TTFT: Known(9, (Uncertain(Cause.BLOCKED, 3, 0.01, 0.01),))}
    assert describe_undecided(PROMPT, make_explanation(undecided=(PROMPT,), known=known)) == (
        "The caller's machine decides whether ITL depends on the prompt tokens: as measured it does, and not if all "
        "chunks came as early, or all gaps were as long, as they may have. "
        f"{Flag.BLOCKED.remedy} {Flag.NOT_KNOWN.remedy}"
    )


def test_the_basis_says_how_well_the_latencies_are_known() -> None:
    known = {Target.TTFT: Known(9, (Uncertain(Cause.HOST, 3, 0.01, 0.01),)), Target.ITL: Known(9)}
    basis = describe_basis(make_explanation(known=known))
    assert basis.endswith(" TTFT: 3 of 9 known to 10 ms only: its machine was busy.")


def test_a_latency_of_which_too_many_streams_are_set_aside_was_not_examined() -> None:
    aside = {Target.ITL: {"buffered": 70}}
    facts = make_facts(tested={Target.TTFT: []}, known={Target.TTFT: 480, Target.ITL: 410}, set_aside=aside)
    (sentence,) = describe_untested(facts)
    assert sentence == (
        "ITL was not examined: 70 of 480 set aside: a proxy or server buffered it; those that are left may be faster, "
        "or slower, than all are."
    )


def test_streams_of_which_no_latency_can_be_examined_are_not_too_few() -> None:
    known, aside = {Target.TTFT: 410, Target.ITL: 0}, {target: {"blocked": 70} for target in Target}
    explanation = make_explanation(models=(make_facts(tested={}, known=known, set_aside=aside),))
    reason = "70 of 480 set aside: its loop or process was blocked; those that are left may be faster, or slower, than "
    assert describe_too_few(explanation, 60) == (
        "--explain can examine no latency of openai / gpt-4o, over 480 streams. "
        f"TTFT: {reason}all are. ITL: {reason}all are."
    )


def test_hours_cannot_be_seen_in_an_input_of_minutes() -> None:
    sentence = describe_short_input(make_explanation(last_unix_ns=AT + 719_000_000_000))
    assert sentence.startswith(
        "all requests lie within 12 minutes: effects of the hour, of the weekday and of silences"
    )


def test_an_input_of_an_hour_has_no_warning() -> None:
    assert describe_short_input(make_explanation(last_unix_ns=AT + 3_600_000_000_000)) == ""


def test_what_was_not_examined_is_said_with_the_reason() -> None:
    facts = make_facts(known={Target.ITL: 480}, untested={Target.ITL: {Driver.RETRIES: "hardly varies"}})
    assert list(describe_untested(facts)) == ["Not examined for ITL: retries (hardly varies)."]


def test_a_latency_that_too_few_streams_have_is_said_to_be_not_examined() -> None:
    facts = make_facts(tested={Target.ITL: (Driver.PROMPT,)}, known={Target.TTFT: 12})
    expected = ["TTFT was not examined: it is known for 12 streams, and more are needed."]
    assert list(describe_untested(facts)) == expected


def test_enough_streams_of_which_nothing_varies_are_not_too_few() -> None:
    facts = make_facts(tested={Target.ITL: ()})
    assert describe_silence(facts, make_explanation(models=(facts,))) == "Nothing could be examined, over 480 streams."
