"""What the gateways keep: everything that went wrong, with its trace, and a share of the rest. Everything is counted."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import HOLD_SECONDS, KEEP_PERCENT
from emitter import Emitter
from fleet import Fleet, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

REASONS: dict[str, dict[str, Any]] = {
    "stalled": {"itl_stall_count": 1},
    "truncated": {"itl_stream_outcome": "truncated"},
    "failed": {"error": True},
    "objective-missed": {"itl_slo_met": False},
    "session-degraded": {"itl_session_degraded": True, "session_id": "s"},
    "session-stalled-before": {"itl_session_stall_count": 2, "session_id": "s"},
}
NO_REASONS: list[dict[str, Any]] = [
    {"itl_stream_outcome": "completed", "itl_stall_count": 0, "itl_slo_met": True},
    {"itl_stream_outcome": "closed", "itl_session_degraded": False, "itl_session_stall_count": 0, "session_id": "s"},
    {"itl_stream_outcome": "cancelled"},
    {"itl_stream_outcome": "abandoned"},
]
STREAMS = 50
ORDINARY = 2_000


@pytest.fixture(scope="module")
def emitted(fleet: Fleet) -> Iterator[dict[str, Emitter]]:
    """By service, the streams that were told of; when all that will be kept has been."""
    emitters: dict[str, Emitter] = {}

    def emitter(service: str) -> Emitter:
        if service not in emitters:
            emitters[service] = Emitter(service, fleet.agent.http_url)
        return emitters[service]

    outlived = [emitter("outlived").stream() for _ in range(STREAMS)]
    emitter("outlived").flush()
    let_go = time.monotonic() + HOLD_SECONDS + 2
    for reason, attributes in REASONS.items():
        for _ in range(STREAMS):
            emitter(reason).stream(**attributes)
    for index in range(ORDINARY):
        emitter("ordinary").stream(**NO_REASONS[index % len(NO_REASONS)])
    earlier = [emitter("whole").stream() for _ in range(STREAMS)]
    emitter("whole").flush()
    for span in earlier:
        emitter("whole").stream(within=span, itl_stall_count=1)
        emitter("whole").stream(within=span)
    time.sleep(max(0.0, let_go - time.monotonic()))
    emitters["late"] = Emitter("late", fleet.agent.http_url)
    for span in outlived:
        emitter("late").stream(within=span, itl_stall_count=1)
    for each in emitters.values():
        each.close()
    for service in ("late", "whole", *REASONS):
        wait_until(lambda service=service: emitters[service].span_ids <= set(fleet.backend.received(service)), service)
    yield emitters


@pytest.mark.parametrize("reason", REASONS)
def test_every_stream_that_went_wrong_is_kept_once(fleet: Fleet, emitted: dict[str, Emitter], reason: str) -> None:
    assert Counter(emitted[reason].span_ids) == fleet.backend.received(reason)


def test_of_the_rest_the_share_is_kept(fleet: Fleet, emitted: dict[str, Emitter]) -> None:
    share = 100 * len(fleet.backend.received("ordinary")) / ORDINARY
    four_sigma = 400 * (KEEP_PERCENT / 100 * (1 - KEEP_PERCENT / 100) / ORDINARY) ** 0.5
    assert share == pytest.approx(KEEP_PERCENT, abs=four_sigma)


def test_what_came_before_and_after_a_stall_in_its_trace_is_kept_with_it(
    fleet: Fleet, emitted: dict[str, Emitter]
) -> None:
    assert Counter(emitted["whole"].span_ids) == fleet.backend.received("whole")


def test_a_stalled_stream_that_outlives_the_wait_is_kept_all_the_same(
    fleet: Fleet, emitted: dict[str, Emitter]
) -> None:
    assert Counter(emitted["late"].span_ids) == fleet.backend.received("late")


@pytest.mark.parametrize("service", ["ordinary", "stalled"])
def test_streams_are_counted_before_they_are_sampled(fleet: Fleet, emitted: dict[str, Emitter], service: str) -> None:
    count = f'sum(traces_span_metrics_calls_total{{job="{service}"}})'
    expected = len(emitted[service].sent)
    wait_until(lambda: fleet.prometheus.value(count) == expected, f"{count} is {expected}")


def test_durations_before_sampling_are_native_histograms(fleet: Fleet, emitted: dict[str, Emitter]) -> None:
    count = 'histogram_count(sum(traces_span_metrics_duration_seconds{job="ordinary"}))'
    wait_until(lambda: fleet.prometheus.value(count) == ORDINARY, f"{count} is {ORDINARY}")


def test_counts_tell_outcomes_and_objectives_apart(fleet: Fleet, emitted: dict[str, Emitter]) -> None:
    labels = 'itl_stream_outcome="completed", itl_slo_met="true"'
    count = f'sum(traces_span_metrics_calls_total{{job="ordinary", {labels}}})'
    expected = ORDINARY / len(NO_REASONS)
    wait_until(lambda: fleet.prometheus.value(count) == expected, f"{count} is {expected}")
