"""docs/neighbours.md says what the tests test, with the versions that they test it with."""

from __future__ import annotations

import runpy
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import openai
import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def script() -> dict[str, Any]:
    """What docs/generate_neighbours.py defines."""
    return runpy.run_path(str(DOCS / "generate_neighbours.py"))


def test_the_page_of_neighbours_is_current(script: dict[str, Any]) -> None:
    """If not: `python docs/generate_neighbours.py`."""
    assert (DOCS / "neighbours.md").read_text(encoding="utf-8") == script["page"]()


def installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@pytest.mark.parametrize("environment", ["openai 3", "openai 2", "OTHERS", "LATE"])
def test_the_versions_on_the_page_are_those_that_are_installed(script: dict[str, Any], environment: str) -> None:
    files = {**script["OPENAI"], "OTHERS": script["OTHERS"]["version"], "LATE": script["LATE"]["version"]}
    pinned = script["pinned"](files[environment])
    here = {package: installed(package) for package in pinned}
    major = f"openai {openai.__version__.partition('.')[0]}"
    if None in here.values() or environment not in {major, "OTHERS", "LATE"}:
        pytest.skip(f"the packages of {environment!r} are not installed here")
    assert here == pinned
