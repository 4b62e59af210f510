"""When a silence is a stall, its phase and its cause: by hand, and against a walk over the whole record."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from otel_itl.core.stall_detector import Silence, StallDetector, find_silences
from otel_itl.core.stalls import NEVER, Phase, StallPolicy
from otel_itl.core.timeline import Kind, Outcome, Timeline

MS = 1_000_000
SECOND = 1_000 * MS
ANSWER, REASONING, TOOL, EMPTY = int(Kind.ANSWER), int(Kind.REASONING), int(Kind.TOOL), int(Kind.EMPTY)
PING, ROLE, FINISH = int(Kind.PING), int(Kind.ROLE), int(Kind.FINISH)
OUTPUT = ANSWER | REASONING | TOOL
POLICY = StallPolicy(next_token=2.0, relative=None)
"""Thresholds that do not depend on the pace of a stream."""


@dataclass(frozen=True)
class Stream:
    """A stream by what happened one after the other. Times are milliseconds."""

    headers: int
    """From the request to the response headers."""
    chunks: Sequence[tuple[int, int, int]]
    """Of each chunk how long the consumer held the stream before it, how long it waited, and what it carried."""
    hold: int = 0
    """After the last chunk, …"""
    tail: int | None = None
    """… and how long the consumer waited for the end; None: it left."""

    @property
    def asked(self) -> list[int]:
        moments = [asked for asked, _ in self._moments()]
        return moments if self.tail is None else [*moments, self.end - self.tail * MS]

    @property
    def arrived(self) -> list[int]:
        return [arrived for _, arrived in self._moments()]

    @property
    def codes(self) -> list[int]:
        return [kind for _, _, kind in self.chunks]

    @property
    def end(self) -> int:
        last = self.arrived[-1] if self.chunks else self.headers * MS
        return last + (self.hold + (self.tail or 0)) * MS

    def _moments(self) -> Iterator[tuple[int, int]]:
        now = self.headers * MS
        for hold, wait, _ in self.chunks:
            yield now + hold * MS, now + (hold + wait) * MS
            now += (hold + wait) * MS

    def timeline(self, **fields: Any) -> Timeline:
        chunks = len(self.chunks)
        given = {
            "asked": array("q", self.asked[:chunks]),
            "arrived": array("q", self.arrived),
            "kinds": bytes(self.codes),
            "headers": self.headers * MS,
            "end": self.end,
            "outcome": Outcome.CLOSED if self.tail is None else Outcome.COMPLETED,
        }
        return Timeline(request_unix_ns=0, **{**given, **fields})


def found(stream: Stream, policy: StallPolicy = POLICY, **fields: Any) -> list[Silence]:
    return find_silences(stream.timeline(**fields), policy)


def seconds(found: list[Silence]) -> list[tuple[str, float]]:
    """Phase and duration of each."""
    return [(silence.phase.value, silence.waited / SECOND) for silence in found]


# --- A silence that is one -------------------------------------------------------------------------------------------


def test_a_stream_that_flows_has_none() -> None:
    assert found(Stream(100, [(0, 50, ANSWER)] * 100, tail=10)) == []


@pytest.mark.requirement("R48")
def test_before_the_first_token_the_wait_for_the_response_counts_with_that_for_the_chunk() -> None:
    assert seconds(found(Stream(6_000, [(0, 1_000, ROLE), (0, 4_000, ANSWER)], tail=0))) == [("first_token", 11.0)]


@pytest.mark.requirement("R48")
def test_in_mid_stream_the_threshold_is_that_of_the_next_token() -> None:
    stream = Stream(100, [(0, 50, ANSWER), (0, 2_500, ANSWER), (0, 50, ANSWER)], tail=0)
    assert seconds(found(stream)) == [("decode", 2.5)]


@pytest.mark.requirement("R48")
def test_after_reasoning_the_threshold_is_that_of_reasoning() -> None:
    stream = Stream(100, [(0, 50, REASONING), (0, 9_000, REASONING), (0, 11_000, ANSWER)], tail=0)
    assert seconds(found(stream)) == [("reasoning", 11.0)]


def test_after_a_tool_call_the_threshold_is_that_of_the_next_token() -> None:
    assert seconds(found(Stream(100, [(0, 50, TOOL), (0, 2_500, TOOL)], tail=0))) == [("decode", 2.5)]


def test_after_a_chunk_with_reasoning_and_an_answer_the_answer_has_begun() -> None:
    stream = Stream(100, [(0, 50, REASONING | ANSWER), (0, 2_500, ANSWER)], tail=0)
    assert seconds(found(stream)) == [("decode", 2.5)]


def test_the_end_is_waited_for_like_a_token() -> None:
    assert seconds(found(Stream(100, [(0, 50, ANSWER)], tail=2_500))) == [("decode", 2.5)]


def test_a_stream_without_a_chunk_stalls_before_its_first_token() -> None:
    assert seconds(found(Stream(100, [], tail=11_000))) == [("first_token", 11.1)]


def test_a_request_that_was_never_answered_stalls_before_its_first_token() -> None:
    failed = Timeline(request_unix_ns=0, end=12 * SECOND, outcome=Outcome.ERROR)
    assert seconds(find_silences(failed, POLICY)) == [("first_token", 12.0)]


def test_a_timeline_that_does_not_know_when_the_headers_came_counts_from_the_first_pull() -> None:
    """Of another instrumentation's spans no headers are known."""
    stream = Stream(0, [(0, 500, ANSWER), (0, 3_000, ANSWER)] + [(0, 50, ANSWER)] * 400, tail=0)
    assert seconds(found(stream, headers=None)) == [("decode", 3.0)]


