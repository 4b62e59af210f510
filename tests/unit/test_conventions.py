"""Every emitted name: standard where there is a standard, unique, in our namespace otherwise, and documented."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
from opentelemetry.semconv.attributes import error_attributes, exception_attributes, server_attributes

from otel_itl.core import conventions, metric_conventions
from otel_itl.core.metric_conventions import Metric
from otel_itl.core.stream import ResponseInfo
from otel_itl.sdks.provider_hosts import provider_of

PAGE = (Path(__file__).parents[2] / "docs" / "telemetry.md").read_text(encoding="utf-8")
IN_CODE = frozenset(re.findall(r"`([^`\n]+)`", PAGE))
"""What the page sets in code: names are looked for there, whole."""

CONSTANTS = {name: value for name, value in vars(conventions).items() if name.isupper() and not name.startswith("_")}
WHERE = {value for name, value in vars(conventions.Where).items() if name.isupper()}
NAMES = {name: value for name, value in CONSTANTS.items() if isinstance(value, str) and name != "SCOPE"}
ATTRIBUTES = {
    *NAMES.values(),
    *conventions.SPAN_MEASURES,
    *conventions.REQUEST_PARAMETERS.values(),
    *conventions.SERVER_DURATIONS.values(),
}
METRIC_CONSTANTS = vars(metric_conventions).items()
OURS = {name: metric for name, metric in METRIC_CONSTANTS if name.isupper() and isinstance(metric, Metric)}


STANDARD = {
    f"{generation}.{metric.name}": metric
    for generation, standard in metric_conventions.STANDARD_NAMES.items()
    for metric in standard.metrics
}
METRICS = OURS | STANDARD
EVENTS = {
    conventions.EXCEPTION_EVENT,
    conventions.SPAN_EXCEPTION_EVENT,
    conventions.FIRST_TOKEN_EVENT,
    conventions.LAST_TOKEN_EVENT,
    conventions.STALL_EVENT,
    conventions.STALL_STARTED_EVENT,
    conventions.STALL_ENDED_EVENT,
    conventions.TRUNCATED_EVENT,
    conventions.TOKENS_EVENT,
    conventions.TOKEN_EVENT,
}
"""Names of span events and log events."""
UNRELEASED = {conventions.USAGE_CACHE_WRITE_TOKENS, conventions.TOKEN_MODALITY}
"""Names of the coming generation, which no package has constants for."""
SESSIONS = {conventions.SESSION_ID}
"""A name of the general conventions."""
PUBLISHED = {
    value
    for module in (gen_ai_attributes, error_attributes, exception_attributes, server_attributes)
    for name, value in vars(module).items()
    if name.isupper() and isinstance(value, str)
}
newest_only = pytest.mark.skipif(
    version("opentelemetry-semantic-conventions") < "0.66",
    reason="older releases of the conventions do not have every name yet",
)

# --- Standard where there is a standard ----------------------------------------------------------------------------


@newest_only
def test_a_name_outside_our_namespace_is_one_of_the_conventions() -> None:
    standard = {name for name in ATTRIBUTES - EVENTS - SESSIONS - UNRELEASED if not name.startswith("itl.")}
    assert standard - PUBLISHED == set()


class RecordingMeter:
    """Stands where the conventions ask for a meter, and keeps what they ask of it."""

    def create_histogram(self, name: str, unit: str = "", description: str = "") -> tuple[str, str, str]:
        return name, unit, description


@newest_only
@pytest.mark.parametrize(
    ("field", "create"),
    [
        ("duration", "create_gen_ai_client_operation_duration"),
        ("time_to_first_chunk", "create_gen_ai_client_operation_time_to_first_chunk"),
        ("time_per_output_chunk", "create_gen_ai_client_operation_time_per_output_chunk"),
        ("token_usage", "create_gen_ai_client_token_usage"),
    ],
)
def test_a_standard_metric_has_the_name_unit_and_description_of_the_conventions(field: str, create: str) -> None:
    expected = getattr(gen_ai_metrics, create)(RecordingMeter())
    assert getattr(metric_conventions.STANDARD_NAMES["operation"], field)[:3] == expected


def test_the_standard_times_have_the_buckets_of_the_conventions() -> None:
    # 0.01 doubled thirteen times.
    expected = [pytest.approx(0.01 * 2**power) for power in range(14)]
    standard = metric_conventions.STANDARD_NAMES["operation"]
    times = (standard.duration, standard.time_to_first_chunk, standard.time_per_output_chunk)
    assert [list(metric.buckets) for metric in times] == [expected] * 3


def test_the_standard_token_usage_has_the_buckets_of_the_conventions() -> None:
    # The powers of four up to 4 ** 13.
    usage: Any = metric_conventions.STANDARD_NAMES["operation"].token_usage
    assert usage.buckets == tuple(4**power for power in range(14))


@pytest.mark.parametrize("field", ["duration", "time_to_first_chunk", "time_per_output_chunk"])
def test_the_coming_generation_names_the_times_of_an_inference(field: str) -> None:
    released, coming = (getattr(metric_conventions.STANDARD_NAMES[name], field) for name in ("operation", "inference"))
    assert coming.name == released.name.replace("gen_ai.client.operation.", "gen_ai.client.inference.")


@pytest.mark.parametrize("field", ["duration", "time_to_first_chunk", "time_per_output_chunk"])
def test_the_coming_generation_keeps_the_buckets_of_the_times(field: str) -> None:
    released, coming = (getattr(metric_conventions.STANDARD_NAMES[name], field) for name in ("operation", "inference"))
    assert coming.buckets == released.buckets


def test_the_coming_generation_counts_tokens_by_category() -> None:
    standard = metric_conventions.STANDARD_NAMES["inference"]
    categories = ("input", "output", "cache_read.input", "cache_write.input", "reasoning.output")
    expected = [f"gen_ai.client.inference.usage.{category}_tokens" for category in categories]
    assert (standard.token_usage, [metric.name for metric in standard.token_counters.values()]) == (None, expected)


def test_the_coming_generation_has_a_histogram_for_the_tokens_of_a_request() -> None:
    histograms = metric_conventions.STANDARD_NAMES["inference"].token_histograms.values()
    assert [(metric.name, metric.buckets) for metric in histograms] == [
        (f"gen_ai.client.inference.operation.{kind}_tokens", tuple(4**power for power in range(14)))
        for kind in ("input", "output")
    ]


def test_the_token_counts_are_fields_of_a_response() -> None:
    standard = metric_conventions.STANDARD_NAMES["inference"]
    assert {*standard.token_counters, *standard.token_histograms} - set(ResponseInfo.__slots__) == set()


def test_a_generation_that_is_not_released_has_no_schema_url() -> None:
    urls = {generation: standard.schema_url for generation, standard in metric_conventions.STANDARD_NAMES.items()}
    assert urls == {"operation": "https://opentelemetry.io/schemas/1.41.0", "inference": None}


@pytest.mark.parametrize(
    ("opted_in", "generation"),
    [
        ({}, "operation"),
        ({"OTEL_SEMCONV_STABILITY_OPT_IN": ""}, "operation"),
        ({"OTEL_SEMCONV_STABILITY_OPT_IN": "http,database/dup"}, "operation"),
        ({"OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental"}, "inference"),
        ({"OTEL_SEMCONV_STABILITY_OPT_IN": "http, gen_ai_latest_experimental "}, "inference"),
    ],
)
def test_the_newest_generation_is_the_default_of_those_who_opted_in(opted_in: dict[str, str], generation: str) -> None:
    assert metric_conventions.default_generation(opted_in) == generation


# --- Ours ----------------------------------------------------------------------------------------------------------


def test_a_metric_of_ours_is_in_our_namespace() -> None:
    assert [metric.name for metric in OURS.values() if not metric.name.startswith("itl.")] == []


def test_a_metric_says_what_it_is_in_one_sentence() -> None:
    descriptions = [metric.description for metric in METRICS.values()]
    assert [text for text in descriptions if not re.fullmatch(r"[A-Z][^\n]*\.", text)] == []


def test_a_unit_is_seconds_or_a_count() -> None:
    units = {name: metric.unit for name, metric in METRICS.items()}
    assert {name: unit for name, unit in units.items() if not re.fullmatch(r"s|\{[a-z]+\}", unit)} == {}


def test_bucket_edges_rise() -> None:
    edges = {name: list(metric.buckets) for name, metric in METRICS.items()}
    assert edges == {name: sorted(set(found)) for name, found in edges.items()}


@pytest.mark.requirement("R58")
@pytest.mark.parametrize(
    "metric",
    [
        metric_conventions.INTER_TOKEN_LATENCY,
        metric_conventions.TIME_TO_FIRST_TOKEN,
        metric_conventions.TIME_PER_OUTPUT_TOKEN,
    ],
    ids=lambda metric: metric.name,
)
def test_latency_buckets_reach_from_half_a_millisecond_to_30_seconds(metric: Metric) -> None:
    assert (metric.buckets[0], 30.0 in metric.buckets) == (0.0005, True)


def test_the_edges_of_inter_token_latency_are_those_of_the_contract() -> None:
    edges = (
        ".0005 .001 .0015 .002 .003 .004 .005 .0075 .01 .015 .02 .025 .03 .04 .05 .075 "
        ".1 .15 .2 .3 .5 .75 1 1.5 2.5 5 10 30"
    )
    assert metric_conventions.INTER_TOKEN_LATENCY.buckets == tuple(float(edge) for edge in edges.split())


def test_no_two_constants_have_the_same_value() -> None:
    values = [*NAMES.values(), *(metric.name for metric in OURS.values())]
    assert sorted(values) == sorted(set(values))


def test_no_two_metrics_of_a_generation_have_the_same_name() -> None:
    for generation in metric_conventions.STANDARD_NAMES.values():
        emitted = [metric.name for metric in (*OURS.values(), *generation.metrics)]
        assert sorted(emitted) == sorted(set(emitted))


def test_no_name_is_both_a_metric_and_an_attribute() -> None:
    assert {metric.name for metric in METRICS.values()} & ATTRIBUTES == set()


def namespaces(names: Iterable[str]) -> set[str]:
    """The namespaces that names are in: `a` and `a.b` for `a.b.c`."""
    return {".".join(parts[:end]) for name in names for parts in [name.split(".")] for end in range(1, len(parts))}


def test_a_name_is_in_lower_case_with_dots() -> None:
    names = (ATTRIBUTES | WHERE) - {conventions.SPAN_EXCEPTION_EVENT}
    assert {name for name in names if not re.fullmatch(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+", name)} == set()


def test_no_attribute_has_the_name_of_another_one_s_namespace_but_for_its_error() -> None:
    attributes = ATTRIBUTES - EVENTS
    assert attributes & namespaces(attributes - set(conventions.SPAN_UNCERTAINTIES)) == set()


def test_no_metric_has_the_name_of_another_one_s_namespace() -> None:
    names = {metric.name for metric in METRICS.values()}
    assert names & namespaces(names) == set()


def test_no_two_steps_that_may_fail_have_the_same_name() -> None:
    steps = [value for name, value in vars(conventions.Where).items() if name.isupper()]
    assert sorted(steps) == sorted(WHERE)


def test_the_attributes_of_a_span_are_fields_of_the_measures() -> None:
    from otel_itl.core.measures import Measures

    assert set(conventions.SPAN_MEASURES.values()) - set(Measures._fields) == set()


# --- Documented ----------------------------------------------------------------------------------------------------


def test_every_attribute_and_event_is_documented() -> None:
    assert set() == ATTRIBUTES - IN_CODE


def test_every_metric_is_documented() -> None:
    assert {metric.name for metric in METRICS.values()} - IN_CODE == set()


def test_every_step_that_may_fail_is_documented() -> None:
    assert set() == WHERE - IN_CODE


def test_nothing_is_documented_that_is_not_emitted() -> None:
    written = {name for name in IN_CODE if re.fullmatch(r"(itl|gen_ai)\.[a-z_.0-9]+[a-z0-9]", name)}
    assert written - ATTRIBUTES - {metric.name for metric in METRICS.values()} == set()


def rows(first_cell: str) -> list[list[str]]:
    """The rows of the page's tables that begin with this name."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line[:1] == "|"]
    return [row for row in cells if row[0] == f"`{first_cell}`"]


def test_the_unit_of_a_metric_is_documented() -> None:
    expected = {metric.name: f"`{metric.unit}`" for metric in METRICS.values()}
    assert expected == {name: rows(name)[0][2] for name in expected}


def test_the_bucket_edges_of_a_metric_are_documented() -> None:
    expected = {metric.name: list(metric.buckets) for metric in METRICS.values() if metric.buckets}
    assert expected == {name: [float(edge) for edge in rows(name)[1][1].split()] for name in expected}


# --- Who serves a host ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "provider"),
    [
        ("api.openai.com", "openai"),
        ("my-team.openai.azure.com", "azure.ai.openai"),
        ("API.OpenAI.com", "openai"),
        ("bedrock-runtime.us-east-1.amazonaws.com", "aws.bedrock"),
        ("us-central1-aiplatform.googleapis.com", "gcp.vertex_ai"),
        ("api.groq.com", "groq"),
        ("localhost", "mine"),
        ("api.openai.com.example.org", "mine"),
        ("notapi.openai.com.evil", "mine"),
        ("", "mine"),
        (None, "mine"),
    ],
)
def test_the_provider_is_who_owns_the_host(host: str | None, provider: str) -> None:
    assert provider_of(host, "mine") == provider
