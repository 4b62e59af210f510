"""What Phoenix itself shows of our streams: a real server, sent to as docs/viewers.md describes, read by its API."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

import pytest
from viewer_servers import CLAUDE, GPT, MAX_INGESTION, MAX_START, TOKENS, Viewers, ask, wait_for

pytestmark = pytest.mark.timeout(2 * MAX_START)

THEIRS, OURS = "chat claude-opus", "chat gpt-5-mini"
QUERY = """{ projects { edges { node { name recordCount tokenCountTotal spans(first: 50) { edges { node {
  name spanKind statusCode statusMessage latencyMs tokenCountTotal startTime events { name message timestamp }
} } } } } } }"""


@pytest.fixture(scope="session")
def project(viewers: Viewers) -> dict[str, Any]:
    """The project of the resource attribute, as soon as every span is in it."""

    def find() -> dict[str, Any] | None:
        found = ask(f"{viewers.phoenix.url}/graphql", {"query": QUERY})["data"]["projects"]["edges"]
        shop = {edge["node"]["name"]: edge["node"] for edge in found}.get("shop")
        return shop if shop is not None and shop["recordCount"] >= CLAUDE + GPT + 1 else None

    complete: dict[str, Any] = wait_for(find, MAX_INGESTION)
    return complete


@pytest.fixture(scope="session")
def spans(project: dict[str, Any]) -> list[dict[str, Any]]:
    return [edge["node"] for edge in project["spans"]["edges"]]


def completed(spans: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [span for span in spans if span["statusCode"] != "ERROR"]


def test_phoenix_counts_the_tokens_of_each_request_once(project: dict[str, Any]) -> None:
    assert project["tokenCountTotal"] == (CLAUDE + GPT) * TOKENS


def test_phoenix_has_one_span_for_each_request(spans: list[dict[str, Any]]) -> None:
    assert Counter(span["name"] for span in spans) == {THEIRS: CLAUDE, OURS: GPT + 1}


def test_phoenix_takes_each_span_for_that_of_a_model(spans: list[dict[str, Any]]) -> None:
    assert {span["spanKind"] for span in spans} == {"llm"}


def test_the_latency_that_phoenix_shows_is_that_of_the_stream(spans: list[dict[str, Any]]) -> None:
    streamed = 100 + 19 * 10
    assert [span["latencyMs"] for span in completed(spans) if not streamed <= span["latencyMs"] < 30_000] == []


def test_phoenix_shows_when_the_first_token_came(spans: list[dict[str, Any]]) -> None:
    last = max(completed(spans), key=lambda span: span["startTime"])
    moments = {event["name"]: datetime.fromisoformat(event["timestamp"]) for event in last["events"]}
    waited = (moments["itl.first_token"] - datetime.fromisoformat(last["startTime"])).total_seconds()
    assert 0.1 <= waited < (moments["itl.last_token"] - datetime.fromisoformat(last["startTime"])).total_seconds()


def test_phoenix_shows_what_failed_by_its_class_and_not_by_its_text(spans: list[dict[str, Any]]) -> None:
    (failed,) = (span for span in spans if span["statusCode"] == "ERROR")
    messages = [event["message"] for event in failed["events"] if event["name"] == "exception"]
    assert (failed["statusMessage"], messages) == ("InternalServerError", ["InternalServerError"])


@pytest.mark.parametrize("name", [THEIRS, OURS])
def test_phoenix_has_the_figures_of_both_sdks(name: str, viewers: Viewers, project: dict[str, Any]) -> None:
    rows = ask(f"{viewers.phoenix.url}/v1/projects/{project['name']}/spans?limit=50")["data"]
    attributes = [row["attributes"] for row in rows if row["name"] == name and row["status_code"] != "ERROR"]
    assert [(one["itl.output_chunk.count"], one["itl.stream.outcome"]) for one in attributes] == [
        (20, "completed")
    ] * len(attributes)