def test_a_silence_as_long_as_the_threshold_is_one() -> None:
    assert len(found(Stream(0, [(0, 50, ANSWER), (0, 2_000, ANSWER)], tail=0))) == 1


def test_a_silence_a_microsecond_short_of_the_threshold_is_none() -> None:
    asked, arrived = array("q", [0, 0]), array("q", [0, 2 * SECOND - 1_000])
    timeline = Timeline(
        request_unix_ns=0, asked=asked, arrived=arrived, kinds=bytes([ANSWER] * 2), headers=0, end=2 * SECOND
    )
    assert find_silences(timeline, POLICY) == []


def test_of_a_stream_shorter_than_the_longest_threshold_the_shorter_ones_are_found_as_well() -> None:
    """A stall of 3 s in a stream of 4: the first token may take 10."""
    assert seconds(found(Stream(500, [(0, 50, ANSWER), (0, 3_000, ANSWER), (0, 450, ANSWER)], tail=0))) == [
        ("decode", 3.0)
    ]


def test_a_silence_has_the_moments_when_the_consumer_began_to_wait_and_stopped() -> None:
    (silence,) = found(Stream(100, [(0, 50, ANSWER), (700, 3_000, ANSWER)], tail=0))
    assert (silence.after, silence.since, silence.until) == (0, 850 * MS, 3_850 * MS)


@pytest.mark.requirement("R51")
def test_every_stall_of_a_stream_is_found() -> None:
    stream = Stream(11_000, [(0, 50, ANSWER), (0, 3_000, ANSWER), (0, 50, ANSWER), (0, 4_000, ANSWER)], tail=5_000)
    assert [silence.waited / SECOND for silence in found(stream)] == [11.05, 3.0, 4.0, 5.0]


# --- Only the consumer's waiting counts ------------------------------------------------------------------------------


@pytest.mark.requirement("R45")
def test_holding_a_chunk_is_no_stall() -> None:
    assert found(Stream(100, [(60_000, 50, ANSWER), (60_000, 50, ANSWER)], tail=0)) == []


@pytest.mark.requirement("R45")
def test_the_hold_within_a_silence_does_not_count() -> None:
    stream = Stream(100, [(0, 50, ANSWER), (0, 1_000, EMPTY), (5_000, 900, ANSWER)], tail=0)
    assert found(stream) == []


def test_a_late_first_pull_is_the_consumers() -> None:
    assert found(Stream(1_000, [(30_000, 50, ANSWER)], tail=0)) == []


@pytest.mark.parametrize("outcome", [Outcome.CLOSED, Outcome.ABANDONED])
def test_a_caller_that_leaves_a_stream_was_not_waiting_for_its_end(outcome: Outcome) -> None:
    assert found(Stream(100, [(0, 50, ANSWER)], hold=60_000), outcome=outcome) == []


