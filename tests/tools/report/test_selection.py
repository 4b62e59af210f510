"""Which streams a command uses: by time, provider, model, session and any attribute."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from otel_itl.cli import main

Selected = Callable[..., list[str]]


@pytest.fixture
def file(made: Any, write: Any) -> str:
    """Three streams, one second apart from 2023-11-14T22:13:21Z on, of two tenants."""
    spans = [
        made.span(made.timeline(20, 20), model=model, provider=provider, **{"tenant": tenant, "session.id": session})
        for model, provider, tenant, session in [
            ("gpt-4o", "openai", "acme", "s1"),
            ("gpt-4o-mini", "openai", "umbrella", "s2"),
            ("claude", "anthropic", "acme", "s1"),
        ]
    ]
    return str(write(*map(made.spans, spans)))


@pytest.fixture
def selected(file: str, capsys: pytest.CaptureFixture[str]) -> Selected:
    """The models of the streams that a report is of."""

    def select(*options: str) -> list[str]:
        main(["report", "--json", *options, file])
        return [row["model"] for row in json.loads(capsys.readouterr().out)["rows"]]

    return select


@pytest.mark.parametrize(
    ("options", "models"),
    [
        ([], ["claude", "gpt-4o", "gpt-4o-mini"]),
        (["--model", "gpt-4o"], ["gpt-4o"]),
        (["--model", "gpt-*"], ["gpt-4o", "gpt-4o-mini"]),
        (["--model", "gpt-4o", "--model", "claude"], ["claude", "gpt-4o"]),
        (["--provider", "anthropic"], ["claude"]),
        (["--where", "tenant=acme"], ["claude", "gpt-4o"]),
        (["--where", "tenant=acme", "--where", "gen_ai.provider.name=openai"], ["gpt-4o"]),
        (["--where", "service.name=shop"], ["claude", "gpt-4o", "gpt-4o-mini"]),
        (["--since", "2023-11-14T22:13:22Z"], ["claude", "gpt-4o-mini"]),
    ],
    ids=str,
)
def test_streams_are_selected(selected: Selected, options: Sequence[str], models: list[str]) -> None:
    assert selected(*options) == models


def test_until_is_exclusive_and_since_inclusive(file: str, selected: Selected, made: Any) -> None:
    moment = ["2023-11-14T22:13:23Z", "2023-11-14T22:13:24Z"]
    parts = [selected("--until", at) for at in moment] + [selected("--since", at) for at in moment]
    assert [len(before) + len(after) for before, after in zip(parts[:2], parts[2:], strict=True)] == [3, 3]


def test_each_value_of_an_attribute_has_its_rows(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["report", "--json", "--by", "tenant", file])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["model"], row["group"]) for row in rows] == [
        ("claude", "acme"),
        ("gpt-4o", "acme"),
        ("gpt-4o-mini", "umbrella"),
    ]


def test_the_value_stands_behind_the_model(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["report", "--by", "tenant", file])
    assert capsys.readouterr().out.count("  gpt-4o-mini, umbrella ") == 2


def test_streams_without_the_attribute_have_a_row(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["report", "--json", "--by", "region", file])
    assert {row["group"] for row in json.loads(capsys.readouterr().out)["rows"]} == {"-"}


def test_how_many_were_selected_is_printed_beside_the_report(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["report", "--model", "gpt-*", file])
    assert capsys.readouterr().err == "2 of 3 streams: --model gpt-*\n"


def test_a_selection_of_nothing_is_refused_in_one_sentence(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["report", "--model", "gpt-5", "--where", "tenant=acme", file])
    sentence = f"otel-itl report: none of the 3 streams of {file} is selected by --model gpt-5 --where tenant=acme.\n"
    assert (code, capsys.readouterr().err) == (2, sentence)


@pytest.mark.parametrize("option", ["--html", "--perfetto"])
def test_a_page_and_a_trace_have_the_selected_streams(
    file: str, tmp_path: Any, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    code = main(["report", option, str(tmp_path / "out"), "--session", "s1", file])
    assert (code, "2 streams" in capsys.readouterr().out) == (0, True)
