"""The report in a terminal."""

from __future__ import annotations

import io
import re
from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import pytest

from otel_itl.core.timeline import Kind, Outcome, Timeline
from otel_itl.tools.report.other_tools import TOOLS
from otel_itl.tools.report.reading.span_facts import NO_FACTS, SessionFacts, SLOFacts, SpanFacts, StallFacts
from otel_itl.tools.report.render.report import print_report
from otel_itl.tools.report.render.terminal import open_terminal
from otel_itl.tools.report.summary import summarize
from otel_itl.tools.report.too_few import LEGEND
from tests.tools.report.conftest import store

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
        facts: Sequence[SpanFacts] = (),
    ) -> str:
        kinds = [Kind.REASONING] * 9 + [Kind.ANSWER] * 22 + [Kind.TOOL] * 5
        stalled = made.timeline(*[20] * 20, 512, *[15] * 14, kinds=kinds)
        file = _Terminal() if tty else io.StringIO()
        streams = (
            store(timeline, provider=provider, model=model, span_facts=one)
            for timeline, one in zip_longest(
                timelines or (stalled, made.timeline(*[20] * 9, outcome=Outcome.ERROR)), facts, fillvalue=NO_FACTS
            )
        )
        print_report(summarize(streams, tool=tool), open_terminal(file, width=columns))
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


def test_another_tools_report_has_the_tools_definitions(shown: Shown) -> None:
    definition = TOOLS["llmperf"]
    text = shown(tool="llmperf", columns=200)
    facts = (definition.version, definition.tokens.words, definition.ends, definition.percentiles.words)
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


def test_the_worst_stream_has_the_tools_figures(shown: Shown, made: Any) -> None:
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
    *_, last, _, _, legend = shown().splitlines()
    assert re.search(r"\|-+\| TTFT 200 ms +\|-+ 512 ms -+\|", last)
    assert legend == "heights, from low to high: . : = #"


def test_the_stall_is_empty_space_between_answers(shown: Shown) -> None:
    # 69 columns for 1,332 ms: 512 ms are 26.5 columns, of which the chunks at either end fill a part.
    (answers,) = (line for line in shown().splitlines() if line.strip().startswith("answer"))
    assert max(map(len, re.findall(r"(?<=[^ r]) +(?=[^ ])", answers))) in {25, 26}


def test_the_lanes_name_what_was_streamed(shown: Shown) -> None:
    names = [line[:9].strip() for line in shown().splitlines()]
    drawn = names.index("reasoning")
    assert names[drawn : drawn + 4] == ["reasoning", "answer", "tool", ""]


def test_a_short_stall_in_a_long_stream_is_drawn_again_enlarged(shown: Shown, made: Any) -> None:
    text = shown(made.timeline(*[20] * 1_500, 400, *[20] * 1_500))
    assert "the longest gap, enlarged:" in text
    assert text.count("400 ms") == 3  # the title and a label in each drawing


def test_a_stall_that_is_clear_already_is_drawn_once(shown: Shown) -> None:
    assert "enlarged" not in shown()


def test_a_row_has_its_figures_in_milliseconds(shown: Shown, made: Any) -> None:
    text = shown(made.timeline(*[20] * 99, 512, first=1_234))
    row = next(line.split() for line in text.splitlines() if "stalling-1" in line)
    # The p99 of 100 gaps has rank 98.01: 20 + 0.01 * 492 = 24.9. Of one TTFT there is one figure.
    assert row[:9] == ["stalling-1", "~1,234", "20.0", "~20.0", "~24.9", "512", "24.9", "24.9", "40.1"]


def test_a_percentile_of_too_few_samples_is_marked(shown: Shown, made: Any) -> None:
    text = shown(*[made.timeline(*[20] * 40) for _ in range(3)])
    row = next(line.split() for line in text.splitlines() if "stalling-1" in line)
    assert row == ["stalling-1", *["~200"] * 3, "20.0", "~20.0", "~20.0", "20.0", "20.0", "20.0", "50.0"]


