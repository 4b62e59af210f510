"""The attributes of metrics are an allow-list: what costs a time series is known beforehand, and nobody is named."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import openai
import pytest

import otel_itl
from otel_itl.testing import CapturedTelemetry, Point, ScriptedServer, chat, faults

if TYPE_CHECKING:
    from conftest import Clients, Instrument

pytestmark = pytest.mark.requirement("R59")

SHARED = {"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "server.address", "server.port"}
ENDED = SHARED | {"gen_ai.response.model"}
LABELS = {
    "gen_ai.client.operation.duration": ENDED | {"error.type"},
    "gen_ai.client.operation.time_to_first_chunk": ENDED,
    "gen_ai.client.operation.time_per_output_chunk": ENDED,
    "gen_ai.client.token.usage": ENDED | {"gen_ai.token.type"},
    "itl.client.inter_token_latency": ENDED,
    "itl.client.time_to_first_token": ENDED,
    "itl.client.time_per_output_token": ENDED,
    "itl.client.stream.outcomes": ENDED | {"itl.stream.outcome"},
    "itl.client.stream.count": SHARED | {"itl.stream.state"},
    "itl.client.uncertain_streams": ENDED | {"itl.uncertain.figure", "itl.uncertain.cause"},
}


HOLD = 0.05
"""Seconds that the caller works on a chunk, so that the pace of its stream is not known."""
NAMING_SOMEBODY = {"user": "user-1", "metadata": {"session": "session-1"}, "prompt_cache_key": "tenant-1"}


@pytest.fixture
def metrics(
    instrument: Instrument, clients: Clients, server: ScriptedServer, captured_telemetry: CapturedTelemetry
) -> dict[str, list[Point]]:
    """Of a stream with all that names somebody, one whose caller works, one that breaks, and one that is refused."""
    instrument()
    client = clients.openai(default_headers={"x-session-id": "session-1", "x-request-id": "request-1"})
    stream = client.chat.completions.create(model="gpt-4o", messages=[], stream=True, extra_body=NAMING_SOMEBODY)
    # Open streams are counted when metrics are collected.
    captured_telemetry.clear()
    list(stream)
    for _ in client.chat.completions.create(model="gpt-4o", messages=[], stream=True):
        time.sleep(HOLD)
    server.play(chat.reply(5).cut(3) + chat.error(), faults.status(429))
    for _ in range(2):
        with pytest.raises(openai.APIError):
            clients.chat(client)
    return captured_telemetry.metrics


@pytest.mark.parametrize("metric", list(LABELS))
def test_the_labels_of_a_metric_are_exactly_those_allowed(metrics: dict[str, list[Point]], metric: str) -> None:
    assert {label for point in metrics[metric] for label in point.attributes} == LABELS[metric]


def test_there_is_no_metric_without_a_list_of_labels(metrics: dict[str, list[Point]]) -> None:
    assert metrics.keys() == LABELS.keys()


def test_no_label_names_a_user_a_session_or_a_request(metrics: dict[str, list[Point]]) -> None:
    values = {str(value) for points in metrics.values() for point in points for value in point.attributes.values()}
    assert {
        value for value in values if value.startswith(("user", "session", "request", "tenant", "chatcmpl"))
    } == set()


def streams_by_model(captured: CapturedTelemetry, attribute: str = "gen_ai.request.model") -> dict[Any, float]:
    points = captured.metrics["itl.client.stream.outcomes"]
    return {point.attributes[attribute]: point.value for point in points}


@pytest.mark.parametrize("attribute", ["gen_ai.request.model", "gen_ai.response.model"])
def test_model_names_beyond_the_limit_are_other(
    attribute: str, instrument: Instrument, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    instrument(model_limit=2)
    client = clients.openai()
    for model in ("a", "b", "c", "d", "a"):
        clients.chat(client, model=model)
    assert streams_by_model(captured_telemetry, attribute) == {"a": 2, "b": 1, "other": 2}


def test_the_open_streams_of_models_beyond_the_limit_are_other(
    instrument: Instrument, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    instrument(model_limit=2)
    client = clients.openai()
    opened = [client.chat.completions.create(model=model, messages=[], stream=True) for model in ("a", "b", "c", "d")]
    points = captured_telemetry.metrics["itl.client.stream.count"]
    active = [point for point in points if point.attributes["itl.stream.state"] == "active"]
    counts = {point.attributes["gen_ai.request.model"]: point.value for point in active}
    for stream in opened:
        stream.close()
    assert counts == {"a": 1, "b": 1, "other": 2}


def test_a_model_that_is_other_in_the_metrics_keeps_its_name_on_the_span(
    instrument: Instrument, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    instrument(model_limit=1)
    client = clients.openai()
    for model in ("a", "b"):
        clients.chat(client, model=model)
    assert [(span.attributes or {})["gen_ai.request.model"] for span in captured_telemetry.spans] == ["a", "b"]


def test_a_server_beyond_the_limit_is_named_on_spans_alone(
    instrument: Instrument, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    instrument(model_limit=1)
    for host in ("first.example", "second.example", "second.example"):
        list(otel_itl.observe(iter(["a"]), provider="mine", model="m", server_address=host, server_port=443))
    on_spans = [span.attributes["server.address"] for span in captured_telemetry.spans]
    points = [(point.attributes, point.value) for point in captured_telemetry.metrics["itl.client.stream.outcomes"]]
    counted = {(labels["server.address"], labels.get("server.port")): value for labels, value in points}
    assert on_spans == ["first.example", "second.example", "second.example"]
    assert counted == {("first.example", 443): 1, ("other", None): 2}
