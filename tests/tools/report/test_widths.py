"""Tables at every width: digits are never cut, and no line is wider than the terminal."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import cycle
from typing import Any

import pytest

from otel_itl.cli import main
from otel_itl.core.metric_conventions import LATENCY_BUCKETS
from otel_itl.core.timeline import Kind, Outcome, Timeline
from otel_itl.tools.report.other_tools import TOOLS
from otel_itl.tools.report.reading.span_facts import SessionFacts, SLOFacts, SpanFacts, StallFacts
from otel_itl.tools.report.reading.streams import StoredStream
from otel_itl.tools.report.render.model_tables import MIN_HISTOGRAM_WIDTH, histogram_head
from otel_itl.tools.report.render.report import print_report
from otel_itl.tools.report.render.terminal import open_terminal
from otel_itl.tools.report.summary import Report, summarize
from tests.tools.report.conftest import store

WIDTHS = (40, 50, 60, 80, 120, 200)
MODELS = ("degrading-1", "meta-llama/Llama-3.3-70B-Instruct-Turbo", "meta-llama/Llama-3.3-8B-Instruct-Turbo", "m")
WIDEST = 1_000
"""Columns of a terminal on which nothing is shortened."""
NUMBER = re.compile(r"\d[\d,.]*\d|\d")


def streams(made: Any) -> Iterator[StoredStream]:
    """Streams of four models with everything that a report has a table for, and with large numbers."""
    outcomes, models = cycle(Outcome), cycle(MODELS)
    for number in range(48):
        kinds = [Kind.REASONING] * 9 + [Kind.ANSWER] * 22 + [Kind.TOOL] * 5
        timeline: Timeline = made.timeline(
            *[20 + number] * 20, 10_512, *[15] * 14, kinds=kinds, first=1_234, outcome=next(outcomes), tokens=16_400
        )
        facts = SpanFacts(
            session_id=f"0d3f6c1e-6a53-4be4-93c7-{number % 3}",
            session=SessionFacts(1 + number // 3, 2.37, number > 30, None),
            slo=SLOFacts("chat", number % 2 == 0, None, None, 0.875),
            stalls=[StallFacts("decode", "event_loop", 1_234, 123.4, 112.5)],
            error_type="RateLimitError",
            server_durations={"load": 12.3, "prompt": 1.234, "decode": 9.87, "first_byte": 1.11, "total": 11.1},
        )
        yield store(
            timeline,
            provider="openai" if number % 4 else "a-provider-of-many-models",
            model=next(models),
            span_facts=replace(facts, is_host_bound=True),
        )


@pytest.fixture
def report(made: Any) -> Callable[[str | None], Report]:
    return lambda tool: summarize(streams(made), tool=tool)


def printed(what: Any, width: int) -> str:
    """What is printed to a pipe of this width."""
    file = io.StringIO()
    print_report(what, open_terminal(file, width=width))
    return file.getvalue()


def tables(text: str) -> str:
    """A report without the drawing of its worst stream, whose axis has as many numbers as it has room for."""
    return text.partition("longest wait for a token")[0]


def missing(narrow: str, wide: str) -> list[str]:
    """The numbers of a wide text that a narrow one does not have, each as often as it is missing."""
    left = NUMBER.findall(narrow)
    lost = []
    for number in NUMBER.findall(wide):
        if number in left:
            left.remove(number)
        else:
            lost.append(number)
    return lost


@pytest.mark.parametrize("tool", [None, *TOOLS])
@pytest.mark.parametrize("width", WIDTHS)
def test_no_digit_of_a_report_is_cut(report: Any, width: int, tool: str | None) -> None:
    shown = report(tool)
    wide = re.sub(
        r"meta-llama\S*|0d3f6c1e\S*|degrading-1|[\d.]+( m?s)? {5,}\d+ m?s$",
        "",
        tables(printed(shown, WIDEST)),
        flags=re.MULTILINE,
    )
    assert missing(tables(printed(shown, width)), wide) == []


@pytest.mark.parametrize("tool", [None, *TOOLS])
@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_of_a_report_is_wider_than_the_terminal(report: Any, width: int, tool: str | None) -> None:
    assert max(map(len, printed(report(tool), width).splitlines())) <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_no_digit_of_a_session_is_cut(report: Any, width: int) -> None:
    session = report(None).sessions[0]
    wide = re.sub(r"meta-llama\S*|degrading-1", "", printed(session, WIDEST))
    assert missing(printed(session, width), wide) == []


@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_of_a_session_is_wider_than_the_terminal(report: Any, width: int) -> None:
    assert max(map(len, printed(report(None).sessions[0], width).splitlines())) <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_the_labels_of_the_worst_stream_are_not_cut(report: Any, width: int) -> None:
    text = printed(report(None), width)
    assert ("TTFT 1.23 s" in text, text.count("10.5 s") >= 2) == (True, True)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_name_of_a_group_of_columns_is_not_cut(report: Any, width: int) -> None:
    text = printed(report(None), width)
    groups = ("TTFT, ms", "inter-token latency, ms", "by the server, ms", "measured here, ms")
    assert [text.count(f" {name} ") for name in groups] == [1, 1, 1, 1]


def test_the_edges_of_a_histogram_stand_apart() -> None:
    last = len(LATENCY_BUCKETS) + 1 - MIN_HISTOGRAM_WIDTH
    heads = [histogram_head(range(start, start + MIN_HISTOGRAM_WIDTH)) for start in range(last)]
    assert [head for head in heads if not re.search(r"^0 |s +[\d.]+ m?s$", head)] == []


def test_two_names_are_not_shortened_to_the_same(report: Any) -> None:
    text = printed(report(None), 60)
    assert ("70B" in text, "8B" in text) == (True, True)


# --- Other tools that print tables with these ------------------------------------------------------------------------


@pytest.fixture
def compared(made: Any, write: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """What `otel-itl compare` prints of two files, by the width of the terminal."""
    files = [
        write(
            *(
                made.spans(made.span(made.timeline(*[20 * slower + number] * 20, first=1_234 * slower), model=model))
                for number, model in zip(range(24), cycle(MODELS))
            ),
            name=f"{slower}.jsonl",
        )
        for slower in (1, 12)
    ]

    def show(width: int) -> str:
        monkeypatch.setenv("COLUMNS", str(width))
        main(["compare", *files])
        return str(capsys.readouterr().out)

    return show


@pytest.mark.parametrize("width", WIDTHS)
def test_no_digit_of_a_comparison_is_cut(compared: Any, width: int) -> None:
    wide = re.sub(r"meta-llama\S*|degrading-1|\S+\.jsonl", "", compared(WIDEST))
    assert missing(compared(width), wide) == []


@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_of_a_comparison_is_wider_than_the_terminal(compared: Any, width: int) -> None:
    assert max(map(len, compared(width).splitlines())) <= width