def test_the_mark_has_a_legend(shown: Shown, made: Any) -> None:
    assert LEGEND in " ".join(shown(made.timeline(20, 20)).splitlines())


def test_percentiles_of_enough_samples_are_not_marked(shown: Shown, made: Any) -> None:
    assert "~" not in shown(*[made.timeline(*[20] * 5) for _ in range(1_000)])


def test_the_mark_of_a_session_has_the_legend_as_well(shown: Shown, made: Any) -> None:
    in_session = [SpanFacts(session_id="s")]
    text = shown(*[made.timeline(*[20] * 5) for _ in range(1_000)], facts=in_session)
    assert (text.count("~"), LEGEND in " ".join(text.splitlines())) == (2, True)


def test_the_types_of_errors_are_named(shown: Shown, made: Any) -> None:
    failed = [made.timeline(10, 10, outcome=Outcome.ERROR) for _ in range(3)]
    types = [SpanFacts(error_type="RateLimitError"), SpanFacts(error_type="RateLimitError"), SpanFacts()]
    assert "openai stalling-1: 2 RateLimitError, 1 other\n" in shown(*failed, facts=types)


def test_a_row_has_the_outcomes_of_its_streams(shown: Shown) -> None:
    assert "1 completed, 1 error" in shown(columns=100)


def test_outcomes_that_do_not_fit_one_line_go_on_in_the_next(shown: Shown, made: Any) -> None:
    timelines = [made.timeline(10, 10, outcome=outcome) for outcome in Outcome]
    lines = shown(*timelines).splitlines()
    found = [word for line in lines for word in re.findall(r"1 ([a-z]+)", line) if word in list(Outcome)]
    assert found[: len(Outcome)] == sorted(outcome.value for outcome in Outcome)


def test_the_distribution_is_drawn_where_there_is_room(shown: Shown) -> None:
    wide, narrow = (shown(columns=columns) for columns in (110, 80))
    assert ("- ITL -" in wide, "- ITL -" in narrow) == (True, False)


def test_a_long_name_is_shortened_in_the_middle(shown: Shown) -> None:
    rows = [line.split()[0] for line in shown(model="claude-3-5-sonnet-20241022").splitlines() if "  claude" in line]
    assert rows[0] == "claude-3-5-...t-20241022"


def test_the_names_of_the_demo_stand_beside_their_numbers(shown: Shown) -> None:
    rows = [line for line in shown(model="slow-start-1").splitlines() if line.startswith("  slow-start-1")]
    assert ["  slow-start-1" in rows, len(rows)] == [False, 2]


def test_characters_that_control_the_terminal_are_not_printed(shown: Shown) -> None:
    text = shown(model="m\x1b[2J\x07\u202e", provider="[red]p[/red]\r")
    assert "\x1b" not in text
    assert "[red]p[/red]?" in text


def test_absent_figures_are_dashes(shown: Shown) -> None:
    text = shown(Timeline(request_unix_ns=1, end=5, outcome=Outcome.ERROR))
    row = next(line.split() for line in text.splitlines() if "stalling-1" in line)
    assert row == ["stalling-1", *["-"] * 10]


# --- stalls, objectives, sessions ------------------------------------------------------------------------------------


def facts_of_all(made: Any, fluidity: float | None = None) -> tuple[list[Timeline], list[SpanFacts]]:
    """Eight requests of a session that degrades with its seventh, one of which stalled; half met their objective."""
    timelines = [made.timeline(*[20 if number < 6 else 60] * 9) for number in range(8)]
    return timelines, [
        SpanFacts(
            session_id="agent-7",
            session=SessionFacts(number, 1.0 if number < 6 else 3.0, number > 6, None),
            slo=SLOFacts("chat", number % 2 == 0, None, None, fluidity),
            stalls=[StallFacts("decode", "event_loop", 1, 2.5, 2.5)] if number == 3 else [],
        )
        for number in range(1, 9)
    ]


