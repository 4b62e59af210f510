"""`python -m bench.explain`: simulate fleets; how often a planted driver is named, and how often one without cause."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.explain.example import write_example
from bench.explain.fleets import ALONE, CONFOUNDED, KINDS, MIXED, NOTHING, Fleet
from bench.explain.trial import Tally, play, play_stored
from bench.page import replace_section
from bench.truth.tables import table
from otel_itl.tools.explain.findings import Driver, Target

SECTION = "explain"
FLEETS = 100
QUICK_FLEETS = 10
STORED_FLEETS = 3
"""Fleets that are also written as telemetry and read back."""
UNITS = {
    Driver.PROMPT: "for 1,000 tokens",
    Driver.CACHED_PROMPT: "for 1,000 cached tokens",
    Driver.POSITION: "for 1,000 tokens before",
    Driver.OWN_LOAD: "for each own stream",
    Driver.TOKENS_PER_CHUNK: "for each token more",
    Driver.RETRIES: "for each retry",
    Driver.IDLE: "after 10 minutes of silence",
}
SHARES = {Driver.CALENDAR, Driver.SERVER_ADDRESS, Driver.RESPONSE_MODEL}
"""Drivers whose size is a share of the latency."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Simulate, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m bench.explain", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_FLEETS} fleets of each kind")
    parser.add_argument("--only", choices=[fleet.name for fleet in KINDS], help="one kind of fleets")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="also replace the section of a page")
    parser.add_argument(
        "--example",
        type=Path,
        metavar="FILE",
        help="only write the example of docs/explain.md to this file",
    )
    options = parser.parse_args(arguments)
    if options.example:
        write_example(options.example)
        return
    fleets = QUICK_FLEETS if options.quick else FLEETS
    played = {}
    for fleet in KINDS:
        if options.only in {None, fleet.name}:
            played[fleet] = play(fleet, fleets)
            print(f"{fleet.name}: {played[fleet]}", file=sys.stderr, flush=True)
    stored = {} if options.only else {fleet: play_stored(fleet, STORED_FLEETS) for fleet in (NOTHING[0], *MIXED)}
    text = "\n".join([*_text(played, fleets), *_stored_text(stored)])
    print(text)
    if options.write:
        replace_section(options.write, SECTION, text)


def _text(played: dict[Fleet, Tally], fleets: int) -> Iterator[str]:
    yield f"### Nothing drives the latency: {fleets} fleets of each kind\n"
    yield table(
        ["fleet", "streams", "nothing is named"],
        (
            [fleet.name, f"{tally.streams / fleets:.0f}", str(tally.clean)]
            for fleet, tally in played.items()
            if fleet in NOTHING
        ),
    )
    titles = {
        "One driver, or two of one kind": ALONE,
        "The own load is high in the slow hours": CONFOUNDED,
        "Several drivers": MIXED,
    }
    for title, kinds in titles.items():
        yield f"### {title}: {fleets} fleets of each kind\n"
        yield table(
            ["fleet", "streams", "planted", "named", "its size is in the interval", "nothing else is named"],
            (row for fleet, tally in played.items() if fleet in kinds for row in _rows(fleet, tally)),
        )


def _stored_text(stored: dict[Fleet, tuple[Tally, Tally]]) -> Iterator[str]:
    """Yield the table of the fleets that were written as telemetry."""
    if stored:
        yield f"### Read back from files of telemetry: {STORED_FLEETS} fleets of each kind\n"
        header = ["fleet", "all named, as simulated", "as read", "nothing else, as simulated", "as read"]
        yield table(
            header,
            (
                [fleet.name, *(str(one.complete) for one in both), *(str(one.clean) for one in both)]
                for fleet, both in stored.items()
            ),
        )


def _rows(fleet: Fleet, tally: Tally) -> Iterator[list[str]]:
    """Yield a row for each planted driver of a kind of fleets."""
    first = [fleet.name, f"{tally.streams / tally.fleets:.0f}"]
    for planted, size in fleet.planted.items():
        named, covered = tally.named[planted], tally.covered[planted]
        share = f"{100 * covered / named:.0f} %" if named else ""
        yield [*first, _describe(*planted, size), str(named), share, str(tally.clean) if first[0] else ""]
        first = ["", ""]


def _describe(driver: Driver, target: Target, size: float) -> str:
    """Return a planted driver with its size."""
    name = driver.value.replace("_", " ")
    latency = target.value.upper()
    if driver in SHARES:
        return f"{name}: {latency} {100 * size:.0f} % longer"
    return f"{name}: {latency} {1_000 * size:g} ms longer {UNITS[driver]}"


if __name__ == "__main__":
    main()
