"""The percentiles of several processes in Prometheus, compared with those of their pooled samples."""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING

import numpy as np
import pytest
from fleet import Fleet, wait_until
from load import FORMS

from otel_itl.core.metric_conventions import LATENCY_BUCKETS

if TYPE_CHECKING:
    from workers import Truth

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def itl(form: str) -> str:
    """The distribution of a service, all its processes added up."""
    if form == "native":
        return 'sum(itl_client_inter_token_latency_seconds{job="native"})'
    return 'sum by (le) (itl_client_inter_token_latency_seconds_bucket{job="classic"})'


def settled(fleet: Fleet, truths: dict[str, Truth], form: str) -> None:
    """Wait until Prometheus has counted every sample: none is lost on the way."""
    classic = 'sum(itl_client_inter_token_latency_seconds_count{job="classic"})'
    count = f"histogram_count({itl(form)})" if form == "native" else classic
    expected = len(truths[form].samples)
    wait_until(lambda: fleet.prometheus.value(count) == expected, f"{count} is {expected}")


@pytest.mark.parametrize("quantile", [0.5, 0.95, 0.99])
def test_merged_native_percentiles_are_within_5_percent_of_the_pooled_truth(
    fleet: Fleet, truths: dict[str, Truth], quantile: float
) -> None:
    settled(fleet, truths, "native")
    found = fleet.prometheus.value(f"histogram_quantile({quantile}, {itl('native')})")
    assert found == pytest.approx(float(np.quantile(truths["native"].samples, quantile)), rel=0.05)


@pytest.mark.parametrize("quantile", [0.5, 0.95, 0.99])
def test_merged_classic_percentiles_are_within_a_bucket_of_the_pooled_truth(
    fleet: Fleet, truths: dict[str, Truth], quantile: float
) -> None:
    settled(fleet, truths, "classic")
    found = fleet.prometheus.value(f"histogram_quantile({quantile}, {itl('classic')})")
    true = float(np.quantile(truths["classic"].samples, quantile))
    assert found is not None
    assert abs(bisect.bisect_left(LATENCY_BUCKETS, found) - bisect.bisect_left(LATENCY_BUCKETS, true)) <= 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("quantile", ["0.5", "0.95", "0.99"])
def test_percentiles_are_recorded_from_both_forms_of_histogram(
    fleet: Fleet, truths: dict[str, Truth], form: str, quantile: str
) -> None:
    recorded = f'itl:inter_token_latency_seconds:quantile5m{{job="{form}", quantile="{quantile}"}}'
    found = fleet.prometheus.query(f"max_over_time({recorded}[5m])")
    largest = max(truths[form].samples)
    assert [0 < float(series["value"][1]) < 2 * largest for series in found] == [True]


@pytest.mark.parametrize("form", FORMS)
def test_slow_samples_point_to_their_traces(fleet: Fleet, truths: dict[str, Truth], form: str) -> None:
    suffix = "" if form == "native" else "_bucket"
    exemplars = fleet.prometheus.exemplars(f'itl_client_inter_token_latency_seconds{suffix}{{job="{form}"}}')
    assert exemplars
    assert {"trace_id", "span_id"} <= exemplars[0]["labels"].keys()


@pytest.mark.parametrize("form", FORMS)
def test_every_stream_is_counted(fleet: Fleet, truths: dict[str, Truth], form: str) -> None:
    counted = fleet.prometheus.value(f'sum(itl_client_stream_outcomes_total{{job="{form}"}})')
    assert counted == truths[form].streams