def line_of(text: str, start: str, after: str) -> list[str]:
    """The words of the first line that starts so, after a line that starts like `after`."""
    lines = text.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith(after))
    return next(line.split() for line in lines[first:] if line.startswith(start))


BURSTS = [*[0.1] * 7, 159.3] * 8


@pytest.mark.requirement("R37")
def test_a_model_whose_pace_is_a_proxys_has_a_mark_and_a_note(shown: Shown, made: Any) -> None:
    text = shown(made.timeline(*BURSTS), columns=120)
    assert re.search(r"^  stalling-1\* +~200\b", text, re.MULTILINE)
    assert (
        "* openai stalling-1: 86.2 % of the chunks came in bursts: the pace is the proxy's, 22.5 ms a chunk "
        "from burst to burst\n"
    ) in text


def test_a_note_counts_the_streams_if_not_all_are_buffered(shown: Shown, made: Any) -> None:
    text = shown(made.timeline(*[0.1] * 20), made.timeline(*[20] * 20), columns=120)
    assert "* openai stalling-1, 1 of 2 streams: 95.2 % of the chunks came in bursts: the pace is the proxy's\n" in text


def test_a_model_whose_pace_is_a_proxys_is_marked_among_another_tools_figures(shown: Shown, made: Any) -> None:
    text = shown(made.timeline(*BURSTS), columns=120, tool="vllm")
    assert "  stalling-1*, 1 stream" in text
    assert "\n* openai stalling-1: 86.2 % of the chunks came in bursts" in text


def test_a_report_without_bursts_has_no_mark(shown: Shown) -> None:
    assert "*" not in shown()


def test_empty_tables_are_not_shown(shown: Shown) -> None:
    assert [title for title in ("stalls", "objectives", "sessions") if f"\n{title}" in shown()] == []


def test_stalls_are_shown_by_phase_and_cause(shown: Shown, made: Any) -> None:
    timelines, facts = facts_of_all(made)
    line = line_of(shown(*timelines, facts=facts), "  stalling-1", after="stalls")
    assert line == ["stalling-1", "decode", "event", "loop", "1", "2.50", "s", "2.50", "s"]


def test_stalls_from_timelines_come_with_their_thresholds(shown: Shown, made: Any) -> None:
    text = shown(made.timeline(20, 3_000))
    assert line_of(text, "  stalling-1", after="stalls") == ["stalling-1", "decode", "-", "1", "3.00", "s", "3.00", "s"]
    assert "judged from the timeline, 10 s (first token, reasoning) or 1 s and 10 times" in " ".join(text.split())


def test_slos_are_shown_with_what_met_them(shown: Shown, made: Any) -> None:
    timelines, facts = facts_of_all(made)
    line = " ".join(line_of(shown(*timelines, facts=facts), "  chat", after="objectives"))
    assert line == "chat TTFT 500 ms, ITL 100 ms, 99 % 8 50.0 % 72 100 %"


def test_the_fluidity_index_is_shown(shown: Shown, made: Any) -> None:
    timelines, facts = facts_of_all(made, fluidity=0.875)
    line = line_of(shown(*timelines, facts=facts, columns=100), "  chat", after="objectives")
    assert line[-3:] == ["100", "%", "0.875"]


def test_a_session_is_shown_with_its_latency_from_request_to_request(shown: Shown, made: Any) -> None:
    timelines, facts = facts_of_all(made)
    line = line_of(shown(*timelines, facts=facts), "  agent-7", after="sessions")
    # Six requests at 20 ms, two at 60: p50 20, p99 60; a third of the height, and all of it.
    assert line == [*("agent-7", "8", "20.0", "~60.0", "2.16", "s", "1", "3.00", "since", "7"), "......##"]


