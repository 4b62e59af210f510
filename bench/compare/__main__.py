"""`python -m bench.compare`: simulate pairs of sides; how often `compare` cries wolf, how small a slowdown it finds."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from functools import reduce
from pathlib import Path

from scipy.stats import binomtest

from bench.compare.fleets import FLEETS, Fleet
from bench.compare.trial import OTHERS, Tally, play
from bench.page import replace_section
from bench.truth.tables import table

SECTION = "compare"
KEYS = ("ttft_p50", "itl_p50", "itl_p95", "itl_p99", "tpot", "errors")
FACTORS = (1.1, 1.2, 2.0)
QUICK_FACTORS = (1.2,)
PAIRS = 2_000
QUICK_PAIRS = 160
SLOWED = 4
"""There are so many times fewer pairs with a slowdown."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Simulate, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few pairs, and one slowdown")
    parser.add_argument("--only", choices=[fleet.name for fleet in FLEETS], help="one kind of streams")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="also replace the section of a page")
    options = parser.parse_args(arguments)
    fleets = [fleet for fleet in FLEETS if options.only in {None, fleet.name}]
    lines = []
    for line in _text(fleets, QUICK_PAIRS if options.quick else PAIRS, QUICK_FACTORS if options.quick else FACTORS):
        print(line, flush=True)
        lines.append(line)
    if options.write:
        replace_section(options.write, SECTION, "\n".join(lines))


def _text(fleets: Sequence[Fleet], pairs: int, factors: Sequence[float]) -> Iterator[str]:
    workers = os.cpu_count() or 1
    alike = {fleet: play(fleet, pairs, workers=workers) for fleet in fleets}
    yield f"### Nothing has changed: {pairs:,} pairs of each kind\n"
    yield "Pairs with a false alarm, an adjusted p below 0.05 in any row that decides, in percent:\n"
    every = reduce(Tally.__add__, alike.values(), Tally())
    rows = [*((fleet.name, one) for fleet, one in alike.items()), ("all", every)]
    yield table(["streams", "pairs", "false alarms", "95 % interval"], ([name, *_alarms(one)] for name, one in rows))
    yield "Raw p-values of at most 0.05, in percent:\n"
    yield table(["streams", *KEYS], ([name, *_shares(one, "rejected")] for name, one in rows))
    yield "Intervals with the true ratio inside, in percent:\n"
    yield table(["streams", *KEYS], ([name, *_shares(one, "covered")] for name, one in rows))
    yield "Pairs that are called slower, in percent:\n"
    header = ["streams", "`compare`, any row", "with *by how much is not known*", *OTHERS]
    yield table(header, ([name, *_slower(one)] for name, one in rows))
    for factor in factors:
        count = pairs // SLOWED
        yield f"### B takes {factor:g} times as long: pairs of {count:,} that are called slower, in percent\n"
        slowed = {fleet: play(fleet, count, factor, workers) for fleet in fleets}
        yield table(header, ([fleet.name, *_slower(one)] for fleet, one in slowed.items()))


def _alarms(tally: Tally) -> Iterator[str]:
    yield f"{tally.pairs:,}"
    yield f"{100 * tally.wrong / tally.pairs:.1f}"
    found = binomtest(tally.wrong, tally.pairs).proportion_ci(method="exact")
    yield f"{100 * found.low:.1f} to {100 * found.high:.1f}"


def _shares(tally: Tally, what: str) -> Iterator[str]:
    """Yield for each quantity the share of its rows that were counted, in percent."""
    for key in KEYS:
        rows = tally.rows[key]
        yield f"{100 * getattr(tally, what)[key] / rows:.1f}" if rows else "-"


def _slower(tally: Tally) -> Iterator[str]:
    yield f"{100 * tally.slower / tally.pairs:.1f}"
    yield f"{100 * tally.found / tally.pairs:.1f}"
    yield from (f"{100 * tally.others[name] / tally.pairs:.1f}" for name in OTHERS)


if __name__ == "__main__":
    main()
