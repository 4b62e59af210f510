"""`python -m bench.soak --seconds N`: streams by the hundred, ended at random; fails where the books do not balance."""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Sequence
from typing import Final

from bench.soak.callers import Callers
from bench.soak.ledger import Ledger, held
from bench.soak.upstream import upstream

MOST_GROWTH_MB: Final = 16.0
"""What the memory of the process may grow by from the second quarter to the last: allocators are not exact."""
WARM: Final = 0.1
BARE: Final = 0.15
"""Parts of the time without measuring. The first is not looked at; the second is compared with as much measured."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the soak; returns the exit code, 1 where something does not add up."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1_800, help="how long (default: 1800)")
    parser.add_argument("--streams", type=int, default=300, help="how many at once (default: 300)")
    parser.add_argument("--seed", type=int, default=1, help="of what the callers do")
    options = parser.parse_args(arguments)
    with upstream() as port:
        _run(port, options, WARM * options.seconds)
        bare, bare_cpu = _run(port, options, BARE * options.seconds)
        gc.collect()
        before = held()
        ledger = Ledger()
        ledger.open()
        first, cpu = _run(port, options, BARE * options.seconds)
        others, _ = _run(port, options, (1 - WARM - 2 * BARE) * options.seconds)
        gc.collect()
        ledger.close()
        after = held()
    expected, surprises = first.expected + others.expected, first.surprises + others.surprises
    print(f"{sum(expected.values())} streams in {(1 - WARM - BARE) * options.seconds:.0f} s, {options.streams} at once")
    print(f"{'outcome':12}{'expected':>10}{'spans':>10}{'metrics':>10}")
    for outcome in sorted({*expected, *ledger.spans, *ledger.metered}):
        counts = expected[outcome], ledger.spans[outcome], ledger.metered[outcome]
        print(f"{outcome:12}" + "".join(f"{count:>10}" for count in counts))
    growth = ledger.growth()
    per_stream, per_bare_stream = (
        cpu / max(sum(first.expected.values()), 1),
        bare_cpu / max(sum(bare.expected.values()), 1),
    )
    print(f"errors that nobody asked for: {dict(surprises)}")
    print(f"open streams at the end: {ledger.open_streams:.0f}; failures of our own: {ledger.failures}")
    print(
        f"memory: {before.memory_mb:.0f} MB before, {after.memory_mb:.0f} after, {growth.memory_mb:+.1f} while running"
    )
    print(f"threads: {before.threads} before, {after.threads} after; files: {before.files} before, {after.files} after")
    print(f"CPU of a stream: {per_bare_stream * 1e3:.2f} ms bare, {per_stream * 1e3:.2f} ms measured and collected,")
    print(f"so that {1 - per_bare_stream / per_stream:.0%} of it is what measuring costs")
    wrong = [
        *(["spans"] if ledger.spans != expected else []),
        *(["metrics"] if ledger.metered != expected else []),
        *(["open streams"] if ledger.open_streams else []),
        *(["failures"] if ledger.failures else []),
        *(["memory"] if growth.memory_mb > MOST_GROWTH_MB else []),
        # Ours is one, the watchdog.
        *(["threads"] if after.threads > before.threads + 1 else []),
        *(["files"] if after.files > before.files else []),
    ]
    print(f"does not add up: {', '.join(wrong)}" if wrong else "all adds up")
    return 1 if wrong else 0


def _run(port: int, options: argparse.Namespace, seconds: float) -> tuple[Callers, float]:
    """The callers, when they are done, and the CPU time that the process took for them."""
    before = time.process_time()
    callers = Callers(port, options.streams, time.monotonic() + seconds, options.seed)
    callers.run()
    return callers, time.process_time() - before


if __name__ == "__main__":
    raise SystemExit(main())
