"""The scripted models of the demonstration."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from statistics import median

import pytest

from otel_itl.testing import Script
from otel_itl.tools.demo.scenarios import SCENARIOS, Plan, plan_requests

BY_MODEL = {scenario.model: scenario for scenario in SCENARIOS}


def delays(script: Script) -> list[float]:
    """The times between the output events, as the script has them."""
    moment, moments = 0.0, []
    for step in script:
        moment += step.delay
        if step.output:
            moments.append(moment)
    return [after - before for before, after in pairwise(moments)]


def played(one: Plan) -> list[float]:
    """The seconds of each script, for as much of it as the caller stays."""
    leaves = one.scenario.leaves_after
    return [sum(step.delay for step in (script.cut(leaves) if leaves else script)) for script in one.scripts]


def test_equal_seeds_give_equal_plans() -> None:
    assert plan_requests(7, 5.0) == plan_requests(7, 5.0)


def test_other_seeds_give_other_paces() -> None:
    assert all(
        one.scripts != other.scripts for one, other in zip(plan_requests(1, 3.0), plan_requests(2, 3.0), strict=True)
    )


def test_every_model_gets_a_request_however_short_the_time() -> None:
    assert [len(one.scripts) for one in plan_requests(1, 0.0)] == [1] * len(SCENARIOS)


def test_a_longer_plan_begins_as_a_shorter_one() -> None:
    for short, long in zip(plan_requests(1, 3.0), plan_requests(1, 9.0), strict=True):
        assert long.scripts[: len(short.scripts)] == short.scripts


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_requests_of_a_model_fit_into_the_time(seed: int) -> None:
    assert max(sum(played(one)) for one in plan_requests(seed, 10.0)) <= 10.0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_time_is_made_use_of(seed: int) -> None:
    lengths = [sum(played(one)) for one in plan_requests(seed, 10.0) if one.scenario.max_requests is None]
    assert min(lengths) > 7.0


def test_the_default_sdks_run_sync_and_async_clients() -> None:
    kinds = {(one.sdk, one.scenario.is_async) for one in plan_requests(1, 0.0)}
    both = {(sdk, is_async) for sdk in ("openai", "anthropic", "google-genai") for is_async in (False, True)}
    assert kinds == {*both, ("bedrock", False)}  # boto3 has no asynchronous client


def script_of(model: str, number: int = 0) -> Script:
    return BY_MODEL[model].script(Random(1), number)  # noqa: S311 - a pace, not a secret


def test_a_stalling_model_stalls() -> None:
    gaps = delays(script_of("stalling-1"))
    assert max(gaps) > 10 * median(gaps)


def test_a_smooth_model_does_not() -> None:
    gaps = delays(script_of("smooth-1"))
    assert max(gaps) < 3 * median(gaps)


def test_a_model_with_a_slow_start_starts_slowly() -> None:
    assert next(step.delay for step in script_of("slow-start-1") if step.output) > 0.7


def test_a_bursty_model_sends_several_events_at_once() -> None:
    assert sum(step.joined for step in script_of("bursty-1")) > 40


def test_a_reasoning_model_reasons_first() -> None:
    assert next(step.event.kind for step in script_of("reasoning-1") if step.output) == "reasoning"


def test_a_model_that_is_cut_off_drops_its_connection() -> None:
    assert script_of("cut-off-1").steps[-1].event.kind == "reset"


def test_a_degrading_model_is_slower_from_request_to_request() -> None:
    assert median(delays(script_of("degrading-1", 5))) > 2 * median(delays(script_of("degrading-1", 0)))


def test_a_model_that_is_left_early_has_more_to_say() -> None:
    leaves = BY_MODEL["left-early-1"].leaves_after
    assert leaves is not None
    assert leaves < script_of("left-early-1").tokens


def test_an_agent_takes_twice_as_long_from_its_sixth_request_on() -> None:
    paces = [median(delays(script_of("agent-1", number))) for number in range(8)]
    assert min(paces[5:]) > 1.8 * max(paces[:5])


def test_an_agent_makes_eight_requests_however_much_time_there_is() -> None:
    (agent,) = (one for one in plan_requests(1, 30.0) if one.scenario.model == "agent-1")
    assert len(agent.scripts) == 8


def test_sessions_have_different_ids() -> None:
    sessions = [scenario.session for scenario in SCENARIOS if scenario.session is not None]
    assert len(set(sessions)) == len(sessions) == 3


def test_each_sdk_gets_the_models_of_its_wire_format() -> None:
    plans = {(one.sdk, one.scenario.wire) for one in plan_requests(1, 0.0, ["groq", "anthropic"])}
    assert plans == {("groq", "chat"), ("anthropic", "messages")}


def test_of_two_sdks_with_one_wire_format_the_second_has_its_name_in_models_and_sessions() -> None:
    plans = [one for one in plan_requests(1, 0.0, ["openai", "groq"]) if one.scenario.model == "smooth-1"]
    assert [(one.sdk, one.model, one.session) for one in plans] == [
        ("openai", "smooth-1", "chat-1"),
        ("groq", "smooth-1-groq", "chat-1-groq"),
    ]


def test_another_sdk_does_not_change_the_plan_of_the_first() -> None:
    both, alone = plan_requests(1, 3.0, ["openai", "groq"]), plan_requests(1, 3.0, ["openai"])
    assert [one for one in both if one.sdk == "openai"] == alone
