"""The benchmark of Bedrock and google-genai runs and prints every row. How fast anything is, is no matter of tests."""

from __future__ import annotations

import pytest

ROWS = (
    "a chunk of `converse_stream`, sync",
    "a chunk of `converse_stream`, async",
    "a chunk of `invoke_model…`, sync",
    "a chunk of `invoke_model…`, async",
    "a chunk of `generate_content_stream`, sync",
    "a chunk of `generate_content_stream`, async",
    "a chunk of `converse_stream`, sync, over a socket",
    "a call of S3's `get_object`",
)


def test_a_quick_run_prints_every_row(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("aiobotocore")
    from bench.overhead.others import main

    main(["--quick"])
    _, _, *rows = capsys.readouterr().out.splitlines()
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert [(row[0], len(row)) for row in cells] == [(name, 6) for name in ROWS]