def test_more_sessions_than_a_terminal_takes_are_counted(shown: Shown, made: Any) -> None:
    facts = [SpanFacts(session_id=f"s{number}") for number in range(23)]
    text = shown(*[made.timeline(20) for _ in facts], facts=facts)
    assert (len(re.findall(r"^  s\d", text, re.MULTILINE)), "... and 3 sessions more\n" in text) == (20, True)


@pytest.mark.parametrize("columns", [80, 100])
@pytest.mark.parametrize("tty", [True, False])
@pytest.mark.parametrize("session", ["s", "0d3f6c1e-6a53-4be4-93c7-7b1a5ae1c9d2" * 3])
def test_no_line_of_all_this_is_wider_than_the_terminal(
    shown: Shown, made: Any, columns: int, tty: bool, session: str
) -> None:
    timelines, facts = facts_of_all(made)
    facts = [replace(one, session_id=session) for one in facts]
    text = ESCAPES.sub("", shown(*timelines, facts=facts, columns=columns, tty=tty, model="meta-llama/Llama-3.3-70B"))
    assert max(len(line) for line in text.splitlines()) <= columns


@pytest.fixture
def one_session(made: Any) -> Shown:
    """What one session looks like."""

    def show_it(*, columns: int = 80, model: str = "m", session: str = "agent-7") -> str:
        timelines, facts = facts_of_all(made)
        streams = [
            store(
                replace(timeline, request_unix_ns=1_700_000_000_000_000_000 + number * 3_600_000_000_000),
                model=model,
                span_facts=replace(one, session_id=session),
            )
            for number, (timeline, one) in enumerate(zip(timelines, facts, strict=True))
        ]
        file = io.StringIO()
        print_report(summarize(streams).sessions[0], open_terminal(file, width=columns))
        return file.getvalue()

    return show_it


def test_one_session_is_described_in_a_sentence(one_session: Shown) -> None:
    assert "session agent-7, 8 requests, 2.16 s of decoding, degraded since 7\n" in one_session()


def test_one_session_is_shown_request_by_request(one_session: Shown) -> None:
    lines = [line.split() for line in one_session().splitlines()]
    # The first request is of 14 November 2023, 22:13:20 UTC; the third of the next day.
    assert ["1", "22:13:20", "m", "200", "20.0", "20.0", "-", "1.00", "missed", "completed"] in lines
    assert [line for line in lines if line[:1] in (["2023-11-14"], ["2023-11-15"], ["3"])] == [
        ["2023-11-14"],
        ["2023-11-15"],
        ["3", "00:13:20", "m", "200", "20.0", "20.0", "1", "1.00", "missed", "completed"],
    ]


def late(timeline: Timeline, *milliseconds: float) -> Timeline:
    """The stream, of which each chunk may have come earlier."""
    lateness = [round(each * 1_000_000) for each in (*milliseconds, *[0] * (len(timeline) - len(milliseconds)))]
    return replace(timeline, lateness=array("q", lateness))


def test_a_model_says_how_many_streams_are_uncertain_and_why(shown: Shown, made: Any) -> None:
    streams = [late(made.timeline(20, 20), milliseconds) for milliseconds in (0, 10, 120)]
    note = "TTFT: 2 of 3 known to 65 ms (median), 120 ms (worst), 1 set aside: its loop or process was blocked"
    assert note in " ".join(shown(*streams).splitlines())


def test_nothing_is_said_where_all_is_known(shown: Shown, made: Any) -> None:
    assert "known" not in shown(made.timeline(20, 20))


def test_a_flag_has_one_sentence_of_what_to_do(shown: Shown, made: Any) -> None:
    lines = shown(made.timeline(20, 20), facts=[replace(NO_FACTS, is_host_bound=True)]).splitlines()
    assert [line for line in lines if ": " in line and "~" not in line][:1] == [
        "host-bound: Give the process more CPU."
    ]


