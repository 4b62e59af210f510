"""docs/requirements.md shows what the tests prove."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def generator() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "generate_requirements.py"))


def test_the_page_of_requirements_is_current(generator: dict[str, Any]) -> None:
    """If not: `python docs/generate_requirements.py`."""
    assert (DOCS / "requirements.md").read_text(encoding="utf-8") == generator["page"]()


def test_every_requirement_has_a_test_or_a_reason_why_not(generator: dict[str, Any]) -> None:
    assert generator["unproved"]() == generator["WITHOUT_A_TEST"].keys()


def test_every_number_that_a_test_carries_is_a_requirement(generator: dict[str, Any]) -> None:
    assert generator["unknown"]() == set()
