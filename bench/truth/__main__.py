"""`python -m bench.truth`: compare measured figures with what the server sent; print tables, or write a page.

`python -m bench.truth known` prints whether the truth lies within what is emitted, under every sort of pressure.
"""

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
from bench.page import replace_section, without_write
from bench.truth import tables
from bench.truth.figures import Measured
from bench.truth.known import main as known
from bench.truth.scenarios import SCENARIOS, Scenario
from bench.truth.tools import DISTRIBUTIONS
from bench.truth.trial import Trial, run
from otel_itl.testing import ScriptedServer

REPEATS = 5
SECTION = "truth"
KNOWN = "known"

PACKAGES = ("openai", "anthropic", "opentelemetry-sdk", *DISTRIBUTIONS)

_NOTES = """\
How it is measured:

* The server plays a script in a process of its own and records the moment of each write: that is the truth. Behind a
  proxy, the truth is the moment at which the proxy forwards the bytes.
* All tools see the same scripts: otel_itl and the official instrumentation one after the other, the naive stopwatch
  (a clock in the caller's own loop) at the same time as otel_itl.
* Figures are milliseconds, each followed by its error. Shown is the run with the median error.
* A figure is right if it is within 1 % or 0.5 ms of the truth. A figure that no client can know (in brackets) is right
  as well if it is absent, or if the tool flags its guess: gaps imputed or excluded, the stream consumer-bound.
* `2/5` behind a figure: it was right in 2 of 5 runs. Without such a share it was right in all.
* The goal is about the mean and the p99."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the scenarios, or the rows of what is known, and print the tables."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        del os.environ[name]  # every run has the same providers, with the same limits
    if given[:1] == [KNOWN]:
        known(given[1:])
        return
    options = _options(given)
    trials = _trials(_chosen(options.only), options.repeats)
    text = _text(trials, shlex.join(["python", "-m", "bench.truth", *without_write(given)]), options.repeats)
    print(text)
    if options.write:
        replace_section(options.write, SECTION, text)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.truth", description=__doc__)
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="only scenarios with this in their name (repeatable)"
    )
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
    """Run the scenarios round by round, so that other work of the machine affects all of them alike."""
    trials: dict[Scenario, list[Trial]] = {scenario: [] for scenario in scenarios}
    possible = [scenario for scenario in scenarios if not scenario.impossible]
    with ScriptedServer(process=True) as server:
        for seed in range(repeats):
            for number, scenario in enumerate(possible, 1):
                _show_progress(f"round {seed + 1} of {repeats}, {number} of {len(possible)}: {scenario.name}")
                trials[scenario].append(run(scenario, server, seed))
    _show_progress("")
    return trials


def _show_progress(what: str) -> None:
    """Replace the line of progress, where standard error is a terminal."""
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
    """Return whether the benchmark has priority over all other work of the machine, as text."""
    if hasattr(os, "sched_getscheduler") and os.sched_getscheduler(0) in {os.SCHED_FIFO, os.SCHED_RR}:
        return "real-time scheduling"
    return "ordinary scheduling"


if __name__ == "__main__":
    main()