@pytest.mark.parametrize("outcome", [Outcome.CANCELLED, Outcome.ERROR, Outcome.TRUNCATED])
def test_a_caller_of_a_stream_that_broke_was_waiting_for_its_end(outcome: Outcome) -> None:
    assert seconds(found(Stream(100, [(0, 50, ANSWER)], tail=3_000), outcome=outcome)) == [("decode", 3.0)]


# --- Alive -----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R47")
@pytest.mark.parametrize("kind", [PING, EMPTY])
def test_pings_and_empty_chunks_do_not_end_a_stall_but_mark_it_alive(kind: int) -> None:
    (silence,) = found(Stream(100, [(0, 50, ANSWER), *[(0, 900, kind)] * 3, (0, 300, ANSWER)], tail=0))
    assert (silence.waited / SECOND, silence.is_alive) == (3.0, True)


@pytest.mark.requirement("R47")
def test_a_stream_without_any_chunk_is_not_alive() -> None:
    (silence,) = found(Stream(100, [(0, 50, ANSWER), (0, 3_000, ANSWER)], tail=0))
    assert silence.is_alive is False


@pytest.mark.parametrize("kind", [ROLE, FINISH, int(Kind.USAGE), int(Kind.LIFECYCLE)])
def test_what_opens_or_closes_a_response_is_no_sign_of_life(kind: int) -> None:
    (silence,) = found(Stream(100, [(0, 50, ANSWER), (0, 1_000, kind), (0, 2_000, ANSWER)], tail=0))
    assert silence.is_alive is False


def test_a_silence_is_not_alive_by_the_pings_of_the_one_before() -> None:
    stream = Stream(100, [(0, 50, ANSWER), (0, 50, PING), (0, 50, ANSWER), (0, 3_000, ANSWER)], tail=0)
    assert [silence.is_alive for silence in found(stream)] == [False]


# --- Thresholds ------------------------------------------------------------------------------------------------------


def test_the_defaults_are_ten_seconds_for_a_first_token_and_reasoning_and_one_for_the_next() -> None:
    assert [StallPolicy().find_fixed_threshold(phase) / SECOND for phase in Phase] == [10.0, 10.0, 1.0]


def test_nothing_is_broken_off_by_default() -> None:
    assert StallPolicy().abort_after is None


def test_none_is_never() -> None:
    stream = Stream(999_000, [(0, 50, ANSWER), (0, 999_000, ANSWER)], tail=0)
    assert seconds(found(stream, StallPolicy(first_token=None, next_token=10))) == [("decode", 999.0)]


def test_where_all_are_never_there_is_no_moment_to_look() -> None:
    never = StallPolicy(first_token=None, reasoning=None, next_token=None)
    assert StallDetector(never, [], [], [], requested=SECOND).next_check >= NEVER


@pytest.mark.parametrize("name", ["first_token", "reasoning", "next_token", "relative", "abort_after"])
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, 1e300, 10**400, "1", True])
def test_a_value_that_is_no_finite_time_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"^StallPolicy\({name}=.*\) is not accepted: it takes a number above 0"):
        StallPolicy(**{name: value})


def test_a_policy_reads_as_its_variable_takes_it() -> None:
    assert str(StallPolicy(reasoning=None, relative=20)) == "first_token=10,next_token=1,relative=20"


def paced(gap: int, last: int, chunks: int = 32) -> Stream:
    """A stream of even gaps, then a longer one."""
    return Stream(100, [(0, gap, ANSWER)] * chunks + [(0, last, ANSWER)], tail=0)


def test_by_default_a_silence_of_a_second_is_a_stall_of_a_fast_stream() -> None:
    assert seconds(found(paced(21, 1_960), StallPolicy())) == [("decode", 1.96)]


def test_by_default_a_stall_is_ten_times_a_slow_streams_own_pace() -> None:
    assert (found(paced(300, 2_999), StallPolicy()), seconds(found(paced(300, 3_000), StallPolicy()))) == (
        [],
        [("decode", 3.0)],
    )


def test_a_fixed_threshold_counts_where_the_multiple_is_shorter() -> None:
    assert (len(found(paced(20, 999), StallPolicy())), len(found(paced(20, 1_000), StallPolicy()))) == (0, 1)


