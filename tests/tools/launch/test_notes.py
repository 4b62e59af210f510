"""What launched processes note for the command, and the reason that it gives where nothing was measured."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from otel_itl.sdks.registry import SDK_NAMES
from otel_itl.tools.launch.notes import Notes, open_notes


@pytest.fixture
def notes() -> Iterator[Notes]:
    with open_notes() as opened:
        yield opened


def note(notes: Notes, *lines: Mapping[str, Any] | str) -> None:
    """Append lines as launched processes do."""
    with notes.path.open("a") as file:
        file.writelines((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)


STARTED = {"pid": 1, "python": "/usr/bin/python3", "sdks": ["openai"]}
NOTHING_ENDED = (
    "no supported SDK was asked for a stream (stream=True), or the program names a file of its own, or it ended "
    "without cleaning up (os._exit, kill -9)"
)
FAILED = {"pid": 2, "python": "/opt/python3", "error": "ModuleNotFoundError: No module named 'otel_itl'"}


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([], "no Python process was started, or only with -I, -E or -S"),
        ([FAILED], "otel_itl cannot start in /opt/python3 (ModuleNotFoundError: No module named 'otel_itl')"),
        ([{**STARTED, "sdks": []}], f"/usr/bin/python3 has none of the supported SDKs: {', '.join(SDK_NAMES)}"),
        (
            [FAILED, STARTED],
            NOTHING_ENDED,
        ),
    ],
)
def test_the_reason_is_that_of_the_process_that_came_furthest(
    notes: Notes, lines: list[Mapping[str, Any]], reason: str
) -> None:
    note(notes, *lines)
    assert notes.explain_no_stream({}) == reason


RAISED = {"pid": 1, "raised": "ValueError", "where": "app.py, line 2"}


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([STARTED, RAISED], "the program has ended with exit code 1 by ValueError in app.py, line 2"),
        ([STARTED], "the program has ended with exit code 1"),
        ([], "no Python process was started, or only with -I, -E or -S"),
    ],
)
def test_that_the_program_failed_is_a_reason_before_what_it_would_have_done(
    notes: Notes, lines: list[Mapping[str, Any]], reason: str
) -> None:
    note(notes, *lines)
    assert notes.explain_no_stream({}, 1) == reason


@pytest.mark.parametrize("variable", ["OTEL_ITL_DISABLED", "OTEL_SDK_DISABLED"])
def test_a_switch_that_is_off_is_the_reason(monkeypatch: pytest.MonkeyPatch, notes: Notes, variable: str) -> None:
    monkeypatch.setenv(variable, "true")
    note(notes, STARTED)
    assert notes.explain_no_stream({}) == "OTEL_ITL_DISABLED or OTEL_SDK_DISABLED is true"


def test_a_line_that_is_half_written_is_left_out(notes: Notes) -> None:
    note(notes, STARTED, '{"pid": 3, "pyth')
    assert notes.read() == [STARTED]


def test_notes_are_their_owners_alone_and_are_removed() -> None:
    with open_notes() as opened:
        assert stat.S_IMODE(opened.path.stat().st_mode) == 0o600
        assert stat.S_IMODE(opened.path.parent.stat().st_mode) == 0o700
    assert not opened.path.parent.exists()
