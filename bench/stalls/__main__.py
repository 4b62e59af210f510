"""`python -m bench.stalls`: measure what stall detection costs, and print it or write it into a page."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.overhead import machine
from bench.overhead.tables import NONE, spread, table
from bench.page import replace_section
from bench.stalls.chunks import POLICIES, spent
from bench.stalls.crowd import GAP, Found, crowds, watched
from otel_itl.core.percentiles import percentile

SECTION = "stalls"
STREAMS, STALLING = 2_000, 50
SECONDS, CHUNKS, ROUNDS = 15.0, 5_000, 40

_CROWD = """\
Streams of one process on one event loop, each with a chunk every {gap} s but for those that stall, which bring one and
are silent for 3 s, again and again. *watchdog* is the CPU time of its thread, reports and the sweeping up of ended
streams included, over the time that passed; *process* that of everything, this benchmark's streams included. *late* is
the time from a stall's threshold, by the stream's own clock, to the call of `on_stall`: half a round of 0.1 s is to be
expected, and what the machine and the interpreter's lock add. *machine* is how late a thread of this process that does
nothing but sleep woke up meanwhile, at worst."""

_CHUNKS = """\
CPU time of the reading thread per chunk of one `observe()`d stream of {chunks:,} chunks that come as fast as they are
read, its end included; {rounds} rounds, in an order drawn for each; a sample is taken again where a fixed piece of
work beside it shows that the machine was disturbed. *÷ off* is beside `stall=None` in the same round: median
(lowest…highest)."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the tables."""
    options = _options(arguments)
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        del os.environ[name]  # every run has the same providers
    seconds, chunks, rounds = (1.0, 500, 2) if options.quick else (SECONDS, CHUNKS, ROUNDS)
    streams, stalling = (40, 4) if options.quick else (STREAMS, STALLING)
    _, python, hardware = machine.described(())
    head = "\n".join(f"* {line}" for line in ("`python -m bench.stalls`", python, hardware))
    found = {crowd: watched(crowd, seconds) for crowd in crowds(streams, stalling)}
    rows = [
        [crowd.name, f"{crowd.streams:,}", str(crowd.stalling), *_figures(result)] for crowd, result in found.items()
    ]
    header = ("", "streams", "stalling", "watchdog", "process", "reported", "late: p50", "p99", "max", "machine")
    text = f"{head}\n\n" + "\n".join(
        [
            table("The watchdog's share of a core", _CROWD.format(gap=GAP), header, rows),
            table(
                "What it adds to a chunk",
                _CHUNKS.format(chunks=chunks, rounds=rounds),
                ("", "ns/chunk", "÷ off"),
                _chunk_rows(spent(chunks, rounds)),
            ),
        ]
    )
    if options.quick:
        text += "\nA quick run: it shows that everything runs, its figures mean nothing.\n"
    sys.stdout.write(text)
    if options.write:
        replace_section(options.write, SECTION, text)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.stalls", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it runs, measures nothing")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="also replace the section of a page")
    return parser.parse_args(arguments)


def _figures(found: Found) -> list[str]:
    late = sorted(found.late)
    shown = [f"{percentile(late, q) * 1e3:.0f} ms" for q in (50, 99, 100)] if late else [NONE] * 3
    return [f"{found.share:.2%}", f"{found.process:.0%}", str(len(late)), *shown, f"{found.machine * 1e3:.0f} ms"]


def _chunk_rows(samples: dict[str, list[float]]) -> list[list[str]]:
    off = samples[next(iter(POLICIES))]
    return [
        [name, spread(values).text(), spread(value / bare for value, bare in zip(values, off, strict=True)).text()]
        for name, values in samples.items()
    ]


if __name__ == "__main__":
    main()
