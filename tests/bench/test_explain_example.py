"""`python -m bench.explain --example`: a file to try `report --explain` on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("scipy", reason="the extra `explain` is not installed")

from bench.explain import __main__ as bench
from bench.explain import example
from otel_itl.tools.report.reading.skipped_input import SkippedInput
from otel_itl.tools.report.reading.streams import read_streams


def test_the_example_is_a_file_that_a_report_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(example, "FLEET", replace(example.FLEET, bursts=5))
    bench.main(["--example", str(tmp_path / "fleet.jsonl")])
    skipped = SkippedInput()
    streams = list(read_streams([str(tmp_path / "fleet.jsonl")], skipped))
    assert (len(streams) > 10, list(skipped.describe())) == (True, [])
