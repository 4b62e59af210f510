"""What spans carry: the standard attributes by generation of the conventions, and the sketch of the samples."""

from __future__ import annotations

from array import array
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from otel_itl.core import conventions as names
from otel_itl.core.measures import measure
from otel_itl.core.metric_conventions import STANDARD_NAMES
from otel_itl.core.request import Request
from otel_itl.core.sketch import Sketch
from otel_itl.core.stream import Concurrency, FinishedStream, ResponseInfo
from otel_itl.core.timeline import Kind, Outcome, Timeline
from otel_itl.export.attributes import of_response, of_sketch, of_stream, rounded

MS = 1_000_000
REASONS = "gen_ai.response.finish_reasons"
USAGE = "gen_ai.usage."


def ended(
    outcome: Outcome = Outcome.COMPLETED, *reasons: str, operation: str = "chat", **parameters: Any
) -> FinishedStream:
    response = ResponseInfo()
    for choice, reason in enumerate(reasons):
        response.add_finish_reason(reason, choice)
    response.update_token_counts(
        input_tokens=20, output_tokens=14, reasoning_tokens=6, cache_read_tokens=8, cache_creation_tokens=4
    )
    timeline = Timeline(
        request_unix_ns=0,
        asked=array("q", [0]),
        arrived=array("q", [500 * MS]),
        kinds=bytes([Kind.ANSWER]),
        end=600 * MS,
        outcome=outcome,
    )
    request = Request(operation=operation, provider="openai", parameters=parameters)
    return FinishedStream(request, response, timeline, Concurrency(1, 1.0), None)


def response_attributes(finished: FinishedStream, generation: str) -> dict[str, Any]:
    return of_response(finished, measure(finished.timeline), STANDARD_NAMES[generation])


# --- Token usage ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("generation", "written"),
    [("operation", "cache_creation.input_tokens"), ("inference", "cache_write.input_tokens")],
)
def test_the_token_usage_has_the_names_of_its_generation(generation: str, written: str) -> None:
    attributes = response_attributes(ended(), generation)
    usage = {name.removeprefix(USAGE): tokens for name, tokens in attributes.items() if name.startswith(USAGE)}
    assert usage == {
        "input_tokens": 20,
        "output_tokens": 14,
        "reasoning.output_tokens": 6,
        "cache_read.input_tokens": 8,
        written: 4,
    }


@pytest.mark.parametrize("generation", STANDARD_NAMES)
def test_a_response_that_is_fetched_again_has_no_token_usage(generation: str) -> None:
    attributes = response_attributes(ended(operation="fetch_response"), generation)
    assert [name for name in attributes if name.startswith(USAGE)] == []


# --- Finish reasons ------------------------------------------------------------------------------------------------

CUT_SHORT = [outcome for outcome in Outcome if outcome is not Outcome.COMPLETED]


@pytest.mark.parametrize("outcome", CUT_SHORT)
def test_a_finish_reason_that_never_came_is_an_error_in_the_coming_generation(outcome: Outcome) -> None:
    assert response_attributes(ended(outcome), "inference")[REASONS] == ("error",)


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_finish_reason_that_never_came_is_absent_in_the_released_generation(outcome: Outcome) -> None:
    assert REASONS not in response_attributes(ended(outcome), "operation")


def test_a_completed_stream_without_a_finish_reason_has_none() -> None:
    assert REASONS not in response_attributes(ended(Outcome.COMPLETED), "inference")


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_finish_reason_that_came_is_what_is_reported(outcome: Outcome) -> None:
    assert response_attributes(ended(outcome, "stop"), "inference")[REASONS] == ("stop",)


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [((), ("error",) * 3), (("stop",), ("stop", "error", "error")), (("stop",) * 3, ("stop",) * 3)],
)
def test_each_of_several_choices_has_a_finish_reason(reasons: tuple[str, ...], expected: tuple[str, ...]) -> None:
    finished = ended(Outcome.TRUNCATED, *reasons, **{"gen_ai.request.choice.count": 3})
    assert response_attributes(finished, "inference")[REASONS] == expected


def test_a_missing_finish_reason_stands_in_the_place_of_its_choice() -> None:
    finished = ended(Outcome.TRUNCATED, **{"gen_ai.request.choice.count": 3})
    finished.response.add_finish_reason("stop", 2)
    assert response_attributes(finished, "inference")[REASONS] == ("error", "error", "stop")


