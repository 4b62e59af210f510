"""Every quantity, against numbers worked out by hand: the arithmetic stands beside each expected value."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import FrozenInstanceError, dataclass, replace
from itertools import accumulate, pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from otel_itl.core.measures import Measures, measure
from otel_itl.core.percentiles import percentile
from otel_itl.core.timeline import OUTPUT, SECOND, Kind, Outcome, Timeline

MS = 1_000_000
REASONING, ANSWER, TOOL = Kind.REASONING, Kind.ANSWER, Kind.TOOL
EMPTY, ROLE, LIFECYCLE, PING, FINISH, USAGE = (
    Kind.EMPTY,
    Kind.ROLE,
    Kind.LIFECYCLE,
    Kind.PING,
    Kind.FINISH,
    Kind.USAGE,
)
quick = settings(max_examples=60, deadline=None)
LATENCY = ("itl_p50", "itl_p90", "itl_p95", "itl_p99", "itl_max", "itl_mean", "itl_stddev")


def consumed(
    upstream: Sequence[float],
    kinds: Sequence[int] = (),
    *,
    holds: Sequence[float] | float = 0.0,
    decode: float = 0.0,
    headers: float | None = None,
    **facts: Any,
) -> Timeline:
    """What a consumer sees of chunks that reach the socket at these milliseconds after the request.

    Before each pull it works for `holds` milliseconds (the first from the headers on). A pull blocks until the
    chunk is there, then takes `decode` milliseconds.
    """
    kinds = kinds or [ANSWER] * len(upstream)
    works = [float(holds)] * len(upstream) if isinstance(holds, (int, float)) else list(holds)
    opened = 0.0 if headers is None else headers
    asked, arrived, free = [], [], opened
    for reached, work in zip(upstream, works, strict=True):
        asked.append(free + work)
        free = max(free + work, reached) + decode
        arrived.append(free)
    return Timeline(
        **{
            "request_unix_ns": 0,
            "asked": array("q", [round(moment * MS) for moment in asked]),
            "arrived": array("q", [round(moment * MS) for moment in arrived]),
            "kinds": bytes(kinds),
            "headers": None if headers is None else round(headers * MS),
            "end": round(free * MS),
            **facts,
        }
    )


def milliseconds(samples: Sequence[float]) -> list[float]:
    return [sample / MS for sample in samples]


# --- Streams whose numbers other tools have published --------------------------------------------------------------


@dataclass(frozen=True)
class Golden:
    """A recorded stream: (ms after the request, kind, tokens in the chunk), the headers, the end, the usage."""

    events: Sequence[tuple[int, int, int]]
    headers: int
    end: int
    output_tokens: int | None = None
    reasoning_tokens: int | None = None

    def timeline(self, **facts: Any) -> Timeline:
        """As an attentive consumer sees it: it asks for the next chunk as soon as it has one."""
        return consumed(
            [event[0] for event in self.events],
            [event[1] for event in self.events],
            headers=self.headers,
            **{
                "end": self.end * MS,
                "output_tokens": self.output_tokens,
                "reasoning_tokens": self.reasoning_tokens,
                **facts,
            },
        )

    @property
    def tokens(self) -> array[int]:
        return array("I", [event[2] for event in self.events])


MAIN_EVENTS = (
    (200, ROLE, 0),
    (500, REASONING, 1),
    (540, REASONING, 2),
    (600, ANSWER, 1),
    (640, ANSWER, 1),
    (680, ANSWER, 3),
    (720, ANSWER, 1),
    (1720, ANSWER, 1),
    (1760, ANSWER, 2),
    (1800, ANSWER, 1),
    (1830, FINISH, 1),
)
A_MAIN = Golden((*MAIN_EVENTS, (1850, USAGE, 0)), headers=190, end=1860, output_tokens=14, reasoning_tokens=3)
B_SMOOTH = Golden(
    (
        (100, ROLE, 0),
        (200, ANSWER, 1),
        (220, ANSWER, 1),
        (240, ANSWER, 1),
        (260, ANSWER, 1),
        (280, ANSWER, 1),
        (285, FINISH, 1),
        (299, USAGE, 0),
    ),
    headers=95,
    end=302,
    output_tokens=6,
    reasoning_tokens=0,
)
C_SINGLE_TOKEN = Golden(
    ((100, ROLE, 0), (200, ANSWER, 1), (210, FINISH, 0), (212, USAGE, 0)),
    headers=95,
    end=215,
    output_tokens=1,
    reasoning_tokens=0,
)
D_TOOL_CALL = Golden(
    ((100, ROLE, 0), (300, TOOL, 4), (340, TOOL, 3), (380, TOOL, 4), (400, FINISH, 1), (410, USAGE, 0)),
    headers=95,
    end=420,
    output_tokens=12,
    reasoning_tokens=0,
)
F_NO_USAGE = Golden(MAIN_EVENTS, headers=190, end=1860)

# Output chunks of A at 500 540 600 640 680 720 1720 1760 1800: gaps 40 60 40 40 40 1000 40 40 ms, Σ 1300, so t_l - t_f.
# Sorted: 40 *6, 60, 1000. Rank of p50 is 7 * .5 = 3.5 → 40; p90 6.3 → 60 + .3 * 940 = 342; p95 6.65 → 60 + .65 * 940
# = 671; p99 6.93 → 60 + .93 * 940 = 934.2. Mean 1300 / 8 = 162.5. Σ x² = 6 * 1,600 + 3,600 + 1,000,000 = 1,013,200;
# / 8 - 162.5² = 126,650 - 26,406.25 = 100,243.75, whose root is 316.6129…
A_WITHOUT_TOKENS = {
    "duration": 1.860,
    "time_to_first_chunk": 0.200,
    "time_to_first_token": 0.500,
    "time_to_first_answer_token": 0.600,
    "reasoning_time": 0.100,
    "itl_p50": 0.040,
    "itl_p90": 0.342,
    "itl_p95": 0.671,
    "itl_p99": 0.9342,
    "itl_max": 1.000,
    "itl_mean": 0.1625,
    "itl_stddev": 100_243.75**0.5 / 1000,
    "imputed": 0,
    "excluded": 0,
    "is_consumer_bound": False,
    "consumer_time": 0.0,
    "time_per_output_chunk": 0.1625,  # 1300 / (9 - 1)
    "burst_ratio": 0.0,
    "drift": None,
    "output_chunk_count": 9,
}
GOLDEN = {
    "A_main": (
        A_MAIN,
        {
            **A_WITHOUT_TOKENS,
            "time_per_output_token": 0.100,  # 1300 / (14 - 1)
            "output_speed": 10.0,  # 13 / 1.3
            "tokens_per_chunk": 14 / 9,
            "token_count": 14,
            "has_reported_token_count": True,
            "chunk_count": 12,
        },
    ),
    "B_smooth": (
        B_SMOOTH,
        {
            "duration": 0.302,
            "time_to_first_chunk": 0.100,
            "time_to_first_token": 0.200,
            "time_to_first_answer_token": 0.200,
            "reasoning_time": None,
            "itl_p50": 0.020,
            "itl_p99": 0.020,
            "itl_max": 0.020,
            "itl_mean": 0.020,
            "itl_stddev": 0.0,
            "time_per_output_token": 0.016,  # 80 / (6 - 1)
            "time_per_output_chunk": 0.020,  # 80 / (5 - 1)
            "output_speed": 62.5,  # 5 / .08
            "tokens_per_chunk": 1.2,  # 6 / 5
            "token_count": 6,
            "chunk_count": 8,
            "output_chunk_count": 5,
        },
    ),
    "C_single_token": (
        C_SINGLE_TOKEN,
        {
            "duration": 0.215,
            "time_to_first_chunk": 0.100,
            "time_to_first_token": 0.200,
            "time_to_first_answer_token": 0.200,
            "itl_p50": None,
            "itl_max": None,
            "itl_stddev": None,
            "time_per_output_token": None,  # N = 1
            "time_per_output_chunk": None,
            "output_speed": None,
            "tokens_per_chunk": 1.0,
            "token_count": 1,
            "burst_ratio": None,
            "chunk_count": 4,
            "output_chunk_count": 1,
        },
    ),
    "D_tool_call": (
        D_TOOL_CALL,
        {
            "duration": 0.420,
            "time_to_first_chunk": 0.100,
            "time_to_first_token": 0.300,
            "time_to_first_answer_token": 0.300,
            "reasoning_time": None,
            "itl_p50": 0.040,
            "itl_p99": 0.040,
            "itl_max": 0.040,
            "time_per_output_token": 0.08 / 11,  # (380 - 300) / (12 - 1)
            "output_speed": 137.5,  # 11 / .08
            "tokens_per_chunk": 4.0,  # 12 / 3
            "token_count": 12,
            "chunk_count": 6,
            "output_chunk_count": 3,
        },
    ),
    "F_no_usage": (
        F_NO_USAGE,
        {
            **A_WITHOUT_TOKENS,
            "time_per_output_token": None,
            "output_speed": None,
            "tokens_per_chunk": None,
            "token_count": 9,
            "has_reported_token_count": False,
            "chunk_count": 11,
        },
    ),
}


@pytest.mark.parametrize(
    ("golden", "field", "expected"),
    [
        pytest.param(golden, field, expected, id=f"{name}-{field}")
        for name, (golden, fields) in GOLDEN.items()
        for field, expected in fields.items()
    ],
)
@pytest.mark.requirement("R32")
@pytest.mark.requirement("R36")
def test_a_recorded_stream_has_the_number_that_its_definition_gives(golden: Golden, field: str, expected: Any) -> None:
    actual = getattr(measure(golden.timeline()), field)
    assert actual == (pytest.approx(expected, rel=1e-12) if isinstance(expected, float) else expected)


def test_the_samples_of_a_recorded_stream_are_its_gaps_ascending() -> None:
    assert milliseconds(measure(A_MAIN.timeline()).itl_samples.nanoseconds) == [40, 40, 40, 40, 40, 40, 60, 1000]


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        # Behind the gaps 40 60 40 40 40 1000 40 40 are 2 1 1 3 1 1 2 1 tokens: samples 20 *2, 60, 40, 13.3 *3, 40,
        # 1000, 20 *2, 40. Sorted: 13.3 *3, 20 *4, 40 *3, 60, 1000, twelve of them.
        ("itl_p50", 0.020),  # rank 11 * .5 = 5.5: between 20 and 20
        ("itl_p90", 0.058),  # rank 9.9: 40 + .9 * 20
        ("itl_p95", 0.483),  # rank 10.45: 60 + .45 * 940
        ("itl_p99", 0.8966),  # rank 10.89: 60 + .89 * 940
        ("itl_max", 1.000),
        ("itl_mean", 1.3 / 12),
        ("time_per_output_token", 0.100),
    ],
)
def test_a_recorded_stream_whose_tokens_are_known_is_weighted_by_them(field: str, expected: float) -> None:
    timeline = A_MAIN.timeline(tokens=A_MAIN.tokens)
    assert getattr(measure(timeline), field) == pytest.approx(expected, rel=1e-12)


def test_pooled_samples_of_two_streams_give_the_percentiles_of_both() -> None:
    # A: 40 *6, 60, 1000; B: 20 *4. Twelve: rank of p50 5.5 → 40, of p99 10.89 → 60 + .89 * 940 = 896.6.
    pooled = sorted(
        [*measure(A_MAIN.timeline()).itl_samples.nanoseconds, *measure(B_SMOOTH.timeline()).itl_samples.nanoseconds]
    )
    assert [percentile(pooled, q) / MS for q in (50, 99)] == pytest.approx([40, 896.6], rel=1e-12)


def test_samples_are_read_in_seconds() -> None:
    assert list(measure(consumed([100, 130, 170])).itl_samples) == [0.03, 0.04]


def test_a_sample_is_found_by_its_place_in_seconds() -> None:
    assert measure(consumed([100, 130, 170])).itl_samples[-1] == 0.04


def test_a_part_of_the_samples_is_in_seconds_as_well() -> None:
    assert list(measure(consumed([100, 130, 170, 220])).itl_samples[1:]) == [0.04, 0.05]


def test_samples_can_be_pooled_over_streams() -> None:
    streams = [consumed([100, 130, 170]), consumed([100, 120])]
    assert sorted(sample for stream in streams for sample in measure(stream).itl_samples) == [0.02, 0.03, 0.04]


def test_samples_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        measure(consumed([100, 130])).itl_samples.nanoseconds = []  # type: ignore[misc]


# --- The worked example of the module ------------------------------------------------------------------------------


def worked_example() -> Measures:
    return measure(consumed([200, 500, 540, 1540], [ROLE, ANSWER, ANSWER, ANSWER], headers=190, output_tokens=6))


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("time_to_first_chunk", 0.2),
        ("time_to_first_token", 0.5),
        ("itl_p50", 0.52),  # 40 + .5 * 960
        ("itl_p99", 0.9904),  # 40 + .99 * 960
        ("itl_mean", 0.52),
        ("time_per_output_token", 0.208),  # 1.04 / 5
        ("tokens_per_chunk", 2.0),  # 6 / 3
    ],
)
def test_the_worked_example_of_the_documentation_holds(field: str, expected: float) -> None:
    assert getattr(worked_example(), field) == pytest.approx(expected, rel=1e-12)


# --- First chunk, first token, first answer ------------------------------------------------------------------------


@pytest.mark.requirement("R31")
@pytest.mark.parametrize("kind", [EMPTY, ROLE, LIFECYCLE, PING, FINISH, USAGE])
def test_a_chunk_without_output_is_no_first_token(kind: Kind) -> None:
    assert measure(consumed([200, 500], [kind, ANSWER])).time_to_first_token == 0.5


@pytest.mark.requirement("R32")
@pytest.mark.parametrize("kind", [EMPTY, ROLE, LIFECYCLE, PING, FINISH, USAGE])
def test_a_chunk_without_output_is_a_first_chunk(kind: Kind) -> None:
    assert measure(consumed([200, 500], [kind, ANSWER])).time_to_first_chunk == 0.2


@pytest.mark.requirement("R33")
@pytest.mark.parametrize("kind", [ANSWER, TOOL])
def test_an_answer_or_a_tool_call_is_a_first_answer_token(kind: Kind) -> None:
    assert measure(consumed([300, 700], [REASONING, kind])).time_to_first_answer_token == 0.7


@pytest.mark.requirement("R32")
def test_reasoning_time_is_what_lies_between_the_first_token_and_the_first_answer() -> None:
    # 700 - 300 = 400 ms.
    timeline = consumed([100, 300, 450, 700], [ROLE, REASONING, REASONING, ANSWER])
    assert measure(timeline).reasoning_time == pytest.approx(0.4)


def test_a_stream_that_does_not_reason_has_no_reasoning_time() -> None:
    assert measure(consumed([300, 700])).reasoning_time is None


def test_a_finish_that_carries_text_is_a_token() -> None:
    assert measure(consumed([300, 400], [ANSWER, ANSWER | FINISH])).output_chunk_count == 2


# --- What is absent ------------------------------------------------------------------------------------------------

NO_CHUNK = consumed([], end=900 * MS)
NO_OUTPUT = consumed([100, 200], [ROLE, FINISH], output_tokens=0)
REASONING_ONLY = consumed([100, 200, 300], [REASONING] * 3, output_tokens=3)
ONE_OUTPUT = consumed([100], output_tokens=5)
TWO_OUTPUTS = consumed([100, 150], output_tokens=5)
ONE_TOKEN = consumed([100, 150], output_tokens=1)
NO_COUNT = consumed([100, 150, 170])


@pytest.mark.parametrize(
    ("timeline", "field"),
    [
        pytest.param(timeline, field, id=f"{name}-{field}")
        for name, timeline, fields in [
            ("no chunk", NO_CHUNK, ["time_to_first_chunk", "time_to_first_token", "time_to_first_answer_token"]),
            ("no chunk", NO_CHUNK, ["reasoning_time", "burst_ratio", "tokens_per_chunk", *LATENCY]),
            ("no output chunk", NO_OUTPUT, ["time_to_first_token", "time_to_first_answer_token", "reasoning_time"]),
            ("no output chunk", NO_OUTPUT, ["time_per_output_token", "time_per_output_chunk", "tokens_per_chunk"]),
            ("no output chunk", NO_OUTPUT, ["output_speed", "burst_ratio", "drift", *LATENCY]),
            ("reasoning only", REASONING_ONLY, ["time_to_first_answer_token", "reasoning_time"]),
            ("one output chunk", ONE_OUTPUT, ["time_per_output_token", "time_per_output_chunk", "output_speed"]),
            ("one output chunk", ONE_OUTPUT, ["burst_ratio", "drift", *LATENCY]),
            ("two output chunks", TWO_OUTPUTS, list(LATENCY)),
            ("one token by usage", ONE_TOKEN, ["time_per_output_token", "output_speed"]),
            ("no token count", NO_COUNT, ["time_per_output_token", "output_speed", "tokens_per_chunk"]),
        ]
        for field in fields
    ],
)
@pytest.mark.requirement("R41")
@pytest.mark.requirement("R36")
def test_what_cannot_be_known_is_absent(timeline: Timeline, field: str) -> None:
    assert getattr(measure(timeline), field) is None


@pytest.mark.requirement("R42")
@pytest.mark.parametrize("outcome", [Outcome.ERROR, Outcome.CANCELLED, Outcome.CLOSED, Outcome.TRUNCATED])
def test_a_stream_that_was_cut_short_keeps_its_partial_timing(outcome: Outcome) -> None:
    timeline = consumed([300, 320, 360], outcome=outcome)
    assert (measure(timeline).time_to_first_token, measure(timeline).itl_max) == (0.3, 0.04)


def test_a_reasoning_only_stream_has_a_first_token() -> None:
    assert measure(REASONING_ONLY).time_to_first_token == 0.1


def test_two_output_chunks_have_a_mean_time_per_output_token() -> None:
    # (150 - 100) / (5 - 1) = 12.5 ms.
    assert measure(TWO_OUTPUTS).time_per_output_token == pytest.approx(0.0125)


@pytest.mark.requirement("R36")
def test_without_a_token_count_the_mean_per_chunk_has_a_name_of_its_own() -> None:
    # (170 - 100) / (3 - 1) = 35 ms.
    assert measure(NO_COUNT).time_per_output_chunk == pytest.approx(0.035)


def test_without_a_token_count_the_chunks_are_counted() -> None:
    measures = measure(NO_COUNT)
    assert (measures.token_count, measures.has_reported_token_count) == (3, False)


def test_a_stream_without_chunks_has_a_duration() -> None:
    assert measure(NO_CHUNK).duration == 0.9


def test_a_stream_without_chunks_is_not_bound_by_its_consumer() -> None:
    assert not measure(NO_CHUNK).is_consumer_bound


# --- Jitter, bursts, drift -----------------------------------------------------------------------------------------


def test_jitter_is_the_population_standard_deviation_of_the_gaps() -> None:
    # Gaps 10, 20, 60 ms: mean 30, squares of the distances 400 + 100 + 900 = 1400, / 3 = 466.67, root 21.602.
    assert measure(consumed([100, 110, 130, 190])).itl_stddev == pytest.approx((1400 / 3) ** 0.5 / 1000)


def test_an_even_stream_has_no_jitter() -> None:
    assert measure(consumed([100, 120, 140, 160])).itl_stddev == pytest.approx(0.0, abs=1e-9)


@pytest.mark.requirement("R37")
def test_the_burst_ratio_is_the_share_of_chunks_that_came_together_with_their_predecessor() -> None:
    # Four packets of three chunks, each read at once: of 12 chunks 8 came with the one before.
    upstream = [packet for packet in (100, 200, 300, 400) for _ in range(3)]
    assert measure(consumed(upstream, decode=0.05)).burst_ratio == pytest.approx(8 / 12)


@pytest.mark.requirement("R37")
def test_chunks_that_come_one_by_one_are_no_burst() -> None:
    assert measure(consumed([100, 120, 140, 160], decode=0.05)).burst_ratio == 0.0


@pytest.mark.requirement("R37")
def test_the_time_to_decode_a_burst_is_in_no_gap() -> None:
    # Three packets of three, the third cut short: within a packet nothing, between packets the 100 ms between them.
    samples = measure(consumed([100] * 3 + [200] * 3 + [300], decode=0.1)).itl_samples.nanoseconds
    assert milliseconds(samples) == pytest.approx([0, 0, 0, 0, 100, 100])


def test_a_first_token_that_came_with_the_role_chunk_came_when_that_did() -> None:
    timeline = consumed([100, 100, 200], [ROLE, ANSWER, ANSWER], decode=0.1)
    assert measure(timeline).time_to_first_token == pytest.approx(0.1001)


def test_a_burst_that_took_more_than_a_twentieth_of_the_pause_after_it_may_be_a_fast_stream() -> None:
    # 0.15 ms from chunk to chunk: 30 ms for 200 of them, 500 until the next.
    timeline = consumed([100 + 0.15 * j for j in range(201)] + [630], decode=0.02)
    assert measure(timeline).itl_p50 == pytest.approx(0.00015)


def test_chunks_further_apart_than_decoding_takes_did_not_come_together() -> None:
    # 0.3 ms apart, on a stream of which a pull usually waits for 50 ms.
    timeline = consumed([100, 100.3, 150, 150.3, 200])
    assert milliseconds(measure(timeline).itl_samples.nanoseconds) == pytest.approx([0.3, 0.3, 49.7, 49.7])


def test_a_burst_before_a_hidden_arrival_is_left_as_it_is() -> None:
    # How long the pause after it was is not known: 400 ms of work hide the next arrival.
    timeline = consumed([100, 200, 200, 210, 700], holds=[0, 0, 0, 400, 0], decode=0.1)
    assert milliseconds(measure(timeline).itl_samples.nanoseconds) == pytest.approx([0.1, 100, 249.95, 249.95])


def test_a_chunk_that_a_slow_consumer_found_waiting_is_no_burst() -> None:
    # Both chunks after the first had been there for long; whether they came together is not known.
    assert measure(consumed([100, 110, 120, 900], holds=[0, 300, 300, 0], decode=0.05)).burst_ratio == 0.0


def growing(gaps: int) -> Timeline:
    """Gap j is 10 + 0.1 j milliseconds."""
    return consumed(list(accumulate([100.0, *(10 + 0.1 * j for j in range(gaps))])))


def test_drift_is_the_slope_of_the_gaps_per_thousand_tokens() -> None:
    # Gaps grow by 0.1 ms with each token: 0.1 s over a thousand. Of 33 gaps the outer thirds hold 11 each, and their
    # medians are the 6th and the 28th gap: (12.7 - 10.5) / 22 = 0.1.
    assert measure(growing(33)).drift == pytest.approx(0.1)


def test_a_single_stall_does_not_bend_the_drift() -> None:
    gaps = [10 + 0.1 * j for j in range(33)]
    gaps[30] += 5_000
    assert measure(consumed(list(accumulate([100.0, *gaps])))).drift == pytest.approx(0.1, rel=0.1)


def test_a_stream_that_speeds_up_drifts_downwards() -> None:
    timeline = consumed(list(accumulate([100.0, *(20 - 0.1 * j for j in range(40))])))
    assert measure(timeline).drift == pytest.approx(-0.1)


def test_32_output_chunks_have_a_drift() -> None:
    assert measure(growing(31)).drift == pytest.approx(0.1)


def test_31_output_chunks_have_no_drift() -> None:
    assert measure(growing(30)).drift is None


def test_drift_counts_tokens_where_they_are_known() -> None:
    # The same growth, each chunk two tokens: gap / 2 grows by 0.05 ms per chunk, which is 0.025 ms per token.
    timeline = growing(33)
    counted = replace(timeline, tokens=array("I", [2] * len(timeline)))
    assert measure(counted).drift == pytest.approx(0.025, rel=0.05)


# --- Tokens in the chunks ------------------------------------------------------------------------------------------


def test_a_chunk_of_n_tokens_gives_n_samples_of_a_share_of_the_gap_each() -> None:
    # 30 ms for three tokens, 40 ms for one.
    samples = measure(consumed([100, 130, 170], tokens=array("I", [1, 3, 1]))).itl_samples.nanoseconds
    assert milliseconds(samples) == [10, 10, 10, 40]


def test_a_chunk_whose_tokens_are_unknown_gives_one_sample() -> None:
    samples = measure(consumed([100, 130, 170], tokens=array("I", [1, 3, 0]))).itl_samples.nanoseconds
    assert milliseconds(samples) == [10, 10, 10, 40]


def test_a_chunk_that_claims_millions_of_tokens_takes_no_memory_for_each() -> None:
    measures = measure(consumed([100, 130, 170], tokens=array("I", [1, 1 << 21, 1])))
    assert len(measures.itl_samples.nanoseconds) < 1 << 20


def test_tokens_of_the_first_chunk_divide_no_gap() -> None:
    samples = measure(consumed([100, 130, 170], tokens=array("I", [9, 1, 1]))).itl_samples.nanoseconds
    assert milliseconds(samples) == [30, 40]


def test_tokens_of_a_chunk_without_output_divide_no_gap() -> None:
    timeline = consumed([100, 130, 170], [ANSWER, FINISH, ANSWER], tokens=array("I", [1, 5, 1]))
    assert milliseconds(measure(timeline).itl_samples.nanoseconds) == [70]


def test_hidden_chunks_share_the_time_by_their_tokens() -> None:
    # Observed at 100, two hidden, observed at 190: 90 ms over 2 + 3 + 4 tokens are 10 ms each.
    timeline = consumed([100, 105, 110, 190], holds=[0, 60, 0, 0], decode=0.0, tokens=array("I", [1, 2, 3, 4]))
    assert milliseconds(measure(timeline).itl_samples.nanoseconds) == [10] * 9


def test_reasoning_tokens_that_the_stream_never_showed_are_not_in_the_time_per_token() -> None:
    # Usage reports 100 tokens, of which 89 are reasoning that was not streamed: 11 tokens in 11 chunks of 10 ms.
    timeline = consumed([500 + 10 * j for j in range(11)], output_tokens=100, reasoning_tokens=89)
    assert measure(timeline).time_per_output_token == pytest.approx(0.010)


def test_reasoning_tokens_that_the_stream_never_showed_are_in_no_chunk() -> None:
    timeline = consumed([500 + 10 * j for j in range(11)], output_tokens=100, reasoning_tokens=89)
    assert measure(timeline).tokens_per_chunk == 1.0


def test_reasoning_tokens_that_the_stream_showed_count_as_streamed() -> None:
    # (600 - 500) / (22 - 1).
    kinds = [REASONING] * 5 + [ANSWER] * 6
    timeline = consumed([500 + 10 * j for j in range(11)], kinds, output_tokens=22, reasoning_tokens=10)
    assert measure(timeline).time_per_output_token == pytest.approx(0.1 / 21)


def test_a_count_of_reasoning_above_that_of_all_output_leaves_no_streamed_tokens() -> None:
    assert measure(consumed([500, 510], output_tokens=3, reasoning_tokens=9)).tokens_per_chunk is None


def test_the_token_count_is_the_provider_s_own() -> None:
    timeline = consumed([500, 510], output_tokens=100, reasoning_tokens=89)
    assert measure(timeline).token_count == 100


# --- Several choices -----------------------------------------------------------------------------------------------

TWO_CHOICES = consumed(
    # Choice 0 at 100, 120, 140 and choice 1 at 105, 135, 165.
    [100, 105, 120, 135, 140, 165],
    choices=bytes([0, 1, 0, 1, 0, 1]),
    output_tokens=6,
)


@pytest.mark.requirement("R39")
def test_each_choice_has_its_own_gaps() -> None:
    assert milliseconds(measure(TWO_CHOICES).itl_samples.nanoseconds) == [20, 20, 30, 30]


@pytest.mark.requirement("R39")
def test_several_choices_have_no_time_per_output_token() -> None:
    assert measure(TWO_CHOICES).time_per_output_token is None


@pytest.mark.requirement("R39")
def test_several_choices_have_one_first_token() -> None:
    assert measure(TWO_CHOICES).time_to_first_token == 0.1


@pytest.mark.requirement("R39")
def test_the_first_token_of_a_second_choice_is_no_gap_of_the_first() -> None:
    timeline = consumed([100, 900], choices=b"\0\1")
    assert measure(timeline).itl_samples.nanoseconds == []


# --- Whose gap is it? ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("R34")
def test_a_consumer_that_works_5_ms_on_each_token_of_a_10_ms_stream_sees_10_ms() -> None:
    timeline = consumed([100 + 10 * j for j in range(50)], holds=5, decode=0.05)
    assert (measure(timeline).itl_p50, measure(timeline).itl_max) == pytest.approx((0.010, 0.010))


@pytest.mark.requirement("R35")
def test_what_the_consumer_works_is_its_own_figure() -> None:
    # 5 ms before each of 50 pulls, the first one included.
    timeline = consumed([100 + 10 * j for j in range(50)], holds=5, decode=0.05, headers=90)
    assert measure(timeline).consumer_time == pytest.approx(0.250)


def test_a_consumer_that_works_less_than_the_gap_leaves_every_gap_exact() -> None:
    measures = measure(consumed([100 + 10 * j for j in range(50)], holds=5, decode=0.05))
    assert (measures.imputed, measures.excluded, measures.is_consumer_bound) == (0, 0, False)


@pytest.mark.requirement("R34")
def test_a_sleep_of_200_ms_on_each_chunk_is_recorded_as_no_latency() -> None:
    timeline = consumed([100 + 10 * j for j in range(50)], holds=200, decode=0.05)
    assert list(measure(timeline).upstream_samples) == []


def test_a_sleep_of_200_ms_on_each_chunk_leaves_the_latency_anything_up_to_that() -> None:
    timeline = consumed([100 + 10 * j for j in range(50)], holds=200, decode=0.05)
    assert measure(timeline).bounds["itl_mean"] == pytest.approx((0, 0.20005))


@pytest.mark.requirement("R35")
def test_a_consumer_that_never_catches_up_has_every_gap_excluded() -> None:
    # The pull of the first chunk blocked; the other 49 chunks had been there for a while.
    timeline = consumed([100 + 10 * j for j in range(50)], holds=[0, *[200] * 49], decode=0.05)
    measures = measure(timeline)
    assert (measures.exact, measures.imputed, measures.excluded) == (0, 0, 49)


@pytest.mark.requirement("R35")
def test_a_consumer_that_never_catches_up_is_distinguished_from_a_slow_upstream() -> None:
    timeline = consumed([100 + 10 * j for j in range(50)], holds=[0, *[200] * 49], decode=0.05)
    assert measure(timeline).is_consumer_bound


@pytest.mark.requirement("R36")
def test_a_last_token_whose_arrival_is_hidden_came_when_it_was_read_at_the_latest() -> None:
    timeline = consumed([100 + 10 * j for j in range(50)], holds=[0, *[200] * 49], decode=0.05, output_tokens=50)
    measures = measure(timeline)
    found = (measures.time_per_output_token, measures.tpot_uncertainty)
    assert found == pytest.approx((0.20005, 0.20005))  # all of it may have come with the first


@pytest.mark.requirement("R34")
def test_a_sleep_of_200_ms_on_each_token_of_a_250_ms_stream_leaves_250_ms() -> None:
    timeline = consumed([300 + 250 * j for j in range(10)], holds=200, decode=0.05)
    assert (measure(timeline).itl_p50, measure(timeline).itl_max) == pytest.approx((0.250, 0.250))


PAUSED_ONCE = consumed(
    # 25 ms a token. After the 100th the consumer pauses for 2 s, drains the 80 that had piled up, and waits again.
    [100 + 25 * j for j in range(200)],
    holds=[0.0] * 100 + [2_000.0] + [0.0] * 99,
    decode=0.05,
)


@pytest.mark.requirement("R34")
def test_a_single_pause_and_the_drain_after_it_invent_no_tail() -> None:
    measures = measure(PAUSED_ONCE)
    assert (measures.itl_p50, measures.itl_max) == pytest.approx((0.025, 0.025), rel=1e-3)


def test_a_single_pause_and_the_drain_after_it_invent_no_burst() -> None:
    assert measure(PAUSED_ONCE).burst_ratio == 0.0


@pytest.mark.requirement("R35")
def test_the_gaps_of_a_drained_pile_are_imputed_up_to_the_next_arrival_that_was_waited_for() -> None:
    # The 100th chunk came at 100 + 25 * 99 = 2,575 ms. The pause ends at 4,575, when chunks 101 to 180 are there (the
    # last at 100 + 25 * 179 = 4,575); 181 was waited for. The gap that closes the run is shared out with it: 80 + 1.
    assert measure(PAUSED_ONCE).imputed == 81


def test_a_pause_of_minor_length_does_not_bind_a_stream_to_its_consumer() -> None:
    assert not measure(PAUSED_ONCE).is_consumer_bound


def test_a_hidden_run_shares_the_time_between_its_neighbours_evenly() -> None:
    # Observed at 100 and at 160; 105 and 110 were found waiting after 45 ms of work: three gaps of 20 ms.
    timeline = consumed([100, 105, 110, 160], holds=[0, 45, 0, 0])
    assert milliseconds(measure(timeline).itl_samples.nanoseconds) == [20, 20, 20]


@pytest.mark.requirement("R35")
def test_a_hidden_chunk_is_not_put_later_than_it_was_there() -> None:
    # Both were found waiting at 130, 160 was waited for: two gaps of 15 ms at the most, and the 30 that were waited.
    timeline = consumed([100, 105, 110, 160], holds=[0, 30, 0, 0])
    assert milliseconds(measure(timeline).itl_samples.nanoseconds) == [15, 15, 30]


def test_each_of_several_hidden_chunks_was_there_when_its_own_pull_returned() -> None:
    # Found waiting at 110, 120 and 150; 200 was waited for. Shared evenly, the first would have come at 125.
    timeline = consumed([100, 101, 102, 103, 200], holds=[0, 10, 10, 30, 0])
    assert milliseconds(measure(timeline).itl_samples.nanoseconds) == [10, 10, 30, 50]


@pytest.mark.requirement("R35")
def test_a_stall_after_a_pause_is_as_long_as_it_was_waited_for() -> None:
    # 10 ms a token. After the 20th (at 290) the consumer pauses for 300 ms; the 41st comes a second after the 40th.
    upstream = [100 + 10 * j for j in range(40)] + [1_490 + 10 * j for j in range(40)]
    timeline = consumed(upstream, holds=[0.0] * 20 + [300.0] + [0.0] * 59)
    assert measure(timeline).itl_max == pytest.approx(0.9)


def test_what_is_left_of_a_pause_before_a_stall_is_shared_evenly() -> None:
    # The 300 ms of the pause over the 20 chunks that had come in it.
    upstream = [100 + 10 * j for j in range(40)] + [1_490 + 10 * j for j in range(40)]
    timeline = consumed(upstream, holds=[0.0] * 20 + [300.0] + [0.0] * 59)
    assert milliseconds(measure(timeline).itl_samples.nanoseconds).count(15) == 20


# A hiccup of the caller while it drains a pile: 25 ms a token, a pause of 2 s, then the pile.
def piled(waits: dict[int, float], chunks: int = 200) -> Timeline:
    """`PAUSED_ONCE`, where the pulls of these chunks take this many milliseconds longer."""
    upstream = [100 + 25 * j for j in range(chunks)]
    asked, arrived, free = [], [], 0.0
    for index, reached in enumerate(upstream):
        ask = free + (2_000 if index == 100 else 0)
        free = max(ask, reached) + 0.05 + waits.get(index, 0)
        asked.append(round(ask * MS))
        arrived.append(round(free * MS))
    return Timeline(
        request_unix_ns=0,
        asked=array("q", asked),
        arrived=array("q", arrived),
        kinds=bytes([ANSWER]) * chunks,
        end=arrived[-1],
    )


@pytest.mark.parametrize(
    "index", [100, 101, 130, 178], ids=["its first pull", "its second", "in its middle", "near its end"]
)
@pytest.mark.requirement("R34")
def test_a_hiccup_while_a_pile_is_drained_does_not_end_it(index: int) -> None:
    assert measure(piled({index: 8})).itl_max == pytest.approx(0.025, rel=0.01)


def test_a_pull_that_waited_for_half_of_what_is_usual_ends_a_pile() -> None:
    # 13 of 25 ms: whatever the caller did, this is no hiccup. The 31 gaps before are imputed, those after it exact.
    assert measure(piled({130: 13})).imputed == 31


def test_a_pull_that_waited_less_ends_a_pile_when_the_next_one_blocks_too() -> None:
    # The pause ends at 4,563.05 ms, 79 chunks are drained until 4,567, and the next is there at 4,575: 79 + 1 gaps.
    holds = [0.0] * 100 + [1_988.0] + [0.0] * 99
    timeline = consumed([100 + 25 * j for j in range(200)], holds=holds, decode=0.05)
    assert measure(timeline).imputed == 80


def test_a_hidden_run_that_nothing_closes_is_guessed() -> None:
    # Gaps 100 → 120 and 120 → 140 are exact; the last two chunks were found waiting at 190 and 240.
    timeline = consumed([100, 120, 140, 145, 150], holds=[0, 0, 0, 50, 50])
    measures = measure(timeline)
    samples = milliseconds(measures.itl_samples.nanoseconds)
    assert (samples, measures.imputed, measures.excluded) == ([20, 20, 50, 50], 0, 2)


def test_a_hidden_run_that_nothing_opens_is_guessed() -> None:
    # The first two chunks were found waiting at 590, after 500 ms; 700 and 720 were waited for.
    timeline = consumed([100, 110, 700, 720], holds=[500, 0, 0, 0], headers=90)
    measures = measure(timeline)
    samples = milliseconds(measures.itl_samples.nanoseconds)
    assert (samples, measures.imputed, measures.excluded) == ([0, 20, 110], 0, 2)


@pytest.mark.requirement("R30")
def test_a_first_token_that_a_late_first_pull_found_waiting_came_between_the_headers_and_the_pull() -> None:
    timeline = consumed([100, 700, 720], holds=[500, 0, 0], headers=90)
    measures = measure(timeline)
    assert (measures.time_to_first_token, measures.ttft_uncertainty) == (0.59, 0.5)


@pytest.mark.requirement("R30")
def test_a_late_first_pull_is_time_of_the_consumer() -> None:
    timeline = consumed([100, 700, 720], holds=[500, 0, 0], headers=90)
    assert measure(timeline).consumer_time == pytest.approx(0.5)


@pytest.mark.requirement("R30")
def test_a_late_first_pull_that_blocks_all_the_same_is_a_first_token() -> None:
    # The headers came at 90, the pull at 590, the token at 700.
    timeline = consumed([700, 720], holds=[500, 0], headers=90)
    assert measure(timeline).time_to_first_token == 0.7


@pytest.mark.requirement("R35")
def test_a_hidden_first_token_binds_the_stream_to_its_consumer() -> None:
    timeline = consumed([100, 700, 720, 740, 760], holds=[500, 0, 0, 0, 0], headers=90)
    assert measure(timeline).is_consumer_bound


@pytest.mark.requirement("R35")
@pytest.mark.parametrize(
    ("upstream", "bound"),
    [
        # Five gaps. 30 ms of work before the third chunk hide that one: two gaps are imputed, three are exact.
        ([100, 120, 125, 190, 230, 260], False),
        # They hide the fourth as well: three are imputed, two are exact.
        ([100, 120, 125, 130, 230, 260], True),
    ],
)
def test_a_stream_is_bound_by_its_consumer_when_more_than_half_of_its_gaps_are_not_exact(
    upstream: list[float], bound: bool
) -> None:
    timeline = consumed(upstream, holds=[0, 0, 30, 0, 0, 0])
    assert measure(timeline).is_consumer_bound is bound


# Six arrivals, three of them exact or not, as above; two chunks of fifty tokens stand for a hundred samples.
FEW_GAPS_MANY_TOKENS = array("I", [1, 50, 1, 1, 1, 50])


def test_samples_of_a_stream_that_ends_hidden_do_not_show_the_pace() -> None:
    # The last two chunks came somewhere between 120 and 320 ms.
    timeline = consumed([100, 120, 125, 130], holds=[0, 0, 200, 0])
    assert list(measure(timeline).upstream_samples) == []


def test_samples_of_a_stream_between_two_known_moments_show_the_pace_whatever_is_hidden_between() -> None:
    # Three gaps are imputed, two are exact.
    timeline = consumed([100, 120, 125, 130, 230, 260], holds=[0, 0, 30, 0, 0, 0])
    assert len(measure(timeline).upstream_samples) == 5


def test_samples_of_a_stream_with_mostly_exact_gaps_show_the_pace() -> None:
    # Two gaps are imputed, three are exact.
    timeline = consumed([100, 120, 125, 190, 230, 260], holds=[0, 0, 30, 0, 0, 0], tokens=FEW_GAPS_MANY_TOKENS)
    assert len(measure(timeline).upstream_samples) == 50 + 1 + 1 + 1 + 50


def test_gaps_are_counted_as_gaps_however_many_tokens_a_chunk_has() -> None:
    timeline = consumed([100, 120, 125, 190, 230, 260], holds=[0, 0, 30, 0, 0, 0], tokens=FEW_GAPS_MANY_TOKENS)
    measures = measure(timeline)
    assert (measures.exact, measures.imputed, measures.excluded) == (3, 2, 0)


def test_a_hold_of_one_millisecond_hides_nothing() -> None:
    timeline = consumed([100, 100, 200], holds=[0, 1, 0], decode=0.05)
    assert (measure(timeline).imputed, measure(timeline).excluded) == (0, 0)


def test_a_hold_of_more_than_one_millisecond_may_hide_an_arrival() -> None:
    # It came between 100.05 and 101.2: the gap before it is not known to 1 ms, the one after it is to 5 %.
    timeline = consumed([100, 100, 200], holds=[0, 1.1, 0], decode=0.05)
    assert (measure(timeline).exact, measure(timeline).imputed) == (1, 1)


@pytest.mark.requirement("R58")
@pytest.mark.parametrize("pace", [0.25, 0.5, 0.9, 1.2])
def test_a_fast_upstream_is_measured_beside_a_consumer_that_keeps_up(pace: float) -> None:
    # 20 µs of work on each token of a stream that the consumer always waits for: nothing is hidden, nothing is a burst.
    timeline = consumed([100 + pace * j for j in range(400)], holds=0.02, decode=0.03)
    measures = measure(timeline)
    assert (measures.itl_p50, measures.is_consumer_bound) == (pytest.approx(pace / 1000, rel=0.01), False)


@pytest.mark.requirement("R37")
@pytest.mark.parametrize("pace", [0.25, 0.5, 0.9, 1.2])
def test_a_fast_even_upstream_is_no_burst(pace: float) -> None:
    timeline = consumed([100 + pace * j for j in range(400)], holds=0.02, decode=0.03)
    assert measure(timeline).burst_ratio == 0.0


# --- Identities ----------------------------------------------------------------------------------------------------

waited_gaps = st.lists(st.integers(1_000, 5_000_000), min_size=1, max_size=40)
"""Microseconds between the chunks of a stream whose consumer waits for each: a millisecond at least."""


@st.composite
def waited_for(draw: st.DrawFn) -> Timeline:
    """A stream of one choice, observed throughout, with two output chunks at least."""
    gaps = draw(waited_gaps)
    arrived = [1_000 * moment for moment in accumulate([draw(st.integers(1_000, 10**7)), *gaps])]
    kinds = [draw(st.sampled_from([REASONING, ANSWER, TOOL, ROLE, PING, EMPTY, FINISH])) for _ in arrived]
    kinds[0], kinds[-1] = draw(st.sampled_from([ANSWER, REASONING])), ANSWER
    return Timeline(
        request_unix_ns=0,
        asked=array("q", [0, *arrived[:-1]]),
        arrived=array("q", arrived),
        kinds=bytes(kinds),
        tokens=array("I", draw(st.lists(st.integers(0, 6), min_size=len(arrived), max_size=len(arrived)))),
        end=arrived[-1] + draw(st.integers(0, 10**9)),
        output_tokens=draw(st.integers(2, 1_000)),
    )


def last_output(timeline: Timeline) -> int:
    return max(moment for moment, kind in zip(timeline.arrived, timeline.kinds, strict=True) if kind & OUTPUT)


@quick
@given(waited_for())
def test_the_duration_is_the_first_token_plus_the_gaps_plus_the_rest(timeline: Timeline) -> None:
    measures = measure(timeline)
    assert measures.time_to_first_token is not None
    parts = (
        measures.time_to_first_token * SECOND
        + sum(measures.itl_samples.nanoseconds)
        + timeline.end
        - last_output(timeline)
    )
    assert measures.duration * SECOND == pytest.approx(parts, rel=1e-9)


@quick
@given(waited_for())
def test_the_gaps_add_up_to_the_time_per_token_times_the_tokens_after_the_first(timeline: Timeline) -> None:
    measures = measure(timeline)
    assert measures.time_per_output_token is not None
    assert timeline.output_tokens is not None
    tokens = timeline.output_tokens - 1
    assert sum(measures.itl_samples.nanoseconds) == pytest.approx(
        measures.time_per_output_token * tokens * SECOND, rel=1e-9
    )


@quick
@given(waited_for())
def test_the_output_speed_is_the_reciprocal_of_the_time_per_token(timeline: Timeline) -> None:
    measures = measure(timeline)
    assert measures.time_per_output_token is not None
    assert measures.output_speed == pytest.approx(1 / measures.time_per_output_token)


@quick
@given(waited_for())
def test_the_percentiles_rise(timeline: Timeline) -> None:
    found = [getattr(measure(timeline), field) for field in LATENCY[:5]]
    assert found == sorted(found, key=lambda value: value or 0)


@st.composite
def consumed_anyhow(draw: st.DrawFn) -> Timeline:
    """A stream of output chunks beside a consumer of any temper."""
    gaps = draw(st.lists(st.floats(0, 300, width=32), min_size=1, max_size=40))
    upstream = list(accumulate([draw(st.floats(0, 500, width=32)), *gaps]))
    holds = draw(st.lists(st.floats(0, 400, width=32), min_size=len(upstream), max_size=len(upstream)))
    return consumed(upstream, holds=holds, decode=draw(st.sampled_from([0.0, 0.02, 0.1])))


@quick
@given(consumed_anyhow())
def test_every_gap_is_exact_imputed_or_excluded(timeline: Timeline) -> None:
    measures = measure(timeline)
    assert measures.exact + measures.imputed + measures.excluded == len(timeline) - 1


@quick
@given(consumed_anyhow())
def test_the_gaps_add_up_to_the_time_between_first_and_last(timeline: Timeline) -> None:
    measures = measure(timeline)
    assert measures.decode_time is not None
    assert sum(measures.itl_samples.nanoseconds) == pytest.approx(measures.decode_time * SECOND, abs=1e-3)


@st.composite
def one_hidden_run(draw: st.DrawFn) -> Timeline:
    """A chunk that was waited for, some that a busy consumer found waiting, and one that was waited for again."""
    holds = draw(st.lists(st.integers(2, 300), min_size=1, max_size=20))
    waited = draw(st.integers(300, 900))
    return consumed([100, *[101] * len(holds), 100 + sum(holds) + waited], holds=[0, *holds, 0])


@quick
@given(one_hidden_run())
@pytest.mark.requirement("R35")
def test_no_hidden_chunk_is_put_later_than_its_pull_returned(timeline: Timeline) -> None:
    # The gaps of a single run ascend in time, as the samples do.
    put = accumulate(measure(timeline).itl_samples.nanoseconds, initial=timeline.arrived[0])
    assert [index for index, moment in enumerate(put) if moment > timeline.arrived[index] + 1] == []


@quick
@given(one_hidden_run())
def test_the_time_of_a_hidden_run_is_kept(timeline: Timeline) -> None:
    assert sum(measure(timeline).itl_samples.nanoseconds) == pytest.approx(timeline.arrived[-1] - timeline.arrived[0])


@quick
@given(one_hidden_run())
def test_the_gap_that_closes_a_hidden_run_is_no_shorter_than_it_was_waited_for(timeline: Timeline) -> None:
    assert measure(timeline).itl_samples.nanoseconds[-1] >= timeline.arrived[-1] - timeline.arrived[-2] - 1


@quick
@given(consumed_anyhow())
def test_no_gap_is_negative(timeline: Timeline) -> None:
    assert [sample for sample in measure(timeline).itl_samples.nanoseconds if sample < 0] == []


@quick
@given(consumed_anyhow())
def test_the_gaps_never_add_up_to_more_than_the_stream_lasted(timeline: Timeline) -> None:
    assert sum(measure(timeline).itl_samples.nanoseconds) <= timeline.arrived[-1] - timeline.arrived[0] + 1


# --- Timelines that were thinned or cut ----------------------------------------------------------------------------


def thinned(timeline: Timeline, kept: Sequence[int]) -> Timeline:
    """The timeline with these chunks only, the others counted."""
    return replace(
        timeline,
        asked=array("q", [timeline.asked[index] for index in kept]),
        arrived=array("q", [timeline.arrived[index] for index in kept]),
        kinds=bytes(timeline.kinds[index] for index in kept),
        skipped=array("I", [after - before - 1 for before, after in pairwise([-1, *kept])]),
    )


WHOLE = consumed([100 + 10 * j for j in range(100)], output_tokens=100)
THINNED = thinned(WHOLE, [*range(50), *range(52, 97, 4), 99])


@quick
@given(st.data())
def test_a_thinned_timeline_keeps_the_mean(data: st.DataObject) -> None:
    gaps = data.draw(st.lists(st.integers(2, 500), min_size=4, max_size=60))
    whole = consumed(list(accumulate([100, *gaps])))
    inner = data.draw(st.sets(st.integers(1, len(gaps) - 1), min_size=1))
    kept = measure(thinned(whole, [0, *sorted(inner), len(gaps)]))
    assert kept.itl_mean == pytest.approx(measure(whole).itl_mean, rel=1e-9)


def test_a_gap_that_chunks_were_left_out_of_is_imputed() -> None:
    # Three chunks left out between 130 and 170: four gaps of 10 ms each.
    measures = measure(thinned(WHOLE, [0, 1, 2, 3, 7, 8]))
    assert (milliseconds(measures.itl_samples.nanoseconds), measures.imputed) == ([10] * 8, 4)


def test_the_chunks_that_were_left_out_are_in_the_count() -> None:
    assert measure(THINNED).chunk_count == 100


def test_a_thinned_timeline_keeps_the_time_per_output_token() -> None:
    assert measure(THINNED).time_per_output_token == measure(WHOLE).time_per_output_token


def test_a_thinned_timeline_has_the_mean_per_chunk_of_the_whole_or_none() -> None:
    assert measure(THINNED).time_per_output_chunk in (None, pytest.approx(0.010))


def test_a_thinned_timeline_has_the_tokens_per_chunk_of_the_whole_or_none() -> None:
    assert measure(THINNED).tokens_per_chunk in {None, 1.0}


def test_chunks_that_were_left_out_are_no_time_of_the_consumer() -> None:
    # The consumer waited throughout; where chunks were left out, it is not known to have done anything else.
    assert measure(THINNED).consumer_time == 0.0


UNRECORDED = replace(WHOLE, unrecorded=900, output_tokens=1_000)
"""Nine hundred chunks came after the recording limit: the last output is not known."""


def test_chunks_that_were_not_timed_are_in_the_count() -> None:
    assert measure(UNRECORDED).chunk_count == 1_000


def test_a_stream_whose_last_chunks_were_not_timed_has_the_true_time_per_output_token_or_none() -> None:
    assert measure(UNRECORDED).time_per_output_token in (None, pytest.approx(0.010))


def test_a_stream_whose_last_chunks_were_not_timed_has_the_true_tokens_per_chunk_or_none() -> None:
    assert measure(UNRECORDED).tokens_per_chunk in {None, 1.0}


# --- Percentiles ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R38")
@pytest.mark.parametrize(
    ("values", "q", "expected"),
    [
        ([1.0, 2.0], 50, 1.5),
        ([1.0, 2.0], 99, 1.99),
        ([10.0, 20.0, 40.0], 50, 20.0),
        ([10.0, 20.0, 40.0], 90, 36.0),  # rank 2 * .9 = 1.8: 20 + .8 * 20
        ([40.0, 40.0, 40.0, 40.0, 40.0, 40.0, 60.0, 1000.0], 90, 342.0),  # rank 6.3: 60 + .3 * 940
        ([7.0], 99, 7.0),
        ([3.0, 5.0], 0, 3.0),
        ([3.0, 5.0], 100, 5.0),
    ],
)
def test_a_percentile_interpolates_between_the_closest_ranks(values: list[float], q: float, expected: float) -> None:
    assert percentile(values, q) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("q", [-0.1, 100.1, float("nan")])
def test_a_percentile_outside_0_to_100_is_refused(q: float) -> None:
    with pytest.raises(ValueError, match=rf"q from 0 to 100: got 2 values and q={q}"):
        percentile([1.0, 2.0], q)


def test_a_percentile_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one value"):
        percentile([], 50)


@pytest.fixture(scope="module")
def numpy() -> Any:
    return pytest.importorskip("numpy", reason="numpy is what the percentiles are compared with")


@pytest.mark.requirement("R38")
@settings(max_examples=200, deadline=None)
@given(
    values=st.lists(st.floats(0, 1e13, allow_nan=False), min_size=2, max_size=60).map(sorted),
    q=st.one_of(st.floats(0, 100), st.sampled_from([50, 90, 95, 99, 99.9])),
)
@example(values=[0.1, 0.2, 0.3], q=99)
@example(values=[1.0, 1e13], q=99)
def test_a_percentile_equals_that_of_numpy_to_the_last_bit(numpy: Any, values: list[float], q: float) -> None:
    assert percentile(values, q) == float(numpy.percentile(numpy.array(values), q))


@pytest.mark.requirement("R38")
@pytest.mark.parametrize("count", [2, 3, 10, 99, 1_000, 65_537, 1_000_000])
def test_the_percentiles_of_many_samples_equal_those_of_numpy_to_the_last_bit(numpy: Any, count: int) -> None:
    rng = Random(count)  # noqa: S311 - any numbers will do
    values = [rng.expovariate(1 / 4e7) for _ in range(count)]
    values.sort()
    expected = [float(value) for value in numpy.percentile(numpy.array(values), [50, 90, 95, 99, 99.9])]
    assert [percentile(values, q) for q in (50, 90, 95, 99, 99.9)] == expected


@pytest.mark.requirement("R38")
def test_the_percentiles_of_a_stream_equal_those_of_numpy(numpy: Any) -> None:
    rng = Random(7)  # noqa: S311 - any numbers will do
    gaps = [rng.randrange(2_000, 90_000) for _ in range(3_000)]
    timeline = consumed([moment / 1_000 for moment in accumulate([100_000, *gaps])])
    expected = numpy.percentile(numpy.array([gap * 1_000.0 for gap in gaps]), [50, 90, 95, 99]) / SECOND
    measures = measure(timeline)
    assert [measures.itl_p50, measures.itl_p90, measures.itl_p95, measures.itl_p99] == expected.tolist()
