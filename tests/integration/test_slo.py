"""Objectives of streams in a given time: what is counted is exact, and there from the start."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest
from faces import taken
from given_time import given_time, play_timed
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from surfaces import CREATED, Surface

import otel_itl
from otel_itl import SLO, StallPolicy
from otel_itl.testing import CapturedTelemetry, Script, ScriptedServer, capture_telemetry, chat, messages

if TYPE_CHECKING:
    from conftest import Clients

OBJECTIVE: Final = SLO(ttft=5.0, itl=0.02)
GAPS: Final = [0.01, 0.04] * 10
"""Half of them within the objective."""


CREATE: Final = {surface.wire: surface for surface in CREATED if surface.sdk in {"openai", "anthropic"}}


def counted(captured: CapturedTelemetry, metric: str) -> dict[bool, float]:
    """A counter of objectives by whether they were met."""
    return {point.attributes["itl.slo.met"]: point.value for point in captured.metrics.get(metric, ())}


TOKENS, STREAMS = "itl.client.slo.tokens", "itl.client.slo.streams"

Ask = Callable[..., CapturedTelemetry]


@pytest.fixture
def ask() -> Iterator[Ask]:
    """Stream a script through an SDK under an objective; the telemetry of that."""
    with ExitStack() as after:

        def asked(script: Script, slo: Any = OBJECTIVE, *, wire: str = "chat") -> CapturedTelemetry:
            captured = after.enter_context(capture_telemetry())
            with given_time() as clock, instrumented(captured, slo=slo):
                play_timed(read, CREATE[wire], "sync", script, clock)
            return captured

        yield asked


async def read(surface: Surface, client: Any) -> None:
    await taken(surface.open(client))


@contextmanager
def instrumented(captured: CapturedTelemetry, **options: Any) -> Iterator[None]:
    otel_itl.instrument(
        tracer_provider=captured.tracer_provider,
        meter_provider=captured.meter_provider,
        logger_provider=captured.logger_provider,
        **options,
    )
    try:
        yield
    finally:
        otel_itl.uninstrument()


@pytest.mark.parametrize(("wire", "builder"), [("chat", chat), ("messages", messages)])
def test_gaps_are_counted_by_whether_they_met_the_objective(wire: str, builder: Any, ask: Ask) -> None:
    captured = ask(builder.reply(len(GAPS) + 1, first=0.05, gaps=GAPS), wire=wire)
    assert counted(captured, TOKENS) == {True: 10, False: 10}


def test_both_series_are_there_from_the_first_stream_on(ask: Ask) -> None:
    captured = ask(chat.reply(3, first=0.05, gaps=0.03), SLO(ttft=5.0, itl=4.0))
    assert (counted(captured, TOKENS), counted(captured, STREAMS)) == ({True: 2, False: 0}, {True: 1, False: 0})


def test_a_first_token_that_is_late_misses_for_the_stream(ask: Ask) -> None:
    captured = ask(chat.reply(3, first=0.1), SLO(ttft=0.05))
    assert counted(captured, STREAMS) == {True: 0, False: 1}


def test_without_an_itl_objective_no_gap_is_counted(ask: Ask) -> None:
    assert counted(ask(chat.reply(3, first=0.05, gaps=0.03), SLO(ttft=5.0)), TOKENS) == {}


@pytest.mark.parametrize(
    ("stall", "met"),
    [(StallPolicy(next_token=0.2, relative=None), False), (None, True)],
    ids=["misses", "counts where none looks"],
)
def test_a_stream_that_the_upstream_stalled(
    stall: StallPolicy | None, met: bool, server: ScriptedServer, clients: Clients
) -> None:
    server.play(chat.reply(2, first=0.05, gaps=0.4))
    with capture_telemetry() as captured:
        with instrumented(captured, slo=SLO(ttft=5.0), stall=stall):
            clients.chat()
        assert counted(captured, STREAMS) == {met: 1, not met: 0}


def test_a_stream_without_an_objective_is_not_counted(ask: Ask) -> None:
    captured = ask(chat.reply(3, first=0.05, gaps=0.03), {"claude*": "chat"})
    assert (counted(captured, TOKENS), counted(captured, STREAMS)) == ({}, {})


def test_the_counters_name_the_profile_and_no_stream(ask: Ask) -> None:
    captured = ask(chat.reply(3, first=0.05, gaps=0.03), {"m*": "batch", "*": "chat"})
    assert (counted(captured, STREAMS), (captured.spans[0].attributes or {})["itl.slo.profile"]) == ({}, "batch")


def test_the_counters_carry_what_the_other_metrics_carry(ask: Ask) -> None:
    captured = ask(chat.reply(3, first=0.05, gaps=0.03), "chat")
    own = {"itl.slo.met", "itl.slo.profile"}
    labels = [set(captured.metrics[name][0].attributes) for name in (TOKENS, "itl.client.inter_token_latency")]
    assert labels[0] - own == labels[1]


def slo_attributes(captured: CapturedTelemetry) -> dict[str, Any]:
    (span,) = captured.spans
    return {name: value for name, value in (span.attributes or {}).items() if name.startswith("itl.slo.")}


def test_a_span_says_what_was_missed(ask: Ask) -> None:
    captured = ask(chat.reply(len(GAPS) + 1, first=0.05, gaps=GAPS))
    assert slo_attributes(captured) == {
        "itl.slo.profile": "custom",
        "itl.slo.met": False,
        "itl.slo.missed_tokens": 10,
        "itl.slo.ttft": 5.0,
        "itl.slo.itl": 0.02,
        "itl.slo.fluidity": 1.0,
    }


def test_a_span_that_met_its_objective_says_which_that_was(ask: Ask) -> None:
    assert slo_attributes(ask(chat.reply(3, first=0.05, gaps=0.03), SLO(ttft=5.0, itl=4.0, profile="mine"))) == {
        "itl.slo.profile": "mine",
        "itl.slo.met": True,
        "itl.slo.fluidity": 1.0,
    }


@pytest.mark.parametrize(
    ("metric", "edge"), [("itl.client.inter_token_latency", 0.0123), ("itl.client.time_to_first_token", 4.5)]
)
@pytest.mark.requirement("R58")
def test_a_histogram_has_an_edge_at_an_objective_of_ones_own(metric: str, edge: float, ask: Ask) -> None:
    captured = ask(chat.reply(3, first=0.05, gaps=0.03), SLO(ttft=4.5, itl=0.0123))
    assert edge in captured.metrics[metric][0].raw.explicit_bounds


def test_the_histogram_agrees_with_the_counters_at_that_edge(ask: Ask) -> None:
    captured = ask(chat.reply(len(GAPS) + 1, first=0.05, gaps=GAPS))
    point = captured.metrics["itl.client.inter_token_latency"][0].raw
    within = sum(point.bucket_counts[: point.explicit_bounds.index(0.02) + 1])
    assert counted(captured, TOKENS)[True] == within


def warnings_of(caplog: pytest.LogCaptureFixture, **options: Any) -> list[str]:
    """The warnings of two streams of a program with these options."""
    otel_itl.instrument(**options)
    try:
        for _ in range(2):
            list(otel_itl.observe(iter("ab"), provider="none", model="m"))
    finally:
        otel_itl.uninstrument()
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_objectives_without_a_meter_provider_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    warnings = warnings_of(caplog, slo="chat", tracer_provider=TracerProvider(shutdown_on_exit=False))
    assert [warning.partition(":")[0] for warning in warnings] == [
        "The objectives (slo=*=chat) are judged on spans alone"
    ]


def test_objectives_with_a_meter_provider_are_warned_of_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    given = {"tracer_provider": TracerProvider(shutdown_on_exit=False), "meter_provider": MeterProvider()}
    assert warnings_of(caplog, slo="chat", **given) == []


def test_without_objectives_nothing_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    assert warnings_of(caplog, tracer_provider=TracerProvider(shutdown_on_exit=False)) == []
