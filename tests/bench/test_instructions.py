"""What measuring may cost in machine instructions, those of C code included, in ratios to others of the same run."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Final

import pytest

from bench.overhead.instructions import Readings, count, count_requests, machine_instructions
from bench.overhead.subjects import OPENAI
from bench.overhead.times import Cell
from bench.overhead.variants import FLOOR, MAIN, OFFICIAL, OURS, UNINSTRUMENTED

ROOT: Final = Path(__file__).resolve().parents[2]
SOME, MANY = 20, 60
MAX_FLOORS: Final = 3.0
"""What a chunk may cost while its stream runs, in floors: it is 2.5."""
MAX_SHARE_OF_A_CHUNK: Final = 1 / 7
"""What a chunk may cost in all, as a share of the official instrumentation's: it is 1/9 to 1/11, and less in longer
streams, in which the buckets of histograms and sketches repeat."""
MAX_SHARE_OF_A_REQUEST: Final = 1.18
"""What a stream of one chunk may cost with its metrics, its events and its evidence, likewise: it is 1.09 to 1.1."""

COUNT: Final = f"""
import pickle, sys
from dataclasses import replace
from pathlib import Path
from bench.overhead import instructions
from bench.overhead.sizes import QUICK
from bench.overhead.subjects import OPENAI
from bench.overhead.variants import MAIN, FLOOR, OFFICIAL, OURS, UNINSTRUMENTED

instructions.WARM_STREAMS = 1
marker = instructions.CallgrindMarker()
variants = [variant for variant in MAIN if variant.name in (UNINSTRUMENTED, FLOOR, OURS, OFFICIAL)]
sizes = replace(QUICK, counted_chunks=({SOME}, {MANY}))
readings = instructions.drive(OPENAI, variants, sizes, marker, is_short=True)
readings |= instructions.drive_requests(OPENAI, [each for each in variants if each.name != FLOOR], marker)
Path(sys.argv[-1]).write_bytes(pickle.dumps(readings))
"""

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def readings() -> Readings:
    pytest.importorskip("openai")
    if next(variant for variant in MAIN if variant.name == OFFICIAL).installed(OPENAI) is None:
        pytest.skip("the official instrumentation is not installed")
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    # Plugins of pydantic, which others install, would be imported and called for each model that a SDK defines.
    environment |= {"PYTHONPATH": str(ROOT), "PYDANTIC_DISABLE_PLUGINS": "__all__"}
    environment["PYTHONHASHSEED"] = "0"  # where texts fall in a dictionary is worth 0.1 of a request
    return machine_instructions([sys.executable, "-c", COUNT], environment)


def per_chunk(readings: Readings, variant: str) -> tuple[float, float]:
    """Instructions of each further chunk: while its stream runs, and in all."""
    low, high = (count(readings[Cell(variant, "sync", length)]) for length in (SOME, MANY))
    return (high.streaming - low.streaming) / (MANY - SOME), (sum(high) - sum(low)) / (MANY - SOME)


@pytest.mark.requirement("R53")
def test_a_chunk_takes_few_times_the_instructions_of_taking_two_moments_of_it(readings: Readings) -> None:
    bare, floor, ours = (per_chunk(readings, variant)[0] for variant in (UNINSTRUMENTED, FLOOR, OURS))
    assert ours - bare <= MAX_FLOORS * (floor - bare)


@pytest.mark.requirement("R53")
def test_a_chunk_takes_a_small_share_of_the_official_instrumentations_instructions(readings: Readings) -> None:
    bare, official, ours = (per_chunk(readings, variant)[1] for variant in (UNINSTRUMENTED, OFFICIAL, OURS))
    assert ours - bare <= MAX_SHARE_OF_A_CHUNK * (official - bare)


def test_a_request_takes_no_more_instructions_than_with_the_official_instrumentation(readings: Readings) -> None:
    costs = count_requests({cell: marks for cell, marks in readings.items() if cell.tokens == 1})
    assert costs[OURS] <= MAX_SHARE_OF_A_REQUEST * costs[OFFICIAL]
