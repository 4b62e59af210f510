"""`python -m bench.explain`: simulate fleets; how often a planted driver is named, and how often one without cause."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from bench.explain.example import write_example
from bench.explain.fleets import ALONE, ATTRIBUTES, BENT, CONFOUNDED, KINDS, MIXED, NOTHING, Fleet
from bench.explain.loads import FEEDBACK, RUNS, FeedbackFleet, Runs
from bench.explain.trial import Tally, play, play_stored
from bench.page import replace_section
from bench.real.server import find_version
from bench.truth.tables import table
from otel_itl.tools.explain.explaining import explain_observations
from otel_itl.tools.explain.findings import Driver, Target
from otel_itl.tools.explain.render.words import describe_finding, describe_models

SECTION = "explain"
LOAD_SECTION = "explain own load"
LOAD_FLEETS = 20
FLEETS = 100
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
SHARES = {Driver.CALENDAR, Driver.SERVER_ADDRESS, Driver.RESPONSE_MODEL, Driver.ATTRIBUTE}
"""Drivers whose size is a share of the latency."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Simulate, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m bench.explain", description=__doc__)
    parser.add_argument("--fleets", type=int, default=FLEETS, help="fleets of each kind (default: %(default)s)")
    parser.add_argument("--loads", action="store_true", help="only fleets whose own load is no cause, or set by hand")
    parser.add_argument("--server", default=shutil.which("llama-server"), help="path of llama-server, for --loads")
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
    if options.loads:
        text = "\n".join([*_feedback_text(LOAD_FLEETS), *_runs_text(LOAD_FLEETS), *_server_text(options.server)])
        print(text)
        if options.write:
            replace_section(options.write, LOAD_SECTION, text)
        return
    fleets = options.fleets
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
        "A tenant, beside four other attributes": ATTRIBUTES,
        "A cost that begins at some load or length": BENT,
    }
    for title, kinds in titles.items():
        yield f"### {title}: {fleets} fleets of each kind\n"
        yield table(
            [
                "fleet",
                "streams",
                "planted",
                "named",
                "with a bend",
                "its size is in the interval",
                "nothing else is named",
            ],
            (row for fleet, tally in played.items() if fleet in kinds for row in _rows(fleet, tally)),
        )


def _feedback_text(fleets: int) -> Iterator[str]:
    """Yield the table of the fleets whose load follows slowness."""
    yield f"### Requests follow slowness, and the own load has no effect: {fleets} fleets of each kind\n"
    header = ["fleet", "own load is named as the cause", "latency is said to go with it", "another driver is named"]
    yield table(header, (_feedback_row(fleet, fleets) for fleet in FEEDBACK))


def _feedback_row(fleet: FeedbackFleet, fleets: int) -> list[str]:
    goes_with, others, caused = 0, 0, 0
    for seed in range(fleets):
        findings = explain_observations(fleet.simulate(np.random.default_rng(seed))).findings
        loads = [one for one in findings if one.driver is Driver.OWN_LOAD]
        caused += any("retries, hedging" not in one.origin.words for one in loads)
        goes_with += bool(loads)
        others += len(loads) < len(findings)
    return [fleet.name, str(caused), str(goes_with), str(others)]


def _runs_text(fleets: int) -> Iterator[str]:
    """Yield the table of load tests."""
    yield f"### Whole runs at one load: {fleets} load tests of each kind\n"
    header = [
        *("load test", "true cost of a stream", "named with its sign", "named wrongly", "its cost is in the interval"),
        "not examined, as it says",
    ]
    yield table(header, (_runs_row(runs, fleets) for runs in RUNS))


def _server_text(server: str | None) -> Iterator[str]:
    """Yield the sentences on runs against a real server; nothing where none is installed."""
    if server is not None:
        from bench.explain.real import LEVELS, measure_runs  # noqa: PLC0415 - needs packages of its own

        explanation = explain_observations(measure_runs(server))
        yield f"### llama-server, {find_version(server)}: runs of {', '.join(map(str, LEVELS))} streams\n"
        for model in describe_models(explanation):
            sentences = [describe_finding(one, explanation) for one in model.findings]
            yield from (f"* {sentence}" for sentence in [*sentences, *model.others])


def _runs_row(runs: Runs, fleets: int) -> list[str]:
    right, wrong, inside, honest = 0, 0, 0, 0
    for seed in range(fleets):
        explanation = explain_observations(runs.simulate(np.random.default_rng(seed)))
        loads = [one for one in explanation.findings if one.driver is Driver.OWN_LOAD]
        found = [one.effect for one in loads if one.target is Target.ITL]
        right += bool(found) and all(effect.estimate * runs.cost > 0 for effect in found)
        wrong += len(found) < len(loads) or any(effect.estimate * runs.cost <= 0 for effect in found)
        inside += any(effect.low <= runs.cost <= effect.high for effect in found)
        honest += Driver.OWN_LOAD in explanation.models[0].untested[Target.ITL]
    return [runs.name, f"{1_000 * runs.cost:g} ms a token", str(right), str(wrong), str(inside), str(honest)]


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
        clean = str(tally.clean) if first[0] else ""
        yield [*first, _describe(*planted, size), str(named), str(tally.bent[planted]), share, clean]
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