def test_a_multiple_of_the_pace_asks_for_ten_seconds_at_most() -> None:
    relative = StallPolicy(relative=20)
    assert (len(found(paced(900, 9_999), relative)), len(found(paced(900, 10_000), relative))) == (0, 1)


def test_the_wait_for_the_first_token_is_no_part_of_the_pace() -> None:
    assert seconds(found(Stream(9_000, [(0, 20, ANSWER), (0, 1_000, ANSWER)], tail=0), StallPolicy())) == [
        ("decode", 1.0)
    ]


def test_the_pace_is_what_the_consumer_waited_and_not_what_it_held() -> None:
    stream = Stream(100, [(2_000, 20, ANSWER)] * 32 + [(0, 1_000, ANSWER)], tail=0)
    assert seconds(found(stream, StallPolicy())) == [("decode", 1.0)]


def test_chunks_of_one_burst_do_not_count_for_the_pace() -> None:
    bursts = [(0, 500 if index % 10 == 0 else 0, ANSWER) for index in range(80)]
    assert found(Stream(100, [*bursts, (0, 4_900, ANSWER)], tail=0), StallPolicy()) == []


@pytest.mark.parametrize(("chunks", "spread", "pause"), [(3, 5, 1_500), (10, 3, 1_200), (20, 2, 900)])
def test_chunks_of_a_burst_that_is_spread_do_not_count_for_the_pace(chunks: int, spread: int, pause: int) -> None:
    # A proxy hands on what it has gathered, chunk by chunk. The first two pauses may as well be stalls.
    bursts = [(0, spread if index % chunks else pause, ANSWER) for index in range(1, 9 * chunks)]
    assert len(found(Stream(100, bursts, tail=0), StallPolicy())) <= 2


def test_after_a_stall_an_even_stream_has_its_pace_still() -> None:
    even = [(0, 20, ANSWER)] * 16
    stream = Stream(100, [*even, (0, 9_000, ANSWER), *even, (0, 1_000, ANSWER)], tail=0)
    assert seconds(found(stream, StallPolicy())) == [("decode", 9.0), ("decode", 1.0)]


def test_no_multiple_of_the_pace_counts_before_the_first_token() -> None:
    assert found(Stream(9_000, [(0, 20, ANSWER)] * 32, tail=0), StallPolicy(relative=20)) == []


def test_never_stays_never_whatever_the_pace() -> None:
    assert found(paced(20, 60_000), StallPolicy(next_token=None)) == []


# --- While it lasts --------------------------------------------------------------------------------------------------


class Record:
    """A stream that grows, as the lookout sees it."""

    def __init__(self, policy: StallPolicy) -> None:
        self.asked, self.arrived, self.codes = array("q"), array("q"), array("Q")
        self.lookout = StallDetector(policy, self.asked, self.arrived, self.codes)


def test_a_stall_is_found_while_it_lasts() -> None:
    record = Record(POLICY)
    record.asked.append(SECOND)
    (going_on,) = record.lookout.check(10 * SECOND, headers=SECOND)
    assert (going_on.waited, going_on.is_over) == (10 * SECOND, False)


def test_before_the_headers_the_wait_for_them_is_that_for_the_first_token() -> None:
    (going_on,) = Record(POLICY).lookout.check(10 * SECOND, headers=None)
    assert (going_on.phase, going_on.waited) == (Phase.FIRST_TOKEN, 10 * SECOND)


def test_a_chunk_that_has_arrived_and_has_no_code_yet_is_no_longer_waited_for() -> None:
    record = Record(POLICY)
    record.asked.append(SECOND)
    record.arrived.append(2 * SECOND)
    assert record.lookout.check(20 * SECOND, headers=SECOND) == []


def test_a_stall_that_has_been_found_is_found_again_when_it_is_over() -> None:
    record = Record(POLICY)
    record.asked.append(0)
    record.lookout.check(11 * SECOND, headers=0)
    record.arrived.append(12 * SECOND)
    record.codes.append(ANSWER)
    (over,) = record.lookout.check(13 * SECOND, headers=0)
    assert (over.waited, over.is_over) == (12 * SECOND, True)


def test_what_is_over_is_found_once() -> None:
    record = Record(POLICY)
    record.asked.append(0)
    record.arrived.append(12 * SECOND)
    record.codes.append(ANSWER)
    record.lookout.check(13 * SECOND, headers=0)
    assert record.lookout.check(14 * SECOND, headers=0) == []


