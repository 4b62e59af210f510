"""Sessions: what is counted, when a degradation is reported, and its scope. Latencies are exact, so figures are."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import isfinite

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_itl.core.sessions import MAX_MODELS_PER_SESSION, Degradation, DegradationScope, Sessions, SessionStatus

MS = 1_000_000
SECOND = 1_000_000_000
MODEL = "gpt-4o"


class World:
    """Sessions on a clock that moves a second with every request."""

    def __init__(self, limit: int = 100, model_limit: int = 10) -> None:
        self.now = 0
        self.sessions = Sessions(limit, model_limit=model_limit, clock=lambda: self.now)

    def request(
        self, session: str = "s", ms: float = 20, *, tokens: int = 100, model: str = MODEL, stalls: int = 0
    ) -> SessionStatus:
        return self.streamed([ms * MS] * (tokens - 1), session, model=model, stalls=stalls)

    def streamed(
        self, samples: Sequence[float], session: str = "s", *, model: str = MODEL, stalls: int = 0
    ) -> SessionStatus:
        turn = self.sessions.begin_request(session, model)
        self.now += SECOND
        return turn.end(samples, stall_count=stalls, decode_duration=sum(samples) / SECOND)

    def requests(self, number: int, session: str = "s", ms: float = 20, *, model: str = MODEL) -> list[SessionStatus]:
        return [self.request(session, ms, model=model) for _ in range(number)]

    def rounds(self, number: int, sessions: Sequence[str], ms: float = 20) -> list[SessionStatus]:
        return [self.request(session, ms) for _ in range(number) for session in sessions]


@pytest.fixture
def world() -> World:
    return World()


def onsets(statuses: Sequence[SessionStatus]) -> list[Degradation]:
    return [status.onset for status in statuses if status.onset]


def degraded(statuses: Sequence[SessionStatus]) -> list[bool]:
    return [status.is_degraded for status in statuses]


# --- counting -------------------------------------------------------------------------------------------------------


def test_requests_are_counted_from_one(world: World) -> None:
    assert [status.request_index for status in world.requests(3)] == [1, 2, 3]


def test_the_index_is_that_of_the_start_however_requests_end(world: World) -> None:
    first, second = world.sessions.begin_request("s", MODEL), world.sessions.begin_request("s", MODEL)
    assert [second.end([]).request_index, first.end([]).request_index] == [2, 1]


def test_each_session_has_a_count_of_its_own(world: World) -> None:
    world.requests(3, "a")
    assert world.request("b").request_index == 1


def test_stalls_add_up_over_the_session(world: World) -> None:
    assert [world.request(stalls=stalls).stall_count for stalls in (0, 2, 1)] == [0, 2, 3]


def test_decode_times_add_up_over_the_session(world: World) -> None:
    # 99 gaps of 20 ms, then 99 of 30 ms.
    world.request(ms=20)
    assert world.request(ms=30).decode_duration == pytest.approx(1.98 + 2.97)


def test_what_adds_up_does_so_across_models(world: World) -> None:
    world.request(model="a", stalls=1)
    assert world.request(model="b", stalls=1).stall_count == 2


def test_a_request_that_ends_twice_counts_once(world: World) -> None:
    turn = world.sessions.begin_request("s", MODEL)
    assert turn.end([20 * MS] * 9, stall_count=1) is turn.end([40 * MS] * 9, stall_count=1)
    assert world.request().stall_count == 1


# --- the previous request -------------------------------------------------------------------------------------------


def test_the_first_request_has_no_previous_one(world: World) -> None:
    assert world.sessions.begin_request("s", MODEL).previous_link is None


def test_a_request_finds_what_the_previous_one_left_when_it_started(world: World) -> None:
    world.sessions.begin_request("s", MODEL).set_link("first")
    assert world.sessions.begin_request("s", "another model").previous_link == "first"


def test_a_request_that_left_nothing_is_passed_over(world: World) -> None:
    world.sessions.begin_request("s", MODEL).set_link("first")
    world.sessions.begin_request("s", MODEL)
    assert world.sessions.begin_request("s", MODEL).previous_link == "first"


def test_of_concurrent_requests_the_latest_is_the_previous_one(world: World) -> None:
    first, second = world.sessions.begin_request("s", MODEL), world.sessions.begin_request("s", MODEL)
    second.set_link("second")
    first.set_link("first")
    assert world.sessions.begin_request("s", MODEL).previous_link == "second"


def test_other_sessions_are_not_referred_to(world: World) -> None:
    world.sessions.begin_request("a", MODEL).set_link("first")
    assert world.sessions.begin_request("b", MODEL).previous_link is None


# --- the baseline ---------------------------------------------------------------------------------------------------


def test_a_first_request_has_nothing_to_be_compared_with(world: World) -> None:
    assert world.request().latency_ratio is None


def test_the_first_baseline_is_the_median_of_three_requests(world: World) -> None:
    for ms in (500, 20, 25):
        world.request(ms=ms)
    # 50 ms over 25 ms.
    assert world.request(ms=50).latency_ratio == pytest.approx(2)


@pytest.mark.parametrize("samples", [[], [20 * MS], [0, 0, 0]])
def test_a_request_without_a_latency_has_no_ratio(world: World, samples: list[float]) -> None:
    world.requests(5)
    status = world.streamed(samples)
    assert (status.request_index, status.latency_ratio, status.is_degraded) == (6, None, False)


def test_a_request_without_a_latency_leaves_a_degradation_as_it_is(world: World) -> None:
    world.requests(5)
    world.requests(2, ms=60)
    status = world.streamed([])
    assert (status.is_degraded, status.scope, status.onset) == (True, DegradationScope.SESSION, None)


def test_a_model_has_a_baseline_of_its_own(world: World) -> None:
    world.requests(10, ms=20, model="small")
    assert world.request(ms=80, model="large").latency_ratio is None
    assert degraded(world.requests(10, ms=80, model="large")) == [False] * 10


def test_a_session_that_comes_back_to_a_model_finds_its_baseline(world: World) -> None:
    world.requests(5, ms=20, model="small")
    world.requests(5, ms=80, model="large")
    assert world.request(ms=20, model="small").latency_ratio == pytest.approx(1)


def test_a_stall_is_not_the_pace(world: World) -> None:
    world.requests(5)
    status = world.streamed([20 * MS] * 98 + [10 * SECOND])
    assert status.latency_ratio == pytest.approx(1)


def test_tokens_in_bursts_come_at_their_mean_pace(world: World) -> None:
    world.requests(5, ms=20)
    # Five tokens a write, one write every 100 ms.
    assert world.streamed([0.0] * 80 + [100 * MS] * 20).latency_ratio == pytest.approx(1)


def test_many_samples_are_represented_by_few(world: World) -> None:
    world.requests(5, ms=20)
    # From 10 to 30 ms: 20 ms in the mean, less what the slowest 2 % exceed the next.
    samples = [10 * MS + 20 * MS * index / 9999 for index in range(10_000)]
    assert world.streamed(samples).latency_ratio == pytest.approx(1, abs=0.002)


# --- degradation ----------------------------------------------------------------------------------------------------


def test_the_second_request_at_twice_the_latency_is_a_degradation(world: World) -> None:
    world.requests(5)
    assert degraded(world.requests(3, ms=40)) == [False, True, True]


def test_a_single_slow_request_never_is_one(world: World) -> None:
    world.requests(20)
    assert not world.request(ms=2000).is_degraded


def test_three_requests_are_not_enough_to_judge_the_fourth_but_to_judge_the_fifth(world: World) -> None:
    world.requests(3)
    assert degraded(world.requests(2, ms=60)) == [False, True]


def test_an_onset_is_reported_once(world: World) -> None:
    world.requests(5)
    assert [onset.request_index for onset in onsets(world.requests(50, ms=40))] == [7]


def test_a_session_recovers_when_the_level_is_back(world: World) -> None:
    world.requests(5)
    world.requests(10, ms=40)
    assert degraded(world.requests(3, ms=20)) == [True, False, False]


def test_an_onset_is_reported_again_after_a_recovery(world: World) -> None:
    world.requests(5)
    reported = [onset for ms in (40, 20, 40) for onset in onsets(world.requests(10, ms=ms))]
    assert [onset.request_index for onset in reported] == [7, 27]


def test_a_degradation_does_not_drag_the_baseline_along(world: World) -> None:
    world.requests(10)
    last = world.requests(500, ms=40)[-1]
    # What the two requests before the alarm moved it by is all.
    assert (last.is_degraded, last.latency_ratio) == (True, pytest.approx(2, rel=0.1))


def test_a_request_of_few_tokens_weighs_less(world: World) -> None:
    world.requests(10)
    assert degraded([world.request(ms=40, tokens=5) for _ in range(4)]) == [False] * 4


def test_a_request_whose_mean_is_uncertain_weighs_less(world: World) -> None:
    world.requests(10)
    turn = world.sessions.begin_request("s", MODEL)
    turn.end([40 * MS] * 99, uncertainty=0.45)
    assert degraded([world.request(ms=40)]) == [False]


def test_a_session_that_became_faster_gets_a_new_baseline(world: World) -> None:
    world.requests(5, ms=60)
    world.requests(6, ms=20)
    assert world.request(ms=40).latency_ratio == pytest.approx(2, rel=0.01)


def test_a_session_that_was_slow_at_first_is_still_watched(world: World) -> None:
    world.requests(5, ms=60)
    world.requests(6, ms=20)
    assert degraded(world.requests(2, ms=40)) == [False, True]


def test_a_context_that_grows_by_a_percent_a_request_is_none(world: World) -> None:
    statuses = [world.request(ms=20 * 1.01**number) for number in range(100)]
    assert degraded(statuses) == [False] * 100


def test_a_lasting_difference_of_a_quarter_becomes_the_baseline(world: World) -> None:
    world.requests(10)
    statuses = world.requests(100, ms=25)
    assert (degraded(statuses), statuses[-1].latency_ratio) == ([False] * 100, pytest.approx(1, rel=0.05))


# --- the scope of a degradation -------------------------------------------------------------------------------------

MANY = [f"session {number}" for number in range(20)]


def test_a_session_without_others_degrades_alone(world: World) -> None:
    world.requests(5)
    (onset,) = onsets(world.requests(5, ms=40))
    assert (onset.scope, onset.model_ratio) == (DegradationScope.SESSION, None)


def test_a_session_degrades_alone_while_others_are_as_ever(world: World) -> None:
    world.rounds(5, MANY)
    statuses = [world.request(name, 40 if name == MANY[0] else 20) for _ in range(5) for name in MANY]
    (onset,) = onsets(statuses)
    assert (onset.scope, onset.model_ratio) == (DegradationScope.SESSION, pytest.approx(2))


def test_a_model_that_becomes_slower_is_reported_once_for_all_sessions(world: World) -> None:
    world.rounds(5, MANY)
    (onset,) = onsets(world.rounds(10, MANY, ms=40))
    assert (onset.scope, onset.model_ratio) == (DegradationScope.MODEL, pytest.approx(1))


def test_each_session_knows_that_it_is_the_model(world: World) -> None:
    world.rounds(5, MANY)
    world.rounds(2, MANY, ms=40)
    assert [status.scope for status in world.rounds(1, MANY, ms=40)] == [DegradationScope.MODEL] * len(MANY)


def test_a_session_that_is_not_degraded_has_no_scope(world: World) -> None:
    assert world.request().scope is None


def test_a_model_is_reported_again_after_a_recovery(world: World) -> None:
    world.rounds(5, MANY)
    reported = [onset.scope for ms in (40, 20, 40) for onset in onsets(world.rounds(10, MANY, ms))]
    assert reported == [DegradationScope.MODEL, DegradationScope.MODEL]


def test_sessions_on_another_model_are_no_evidence(world: World) -> None:
    world.rounds(5, MANY)
    statuses = [world.request(name, 40, model=MODEL if name == MANY[0] else "other") for _ in range(5) for name in MANY]
    assert [onset.scope for onset in onsets(statuses)] == [DegradationScope.SESSION]


def test_sessions_without_a_request_since_are_no_evidence(world: World) -> None:
    world.rounds(5, MANY)
    world.now += SECOND
    (onset,) = onsets(world.requests(5, MANY[0], ms=40))
    assert (onset.scope, onset.model_ratio) == (DegradationScope.SESSION, None)


def test_a_session_begun_while_the_model_is_slow_does_not_end_it(world: World) -> None:
    world.rounds(5, MANY)
    world.rounds(2, MANY[:-1], ms=40)
    world.rounds(10, ["new", "newer", "newest"], ms=40)
    # The last one comes to notice only now: it is the same degradation.
    assert onsets(world.requests(3, MANY[-1], ms=40)) == []


def test_a_model_without_recent_requests_is_no_longer_degraded(world: World) -> None:
    world.rounds(5, MANY)
    world.rounds(2, MANY, ms=40)
    world.now += 3600 * SECOND
    world.requests(5, "new", ms=40)
    assert [onset.scope for onset in onsets(world.requests(3, "new", ms=80))] == [DegradationScope.SESSION]


@pytest.mark.parametrize(
    ("scope", "subject"), [(DegradationScope.SESSION, "The session"), (DegradationScope.MODEL, "The model")]
)
def test_the_sentence_of_an_onset_names_what_became_slower(scope: DegradationScope, subject: str) -> None:
    onset = Degradation(request_index=7, scope=scope, latency_ratio=2.123, model_ratio=1.04)
    assert onset.describe() == (
        f"{subject} became slower: at request 7 the inter-token latency is 2.1 times the session's baseline and 1.0 "
        "times that of the model's other sessions."
    )


def test_the_sentence_of_an_onset_leaves_out_other_sessions_where_there_are_none() -> None:
    onset = Degradation(request_index=7, scope=DegradationScope.SESSION, latency_ratio=2.123, model_ratio=None)
    expected = "The session became slower: at request 7 the inter-token latency is 2.1 times the session's baseline."
    assert onset.describe() == expected


# --- bounds ---------------------------------------------------------------------------------------------------------


def test_the_session_that_began_no_request_for_longest_is_forgotten() -> None:
    world = World(limit=2)
    for name in ("a", "b", "a", "c"):
        world.request(name)
    assert [world.request(name).request_index for name in ("a", "b")] == [3, 1]


def test_no_more_sessions_are_remembered_than_the_limit() -> None:
    world = World(limit=10)
    world.rounds(1, [str(number) for number in range(1000)])
    assert len(world.sessions) == 10


def test_a_request_of_a_forgotten_session_ends_as_any() -> None:
    world = World(limit=1)
    turn = world.sessions.begin_request("a", MODEL)
    world.request("b")
    assert turn.end([20 * MS] * 9, stall_count=1).stall_count == 1


def test_the_model_that_was_used_last_is_remembered_and_the_first_forgotten() -> None:
    world = World(model_limit=1)
    world.rounds(5, MANY)
    world.rounds(2, MANY, ms=40)
    world.request(model="other")
    assert world.request(MANY[0], ms=40).scope is DegradationScope.SESSION


def test_the_models_of_a_session_are_bounded(world: World) -> None:
    for number in range(MAX_MODELS_PER_SESSION + 1):
        world.requests(2, model=f"model {number}")
    assert world.request(model="model 0").latency_ratio is None
    assert world.request(model=f"model {MAX_MODELS_PER_SESSION}").latency_ratio == pytest.approx(1)


def test_long_ids_that_differ_at_their_end_are_different_sessions(world: World) -> None:
    world.request("x" * 10_000 + "a")
    assert world.request("x" * 10_000 + "b").request_index == 1


def test_an_id_of_any_characters_is_taken(world: World) -> None:
    assert world.request("\ud800\0" * 100).request_index == 1


def test_a_session_takes_two_kilobytes_at_most_however_long_its_id() -> None:
    number = 500
    world = World(limit=number)
    world.request("warm")
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for index in range(number):
        world.requests(5, f"{index:08000}")
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (after - before) / number < 2048


@pytest.mark.parametrize("limits", [{"limit": 0}, {"model_limit": -1}])
def test_a_limit_below_one_is_refused(limits: dict[str, int]) -> None:
    ((name, value),) = limits.items()
    with pytest.raises(ValueError, match=rf"^{name} is a number from 1 up, not {value}\.$"):
        Sessions(**limits)


def test_a_model_that_is_not_known_is_one_of_its_own(world: World) -> None:
    for _ in range(3):
        world.sessions.begin_request("s").end([20 * MS] * 9)
    assert world.sessions.begin_request("s").end([40 * MS] * 9).latency_ratio == pytest.approx(2)


def test_threads_lose_no_request() -> None:
    sessions = Sessions()

    def converse(_: int) -> Iterator[int]:
        for _ in range(200):
            turn = sessions.begin_request("s", MODEL)
            turn.set_link(turn.index)
            turn.end([20 * MS] * 5, stall_count=1)
            yield turn.index

    with ThreadPoolExecutor(8) as pool:
        indexes = sorted(index for found in pool.map(lambda n: list(converse(n)), range(8)) for index in found)
    last = sessions.begin_request("s", MODEL)
    assert (indexes, last.previous_link, last.end([]).stall_count) == (list(range(1, 1601)), 1600, 1600)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.floats(0, 1e15), max_size=300).map(sorted), max_size=20))
def test_whatever_the_samples_every_ratio_is_a_number(requests: list[list[float]]) -> None:
    world = World()
    ratios = [world.streamed(samples).latency_ratio for samples in requests]
    assert [ratio for ratio in ratios if ratio is not None and not (isfinite(ratio) and ratio > 0)] == []
