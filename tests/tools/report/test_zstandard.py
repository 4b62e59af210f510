"""Telemetry files that are compressed by Zstandard."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from otel_itl.tools.report.reading.documents import UnreadableSourceError, check_text, is_compressed, read_documents
from otel_itl.tools.report.reading.skipped_input import SkippedInput

LINES = b"".join(b'{"n": %d, "text": "%s"}\n' % (number, b"word " * 50) for number in range(500))


def compress(data: bytes) -> bytes:
    if sys.version_info >= (3, 14):
        from compression.zstd import compress as of_python

        return bytes(of_python(data))
    return bytes(pytest.importorskip("zstandard").compress(data))


def read(path: Path, data: bytes) -> tuple[list[Any], list[str]]:
    """The numbers of the documents of a file, and what was skipped."""
    path.write_bytes(data)
    skipped = SkippedInput()
    return [document.value["n"] for document in read_documents(str(path), skipped)], list(skipped.describe())


def test_frames_after_each_other_are_one_file(tmp_path: Path) -> None:
    assert read(tmp_path / "spans.jsonl.zst", compress(LINES) + compress(LINES)) == ([*range(500)] * 2, [])


def test_a_frame_without_content_is_none(tmp_path: Path) -> None:
    assert read(tmp_path / "spans.jsonl.zst", compress(b"") + compress(b'{"n": 1}\n')) == ([1], [])


def test_a_file_that_ends_early_is_half_written(tmp_path: Path) -> None:
    found, (line, *_) = read(tmp_path / "spans.jsonl.zst", compress(LINES) + compress(LINES)[:-8])
    assert (found[:500], "half-written" in line, "the compressed data ends early" in line) == (
        [*range(500)],
        True,
        True,
    )


def test_a_damaged_frame_is_named_and_what_came_before_is_read(tmp_path: Path) -> None:
    found, (line, *_) = read(tmp_path / "spans.jsonl.zst", compress(LINES) + b"\x28\xb5\x2f\xfd" + b"\xff" * 99)
    assert (found, "the compressed data is damaged from here on" in line) == ([*range(500)], True)


def test_a_binary_file_inside_is_recognized(tmp_path: Path) -> None:
    (tmp_path / "file.zst").write_bytes(compress(b"\x00\x01\x02"))
    with pytest.raises(UnreadableSourceError, match="is binary"):
        check_text(str(tmp_path / "file.zst"))


def test_a_missing_package_is_named_with_what_installs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(UnreadableSourceError, match=r"spans\.zst is compressed by Zstandard: pip install zstandard\.$"):
        read(tmp_path / "spans.zst", b"\x28\xb5\x2f\xfd\x00")


@pytest.mark.parametrize(
    ("start", "expected"),
    [(b"\x28\xb5\x2f\xfd", True), (b"\x1f\x8b\x08\x00", True), (b'{"re', False), (b"", False)],
)
def test_a_compressed_file_is_known_by_its_first_bytes(start: bytes, expected: bool) -> None:
    assert is_compressed(start) == expected
