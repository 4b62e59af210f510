"""`python -m bench.soak`: streams by the hundred with and without measuring; fails where a check does not pass.

Where the official instrumentation is installed, the same streams run with that, too.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Sequence
from typing import Final

from bench.lateness import LatenessMeter
from bench.soak.busy import busy_processes
from bench.soak.callers import Callers
from bench.soak.checks import Run, Soak, verdicts
from bench.soak.ledger import Ledger, held
from bench.soak.official import find_instrumented, instrumented
from bench.soak.stalls import StallLog
from bench.soak.upstream import upstream
from otel_itl.recording.reporters import IDLE_SECONDS

HANDOVERS: Final = 10
"""How often a thread lets go of the interpreter that checks a few streams and reports one, at least."""
WARM_UP_SHARE: Final = 0.1
"""How long the run goes on beforehand that is not looked at, as a share of the measured time."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the soak, print its figures and a line for each check; return 1 where a check failed, else 0."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=900, help="measured time; as long again bare (default: 900)")
    parser.add_argument("--streams", type=int, default=300, help="streams at a time (default: 300)")
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="processes that compute beside (default: 0)")
    parser.add_argument("--seed", type=int, default=1, help="of the random choices of the callers")
    options = parser.parse_args(arguments)
    with busy_processes(options.busy), upstream() as port, LatenessMeter(HANDOVERS) as meter:
        soak = _soak(port, options, meter)
    _print(soak, options)
    results = verdicts(soak)
    for verdict in results:
        print(verdict)
    failed = [verdict.name for verdict in results if not verdict.is_ok]
    print(f"failed: {', '.join(failed)}" if failed else "all checks passed")
    return 1 if failed else 0


def _soak(port: int, options: argparse.Namespace, meter: LatenessMeter) -> Soak:
    """Run bare, measured, and bare again, so that a machine that becomes slower or faster is fair to both.

    With the official instrumentation likewise: next to the bare runs, so that it is in none of the figures that are
    taken before and after the measured one.
    """
    _run(port, options, WARM_UP_SHARE * options.seconds)
    bare = _run(port, options, options.seconds / 2)
    official = _run_official(port, options)
    gc.collect()
    before = held()
    ledger, stalls = Ledger(), StallLog()
    ledger.open(stalls.on_stall)
    measured = _run(port, options, options.seconds, stalls)
    gc.collect()
    ledger.close()
    time.sleep(IDLE_SECONDS + 0.5)  # for the threads that end when they have nothing to do
    after = held()
    again = _run_official(port, options)
    bare += _run(port, options, options.seconds / 2)
    return Soak(
        bare=bare,
        official=None if official is None or again is None else official + again,
        measured=measured,
        spans=ledger.spans,
        counted=ledger.counted,
        open_streams=ledger.open_streams,
        own_errors=ledger.own_errors,
        memory_mb=ledger.memory_mb,
        silences=len(stalls.silences),
        reports=stalls.reports(meter.overdue),
        before=before,
        after=after,
    )


def _run_official(port: int, options: argparse.Namespace) -> Run | None:
    """Run with the official instrumentation for half of the time; None where it is not installed."""
    if not find_instrumented():
        return None
    with instrumented():
        run = _run(port, options, options.seconds / 2)
    gc.collect()
    return run


def _run(port: int, options: argparse.Namespace, seconds: float, stalls: StallLog | None = None) -> Run:
    """Run the callers for a time, and return what they did."""
    cpu = time.process_time()
    callers = Callers(port, options.streams, time.monotonic() + seconds, options.seed, stalls or StallLog())
    callers.run()
    return Run(
        seconds=seconds,
        in_time=callers.in_time,
        expected=callers.expected,
        surprises=callers.surprises,
        cpu_seconds=time.process_time() - cpu,
    )


def _print(soak: Soak, options: argparse.Namespace) -> None:
    """Print the figures that the checks rest on."""
    print(f"{options.streams} streams at a time, {options.busy} busy processes beside")
    print(
        f"{'':10}{'seconds':>10}{'streams':>10}{'a second':>10}{'of bare':>9}{'CPU, ms each':>14}{'more':>8}"
        "  errors of themselves"
    )
    for name, run in (("bare", soak.bare), ("measured", soak.measured), ("official", soak.official)):
        if run is not None:
            share, more = run.rate / soak.bare.rate, run.milliseconds_each / soak.bare.milliseconds_each - 1
            print(
                f"{name:10}{run.seconds:10.0f}{run.expected.total():10}{run.rate:10.1f}{share:9.0%}"
                f"{run.milliseconds_each:14.2f}{more:8.0%}  {dict(run.surprises) or 'none'}"
            )
    print(f"{'outcome':12}{'opened':>10}{'counted':>10}{'spans':>10}")
    for outcome in sorted({*soak.measured.expected, *soak.counted, *soak.spans}):
        counts = soak.measured.expected[outcome], soak.counted[outcome], soak.spans[outcome]
        print(f"{outcome:12}" + "".join(f"{count:>10}" for count in counts))
    print(f"memory: {soak.before.memory_mb:.0f} MB before, {soak.after.memory_mb:.0f} MB after")


if __name__ == "__main__":
    raise SystemExit(main())
