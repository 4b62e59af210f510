"""Sketches: their buckets are OpenTelemetry's, merging them is pooling the samples, percentiles are within a bucket."""

from __future__ import annotations

import math
from collections import Counter
from functools import reduce
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from otel_itl.core.percentiles import percentile as exact_percentile
from otel_itl.core.sketch import MAX_BUCKETS, MAX_SCALE, Sketch, merge, percentile, sketch

SECOND = 1_000_000_000
EMPTY = Sketch(MAX_SCALE, (), (), 0)
nanoseconds = st.one_of(
    st.integers(0, 10**13),
    st.integers(10**6, 10**8),
    st.floats(1, 1e13),
    st.sampled_from([0, SECOND, SECOND // 2, SECOND // 512, 4 * SECOND]),
)
samples = st.lists(nanoseconds, max_size=60).map(sorted)
wide_samples = st.integers(0, 2**32).map(lambda seed: spread(Random(seed)))  # noqa: S311 - any numbers will do


def spread(rng: Random) -> list[float]:
    """Ascending samples over many octaves, which need more than 160 buckets at scale 5."""
    return sorted(10 ** rng.uniform(0, 13) for _ in range(rng.randrange(150, 500)))


def test_a_sample_of_a_second_is_in_the_bucket_that_a_second_ends() -> None:
    # 2 ** (-1 / 32) to 2 ** 0.
    assert sketch([SECOND]) == Sketch(5, (-1,), (1,), 0)


def test_a_sample_just_above_a_second_is_in_the_next_bucket() -> None:
    assert sketch([SECOND + 1]) == Sketch(5, (0,), (1,), 0)


def test_samples_of_one_bucket_are_counted_together() -> None:
    # log2(0.020) * 32 = -180.6 and log2(0.0201) * 32 = -180.4; log2(0.040) is an octave, 32 buckets, above.
    assert sketch([20_000_000, 20_100_000, 40_000_000]) == Sketch(5, (-181, -149), (2, 1), 0)


def test_samples_of_zero_are_in_no_bucket() -> None:
    assert sketch([0, 0, SECOND]) == Sketch(5, (-1,), (1,), 2)


def test_the_shares_of_a_nanosecond_count_as_zero() -> None:
    assert sketch([0.1, 0.9]).zero_count == 2


def test_no_samples_are_an_empty_sketch() -> None:
    assert sketch([]) == EMPTY


def test_the_longest_time_that_a_timeline_holds_has_a_bucket() -> None:
    assert sketch([2**63 - 1]).counts == (1,)


def test_160_buckets_keep_the_scale() -> None:
    ordered = [SECOND * 2 ** ((index + 0.5) / 32) for index in range(MAX_BUCKETS)]
    assert (sketch(ordered).scale, len(sketch(ordered).indexes)) == (5, 160)


def test_a_161st_bucket_halves_them() -> None:
    ordered = [SECOND * 2 ** ((index + 0.5) / 32) for index in range(MAX_BUCKETS + 1)]
    assert (sketch(ordered).scale, len(sketch(ordered).indexes)) == (4, 81)


@pytest.fixture(scope="module")
def mappings() -> dict[int, Any]:
    """The SDK's own mapping of values to indexes, by scale."""
    exponential = "opentelemetry.sdk.metrics._internal.exponential_histogram.mapping"
    logarithm = pytest.importorskip(f"{exponential}.logarithm_mapping").LogarithmMapping
    exponent = pytest.importorskip(f"{exponential}.exponent_mapping").ExponentMapping
    return {scale: logarithm(scale) if scale > 0 else exponent(scale) for scale in range(-2, 6)}


@given(st.one_of(samples, wide_samples))
@example([SECOND // 512, SECOND // 2, SECOND, 2 * SECOND])
def test_indexes_are_those_of_opentelemetry(mappings: dict[int, Any], ordered: list[float]) -> None:
    found = sketch(ordered)
    positive = [sample for sample in ordered if sample >= 1]
    expected = Counter(mappings[found.scale].map_to_index(sample / SECOND) for sample in positive)
    assert dict(zip(found.indexes, found.counts, strict=True)) == expected


@given(st.lists(samples, min_size=1, max_size=5))
def test_merging_sketches_is_pooling_their_samples(streams: list[list[float]]) -> None:
    pooled = sorted(sample for stream in streams for sample in stream)
    assert reduce(merge, map(sketch, streams)) == sketch(pooled)


@given(wide_samples, samples)
def test_merging_sketches_of_different_scales_is_pooling_their_samples(wide: list[float], few: list[float]) -> None:
    assert merge(sketch(wide), sketch(few)) == sketch(sorted([*wide, *few]))


@given(wide_samples, wide_samples)
def test_a_merged_sketch_has_no_more_than_160_buckets(left: list[float], right: list[float]) -> None:
    assert len(merge(sketch(left), sketch(right)).indexes) <= MAX_BUCKETS


@given(samples)
def test_merging_with_an_empty_sketch_changes_nothing(ordered: list[float]) -> None:
    assert merge(sketch(ordered), EMPTY) == sketch(ordered)


@given(samples.filter(bool), st.one_of(st.floats(0, 100), st.sampled_from([50, 90, 95, 99])))
def test_a_percentile_is_within_a_bucket_of_that_of_the_samples(ordered: list[float], q: float) -> None:
    found = sketch(ordered)
    # A sample is at most half a bucket from the middle of its own: 1.1 % at scale 5, the double at each scale below.
    width = 2 ** (2.0**-found.scale) - 1
    expected = exact_percentile(ordered, q) / SECOND
    assert math.isclose(percentile(found, q), expected, rel_tol=width, abs_tol=1e-9)


@given(st.lists(st.integers(10**6, 10**8), min_size=1, max_size=MAX_BUCKETS).map(sorted), st.floats(0, 100))
def test_a_percentile_at_scale_5_is_within_2_2_percent(ordered: list[float], q: float) -> None:
    found = sketch(ordered)
    assert found.scale == 5
    assert percentile(found, q) == pytest.approx(exact_percentile(ordered, q) / SECOND, rel=0.022)


def test_a_percentile_among_zeros_is_zero() -> None:
    assert percentile(sketch([0, 0, 0, SECOND]), 50) == 0.0


def test_a_percentile_interpolates_between_the_closest_ranks() -> None:
    # Half of the way from 0 to a second, which stands in the middle of its bucket, 1.1 % below it.
    assert percentile(sketch([0, SECOND]), 50) == pytest.approx(0.5, rel=0.011)


def test_a_percentile_of_an_empty_sketch_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one sample"):
        percentile(EMPTY, 50)


@pytest.mark.parametrize("q", [-0.1, 100.1, float("nan")])
def test_a_percentile_outside_0_to_100_is_refused(q: float) -> None:
    with pytest.raises(ValueError, match=rf"q from 0 to 100: got 1 and q={q}"):
        percentile(sketch([SECOND]), q)
