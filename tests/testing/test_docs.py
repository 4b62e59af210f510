"""The blocks of docs/testing.md run, one after the other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


def test_the_blocks_of_the_page_run() -> None:
    text = PAGE.read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    for block in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        # Empty lines in front, so that a failure names the line of the page.
        code = "\n" * text.count("\n", 0, block.start(1)) + block[1]
        exec(compile(code, str(PAGE), "exec"), names)  # noqa: S102 - our own page
    assert "captured_telemetry" in names