def test_a_stream_that_flows_is_looked_at_once_in_the_shortest_threshold() -> None:
    record = Record(POLICY)
    now = looks = 0
    for _ in range(1_000):
        record.asked.append(now)
        now += 20 * MS
        record.arrived.append(now)
        record.codes.append(ANSWER)
        if now >= record.lookout.next_check:
            record.lookout.check(now, headers=0)
            looks += 1
    assert looks == now // (2 * SECOND)


# --- Against a walk over the whole record ----------------------------------------------------------------------------


class Found(NamedTuple):
    """What is known of a stall in the end."""

    after: int
    phase: str
    since: int
    until: int
    waited: int
    threshold: int
    alive: bool


def walked(stream: Stream, policy: StallPolicy) -> list[Found]:
    """Every silence of a stream held against its threshold, by the definition and with no thought of cost."""
    asked, arrived, codes = stream.asked, stream.arrived, stream.codes
    outputs = [-1, *(index for index, kind in enumerate(codes) if kind & OUTPUT)]
    stalls = []
    for after, next_output in zip(outputs, [*outputs[1:], None], strict=True):
        behind = range(after + 1, len(codes) if next_output is None else next_output + 1)
        waited = sum(arrived[index] - asked[index] for index in behind)
        if next_output is None and stream.tail is not None:
            waited += stream.tail * MS
        if after < 0:
            waited += stream.headers * MS
        phase, threshold = _phase(stream, policy, after)
        if threshold is None or waited < threshold:
            continue
        since = 0 if after < 0 else asked[after + 1] if after + 1 < len(asked) else arrived[after]
        until = stream.end if next_output is None else arrived[next_output]
        alive = any(codes[index] in {PING, EMPTY} for index in behind)
        stalls.append(Found(after, phase, since, until, waited, threshold, alive))
    return stalls


def _phase(stream: Stream, policy: StallPolicy, after: int) -> tuple[str, int | None]:
    if after < 0:
        return "first_token", _ns(policy.first_token)
    reasoning = stream.codes[after] & OUTPUT == REASONING
    fixed = _ns(policy.reasoning if reasoning else policy.next_token)
    if policy.relative is not None and fixed is not None:
        known = range(max(after - 255, 1), after + 1)
        waits = [stream.arrived[index] - stream.asked[index] for index in known]
        mean = sum(min(wait, fixed) for wait in waits) / max(len(waits), 1)
        waits = [wait for wait in waits if wait * 10 >= mean > 0]
        own = int(policy.relative * median(waits)) if waits else 0
        fixed = max(fixed, min(own, 10 * SECOND))
    return "reasoning" if reasoning else "decode", fixed


def _ns(given: float | None) -> int | None:
    return None if given is None else round(given * SECOND)


class Looked(NamedTuple):
    """What an incremental lookout found."""

    stalls: list[Found]
    late: list[int]
    """By how much (ns) each stall that was found while it lasted was over its threshold when it was first seen."""


def looked(stream: Stream, policy: StallPolicy, lateness: Sequence[int] = (0,)) -> Looked:
    """Play a stream, and check whenever there may be something to find, this many milliseconds late in turn."""
    record = Record(policy)
    headers: int | None = None
    last: dict[int, Silence] = {}
    late: list[int] = []

    def see(now: int, *, over: bool = False) -> None:
        for silence in record.lookout.check(now, headers, is_over=over):
            if silence.after not in last and not silence.is_over:
                late.append(silence.waited - silence.threshold)
            assert silence.after not in last or not last[silence.after].is_over, "found after it was over"
            last[silence.after] = silence

    happens: list[tuple[int, int, str]] = [(stream.headers * MS, -1, "headers")]
    happens += [(moment, index, "asked") for index, moment in enumerate(stream.asked)]
    happens += [(moment, index, "arrived") for index, moment in enumerate(stream.arrived)]
    # What happens in the same moment does so in order: a chunk arrives before the next is asked for.
    happens.sort(key=lambda what: (what[0], 2 * what[1] + (what[2] == "arrived")))
    turn = looks = 0
    due = record.lookout.next_check + lateness[0] * MS
    for moment, index, what in [*happens, (stream.end, len(stream.codes), "end")]:
        while due < moment:
            see(due)
            turn += 1
            looks += 1
            assert looks < 100_000, "looks without an end"
            # A round of the watchdog takes its time: a stream that has stalled is looked at again in the next.
            due = max(record.lookout.next_check, due + 50 * MS) + lateness[turn % len(lateness)] * MS
        if what == "headers":
            headers = moment
        elif what == "asked":
            record.asked.append(moment)
        elif what == "arrived":
            record.arrived.append(moment)
            record.codes.append(stream.codes[index])
    see(stream.end, over=True)
    return Looked([_found(silence) for silence in last.values()], late)


