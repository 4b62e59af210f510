"""The benchmark of ollama and cohere runs and prints every row. How fast anything is, is no matter of tests."""

from __future__ import annotations

import pytest

ROWS = [
    f"a chunk of {name}, {face}"
    for name in ("ollama `chat`", "cohere `chat_stream`", "cohere `chat_stream` of the first API")
    for face in ("sync", "async")
]


def test_a_quick_run_prints_every_row(capsys: pytest.CaptureFixture[str]) -> None:
    for package in ("aiobotocore", "cohere", "ollama"):
        pytest.importorskip(package)
    from bench.overhead.lazy_sdks import main

    main(["--quick"])
    _, _, *rows = capsys.readouterr().out.splitlines()
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert [(row[0], len(row)) for row in cells] == [(name, 6) for name in ROWS]
