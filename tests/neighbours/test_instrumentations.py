"""Beside other instrumentations of the same SDK, put on and taken off in any order: R65, R66."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from typing import Any, Final

import openai
import pytest
from beside import Exchanged, Pair, exchanged, restored, run
from instrumentations import INSTRUMENTATIONS, Instrumentation

from otel_itl.testing import CapturedTelemetry, capture_telemetry

CHAT: Final[dict[str, Any]] = {
    "model": "gpt-4o",
    "messages": [{"role": "user", "content": "hello"}],
    "stream": True,
    "stream_options": {"include_usage": True},
}
RESPONSE: Final[dict[str, Any]] = {"model": "gpt-5", "input": "hello", "stream": True}
ORDERS: Final = list(permutations(["ours", "theirs"]))

in_both_orders = pytest.mark.parametrize("order", ORDERS, ids="-then-".join)


def client_of(url: str) -> openai.OpenAI:
    # `verify=False` loads no certificates: that takes longer than a test, for no TLS.
    http_client = openai.DefaultHttpxClient(verify=False)
    return openai.OpenAI(base_url=url, http_client=http_client, api_key="none", max_retries=0, timeout=10.0)


def async_client_of(url: str) -> openai.AsyncOpenAI:
    http_client = openai.DefaultAsyncHttpxClient(verify=False)
    return openai.AsyncOpenAI(base_url=url, http_client=http_client, api_key="none", max_retries=0, timeout=10.0)


def chat(url: str) -> list[Any]:
    with client_of(url) as client:
        return list(client.chat.completions.create(**CHAT))


def response(url: str) -> list[Any]:
    with client_of(url) as client:
        return list(client.responses.create(**RESPONSE))


def helped(url: str) -> list[Any]:
    asked = {name: value for name, value in CHAT.items() if name != "stream"}
    with client_of(url) as client, client.chat.completions.stream(**asked) as stream:
        return [event.type for event in stream]


def async_chat(url: str) -> list[Any]:
    async def ask() -> list[Any]:
        async with async_client_of(url) as client:
            return [chunk async for chunk in await client.chat.completions.create(**CHAT)]

    chunks: list[Any] = run(ask())
    return chunks


def async_response(url: str) -> list[Any]:
    async def ask() -> list[Any]:
        async with async_client_of(url) as client:
            return [event async for event in await client.responses.create(**RESPONSE)]

    events: list[Any] = run(ask())
    return events


def refused(url: str) -> str:
    with client_of(url) as client, pytest.raises(openai.APIStatusError) as raised:
        client.chat.completions.create(**{**CHAT, "model": "refused"})
    return type(raised.value).__name__


ASKING: Final = [chat, async_chat, response, async_response, helped, refused]
in_each_way = pytest.mark.parametrize("ask", ASKING, ids=lambda ask: ask.__name__)
that_succeeds = pytest.mark.parametrize("ask", ASKING[:-1], ids=lambda ask: ask.__name__)
Ask = Callable[[str], Any]


@dataclass(frozen=True)
class Observed:
    """What one question gave its caller, and the telemetry of it."""

    exchanged: Exchanged
    records: int
    spans: list[Any]
    counts: dict[str, int]
    """Values of each standard metric."""

    @property
    def measured(self) -> list[tuple[str, dict[str, Any]]]:
        """Scope and attributes of the spans that carry our measures."""
        return [
            (span.instrumentation_scope.name, span.attributes)
            for span in self.spans
            if "itl.stream.outcome" in (span.attributes or {})
        ]


@cache
def observed(other: Instrumentation, order: tuple[str, ...]) -> dict[Ask, Observed]:
    """Each question, asked with the instrumentations put on in this order."""
    pytest.importorskip(other.module, reason=f"{other.package} is not installed")
    with capture_telemetry(temporality="delta") as captured, restored():
        pair = Pair(other, captured)
        pair.put_on(*order)
        try:
            return {ask: observed_once(ask, pair) for ask in ASKING}
        finally:
            pair.take_off("theirs", "ours")


def observed_once(ask: Ask, pair: Pair) -> Observed:
    pair.captured.clear()
    got = exchanged(ask)
    records = pair.records()
    counts: dict[str, int] = {}
    for name, points in pair.captured.metrics.items():
        for point in points:
            # A chunk, or a choice, is a value: there are several in any case.
            if name.startswith("gen_ai.client.") and not name.endswith(("time_per_output_chunk", "choices")):
                key = f"{name} {point.attributes.get('gen_ai.token.type', '')}".strip()
                counts[key] = counts.get(key, 0) + point.count
    return Observed(got, records, pair.captured.spans, counts)


beside_each = pytest.mark.parametrize("other", INSTRUMENTATIONS, ids=str)


@beside_each
@in_both_orders
@in_each_way
@pytest.mark.requirement("R65")
def test_the_caller_gets_and_the_server_is_sent_what_it_is_without_us(
    other: Instrumentation, order: tuple[str, ...], ask: Ask
) -> None:
    assert observed(other, order)[ask].exchanged == observed(other, ("theirs",))[ask].exchanged


@beside_each
@in_both_orders
@in_each_way
@pytest.mark.requirement("R65")
def test_one_request_is_one_record(other: Instrumentation, order: tuple[str, ...], ask: Ask) -> None:
    assert observed(other, order)[ask].records == 1


@beside_each
@in_both_orders
@that_succeeds
@pytest.mark.requirement("R65")
def test_one_request_is_one_span_with_our_measures(other: Instrumentation, order: tuple[str, ...], ask: Ask) -> None:
    measured = observed(other, order)[ask].measured
    expected = [(other.scope if other.is_companion else "otel_itl", 5)]
    assert [(scope, attributes["itl.output_chunk.count"]) for scope, attributes in measured] == expected


@beside_each
@in_both_orders
@pytest.mark.requirement("R65")
def test_a_request_that_fails_is_one_span_that_says_so(other: Instrumentation, order: tuple[str, ...]) -> None:
    measured = observed(other, order)[refused].measured
    assert [attributes["itl.stream.outcome"] for _, attributes in measured] == ["error"]


@beside_each
@in_both_orders
@in_each_way
@pytest.mark.requirement("R65")
def test_their_spans_are_what_they_are_without_us(other: Instrumentation, order: tuple[str, ...], ask: Ask) -> None:
    def names(of: Observed) -> list[str]:
        return [span.name for span in of.spans if span.instrumentation_scope.name == other.scope]

    assert names(observed(other, order)[ask]) == names(observed(other, ("theirs",))[ask])


@beside_each
@in_both_orders
@in_each_way
@pytest.mark.requirement("R65")
def test_no_standard_metric_is_recorded_twice(other: Instrumentation, order: tuple[str, ...], ask: Ask) -> None:
    counts = observed(other, order)[ask].counts
    assert {name: count for name, count in counts.items() if count != 1} == {}


# --- Coming and going -----------------------------------------------------------------------------------------------

with_each = pytest.mark.parametrize(
    "pair", [pytest.param(other, id=str(other)) for other in INSTRUMENTATIONS], indirect=True
)


@with_each
@in_both_orders
@pytest.mark.parametrize("removed", ORDERS, ids="-then-".join)
@pytest.mark.requirement("R66")
def test_whoever_goes_first_leaves_the_other_at_work_and_nothing_is_left_at_the_end(
    request: pytest.FixtureRequest, pair: Pair, order: tuple[str, ...], removed: tuple[str, ...]
) -> None:
    other, seen = request.node.callspec.params["pair"], []
    pair.put_on(*order)
    for whose in removed:
        pair.take_off(whose)
        pair.captured.clear()
        before = pair.records()
        exchanged(chat)
        seen.append((pair.records() - before, bool(pair.spans(other.scope))))
    stays = not other.comes_off
    left = {"ours": (0, True), "theirs": (1, stays)}[removed[0]]
    assert seen == [left, (0, stays)]


@with_each
@pytest.mark.requirement("R66")
def test_put_on_again_after_the_other_came_and_went_it_measures_again(pair: Pair) -> None:
    pair.put_on("ours", "theirs")
    pair.take_off("ours", "theirs")
    pair.put_on("ours")
    exchanged(chat)
    assert pair.records() == 1


@pytest.mark.requirement("R65")
def test_all_of_them_together_change_nothing_and_one_request_is_one_record(
    captured_telemetry: CapturedTelemetry,
) -> None:
    pairs = []
    for other in INSTRUMENTATIONS:
        pytest.importorskip(other.module, reason=f"{other.package} is not installed")
        pairs.append(Pair(other, captured_telemetry))
    bare = exchanged(chat)
    with restored():
        pairs[0].put_on("ours")
        for pair in pairs:
            pair.put_on("theirs")
        together = exchanged(chat)
        assert ([chunk[1]["choices"] for chunk in together.output], pairs[0].records()) == (
            [chunk[1]["choices"] for chunk in bare.output],
            1,
        )
        for pair in reversed(pairs):
            pair.take_off("theirs")
        pairs[0].take_off("ours")
