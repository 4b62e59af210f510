"""What the gateways keep: everything that went wrong, with its trace, and a share of the rest; and all is counted."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from fleet import Fleet, wait_until
from load import KEEP_PERCENT, NO_REASONS, ORDINARY, REASONS

if TYPE_CHECKING:
    from emitter import Emitter

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


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
