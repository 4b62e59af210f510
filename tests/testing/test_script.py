"""Scripts are plain data: what can be said in one, and what is refused."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import replace
from itertools import cycle

import pytest

from otel_itl.testing import Event, Script, Step, chat, completions, faults, messages, responses
from otel_itl.testing.script import CREATED, ID, MODEL, SEQUENCE


def delays(script: Script) -> list[float]:
    return [step.delay for step in script if step.output]


def kinds(script: Script) -> list[str]:
    return [step.event.kind for step in script]


def test_one_gap_stands_for_all_gaps() -> None:
    assert delays(chat.reply(3, first=0.5, gaps=0.02)) == [0.5, 0.02, 0.02]


def test_a_list_of_gaps_is_one_each() -> None:
    assert delays(chat.reply(3, first=0.5, gaps=[0.1, 0.2])) == [0.5, 0.1, 0.2]


def test_an_endless_iterator_of_gaps_is_taken_as_far_as_needed() -> None:
    assert delays(messages.reply(4, gaps=cycle([0.1, 0.2]))) == [0.0, 0.1, 0.2, 0.1]


@pytest.mark.parametrize("gaps", [[0.1], [0.1, 0.1, 0.1], iter([0.1])])
def test_the_wrong_number_of_gaps_is_refused(gaps: list[float]) -> None:
    with pytest.raises(ValueError, match=r"3 output events have 2 gaps between them, not \d"):
        chat.reply(3, gaps=gaps)


def test_a_text_in_place_of_a_list_of_texts_is_refused() -> None:
    with pytest.raises(TypeError, match=r"write \['hello'\]"):
        chat.reply("hello")


@pytest.mark.parametrize("delay", [-0.1, math.nan])
def test_a_delay_that_is_no_time_is_refused(delay: float) -> None:
    with pytest.raises(ValueError, match="delay is a number from 0 up"):
        chat.text("a", after=delay)


def test_steps_and_a_body_together_are_refused() -> None:
    with pytest.raises(ValueError, match="steps or a body"):
        Script([chat.done()], body=b"{}")


def test_a_slice_keeps_the_options() -> None:
    assert replace(chat.reply(3), gzip=True)[:2].gzip


def test_adding_keeps_the_options_of_the_left_script() -> None:
    assert (replace(chat.reply(3), gzip=True) + chat.reply(2)).gzip


def test_cut_keeps_what_was_sent_before_the_break() -> None:
    assert kinds(chat.reply(3).cut(2)) == ["role", "answer", "answer"]


def test_cut_without_a_number_keeps_all_output_and_nothing_after() -> None:
    assert kinds(messages.reply(2).cut()) == ["lifecycle", "lifecycle", "answer", "answer"]


def test_cut_after_none_keeps_what_precedes_the_output() -> None:
    assert kinds(chat.reply(3).cut(0)) == ["role"]


def test_a_cut_after_more_output_than_there_is_is_refused() -> None:
    with pytest.raises(ValueError, match="has 3 output steps, it cannot be cut after 4"):
        chat.reply(3).cut(4)


def test_an_inserted_step_takes_its_time_from_the_next_delay() -> None:
    script = chat.reply(2, gaps=1.0).insert(1, chat.ping(after=0.25))
    assert [(step.event.kind, step.delay) for step in script[1:4]] == [
        ("answer", 0.0),
        ("ping", 0.25),
        ("answer", 0.75),
    ]


def test_coalesced_events_are_due_with_the_last_of_them() -> None:
    script = faults.coalesce(Script([chat.text(str(n), after=0.1) for n in range(4)]), 2)
    assert [(round(step.delay, 9), step.joined) for step in script] == [
        (0.2, False),
        (0, True),
        (0.2, False),
        (0, True),
    ]


def test_coalescing_fewer_than_one_event_is_refused() -> None:
    with pytest.raises(ValueError, match="from 1 up, not 0"):
        faults.coalesce(chat.reply(), 0)


def test_a_script_counts_its_output_tokens() -> None:
    assert chat.reply(3, reasoning=2, tools=[("f", ["{", "}"])]).tokens == 8


def test_reply_reports_the_tokens_that_it_sends() -> None:
    usage = json.loads(chat.reply(3, reasoning=2)[-2].event.data)["usage"]
    assert (usage["completion_tokens"], usage["completion_tokens_details"]["reasoning_tokens"]) == (5, 2)


def test_scripts_are_equal_when_they_say_the_same() -> None:
    assert responses.reply(2, gaps=0.1) == responses.reply(2, gaps=0.1)


@pytest.mark.parametrize("build", [chat, completions, responses, messages])
def test_scripts_can_be_pickled(build: object) -> None:
    script = build.reply(2)  # type: ignore[attr-defined]
    assert pickle.loads(pickle.dumps(script)) == script  # noqa: S301 - our own


def test_the_places_of_an_exchange_are_filled_in() -> None:
    data = json.dumps({"a": ID, "b": MODEL, "c": CREATED, "d": SEQUENCE}, ensure_ascii=False)
    values = {ID: '"x"', MODEL: '"m"', CREATED: "7", SEQUENCE: "0"}
    assert Event("answer", data).encode(values) == b'data: {"a": "x", "b": "m", "c": 7, "d": 0}\n\n'


def test_a_named_event_says_its_name_first() -> None:
    assert messages.ping().event.encode() == b'event: ping\ndata: {"type":"ping"}\n\n'


def test_raw_bytes_are_sent_as_they_are() -> None:
    assert faults.raw(b"\xff").event.encode() == b"\xff"


def test_a_step_can_hold_an_event_of_the_users_own() -> None:
    assert Step(0.1, Event("answer", "{}", tokens=2)).output
