"""`python -m bench` runs every benchmark once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench import __main__ as bench

ROOT = Path(__file__).resolve().parents[2]
RUN_ALONE = {"gateway", "real", "soak", "view"}
"""Benchmarks that need a server that is built for them, pass or fail, or print a line, instead of filling a page."""


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The calls of the benchmarks, which do nothing else here."""
    made: list[tuple[Any, ...]] = []

    def pretend(main: Any) -> Any:
        return lambda arguments: made.append((main.__module__.split(".")[1], *arguments))

    pretended = tuple((pretend(main), fixed, page) for main, fixed, page in bench.BENCHMARKS)
    monkeypatch.setattr(bench, "BENCHMARKS", pretended)
    return made


def test_every_benchmark_is_run(calls: list[tuple[Any, ...]]) -> None:
    bench.main([])
    folders = {file.parent.name for file in (ROOT / "bench").glob("*/__main__.py")}
    assert {name for name, *_ in calls} == folders - RUN_ALONE


def test_no_benchmark_is_run_twice(calls: list[tuple[Any, ...]]) -> None:
    bench.main([])
    assert len(calls) == len(set(calls))


def test_every_benchmark_writes_into_a_page_of_the_checkout(calls: list[tuple[Any, ...]]) -> None:
    bench.main(["--write", "."])
    assert [(ROOT / arguments[-1]).is_file() for _, *arguments in calls] == [True] * len(calls)
