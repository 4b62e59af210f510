"""The page's server shows those streams that its options select, as the other commands do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browsers import wait_for
from made import MS, REQUESTED, document_of, log_of, make_span, make_stream, make_timeline

from otel_itl.core import conventions as names
from otel_itl.tools.report.selection import Selection

if TYPE_CHECKING:
    from conftest import Client

Serve = Callable[..., "Client"]


@pytest.fixture
def spans(tmp_path: Path) -> Path:
    """Four streams a second apart: two models, two providers, two sessions, two tenants."""
    path = tmp_path / "spans.jsonl"
    made = [
        make_stream(
            make_timeline([20] * 5, start_ms=number * 1_000),
            model=f"m{number}",
            **{
                names.PROVIDER_NAME: f"p{number % 2}",
                "session.id": f"s{number // 2}",
                "tenant": "acme" if number else "other",
            },
        )
        for number in range(4)
    ]
    path.write_text("".join(json.dumps(document_of(span)) + "\n" for span in made))
    return path


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(since=REQUESTED + 2_000 * MS), {"m2", "m3"}),
        (Selection(until=REQUESTED + 2_000 * MS), {"m0", "m1"}),
        (Selection(models=["m1", "m[23]"]), {"m1", "m2", "m3"}),
        (Selection(providers=["p1"], sessions=["s0"]), {"m1"}),
        (Selection(where=[("tenant", "acme")]), {"m1", "m2", "m3"}),
    ],
    ids=["since", "until", "model", "provider and session", "where"],
)
def test_a_page_of_a_file_has_the_selected_streams(
    serve: Serve, spans: Path, selection: Selection, expected: set[str]
) -> None:
    client = serve(sources=(str(spans),), selection=selection)
    wait_for(lambda: selection.read == 4, 5, "the file")
    wait_for(lambda: {stream["model"] for stream in client.streams()} == expected, 5, str(expected))


def test_the_status_says_how_many_streams_are_selected(serve: Serve, spans: Path) -> None:
    client = serve(sources=(str(spans),), selection=Selection(models=["m1"]))
    wait_for(lambda: client.server.describe()["selected"] == "1 of 4 streams: --model m1", 5, "the count")


def test_models_are_split_by_an_attribute(serve: Serve, spans: Path) -> None:
    client = serve(sources=(str(spans),), by="tenant")
    expected = {"m0, other", "m1, acme", "m2, acme", "m3, acme"}
    wait_for(lambda: {stream["model"] for stream in client.streams()} == expected, 5, "the models")


def test_a_span_of_another_instrumentation_is_selected_as_well(serve: Serve) -> None:
    client = serve(selection=Selection(where=[("tenant", "acme")]))
    for tenant in ("acme", "other"):
        client.send(document_of(make_span(None, {"gen_ai.request.model": f"of {tenant}", "tenant": tenant})))
    assert [stream["model"] for stream in client.streams()] == ["of acme"]


def test_a_stream_that_runs_is_selected_by_its_model(serve: Serve) -> None:
    client = serve(selection=Selection(models=["m1"]))
    for model in ("m1", "m2"):
        known = {names.STREAM_REQUEST_TIME: REQUESTED, names.PROVIDER_NAME: "p", names.REQUEST_MODEL: model}
        client.send(log_of(names.PROGRESS_EVENT, REQUESTED, known, make_span(None, {})), "logs")
    assert [stream["model"] for stream in client.streams()] == ["m1"]


def test_a_stream_that_runs_is_shown_at_its_end_where_an_attribute_selects_it(serve: Serve) -> None:
    client, span = (
        serve(selection=Selection(where=[("tenant", "acme")])),
        make_stream(make_timeline([20]), tenant="acme"),
    )
    known = {names.STREAM_REQUEST_TIME: REQUESTED, names.PROVIDER_NAME: "test", names.REQUEST_MODEL: "m"}
    client.send(log_of(names.PROGRESS_EVENT, REQUESTED, known, span), "logs")
    running = client.streams()
    client.send(document_of(span))
    assert (running, [stream["outcome"] for stream in client.streams()]) == ([], ["completed"])


def test_a_name_that_changes_how_others_are_shown_is_made_harmless(serve: Serve) -> None:
    client = serve()
    client.send(document_of(make_stream(make_timeline([20]), model="a\u202eb\n\x00c")))
    assert [stream["model"] for stream in client.streams()] == ["a?b??c"]