def _found(silence: Silence) -> Found:
    assert silence.is_over
    return Found(
        silence.after,
        silence.phase.value,
        silence.since,
        silence.until,
        silence.waited,
        silence.threshold,
        silence.is_alive,
    )


WAITS = st.one_of(st.integers(0, 80), st.sampled_from([249, 250, 299, 300, 301, 500, 900, 1_700]))
KINDS = st.sampled_from([ANSWER] * 5 + [REASONING, REASONING, TOOL, EMPTY, PING, ROLE, FINISH, ANSWER | FINISH])
CHUNKS = st.lists(st.tuples(st.one_of(st.just(0), WAITS), WAITS, KINDS), max_size=60)
STREAMS = st.builds(Stream, WAITS, CHUNKS, WAITS, st.one_of(st.none(), WAITS))
THRESHOLDS = st.one_of(st.none(), st.sampled_from([0.25, 0.3, 0.5, 1.0, 5.0]))
POLICIES = st.builds(
    StallPolicy,
    first_token=THRESHOLDS,
    reasoning=THRESHOLDS,
    next_token=THRESHOLDS,
    relative=st.one_of(st.none(), st.sampled_from([2.0, 6.0, 20.0])),
)
SHORT_IN_LONG = Stream(0, [(0, 10, ANSWER), (0, 301, ANSWER), (0, 10, ANSWER)], tail=0)


@pytest.mark.requirement("R51")
@given(STREAMS, POLICIES)
@example(SHORT_IN_LONG, StallPolicy(first_token=5.0, reasoning=5.0, next_token=0.3))
def test_looking_when_there_may_be_something_finds_what_a_walk_over_the_whole_record_finds(
    stream: Stream, policy: StallPolicy
) -> None:
    assert looked(stream, policy).stalls == walked(stream, policy)


@pytest.mark.requirement("R51")
@given(STREAMS, POLICIES, st.lists(st.sampled_from([0, 20, 100, 700, 3_000]), min_size=1, max_size=5))
@example(SHORT_IN_LONG, StallPolicy(first_token=5.0, reasoning=5.0, next_token=0.3), [3_000])
def test_looking_late_finds_the_same(stream: Stream, policy: StallPolicy, lateness: list[int]) -> None:
    assert looked(stream, policy, lateness).stalls == walked(stream, policy)


@pytest.mark.requirement("R51")
@given(STREAMS, POLICIES)
@example(SHORT_IN_LONG, StallPolicy(first_token=5.0, reasoning=5.0, next_token=0.3))
def test_a_recorded_timeline_has_the_same(stream: Stream, policy: StallPolicy) -> None:
    """Of a consumer that asks for the end at once: when it asked is not in the record."""
    prompt = stream if stream.tail is None else replace(stream, hold=0)
    assert [_found(silence) for silence in find_silences(prompt.timeline(), policy)] == walked(prompt, policy)


@pytest.mark.requirement("R44")
@given(STREAMS, POLICIES)
def test_a_check_as_soon_as_there_may_be_something_finds_each_stall_when_it_begins(
    stream: Stream, policy: StallPolicy
) -> None:
    # Rounds are 50 ms apart.
    assert [late for late in looked(stream, policy).late if late > 50 * MS] == []


@given(STREAMS, POLICIES)
def test_the_thresholds_of_a_stream_that_was_left_are_those_of_one_that_was_not(
    stream: Stream, policy: StallPolicy
) -> None:
    left, stayed = replace(stream, hold=0, tail=None), replace(stream, hold=0, tail=0)
    assert walked(left, policy) == walked(stayed, policy) == looked(left, policy).stalls
