"""The benchmark of the other SDKs runs and prints every row. How fast anything is, is no matter of tests."""

from __future__ import annotations

import pytest

STREAMS = (
    "`converse_stream`",
    "`invoke_model…`",
    "`generate_content_stream`",
    "ollama's `chat`",
    "cohere's `chat_stream`",
    "cohere's `chat_stream` of the first API",
    "mistralai's `chat.stream`",
    "huggingface_hub's `chat_completion`",
    "xai-sdk's `chat.stream`",
)
ROWS = (
    *(f"a chunk of {stream}, {face}" for stream in STREAMS for face in ("sync", "async")),
    "a chunk of `converse_stream`, sync, over a socket",
    "a call of S3's `get_object`",
)


@pytest.mark.filterwarnings("ignore")  # cohere's, about pydantic
def test_a_quick_run_prints_every_row(capsys: pytest.CaptureFixture[str]) -> None:
    for package in ("aiobotocore", "cohere", "google.genai", "httpx2", "huggingface_hub", "mistralai.client", "ollama"):
        pytest.importorskip(package)
    pytest.importorskip("xai_sdk")
    from bench.overhead.others import main

    main(["--quick"])
    _, _, *rows = capsys.readouterr().out.splitlines()
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert [(row[0], len(row)) for row in cells] == [(name, 6) for name in ROWS]
