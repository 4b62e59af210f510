"""How many chunks a second a sweep reads with one process and with two, and the CPU time that a chunk takes."""

from __future__ import annotations

import resource
from typing import Final

from bench.sweep.drive import Manner, drive
from bench.sweep.service import Law
from bench.sweep.simulate import Design
from bench.sweep.upstream import upstream
from bench.truth.tables import table

STEP: Final = 0.02
FAST: Final = Law(step=STEP, free=10_000, slots=10_000, tokens=(60, 90))
"""A server that carries far more than any load here, with 50 chunks a second in each stream."""
LOADS: Final = (30, 60, 90)
"""Streams that are open at a time, by as many callers."""
WORKERS: Final = (1, 2)
_HEADER: Final = (
    *("streams", "processes", "chunks/s", "CPU of a chunk, ms: this process", "the others", "p99 of a late loop"),
    "figures",
)


def scaling_table(loads: tuple[int, ...] = LOADS, seconds: float = 4.0) -> str:
    """Drive the fast server with more and more callers, and return a table of what each number of processes read."""
    return table(list(_HEADER), [_row(load, workers, seconds) for load in loads for workers in WORKERS])


def _row(load: int, workers: int, seconds: float) -> list[str]:
    design = Design(peak=load, levels=(1.0,), warm_up=1.0, steady=seconds)
    with upstream(FAST) as server:
        # The server is still running, and in neither.
        before = [_cpu(resource.RUSAGE_SELF), _cpu(resource.RUSAGE_CHILDREN)]
        sweep = drive(server.url, design, None, Manner(is_open_loop=False, workers=workers, is_prioritized=False))
        spent = [_cpu(resource.RUSAGE_SELF) - before[0], _cpu(resource.RUSAGE_CHILDREN) - before[1]]
        jobs = server.truth()
    chunks = sum(len(job.sent) for job in jobs)
    one = sweep.rounds[0]
    start, end = one.steady_from or 0.0, one.steady_until or 0.0
    rate = sum(start <= moment < end for job in jobs for moment in job.sent) / (end - start)
    cells = [f"{1e3 * seconds / chunks:.2f}" for seconds in spent]
    lag = f"{1e3 * one.loop_lag_p99:.1f} ms"
    return [f"{load}", f"{workers}", f"{rate:,.0f}", *cells, lag, "void" if one.void_reason else "count"]


def _cpu(of: int) -> float:
    """Return the CPU time so far, in seconds."""
    usage = resource.getrusage(of)
    return usage.ru_utime + usage.ru_stime
