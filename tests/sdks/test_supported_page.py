"""docs/supported.md lists what the tests cover."""

from __future__ import annotations

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_of_supported_surfaces_is_current() -> None:
    """If not: `python docs/generate_supported.py`."""
    page = runpy.run_path(str(DOCS / "generate_supported.py"))["page"]
    assert (DOCS / "supported.md").read_text(encoding="utf-8") == page()


def test_the_readmes_table_of_supported_surfaces_is_current() -> None:
    """If not: `python docs/generate_supported.py`."""
    readme = runpy.run_path(str(DOCS / "generate_supported.py"))["readme"]
    assert (DOCS.parent / "README.md").read_text(encoding="utf-8") == readme()
