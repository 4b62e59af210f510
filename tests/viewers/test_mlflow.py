"""What MLflow itself shows of our streams: a real tracking server, sent to as docs/viewers.md describes."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from viewer_servers import CLAUDE, GPT, MAX_INGESTION, MAX_START, TOKENS, Viewers, ask, wait_for

pytestmark = pytest.mark.timeout(2 * MAX_START)

THEIRS, OURS = "chat claude-opus", "chat gpt-5-mini"


@pytest.fixture(scope="session")
def traces(viewers: Viewers) -> list[dict[str, Any]]:
    """Every trace with its spans, as soon as all are there."""
    api = f"{viewers.mlflow.url}/api/3.0/mlflow/traces"
    everywhere = {"locations": [{"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": "0"}}]}

    def find() -> list[dict[str, Any]] | None:
        found: list[dict[str, Any]] = ask(f"{api}/search", {**everywhere, "max_results": 50}).get("traces", [])
        return found if len(found) >= CLAUDE + GPT + 1 else None

    ids = [trace["trace_id"] for trace in wait_for(find, MAX_INGESTION)]
    return [ask(f"{api}/get?trace_id={one}")["trace"] for one in ids]


def used(trace: dict[str, Any]) -> int:
    """The tokens that MLflow shows for a trace."""
    usage = trace["trace_info"].get("trace_metadata", {}).get("mlflow.trace.tokenUsage", "{}")
    return int(json.loads(usage).get("total_tokens", 0))


def names(trace: dict[str, Any]) -> list[str]:
    return [span["name"] for span in trace["spans"]]


def test_mlflow_counts_the_tokens_of_each_request_once(traces: list[dict[str, Any]]) -> None:
    assert sorted(map(used, traces)) == [0] + [TOKENS] * (CLAUDE + GPT)


def test_mlflow_has_one_span_for_each_request(traces: list[dict[str, Any]]) -> None:
    assert Counter(map(tuple, map(names, traces))) == {(THEIRS,): CLAUDE, (OURS,): GPT + 1}


def test_mlflow_shows_which_stream_failed(traces: list[dict[str, Any]]) -> None:
    assert Counter(trace["trace_info"]["state"] for trace in traces) == {"OK": CLAUDE + GPT, "ERROR": 1}


@pytest.mark.parametrize("name", [THEIRS, OURS])
def test_mlflow_has_the_first_and_the_last_token_of_both_sdks(name: str, traces: list[dict[str, Any]]) -> None:
    events = [{event["name"] for event in trace["spans"][0]["events"]} for trace in traces if names(trace) == [name]]
    assert {"itl.first_token", "itl.last_token", "itl.tokens"} in events


def test_the_duration_that_mlflow_shows_is_that_of_the_stream(traces: list[dict[str, Any]]) -> None:
    seconds = [float(trace["trace_info"]["execution_duration"].rstrip("s")) for trace in traces if used(trace)]
    assert min(seconds) >= 0.1 + 19 * 0.01
