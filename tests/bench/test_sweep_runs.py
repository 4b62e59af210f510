"""The benchmark of sweeps runs in a small form, and judges what it finds rightly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bench.sweep import __main__ as bench
from bench.sweep.cases import BATCHING, SLOTS, figures, plan
from bench.sweep.drive import select_steady
from bench.sweep.knees import Found, knees_table, simulate_many
from bench.sweep.omission import DESIGN as PAUSE_DESIGN
from bench.sweep.omission import PAUSING, find_truth
from bench.sweep.pressed import FAST, OBJECTIVE, report
from bench.sweep.service import Job
from bench.sweep.simulate import LEVELS, Design, as_request, expected_duration, play_round, simulate
from otel_itl.core.slo import SLO
from otel_itl.tools.sweep.knee import SweepResult
from otel_itl.tools.sweep.results import LevelResult, Standing

DESIGN = Design(arrivals="constant", steady=8.0)


@pytest.fixture(scope="module")
def simulated() -> list[Found]:
    return list(simulate_many(4, DESIGN))


def found(knee: float | None, true: float | None) -> Found:
    """A sweep that found a knee."""
    case = replace(plan(0, DESIGN), knee=true)
    sweep = simulate(case.law, replace(case.design, levels=(1.0,)), case.objective, 0)
    standing = None if knee is None else Standing.WITHIN
    level = LevelResult(level=knee or 0.0, rounds=(), counted=(), seconds=1.0, standing=standing)
    return Found(case, SweepResult(sweep=sweep, levels=[level]))


@pytest.mark.parametrize(("knee", "true", "distance"), [(2.0, 2.0, 0), (1.5, 3.0, -2), (5.0, 3.0, 1), (None, 1.0, -1)])
def test_the_distance_of_a_knee_is_counted_in_levels(knee: float | None, true: float, distance: int) -> None:
    assert found(knee, true).distance == distance


def test_a_knee_two_levels_off_is_not_within_one_level() -> None:
    sweeps = [found(1.0, 1.0), found(1.5, 1.0), found(2.0, 1.0), found(None, 1.0)]
    *_, row = knees_table({"made up": sweeps}).splitlines()
    assert [cell.strip() for cell in row.strip("|").split("|")][2:] == ["4", "1", "1", "1", "1", "75.0 %"]


@pytest.mark.parametrize("seed", range(4))
def test_the_true_knee_meets_the_objective_by_the_law_and_the_next_level_does_not(seed: int) -> None:
    case = plan(seed, DESIGN)
    assert case.knee is not None
    after = LEVELS[LEVELS.index(case.knee) + 1]
    limit = case.objective.itl if case.name == BATCHING else case.objective.ttft
    key = "itl_p90" if case.name == BATCHING else "ttft_p90"
    assert limit is not None
    assert [getattr(case.truth[level], key) <= limit for level in (case.knee, after)] == [True, False]


def test_the_levels_and_both_sorts_of_servers_take_turns() -> None:
    cases = [plan(seed, DESIGN) for seed in range(4)]
    assert [(case.name, case.knee) for case in cases] == [(BATCHING, 1.0), (SLOTS, 1.0), (BATCHING, 1.5), (SLOTS, 1.5)]


def test_a_simulated_sweep_drives_the_rate_that_little_s_law_gives_for_the_level() -> None:
    case = plan(0, DESIGN)
    played = play_round(case.law, case.design, 2.0, 0)
    assert played.rate == pytest.approx(2.0 * case.design.peak / expected_duration(case.law, case.design.peak))


def test_a_simulated_request_has_the_gaps_of_its_job() -> None:
    request = as_request(Job(1.0, tokens=3, started=1.0, sent=[1.5, 1.8, 2.0]), "one")
    assert (request.time_to_first_token, list(request.gaps)) == (0.5, pytest.approx([0.2, 0.3]))


def test_the_server_s_record_is_cut_to_the_steady_part_of_a_level() -> None:
    case = plan(0, DESIGN)
    sweep = simulate(case.law, case.design, SLO(itl=1.0), 0)
    ahead = [Job(100.0 + number, tokens=1) for number in range(3)]  # before the sweep's own
    jobs = ahead + [Job(1_000.0 + request.due, tokens=1) for request in sweep.requests]
    steady = sum(request.is_steady and request.level == 2.0 for request in sweep.requests)
    assert len(select_steady(jobs, sweep, 2.0)) == steady


def test_the_figures_of_requests_are_those_of_their_tokens() -> None:
    jobs = [Job(0.0, tokens=3, sent=[0.4, 0.5, 0.6]), Job(0.0, tokens=3, sent=[0.2, 0.3, 0.4])]
    assert figures(jobs)[::2] == pytest.approx((0.3, 0.1))


def test_simulated_knees_are_found_within_one_level(simulated: Sequence[Found]) -> None:
    assert [one for one in simulated if abs(one.distance) > 1] == []


def test_a_user_who_comes_during_a_pause_waits_for_its_end() -> None:
    design = replace(PAUSE_DESIGN, steady=20.0)
    # A pause of 1 s every 20 s: a user who comes in its first 0.75 s waits for longer than 0.25 s.
    waits = find_truth(PAUSING, design)
    assert sum(wait > 0.25 for wait in waits) / len(waits) == pytest.approx(0.75 / 20, abs=0.008)


@pytest.mark.parametrize(
    ("is_driver_bound", "reported"), [(True, "this machine could not drive it"), (False, "carries 1x")]
)
def test_a_machine_that_is_too_slow_is_not_taken_for_a_limit_of_the_server(
    is_driver_bound: bool, reported: str
) -> None:
    sweep = simulate(FAST, Design(levels=(1.0,), steady=8.0), OBJECTIVE, 0)
    void = "this machine could not drive more" if is_driver_bound else None
    rounds = [replace(one, void_reason=void, is_driver_bound=is_driver_bound) for one in sweep.rounds]
    assert report(replace(sweep, rounds=rounds)) == reported


@pytest.mark.timeout(60)
@pytest.mark.slow
def test_a_quick_run_over_sockets_fills_its_section_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- generated: sweep knees -->\nold\n<!-- end of generated: sweep knees -->\nafter\n")
    bench.main(["--quick", "--only", "knees", "--write", str(page)])
    assert "| over sockets | slows down | 1 " in page.read_text()