def test_finish_reasons_are_in_the_order_of_their_choices() -> None:
    finished = ended()
    for choice, reason in ((2, "length"), (0, "stop"), (1, "tool_calls")):
        finished.response.add_finish_reason(reason, choice)
    assert response_attributes(finished, "operation")[REASONS] == ("stop", "tool_calls", "length")


def test_a_filter_that_cuts_off_a_finished_answer_replaces_its_finish_reason() -> None:
    finished = ended(Outcome.COMPLETED, "stop")
    finished.response.add_finish_reason("content_filter")
    assert response_attributes(finished, "operation")[REASONS] == ("content_filter",)


@pytest.mark.parametrize("choice", [127, 128, 10**12])
def test_an_odd_choice_costs_no_memory(choice: int) -> None:
    finished = ended(Outcome.TRUNCATED)
    finished.response.add_finish_reason("stop", choice)
    assert len(response_attributes(finished, "inference")[REASONS]) == 128


@pytest.mark.parametrize(("choices", "expected"), [(10**9, 128), (-5, 1), ("many", 1)])
def test_an_odd_number_of_choices_costs_no_memory(choices: Any, expected: int) -> None:
    finished = ended(Outcome.TRUNCATED, **{"gen_ai.request.choice.count": choices})
    assert len(response_attributes(finished, "inference")[REASONS]) == expected


@pytest.mark.parametrize("generation", STANDARD_NAMES)
def test_a_conversation_id_is_never_invented(generation: str) -> None:
    assert "gen_ai.conversation.id" not in response_attributes(ended(), generation)


# --- How well figures are known --------------------------------------------------------------------------------------


def stream_attributes(*late_ms: float) -> dict[str, Any]:
    """The attributes of a stream with a token every 40 ms, each of which may have come that much earlier."""
    arrived = array("q", [(100 + 40 * index) * MS for index in range(len(late_ms))])
    timeline = Timeline(
        request_unix_ns=0,
        asked=array("q", [0, *arrived[:-1]]),
        arrived=arrived,
        lateness=array("q", [round(each * MS) for each in late_ms] if any(late_ms) else ()),
        kinds=bytes([Kind.ANSWER] * len(late_ms)),
        end=arrived[-1],
        output_tokens=len(late_ms),
    )
    return rounded(of_stream(timeline, measure(timeline), Concurrency(1, 1.0)))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("itl.time_to_first_token.uncertainty", 0.005),
        # Gaps of 30 to 45 ms and of 30 to 50 ms; the p99 of two is 0.99 of the way from the lower to the higher.
        ("itl.latency.p99.uncertainty", 0.01),
        ("itl.latency.p99.highest", 0.04995),
        ("itl.time_per_output_token.uncertainty", 0.005),
        ("itl.time_per_output_token.highest", 0.0425),
    ],
)
def test_the_error_of_a_figure_is_on_the_span(name: str, expected: float) -> None:
    assert stream_attributes(5, 10, 10)[name] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("late_ms", [(0, 0, 0), (0.9, 0.2, 0.2)])
def test_an_error_that_is_next_to_nothing_is_absent(late_ms: tuple[float, ...]) -> None:
    assert set(names.SPAN_UNCERTAINTIES) & stream_attributes(*late_ms).keys() == set()


# --- The sketch ----------------------------------------------------------------------------------------------------


def test_a_sketch_is_text_that_sql_can_split() -> None:
    assert of_sketch(Sketch(5, (-150, -149, 12), (3, 10, 1), 2)) == {
        "itl.latency.sketch.scale": 5,
        "itl.latency.sketch.indexes": "-150,-149,12",
        "itl.latency.sketch.counts": "3,10,1",
        "itl.latency.sketch.zero_count": 2,
    }


def test_a_sketch_of_zeros_alone_has_no_buckets() -> None:
    attributes = of_sketch(Sketch(5, (), (), 2))
    assert (attributes["itl.latency.sketch.indexes"], attributes["itl.latency.sketch.zero_count"]) == ("", 2)


def test_a_sketch_without_samples_is_absent() -> None:
    assert of_sketch(Sketch(5, (), (), 0)) == {}


@given(
    figure=st.one_of(
        st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 10**13).map(lambda halves: halves / 2e6)
    )
)
@settings(max_examples=300, deadline=None)
@example(figure=0.0203995)
@example(figure=2.5e-06)
def test_a_figure_is_rounded_as_by_the_decimal_text_of_it(figure: float) -> None:
    assert rounded({"figure": figure, "count": 3}) == {"figure": round(figure, 6), "count": 3}
