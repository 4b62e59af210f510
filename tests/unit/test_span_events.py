"""Token events that build their attributes when they are read: a reader sees what `add_event()` would have given it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, Span, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from otel_itl.core.encoding import LazyEvent
from otel_itl.export.sdk_internals import spans
from otel_itl.export.sdk_internals.spans import add_events, can_reach_into_spans

ATTRIBUTES = {"itl.tokens.offsets": (1, 2, 3), "itl.stream.outcome": "completed", "itl.stream.end": 7}


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    can_reach_into_spans.cache_clear()
    yield
    can_reach_into_spans.cache_clear()


@pytest.fixture
def start() -> Callable[..., Any]:
    def started(**limits: int) -> Any:
        provider = TracerProvider(
            ALWAYS_ON, Resource.get_empty(), shutdown_on_exit=False, span_limits=SpanLimits(**limits)
        )
        return provider.get_tracer("test").start_span("stream")

    return started


class Making:
    """Makes attributes, and counts how often."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> dict[str, Any]:
        self.times += 1
        return dict(ATTRIBUTES)


class Errors:
    """Keeps what failed."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def report(self, where: str, error: BaseException) -> None:
        self.counts[where] += 1


def added(span: Any, make: Callable[[], dict[str, Any]], errors: Errors | None = None) -> Event:
    add_events(span, [LazyEvent("itl.tokens", 5, make)], errors or Errors())
    event: Event = span.events[0]
    return event


def plain(span: Any) -> Event:
    span.add_event("itl.tokens", ATTRIBUTES, 5)
    event: Event = span.events[0]
    return event


def test_this_sdk_takes_events_that_are_made_later() -> None:
    assert can_reach_into_spans() is True


@pytest.mark.parametrize("seen", ["name", "timestamp", "attributes", "dropped_attributes"])
def test_a_lazy_event_reads_as_one_that_was_made_at_once(start: Any, seen: str) -> None:
    assert getattr(added(start(), Making()), seen) == getattr(plain(start()), seen)


def test_its_attributes_cannot_be_altered(start: Any) -> None:
    with pytest.raises(TypeError):
        added(start(), Making()).attributes["itl.stream.end"] = 8  # type: ignore[index]


def test_a_span_with_it_is_written_as_json_as_with_any_other(start: Any) -> None:
    with_lazy, with_plain = start(), start()
    added(with_lazy, Making())
    plain(with_plain)
    written = [span._format_events(span.events) for span in (with_lazy, with_plain)]
    assert written[0] == written[1]


def test_nothing_is_made_until_it_is_read(start: Any) -> None:
    make = Making()
    span = start()
    added(span, make)
    span.end()
    assert make.times == 0


def test_what_was_read_is_not_made_again(start: Any) -> None:
    make = Making()
    event = added(start(), make)
    assert [event.attributes is event.attributes, make.times] == [True, 1]


@pytest.mark.parametrize("limits", [{"max_event_attributes": 2}, {"max_attribute_length": 3}])
def test_a_span_with_tight_limits_drops_what_it_drops_of_any_event(start: Any, limits: dict[str, int]) -> None:
    event, expected = added(start(**limits), Making()), plain(start(**limits))
    assert (event.attributes, event.dropped_attributes) == (expected.attributes, expected.dropped_attributes)


def test_a_span_whose_add_event_somebody_has_replaced_is_asked_for_every_event(start: Any) -> None:
    class Spying(Span):
        seen: list[str]

        def add_event(self, name: str, *args: Any, **kwargs: Any) -> None:
            self.seen.append(name)
            super().add_event(name, *args, **kwargs)

    span = start()
    span.__class__ = Spying
    span.seen = []
    added(span, Making())
    assert span.seen == ["itl.tokens"]


@pytest.mark.requirement("R16")
def test_an_exporter_meets_no_failure_of_the_making(start: Any) -> None:
    def failing() -> dict[str, Any]:
        raise RuntimeError

    errors = Errors()
    assert (dict(added(start(), failing, errors).attributes or {}), errors.counts) == ({}, {"token_events.build": 1})


def changed() -> Any:
    raise AttributeError


def test_an_sdk_that_has_changed_inside_gets_its_events_made_at_once(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spans, "_trial", changed)
    make = Making()
    event = added(start(), make)
    assert (event.attributes, make.times) == (plain(start()).attributes, 1)


def test_an_sdk_whose_events_would_differ_gets_them_made_at_once(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans, "_trial", lambda: [[("trial", 1)], [("trial", 2)]])
    make = Making()
    added(start(), make)
    assert make.times == 1


def test_that_events_are_made_at_once_is_said_once(
    start: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(spans, "_trial", changed)
    with caplog.at_level(logging.INFO, "otel_itl"):
        added(start(), Making())
        added(start(), Making())
    assert len(caplog.records) == 1


@pytest.mark.parametrize("variable", ["OTEL_TRACES_SAMPLER=always_off", "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT=1"])
def test_the_environment_does_not_enter_the_trial(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(*variable.split("="))
    assert can_reach_into_spans() is True
