"""What the doctor makes of how the streams of a program ended, by the notes of its processes."""

from __future__ import annotations

from typing import Any

import pytest

from otel_itl.tools.doctor.endings import check_endings
from otel_itl.tools.doctor.finding import State


def found(*noted: dict[str, Any]) -> list[tuple[State, str]]:
    return [(check.state, check.finding) for check in check_endings(noted)]


def test_streams_that_went_well_are_no_finding() -> None:
    assert found({"pid": 1, "ended": 3, "failed": {}}) == []


def test_it_is_wrong_where_every_stream_of_every_process_failed() -> None:
    first, second = {"pid": 1, "ended": 2, "failed": {"Timeout": 2}}, {"pid": 2, "ended": 1, "failed": {"no token": 1}}
    expected = "3 of 3 streams failed or ended without a token: Timeout (2), no token (1)"
    assert found(first, second) == [(State.WRONG, expected)]


def test_it_is_a_note_where_another_stream_went_well() -> None:
    expected = "1 of 2 streams failed or ended without a token: Timeout (1)"
    assert found({"pid": 1, "ended": 2, "failed": {"Timeout": 1}}) == [(State.NOTE, expected)]


@pytest.mark.parametrize("earlier", [{"pid": 1}, {"pid": 1, "ended": 1, "failed": {"Timeout": 1}}])
def test_what_a_process_noted_last_counts(earlier: dict[str, Any]) -> None:
    expected = "1 of 4 streams failed or ended without a token: Timeout (1)"
    assert found(earlier, {"pid": 1, "ended": 4, "failed": {"Timeout": 1}}) == [(State.NOTE, expected)]
