"""`otel-itl demo` in a terminal: it moves at once, and Ctrl-C ends it at any moment with the report or one sentence."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("termios", reason="needs a POSIX terminal")

from terminals import CTRL_C, Shown, run_in_terminal

DEMO = [sys.executable, "-m", "otel_itl", "demo", "--seconds", "3"]
BEFORE = "otel-itl demo: interrupted before a stream was measured."
NO_REPORT = "otel-itl demo: interrupted before the report was made."
PARTIAL = "interrupted: what was measured so far"
REPORT = "the same report again: "
MOMENTS: dict[str, tuple[str, float]] = {
    "at the first sign": ("loading", 0.0),
    "while OpenTelemetry is loaded": ("loading OpenTelemetry", 0.1),
    "while the server starts": ("scripted server", 0.0),
    "while the first SDK is loaded": ("loading openai", 0.1),
    "while the second SDK is loaded": ("loading anthropic", 0.2),
    "while the clients warm up": ("warming up", 0.0),
    "when the first request is sent": ("requests to", 0.0),
    "while streams are measured": ("arriving now", 1.0),
    "while the last streams end": (r"\b(?:1[4-9] of 24|2[0-7] of 3\d) streams done", 0.0),
}
"""When → what is on the screen by then, and how many seconds later Ctrl-C is pressed."""


def environment(**more: str) -> dict[str, str]:
    """This process's, without what somebody exports for telemetry or terminals of their own."""
    foreign = ("OTEL_", "FORCE_", "NO_COLOR", "COLUMNS")
    return {**{name: value for name, value in os.environ.items() if not name.startswith(foreign)}, **more}


def pressing(screen: str, later: float, times: int = 1) -> Callable[[str], bytes]:
    """Press Ctrl-C once this many seconds have passed since the screen had something on it, or several times."""
    seen: list[float] = []
    left = [times]

    def press(printed: str) -> bytes:
        if not seen and re.search(screen, printed):
            seen.append(time.monotonic())
        if seen and left[0] and time.monotonic() - seen[0] >= later:
            left[0] -= 1
            return CTRL_C
        return b""

    return press


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Shown, list[str]]]:
    """A demo for each moment, interrupted there, with the files that it left; three at a time."""

    def run(moment: tuple[str, float]) -> tuple[Shown, list[str]]:
        place: Path = tmp_path_factory.mktemp("demo")
        shown = run_in_terminal(DEMO, cwd=place, env=environment(), press=pressing(*moment))
        return shown, [file.name for file in place.iterdir()]

    with ThreadPoolExecutor(3) as pool:
        return dict(zip(MOMENTS, pool.map(run, MOMENTS.values()), strict=True))


def printed_lines(shown: Shown) -> list[str]:
    """The lines that stay on the screen: without what was overwritten, and without colours."""
    text = re.sub(r"\x1b\[\d*[ABCDJ]|\x1b\[\?25[lh]|\x1b\[[\d;]*m", "", shown.text)
    lines = [line.rpartition("\x1b[K")[2].replace("^C", "").strip("\r ") for line in text.split("\n")]
    return [line for line in lines if line]


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_ctrl_c_is_exit_code_130_whenever_it_comes(
    moment: str, interrupted: dict[str, tuple[Shown, list[str]]]
) -> None:
    shown, _ = interrupted[moment]
    assert shown.returncode == 130, shown.text


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_ctrl_c_gives_the_report_or_one_sentence_and_never_both(
    moment: str, interrupted: dict[str, tuple[Shown, list[str]]]
) -> None:
    shown, _ = interrupted[moment]
    sentences = [sentence for sentence in (BEFORE, NO_REPORT) if sentence in shown.text]
    assert (len(sentences) + (REPORT in shown.text), "Traceback" in shown.text) == (1, False), shown.text


@pytest.mark.slow
@pytest.mark.parametrize("moment", list(MOMENTS)[:6])
def test_ctrl_c_before_the_first_request_leaves_one_sentence_and_no_file(
    moment: str, interrupted: dict[str, tuple[Shown, list[str]]]
) -> None:
    shown, files = interrupted[moment]
    assert (printed_lines(shown), files) == ([BEFORE], [])


@pytest.mark.slow
def test_ctrl_c_while_streams_are_measured_reports_what_was_measured_so_far(
    interrupted: dict[str, tuple[Shown, list[str]]],
) -> None:
    shown, files = interrupted["while streams are measured"]
    assert (PARTIAL in shown.text, REPORT in shown.text, files) == (True, True, ["otel-itl-demo.jsonl"])


@pytest.mark.slow
def test_ctrl_c_twice_gives_the_report_or_one_sentence(tmp_path: Path) -> None:
    shown = run_in_terminal(DEMO, cwd=tmp_path, env=environment(), press=pressing("arriving now", 0.5, times=2))
    assert (shown.returncode, [REPORT in shown.text, NO_REPORT in shown.text].count(True)) == (130, 1)


@pytest.mark.slow
def test_ctrl_c_while_the_report_is_printed_leaves_it_whole(tmp_path: Path) -> None:
    shown = run_in_terminal([*DEMO[:-1], "0"], cwd=tmp_path, env=environment(), press=pressing("first token|TTFT", 0.0))
    assert "scripted truth: " in shown.text


@pytest.mark.slow
def test_something_moves_before_anything_that_takes_long_is_imported(tmp_path: Path) -> None:
    # Every import is a line on standard error when it is done: the start's line has to be there before.
    python = [sys.executable, "-X", "importtime", *DEMO[1:]]
    text = run_in_terminal(python, cwd=tmp_path, env=environment(), press=pressing("loading openai", 0.0)).text
    first = text.index("loading OpenTelemetry")
    imported = re.findall(r"\| +([\w.]+)\r?$", text[:first], re.MULTILINE)
    slow = {"rich", "openai", "anthropic", "httpx", "pydantic", "asyncio", "opentelemetry.sdk"}
    assert (slow.intersection(imported), "otel_itl.cli.commands" in imported) == (set(), True)


@pytest.mark.slow
def test_something_moves_within_the_first_second(tmp_path: Path) -> None:
    python = [sys.executable, "-c", "import argparse; print()"]
    own_start = run_in_terminal(python, cwd=tmp_path, env=environment()).first_output_after
    shown = run_in_terminal(DEMO, cwd=tmp_path, env=environment(), press=pressing("warming up", 0.0))
    spinner = set(re.findall(r"([|/\\-]) (?:loading|starting)", shown.text))
    # Python starts in 0.1 s on an idle machine.
    assert (shown.first_output_after < max(1.0, 8 * own_start), len(spinner)) == (True, 4)
