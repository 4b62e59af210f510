"""The times that servers report of their own work, in the report."""

from __future__ import annotations

import io
from typing import Any

from otel_itl.core import conventions as names
from otel_itl.tools.report.render.json import report_to_data
from otel_itl.tools.report.render.report import print_report
from otel_itl.tools.report.render.terminal import open_terminal
from otel_itl.tools.report.summary import summarize

REPORTED = {"total": 0.4, "load": 0.1, "prompt": 0.05, "decode": 0.25}


def attributes(**seconds: float) -> dict[str, float]:
    return {names.SERVER_DURATIONS[name]: value for name, value in seconds.items()}


def server_of(read: Any, made: Any, *spans: Any) -> Any:
    (row,) = report_to_data(summarize(read(made.spans(*spans)).streams))["rows"]
    return row["server"]


def test_the_medians_of_the_streams_that_have_server_times_stand_beside_those_measured(read: Any, made: Any) -> None:
    spans = (
        made.span(made.timeline(100, 100), **attributes(total=0.4, load=0.1, prompt=0.05, decode=0.25)),
        made.span(made.timeline(150, 150, first=300), **attributes(total=0.6, load=0.3, decode=0.35)),
        made.span(made.timeline(900, 900)),
    )
    assert server_of(read, made, *spans) == {
        "streams": 2,
        "load": 0.2,
        "prompt": 0.05,
        "decode": 0.3,
        "first_byte": None,
        "total": 0.5,
        "time_to_first_token": 0.25,
        "decode_time": 0.25,
        "duration": 0.51,
    }


def test_a_model_without_server_times_has_none(read: Any, made: Any) -> None:
    assert server_of(read, made, made.span(made.timeline(10, 10))) is None


def test_a_server_time_of_another_type_counts_as_missing(read: Any, made: Any) -> None:
    odd = {names.SERVER_DURATIONS["load"]: "long", names.SERVER_DURATIONS["decode"]: True}
    assert server_of(read, made, made.span(made.timeline(10, 10), **odd)) is None


def test_the_terminal_shows_a_table_of_them(read: Any, made: Any) -> None:
    span = made.span(made.timeline(100, 100), provider="ollama", **attributes(**REPORTED))
    page = io.StringIO()
    print_report(summarize(read(made.spans(span)).streams), open_terminal(page, width=80))
    lines = page.getvalue().splitlines()
    (at,) = [index for index, line in enumerate(lines) if "by the server, ms" in line]
    assert [line.split() for line in lines[at + 1 : at + 4]] == [
        ["streams", "load", "prompt", "decode", "total", "TTFT", "decode", "total"],
        ["ollama"],
        ["gpt-4o", "1", "~100", "~50.0", "~250", "~400", "~200", "~200", "~410"],
    ]
    assert max(map(len, lines)) <= 80