def test_few_imputed_gaps_need_nothing_to_be_done(shown: Shown, made: Any) -> None:
    few, many = late(made.timeline(*[20] * 40), 0, 3), late(made.timeline(*[20] * 20), 0, 3)
    assert ["imputed: If they are many" in shown(timeline) for timeline in (few, many)] == [False, True]


def test_a_first_token_is_shown_with_what_it_may_be_less_by(shown: Shown, made: Any) -> None:
    assert "TTFT 200 ms (-30)" in shown(late(made.timeline(20, 2000), 30))


def test_streams_whose_objective_is_within_the_bounds_are_neither_met_nor_missed(shown: Shown, made: Any) -> None:
    facts = replace(NO_FACTS, slo=SLOFacts("chat", None, None, None, None))
    text = shown(late(made.timeline(20, 20, first=510), 30), facts=[facts])
    assert "not known, as their bounds contain the objective: 1 of 1 stream by chat" in text


def test_the_share_that_met_an_objective_is_between_two_where_streams_are_not_known(shown: Shown, made: Any) -> None:
    unknown, met = (
        replace(NO_FACTS, slo=SLOFacts("chat", None, None, None, None)),
        replace(NO_FACTS, slo=SLOFacts("chat", True, None, None, None)),
    )
    text = shown(late(made.timeline(20, 20, first=510), 30), made.timeline(20, 20), facts=[unknown, met])
    assert "50 to 100 %" in text


def test_a_request_of_a_session_is_shown_with_its_errors(made: Any) -> None:
    timeline = late(made.timeline(20, 20, first=510), 30)
    facts = replace(NO_FACTS, session_id="s", slo=SLOFacts("chat", None, None, None, None))
    stream = store(timeline, span_facts=facts)
    file = io.StringIO()
    print_report(summarize([stream]).sessions[0], open_terminal(file, width=80))
    (line,) = (line.split() for line in file.getvalue().splitlines() if line.endswith("completed"))
    assert line == ["1", "22:13:21", "m", "510", "(-30)", "20.0", "20.0", "(+30)", "not", "known", "completed"]


def test_one_session_fits_a_terminal_and_does_not_control_it(one_session: Shown) -> None:
    text = one_session(model="meta-llama/Llama-3.3-70B-Instruct-Turbo", session="s\x1b[2J")
    assert (max(len(line) for line in text.splitlines()) <= 80, "\x1b" in text) == (True, False)


@pytest.mark.parametrize(("aside", "expected"), [(1, False), (3, True)])
def test_a_model_of_which_much_is_set_aside_is_named(shown: Shown, made: Any, aside: int, expected: bool) -> None:
    streams = [made.timeline(*BURSTS if number < aside else [20] * 20) for number in range(12)]
    note = "ITL p99: those that are not set aside may be faster or slower than all, of stalling-1"
    assert (note in " ".join(shown(*streams).splitlines())) is expected


def test_streams_that_ended_without_a_token_are_beside_the_percentiles(shown: Shown, made: Any) -> None:
    silent = Timeline(request_unix_ns=1, end=8_000 * 1_000_000, outcome=Outcome.CANCELLED)
    text = " ".join(shown(*[made.timeline(20, 20)] * 3, *[silent] * 2).splitlines())
    assert "openai stalling-1: 2 of 5 streams ended without a token, after 8.00 s (median): in no latency above" in text


def test_nothing_is_said_of_streams_that_are_left_where_none_is(shown: Shown, made: Any) -> None:
    assert "not set aside may be" not in shown(*[made.timeline(*BURSTS)] * 12)


def test_the_name_of_a_group_stands_above_its_one_column(shown: Shown, made: Any) -> None:
    above, below = shown(made.timeline(20, 20)).splitlines()[1:3]
    assert above.index("TTFT, ms") < below.index("p50") < above.index("TTFT, ms") + len("TTFT, ms")
