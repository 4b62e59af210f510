"""The simulation of sessions runs, and its seeds being fixed, holds the promises of docs/sessions.md."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def printed() -> str:
    done = subprocess.run(
        [sys.executable, "-m", "bench.sessions", "--quick", "--only", "usual", "--tokens", "100"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(printed: str, section: str) -> Iterator[dict[str, str]]:
    """The rows of one table, by column."""
    text = printed.split(f"### {section}\n")[1].split("###", maxsplit=1)[0]
    header, _, *lines = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")
    ]
    return (dict(zip(header, line, strict=True)) for line in lines)


@pytest.fixture(scope="module")
def detected(printed: str) -> dict[str, str]:
    (row,) = rows(printed, "False alarms, and how soon a slowdown is reported")
    return row


def test_at_most_one_steady_request_in_a_thousand_is_an_alarm(detected: dict[str, str]) -> None:
    assert float(detected["false alarms per 1,000"]) <= 1


def test_twice_the_latency_is_reported_within_three_requests_of_a_hundred_tokens(detected: dict[str, str]) -> None:
    _, late = detected["2 times slower"].split(", p95 ")
    assert int(late) <= 3


def test_three_times_the_latency_is_reported_at_the_second_request(detected: dict[str, str]) -> None:
    assert detected["3 times slower"] == "2, p95 2"


def test_a_context_that_grows_by_a_quarter_of_a_percent_a_request_is_no_alarm(printed: str) -> None:
    (row,) = rows(printed, "A context that grows")
    assert float(row["0.25% a request"]) <= 1


@pytest.mark.parametrize(("slower", "session", "model"), [("one", 1, 0), ("all", 0, 1)])
def test_the_scope_of_a_slowdown_is_reported_once(printed: str, slower: str, session: int, model: int) -> None:
    # Two sessions and more; a false alarm now and then is allowed for.
    for row in rows(printed, "Whose slowdown it is"):
        if row["become slower"] == slower:
            reported = (float(row["`session` reported"]), float(row["`model` reported"]))
            assert reported == pytest.approx((session, model), abs=0.2)
