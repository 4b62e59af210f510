"""What drives the latency of simulated fleets: the planted drivers are named with their sizes, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.explain.fleets import ITL, TTFT, Fleet, simulate
from otel_itl.tools.explain.explaining import explain, explain_observations
from otel_itl.tools.explain.facts import Floats
from otel_itl.tools.explain.findings import Driver, Explanation, Finding, Origin, Unit, Window
from otel_itl.tools.explain.observations import Observation, Observations
from otel_itl.tools.explain.shares import divide_variance
from otel_itl.tools.report.reading.skipped_input import SkippedInput
from otel_itl.tools.report.reading.streams import read_streams
from tests.tools.explain.fleet_files import write_streams

PROMPT, IDLE, POSITION = (Driver.PROMPT, TTFT), (Driver.IDLE, TTFT), (Driver.POSITION, ITL)
RETRIES, SERVER = (Driver.RETRIES, TTFT), (Driver.SERVER_ADDRESS, ITL)
MIXED = {PROMPT: 0.1, IDLE: 4.0, RETRIES: 0.8, POSITION: 0.01, SERVER: 0.2}


def simulated(planted: Any = (), seed: int = 3, **fleet: Any) -> Observations:
    return simulate(Fleet(name="test", planted=dict(planted), **fleet), np.random.default_rng(seed))


@cache
def mixed() -> Explanation:
    return explain_observations(simulated(MIXED.items()))


def named(explanation: Explanation) -> set[tuple[Driver, Any]]:
    return {(finding.driver, finding.target) for finding in explanation.findings}


def find(explanation: Explanation, driver: Driver) -> Finding:
    (found,) = (finding for finding in explanation.findings if finding.driver is driver)
    return found


@pytest.mark.parametrize("kind", [{}, {"drift": 0.3}, {"is_heavy": True}, {"load_follows_hours": True}])
def test_nothing_is_named_where_nothing_is_planted(kind: dict[str, Any]) -> None:
    assert named(explain_observations(simulated(**kind))) == set()


def test_all_planted_drivers_are_named_and_no_other() -> None:
    assert named(mixed()) == MIXED.keys()


@pytest.mark.parametrize("planted", MIXED)
def test_the_interval_holds_the_planted_size(planted: tuple[Driver, Any]) -> None:
    effect = find(mixed(), planted[0]).effect
    assert effect.low <= MIXED[planted] <= effect.high


def with_lowest(observations: Observations, lower: Callable[[Observation], float | None]) -> Observations:
    """The streams, of which the first token may have come earlier."""
    used = [replace(one, bounds=(replace(one, ttft=lower(one)), one)) for one in observations.used]
    return replace(observations, used=used)


def test_what_may_be_due_to_the_caller_is_undecided() -> None:
    cost = MIXED[PROMPT] / 1_000
    uncertain = with_lowest(
        simulated({PROMPT: MIXED[PROMPT]}.items()), lambda one: (one.ttft or 0.0) - cost * (one.prompt_tokens or 0)
    )
    explanation = explain_observations(uncertain)
    assert (named(explanation), [one.driver for one in explanation.undecided]) == (set(), [Driver.PROMPT])


def test_what_no_error_could_explain_is_found_with_an_interval_that_has_both() -> None:
    observations = simulated({PROMPT: MIXED[PROMPT]}.items())
    exact = find(explain_observations(observations), Driver.PROMPT).effect
    explanation = explain_observations(with_lowest(observations, lambda one: 0.9 * (one.ttft or 0.0)))
    effect = find(explanation, Driver.PROMPT).effect
    assert (effect.estimate, effect.high, effect.low < exact.low) == (exact.estimate, exact.high, True)


def test_findings_are_ordered_by_their_share_of_the_variance() -> None:
    shares = [finding.share_of_variance for finding in mixed().findings]
    assert shares == sorted(shares, reverse=True)


def test_shares_of_one_latency_are_at_most_all_of_its_variance() -> None:
    (facts,) = mixed().models
    assert 0.5 < facts.explained[TTFT] <= 1.0


def test_costs_are_in_seconds_for_each_unit_of_their_driver() -> None:
    effects = {finding.driver: finding.effect[3:] for finding in mixed().findings}
    assert effects == {
        Driver.PROMPT: (Unit.SECONDS, 1_000.0),
        Driver.IDLE: (Unit.SECONDS, None),
        Driver.RETRIES: (Unit.SECONDS, 1.0),
        Driver.POSITION: (Unit.SECONDS, 1_000.0),
        Driver.SERVER_ADDRESS: (Unit.SHARE, None),
    }


def test_the_silence_of_a_cold_start_is_found() -> None:
    assert find(mixed(), Driver.IDLE).idle_threshold == 600


def test_servers_side_by_side_are_compared_with_the_usual_one() -> None:
    assert find(mixed(), Driver.SERVER_ADDRESS).change == ("10.0.0.0:8000", "10.0.0.1:8000", None)


def test_a_silent_switch_is_listed_though_no_latency_changed_with_it() -> None:
    explanation = explain_observations(simulated())
    switches = [(one.driver, one.change.before, one.change.after) for one in explanation.switches]
    assert (switches, named(explanation)) == ([(Driver.RESPONSE_MODEL, "gpt-1", "gpt-2")], set())


def test_a_silent_switch_that_slows_is_a_finding_with_its_moment() -> None:
    explanation = explain_observations(simulated({(Driver.RESPONSE_MODEL, ITL): 0.4}.items(), bursts=120))
    assert find(explanation, Driver.RESPONSE_MODEL).change == explanation.switches[0].change


def test_tokens_from_the_cache_have_a_price_of_their_own() -> None:
    planted = {PROMPT: 0.12, (Driver.CACHED_PROMPT, TTFT): 0.05}
    assert named(explain_observations(simulated(planted.items()))) == planted.keys()


def test_slow_hours_with_a_high_own_load_are_charged_to_the_hours() -> None:
    planted = {(Driver.CALENDAR, TTFT): 0.5}
    fleet = simulated(planted.items(), bursts=320, parallel=1.5, requests=2, load_follows_hours=True)
    found = explain_observations(fleet)
    assert (named(found), find(found, Driver.CALENDAR).window) == (planted.keys(), Window((0, 1, 2, 3, 4, 5, 6), 9, 11))


def test_a_slow_own_load_that_is_high_at_certain_hours_is_charged_to_the_load() -> None:
    planted = {(Driver.OWN_LOAD, ITL): 0.0015}
    fleet = simulated(planted.items(), bursts=120, parallel=4.0, requests=2, load_follows_hours=True)
    found = explain_observations(fleet)
    finding = find(found, Driver.OWN_LOAD)
    assert (named(found), finding.origin) == (planted.keys(), Origin.OWN_LOAD)
    assert min(point.x for point in finding.curve) >= 1


def test_few_streams_are_not_explained() -> None:
    few = simulated(MIXED.items())
    few.used = few.used[:50]
    (facts,) = explain_observations(few).models
    assert (facts.streams, facts.tested) == (50, {})


def test_a_latency_that_never_varies_is_not_explained() -> None:
    still = simulated()
    still.used = [replace(one, ttft=0.4, itl=0.02, parts=((8.0, 0.02), (24.0, 0.02))) for one in still.used]
    assert named(explain_observations(still)) == set()


def test_one_long_session_is_judged_by_its_blocks_of_time() -> None:
    alone = simulated({PROMPT: 0.1}.items())
    alone.used = [replace(one, session="alone") for one in alone.used]
    assert named(explain_observations(alone)) == {PROMPT}


def test_no_streams_have_an_empty_explanation() -> None:
    explanation = explain_observations(Observations())
    assert (explanation.findings, explanation.streams, explanation.first_unix_ns) == ([], 0, 0)


def test_each_model_is_explained_by_itself() -> None:
    fleet, other = simulated({PROMPT: 0.1}.items()), simulated()
    fleet.used += [replace(one, model="other / model", session=f"other {one.session}") for one in other.used]
    explanation = explain_observations(fleet)
    assert [finding.model for finding in explanation.findings] == ["openai / gpt"]


def test_the_curve_rises_with_a_cost() -> None:
    curve = find(mixed(), Driver.PROMPT).curve
    assert curve[-1].x > curve[0].x
    assert curve[-1].low > curve[0].high


def test_a_fleet_is_explained_alike_from_its_stored_telemetry(tmp_path: Path) -> None:
    planted = {PROMPT: 0.1, POSITION: 0.01}
    fleet = simulated(planted.items(), bursts=50)
    path = write_streams(tmp_path / "fleet.jsonl", fleet.used, instances=3)
    read = explain(read_streams([str(path)], SkippedInput()))
    assert (named(read), read.instances, read.own_load_is_fleet_wide) == (planted.keys(), 3, True)


def test_columns_that_go_together_divide_what_they_explain() -> None:
    """Two columns are the same; each gets half of their 80 %, and the third, which explains nothing, gets nothing."""
    random = np.random.default_rng(1)
    x, z, noise = (_standard(random.normal(size=20_000)) for _ in range(3))
    shares = divide_variance(2 * x + noise, [x, x, z])
    assert shares == pytest.approx([0.4, 0.4, 0.0], abs=0.01)


def _standard(values: Floats) -> Floats:
    return (values - values.mean()) / values.std()


def with_tilted_parts(observations: Observations, tilt: float) -> Observations:
    """The streams, of which the last part of each answer may have taken less or more by this share."""
    used = []
    for one in observations.used:
        *others, (position, gap) = one.parts or ((0.0, 0.02),)
        ends = (replace(one, parts=(*others, (position, gap * share))) for share in (1 - tilt, 1 + tilt))
        used.append(replace(one, bounds=(next(ends), next(ends))) if one.parts else one)
    return replace(observations, used=used)


def test_a_position_that_blocks_of_the_callers_loop_may_have_made_is_undecided() -> None:
    explanation = explain_observations(with_tilted_parts(simulated({POSITION: 0.01}.items()), 0.9))
    assert (named(explanation), [one.driver for one in explanation.undecided]) == (set(), [Driver.POSITION])


def test_a_position_that_no_error_could_have_made_is_found() -> None:
    explanation = explain_observations(with_tilted_parts(simulated({POSITION: 0.01}.items()), 0.02))
    assert (named(explanation), list(explanation.undecided)) == ({POSITION}, [])
