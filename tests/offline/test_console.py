"""The report in a terminal."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import pytest

from otel_itl.definitions import DEFINITIONS, TOOLS
from otel_itl.measures import measure
from otel_itl.offline.report import summarise
from otel_itl.offline.streams import Stream
from otel_itl.timeline import Kind, Outcome, Timeline
from otel_itl.view.console import screen, show

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
Shown = Callable[..., str]


class _Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "COLORTERM", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


@pytest.fixture
def shown(made: Any) -> Shown:
    """What a report looks like: of these timelines (by default a stalled stream beside an even one)."""

    def show_them(
        *timelines: Timeline,
        columns: int = 80,
        tty: bool = False,
        model: str = "stalling-1",
        provider: str = "openai",
        tool: str | None = None,
    ) -> str:
        kinds = [Kind.REASONING] * 9 + [Kind.ANSWER] * 22 + [Kind.TOOL] * 5
        stalled = made.timeline(*[20] * 20, 512, *[15] * 14, kinds=kinds)
        file = _Terminal() if tty else io.StringIO()
        streams = (
            Stream(
                provider=provider,
                model=model,
                operation="chat",
                trace_id="a" * 32,
                span_id="b" * 16,
                where="spans.jsonl:1",
                timeline=timeline,
                measures=measure(timeline),
            )
            for timeline in timelines or (stalled, made.timeline(*[20] * 9, outcome=Outcome.ERROR))
        )
        show(summarise(streams, tool=tool), screen(file, width=columns))
        return file.getvalue()

    return show_them


def test_a_report_for_a_file_is_plain(shown: Shown) -> None:
    text = shown()
    assert text.isascii()
    assert "\x1b" not in text


@pytest.mark.parametrize("tool", TOOLS)
def test_another_tools_report_for_a_file_is_plain_and_fits(shown: Shown, tool: str) -> None:
    text = shown(tool=tool)
    assert text.isascii()
    assert max(len(line) for line in text.splitlines()) <= 80


def test_another_tools_report_says_whose_words_these_are(shown: Shown) -> None:
    definition = DEFINITIONS["llmperf"]
    text = shown(tool="llmperf", columns=200)
    facts = (definition.version, definition.counts, definition.ends, definition.percentiles)
    assert [fact for fact in facts if fact not in text] == []


def test_another_tools_figures_are_in_milliseconds(shown: Shown, made: Any) -> None:
    # One token at 200 ms, one at 220 and one at 260: (260 - 200) / 2 = 30 ms per token, 60,000,000 // 2 ns to MLPerf.
    lines = [line.split() for line in shown(made.timeline(20, 40), tool="mlperf").splitlines()]
    assert ["first_token_latency", *["200"] * 8] in lines
    assert ["time_per_output_token", *["30.0"] * 8] in lines


def test_counts_among_another_tools_figures_are_whole(shown: Shown, made: Any) -> None:
    text = shown(made.timeline(20, 40), tool="guidellm")
    (row,) = (line.split() for line in text.splitlines() if line.startswith("    inter_token_latency"))
    assert row == ["inter_token_latency", *["30.0"] * 5, "2"]


def test_the_worst_stream_is_told_in_the_tools_words(shown: Shown, made: Any) -> None:
    text = shown(made.timeline(20, 40), tool="vllm")
    assert "ttft 200 ms, tpot 30.0 ms, e2el 260 ms, output_tokens_from_usage 3" in text
    assert "TTFT" not in text


def test_no_color_makes_a_terminal_plain(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    text = shown(tty=True)
    assert text.isascii()
    assert "\x1b" not in text


def test_a_dumb_terminal_is_plain(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert shown(tty=True).isascii()


def test_a_terminal_gets_colour_and_blocks(shown: Shown) -> None:
    text = shown(tty=True)
    assert "\x1b[" in text
    assert "█" in text


@pytest.mark.parametrize("columns", [80, 100, 132])
@pytest.mark.parametrize("tty", [True, False])
def test_no_line_is_wider_than_the_terminal(shown: Shown, columns: int, tty: bool) -> None:
    text = ESCAPES.sub("", shown(columns=columns, tty=tty, model="meta-llama/Llama-3.3-70B-Instruct-Turbo"))
    assert max(len(line) for line in text.splitlines()) <= columns


@pytest.mark.parametrize("columns", [80, 100])
def test_the_drawing_is_as_wide_as_the_terminal(shown: Shown, columns: int) -> None:
    (rule,) = (line for line in shown(columns=columns).splitlines() if re.match(r"\s+\+[-+]+$", line))
    assert len(rule) == columns - 1


def test_the_stall_is_labelled_and_so_is_the_first_token(shown: Shown) -> None:
    last = shown().splitlines()[-1]
    assert re.search(r"\|-+\| TTFT 200 ms +\|-+ 512 ms -+\|", last)


def test_the_stall_is_empty_space_between_answers(shown: Shown) -> None:
    # 69 columns for 1,332 ms: 512 ms are 26.5 columns, of which the chunks at either end fill a part.
    (answers,) = (line for line in shown().splitlines() if line.strip().startswith("answer"))
    assert max(map(len, re.findall(r"(?<=[^ r]) +(?=[^ ])", answers))) in {25, 26}


def test_the_lanes_name_what_was_streamed(shown: Shown) -> None:
    names = [line[:9].strip() for line in shown().splitlines()]
    drawn = names.index("reasoning")
    assert names[drawn : drawn + 4] == ["reasoning", "answer", "tool", ""]


def test_a_short_stall_in_a_long_stream_is_drawn_again_from_closer(shown: Shown, made: Any) -> None:
    text = shown(made.timeline(*[20] * 1_500, 400, *[20] * 1_500))
    assert "around it, closer:" in text
    assert text.count("400 ms") == 3  # the title and a label in each drawing


def test_a_stall_that_is_clear_already_is_drawn_once(shown: Shown) -> None:
    assert "closer" not in shown()


def test_a_row_says_its_figures_in_milliseconds(shown: Shown, made: Any) -> None:
    text = shown(made.timeline(*[20] * 99, 512, first=1_234))
    row = next(line.split() for line in text.splitlines() if "stalling-1" in line)
    # The p99 of 100 gaps has rank 98.01: 20 + 0.01 * 492 = 24.9.
    assert row == ["stalling-1", "1,234", "1,234", "1,234", "20.0", "20.0", "24.9", "512", "24.9", "24.9", "40.1"]


def test_a_row_says_how_its_streams_ended(shown: Shown) -> None:
    assert "1 completed, 1 error" in shown(columns=100)


def test_outcomes_that_do_not_fit_one_line_go_on_in_the_next(shown: Shown, made: Any) -> None:
    timelines = [made.timeline(10, 10, outcome=outcome) for outcome in Outcome]
    lines = shown(*timelines).splitlines()
    found = [word for line in lines for word in re.findall(r"1 (\w+)", line) if word in list(Outcome)]
    assert found[:6] == sorted(outcome.value for outcome in Outcome)


def test_the_distribution_is_drawn_where_there_is_room(shown: Shown) -> None:
    wide, narrow = (shown(columns=columns) for columns in (110, 80))
    assert ("- ITL -" in wide, "- ITL -" in narrow) == (True, False)


def test_a_long_name_goes_on_in_the_next_line(shown: Shown) -> None:
    lines = [line.strip() for line in shown(model="claude-3-5-sonnet-20241022").splitlines()]
    assert lines[4].startswith("claude-3-5-sonnet- ")
    assert lines[5] == "20241022"


def test_what_would_steer_the_terminal_is_not_printed(shown: Shown) -> None:
    text = shown(model="m\x1b[2J\x07\u202e", provider="[red]p[/red]\r")
    assert "\x1b" not in text
    assert "[red]p[/red]?" in text


def test_absent_figures_are_dashes(shown: Shown) -> None:
    text = shown(Timeline(request_unix_ns=1, end=5, outcome=Outcome.ERROR))
    row = next(line.split() for line in text.splitlines() if "stalling-1" in line)
    assert row == ["stalling-1", *["-"] * 10]
