"""`python -m bench.truth`: hold what is measured against what was sent, print it, or write it into a page."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections import defaultdict
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench.overhead import machine
from bench.page import replace_section
from bench.truth import tables
from bench.truth.figures import Measured
from bench.truth.scenarios import SCENARIOS, Scenario
from bench.truth.tools import DISTRIBUTIONS
from bench.truth.trial import Trial, run
from otel_itl.testing import ScriptedServer

REPEATS = 5
SECTION = "truth"

PACKAGES = ("openai", "anthropic", "opentelemetry-sdk", *DISTRIBUTIONS)

_NOTES = """\
The server plays its script in a process of its own and takes down when it writes what: that is the truth. Where a proxy
is in between, the truth is when the proxy lets go of it. Tools see the same scripts, otel_itl and the official
instrumentation one after the other, the naive stopwatch beside otel_itl. Figures are milliseconds; behind each is its
error: that of the run whose error is the median one, against the truth of that run. A figure is right when it is within
1 % or 0.5 ms of the truth. Where no client can know it (in brackets), it is right as well when it is absent, or when
the tool marks it as uncertain: gaps imputed or excluded, the stream consumer-bound. `2/5` behind a figure:
right in that many of the runs; without it, in all. The goal is about the mean and the p99."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the scenarios, and print the tables."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = _options(given)
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        del os.environ[name]  # every run has the same providers, with the same limits
    trials = _trials(_chosen(options.only), options.repeats)
    text = _text(trials, shlex.join(["python", "-m", "bench.truth", *_without_write(given)]), options.repeats)
    print(text)
    if options.write:
        replace_section(options.write, SECTION, text)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.truth", description=__doc__)
    parser.add_argument("--only", action="append", metavar="NAME", help="scenarios whose name has this in it (again)")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="runs of each scenario (default: %(default)s)")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="also replace the section of a page")
    options = parser.parse_args(arguments)
    if options.repeats < 1:
        parser.error(f"--repeats is a number from 1 up, not {options.repeats}")
    return options


def _chosen(names: Sequence[str] | None) -> list[Scenario]:
    chosen = [
        scenario for scenario in SCENARIOS if not names or any(name.lower() in scenario.name.lower() for name in names)
    ]
    if not chosen:
        known = ", ".join(scenario.name for scenario in SCENARIOS)
        raise SystemExit(f"No scenario has {' or '.join(map(repr, names or ()))} in its name: there are {known}.")
    return chosen


def _trials(scenarios: Sequence[Scenario], repeats: int) -> dict[Scenario, list[Trial]]:
    """Round by round, so that whatever else the machine does is shared out evenly."""
    trials: dict[Scenario, list[Trial]] = {scenario: [] for scenario in scenarios}
    possible = [scenario for scenario in scenarios if not scenario.impossible]
    with ScriptedServer(process=True) as server:
        for seed in range(repeats):
            for number, scenario in enumerate(possible, 1):
                _say(f"round {seed + 1} of {repeats}, {number} of {len(possible)}: {scenario.name}")
                trials[scenario].append(run(scenario, server, seed))
    _say("")
    return trials


def _say(what: str) -> None:
    """Where it stands, on one line of a terminal."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{what}", end="", file=sys.stderr, flush=True)


def _text(trials: dict[Scenario, list[Trial]], command: str, repeats: int) -> str:
    _, python, hardware = machine.described(())
    sent = [trial.sent for runs in trials.values() for trial in runs]
    late = [trial.late for runs in trials.values() for trial in runs]
    disturbed = f"; {sum(late) / sum(sent):.1%} of the events left the server more than 0.5 ms late" if sent else ""
    machine_line = f"{hardware}, {_scheduling()}{disturbed}"
    head = [f"`{command}`", _versions(), python, machine_line, f"{repeats} runs of each scenario"]
    lines = "\n".join(f"* {line}" for line in head)
    results = [(scenario, _by_tool(runs)) for scenario, runs in trials.items()]
    return "\n".join(
        [
            f"{lines}\n\n{_NOTES}\n",
            f"### How often the mean and the p99 were right\n\n{tables.summary(results)}",
            f"### Every figure, in milliseconds\n\n{tables.details(results)}",
        ]
    )


def _by_tool(trials: Sequence[Trial]) -> tables.Runs:
    runs: defaultdict[str, list[Measured]] = defaultdict(list)
    for trial in trials:
        for tool, found in trial.measured.items():
            runs[tool].append(found)
    return runs


def _versions() -> str:
    found = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} not installed")
    return ", ".join(found)


def _scheduling() -> str:
    """Whether the benchmark goes before everything else that the machine does."""
    if hasattr(os, "sched_getscheduler") and os.sched_getscheduler(0) in {os.SCHED_FIFO, os.SCHED_RR}:
        return "real-time scheduling"
    return "ordinary scheduling"


def _without_write(given: Sequence[str]) -> list[str]:
    """The command as the page shows it: it does not depend on where it is written to."""
    shown, rest = [], iter(given)
    for argument in rest:
        if argument == "--write":
            next(rest, None)
        elif not argument.startswith("--write="):
            shown.append(argument)
    return shown


if __name__ == "__main__":
    main()
