"""The blocks of the pages that say so run, one after the other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("page", "name"),
    [
        ("testing.md", "captured_telemetry"),
        ("stalls.md", "message"),
        ("slo.md", "tokens"),
        ("concepts.md", "evidence"),
        ("any-provider.md", "latencies"),
    ],
)
def test_the_blocks_of_a_page_run(page: str, name: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    for block in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        # Empty lines in front, so that a failure names the line of the page.
        code = "\n" * text.count("\n", 0, block.start(1)) + block[1]
        exec(compile(code, str(DOCS / page), "exec"), names)  # noqa: S102 - our own page
    assert name in names
