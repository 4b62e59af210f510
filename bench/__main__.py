"""`python -m bench`: run every benchmark once and print its tables, or write them into their pages."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from bench.compare.__main__ import main as compare
from bench.explain.__main__ import main as explain
from bench.overhead.__main__ import main as overhead
from bench.scale.__main__ import main as scale
from bench.sessions.__main__ import main as sessions
from bench.stalls.__main__ import main as stalls
from bench.sweep.__main__ import main as sweep
from bench.truth.__main__ import main as truth

BENCHMARKS = (
    (overhead, [], "bench/overhead/results.md"),
    (overhead, ["--instructions"], "bench/overhead/results.md"),
    (truth, [], "bench/truth/results.md"),
    (truth, ["known"], "bench/truth/results.md"),
    (stalls, [], "docs/stalls.md"),
    (sessions, [], "docs/sessions.md"),
    (scale, [], "docs/scale.md"),
    (compare, [], "docs/compare.md"),
    (sweep, [], "docs/sweep.md"),
    (explain, [], "docs/explain.md"),
)
"""Benchmark, its arguments, and the page that has a section for its tables."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run every benchmark once, one after another, which takes hours.

    A section of a page is replaced as soon as it is measured.
    """
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--write", type=Path, metavar="FOLDER", help="also replace the sections of the pages in FOLDER, a checkout"
    )
    folder = parser.parse_args(arguments).write
    for run, fixed, page in BENCHMARKS:
        run([*fixed, *(["--write", str(folder / page)] if folder else [])])


if __name__ == "__main__":
    main()
