"""The page in a terminal: Ctrl-C ends it, with the exit code of what was shown on it."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the extra `view` is not installed")
pytest.importorskip("termios", reason="needs a POSIX terminal")

from terminals import CTRL_C, Shown, run_in_terminal

OTEL_ITL = [sys.executable, "-m", "otel_itl"]


def run_and_interrupt(arguments: list[str], screen: str, folder: Path) -> Shown:
    """Run a command, and press Ctrl-C once, when the screen has something on it."""
    left = [CTRL_C]

    def press(printed: str) -> bytes:
        return left.pop() if left and re.search(screen, printed) else b""

    plain = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "FORCE_"))}
    return run_in_terminal([*OTEL_ITL, *arguments], cwd=folder, env=plain, press=press)


def test_ctrl_c_ends_the_page_of_a_complete_demo_without_an_error(tmp_path: Path) -> None:
    command = ["demo", "--view", "--no-open", "--seconds", "0", "--sdk", "openai"]
    shown = run_and_interrupt(command, "the page stays", tmp_path)
    (address, *_), stays = re.findall(r"http://[\d.:]+/", shown.text), re.search(r"stays at (\S+)", shown.text)
    assert (shown.returncode, stays and stays[1]) == (0, address)


def test_ctrl_c_before_any_stream_leaves_no_page_to_end(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("import time\nprint('ready', flush=True)\nfor _ in range(800): time.sleep(0.05)")
    shown = run_and_interrupt(["run", "--view", "--no-open", "app.py"], "ready", tmp_path)
    assert (shown.returncode, "the page stays" in shown.text) == (-2, False)


def test_ctrl_c_ends_the_page_of_a_file_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "spans.jsonl").write_text("garbage\n")
    shown = run_and_interrupt(["view", "--no-open", "spans.jsonl"], "not JSON", tmp_path)
    skipped = "spans.jsonl:1: not JSON: it cannot be parsed from column 1 on"
    assert (shown.returncode, "Ctrl-C ends it" in shown.text, skipped in shown.text) == (0, True, True)
