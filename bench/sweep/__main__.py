"""`python -m bench.sweep`: sweep servers whose law is known; whether the knee and the figures are found."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from bench.overhead import machine
from bench.page import replace_section
from bench.sweep.cases import BATCHING, SLOTS
from bench.sweep.example import DESIGN as EXAMPLE_DESIGN
from bench.sweep.example import example_text
from bench.sweep.knees import (
    Found,
    agreement_table,
    coverage_table,
    drive_many,
    knees_table,
    levels_table,
    runs_table,
    simulate_many,
)
from bench.sweep.omission import DESIGN as PAUSE_DESIGN
from bench.sweep.omission import PAUSING, omission_table
from bench.sweep.pressed import HARDSHIPS, pressed_table
from bench.sweep.real import real_text
from bench.sweep.scaling import LOADS, scaling_table
from bench.sweep.searching import search_table
from bench.sweep.simulate import Design
from bench.sweep.stalling import DESIGN as STALL_DESIGN
from bench.sweep.stalling import stalls_table
from bench.sweep.within import FLEETS, within_table

RUNS = 20
DRAWN = 200
"""Sweeps of each fleet and share."""
REPEATS = 10
"""Simulated sweeps of each server."""
SHORT = Design(arrivals="constant", warm_up=0.75, steady=8.0)
"""Driven over sockets, where every second is a second: in so short a time random arrivals would make any load."""
LONGER = Design(rounds=3, steady=10.0)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the trials, and print their tables."""
    parser = argparse.ArgumentParser(prog="python -m bench.sweep", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few and short runs")
    parser.add_argument("--only", choices=PARTS, help="one part")
    parser.add_argument("--server", metavar="PATH", help="path of llama-server: sweep it, and do nothing else")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="also replace the sections of a page")
    options = parser.parse_args(arguments)
    parts: dict[str, Callable[[], str]] = {
        name: lambda part=part: part(is_quick=options.quick)  # type: ignore[misc]
        for name, part in PARTS.items()
        if options.only in {None, name}
    }
    if options.server:
        parts = {"server": lambda: real_text(options.server)}
    for name, part in parts.items():
        _, python, hardware = machine.described(())
        text = f"{python}; {hardware}\n\n{part()}"
        print(text)
        if options.write:
            replace_section(options.write, f"sweep {name}", text)


def example(*, is_quick: bool) -> str:
    """Return what a sweep prints."""
    return example_text(replace(EXAMPLE_DESIGN, steady=2.0) if is_quick else EXAMPLE_DESIGN)


def within(*, is_quick: bool) -> str:
    """Return the table about what a sweep says of a known share over the objective."""
    return within_table(2, FLEETS[:1]) if is_quick else within_table(DRAWN)


def search(*, is_quick: bool) -> str:
    """Return the table about searches for the knee."""
    return search_table(2, 1) if is_quick else search_table(RUNS, 2)


def simulated(*, is_quick: bool) -> str:
    """Return the tables of simulated sweeps."""
    repeats = 1 if is_quick else REPEATS
    kinds = {
        f"{design.rounds} x {design.steady:g} s, {design.arrivals}": list(simulate_many(RUNS, design, repeats))
        for design in (SHORT, LONGER)
    }
    return f"{knees_table(kinds)}\nIntervals with the truth inside, in percent:\n\n{coverage_table(kinds)}"


def knees(*, is_quick: bool) -> str:
    """Return the tables of sweeps over sockets."""
    design = replace(SHORT, steady=2.0, levels=(1.0, 1.5)) if is_quick else SHORT
    return "\n".join(_knees(list(drive_many(range(1 if is_quick else RUNS), design))))


def _knees(found: Sequence[Found]) -> Iterator[str]:
    yield knees_table({"over sockets": found})
    yield runs_table(found)
    yield "The figures of the sweeps beside the server's record of the same requests:\n"
    yield agreement_table(found)
    for kind in (BATCHING, SLOTS):
        of_kind = [one for one in found if one.case.name == kind]
        if of_kind:
            example = min(of_kind, key=_unlikeness)
            yield f"The levels of run {found.index(example) + 1}, `{kind}`, in milliseconds:\n"
            yield levels_table(example)


def _unlikeness(found: Found) -> tuple[int, float]:
    """Return how little a run is an example: its void levels, and how far its knee is from the middle of the levels."""
    return sum(level.void_reason is not None for level in found.result.levels), abs((found.case.knee or 0.0) - 2.0)


def omission(*, is_quick: bool) -> str:
    """Return the table about a server that pauses."""
    if is_quick:
        return omission_table(replace(PAUSE_DESIGN, steady=2.0), replace(PAUSING, pause_every=2.0))
    return omission_table()


def stalls(*, is_quick: bool) -> str:
    """Return the table about a server that stalls."""
    return stalls_table(replace(STALL_DESIGN, levels=(1.0,), steady=2.0) if is_quick else STALL_DESIGN)


def driver(*, is_quick: bool) -> str:
    """Return the table about a machine that is too slow."""
    return pressed_table(HARDSHIPS[:1] if is_quick else HARDSHIPS)


def workers(*, is_quick: bool) -> str:
    """Return the table about several processes that send the requests."""
    return scaling_table(LOADS[:1], 2.0) if is_quick else scaling_table()


PARTS = {
    "example": example,
    "within": within,
    "search": search,
    "simulated": simulated,
    "knees": knees,
    "omission": omission,
    "stalls": stalls,
    "driver": driver,
    "workers": workers,
}
"""Name of a part, and of its section of the page → what makes its text."""


if __name__ == "__main__":
    main()
