"""`python -m bench.stalls`: measure what stall detection costs and how late it reports; print it, or write a page."""

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
from bench.stalls.rhythms import PLANTED, RULES, rows
from otel_itl.core.percentiles import percentile

SECTION = "stalls"
STREAMS, STALLING = 2_000, 50
SECONDS, CHUNKS, ROUNDS = 15.0, 5_000, 40
RHYTHM_STREAMS = 100

_CROWD = """\
Streams of one process on one event loop. Each yields a chunk every {gap} s; a stalling one yields a chunk and is silent
for 3 s, again and again.

* *watchdog*: CPU time of the watchdog's thread, with its reports and the finalizing of dropped streams, divided by the
  elapsed time.
* *process*: CPU time of the whole process, with the streams of this benchmark, divided by the elapsed time.
* *late*: time from the threshold of a stall to the call of `on_stall`. Expected is half a round of 0.1 s, plus the
  lateness of the machine and of the interpreter lock.
* *machine*: the worst lateness, in the same time, of a thread of this process that only sleeps."""

_CHUNKS = """\
CPU time of the reading thread per chunk of one `observe()`d stream of {chunks:,} chunks without pauses, its end
included: {rounds} rounds, each in a random order. A sample is repeated if a fixed piece of work beside it shows that
the machine was disturbed. *÷ off*: divided by `stall=None` in the same round. Median (lowest…highest)."""

_RHYTHMS = """\
Streams of 300 chunks whose gaps are drawn, {streams} of each rhythm, judged by {rules}, in this order.
*Disturbed*: the share of the streams that have a stall although none was planted. *Found*: the share in which a silence
of that length that was planted at a random place is a stall. What disturbs a fast stream are gaps of a second and more,
which its reader sees as well. In a slow one 2 or 4 s are no stall to find."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the tables."""
    options = _options(arguments)
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        del os.environ[name]  # every run has the same providers
    seconds, chunks, rounds = (1.0, 500, 2) if options.quick else (SECONDS, CHUNKS, ROUNDS)
    streams, stalling = (40, 4) if options.quick else (STREAMS, STALLING)
    rhythm_streams = 4 if options.quick else RHYTHM_STREAMS
    _, python, hardware = machine.described(())
    head = "\n".join(f"* {line}" for line in ("`python -m bench.stalls`", python, hardware))
    found = {crowd: watched(crowd, seconds) for crowd in crowds(streams, stalling)}
    crowd_rows = [
        [crowd.name, f"{crowd.streams:,}", str(crowd.stalling), *_figures(result)] for crowd, result in found.items()
    ]
    header = ("", "streams", "stalling", "watchdog", "process", "stalls reported", "late: p50", "p99", "max", "machine")
    text = f"{head}\n\n" + "\n".join(
        [
            table("CPU time of the watchdog, as a share of a core", _CROWD.format(gap=GAP), header, crowd_rows),
            table(
                "CPU time per chunk",
                _CHUNKS.format(chunks=chunks, rounds=rounds),
                ("", "ns/chunk", "÷ off"),
                _chunk_rows(spent(chunks, rounds)),
            ),
            table(
                "How often a threshold is right",
                _RHYTHMS.format(streams=rhythm_streams, rules=", ".join(RULES)),
                ("", *(f"disturbed: {rule}" for rule in RULES), *(f"{silence:g} s found" for silence in PLANTED)),
                rows(rhythm_streams),
            ),
        ]
    )
    if options.quick:
        text += "\nThis is a quick run, which shows that everything runs. Its figures mean nothing.\n"
    sys.stdout.write(text)
    if options.write:
        replace_section(options.write, SECTION, text)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.stalls", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that everything runs")
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
