"""Stalls: how many a sweep reports of a server that stalls by a known law."""

from __future__ import annotations

from typing import Final

from bench.sweep.drive import drive, select_steady
from bench.sweep.service import Law
from bench.sweep.simulate import Design
from bench.sweep.upstream import upstream
from bench.truth.tables import table
from otel_itl.tools.sweep.results import compute_levels

STALLING: Final = Law(step=0.02, free=16, tokens=(36, 44), stall_rate=0.004, stall=2.3)
DESIGN: Final = Design(peak=8, levels=(1.0, 2.0), steady=8.0)


def stalls_table(design: Design = DESIGN, law: Law = STALLING) -> str:
    """Drive a server that stalls, and return a table of the stalls by its law, by its record and by the sweep."""
    with upstream(law) as server:
        sweep = drive(server.url, design, None)
        jobs = server.truth()
    mean = sum(law.tokens) / 2
    by_law = 1_000 * law.stall_rate * (mean - 1) / mean
    rows = []
    for level in compute_levels(sweep):
        steady = select_steady(jobs, sweep, level.level)
        stalls, tokens = sum(job.stalls for job in steady), sum(len(job.sent) for job in steady)
        figure = level.figures["stalls"]
        causes = ", ".join(f"{count} {cause}" for cause, count in level.stall_causes.most_common()) or "-"
        interval = "-" if figure.interval is None else " to ".join(f"{end:.1f}" for end in figure.interval)
        found = [f"{figure.value or 0:.2f}", interval, causes]
        rows.append([f"{level.level:g}x", f"{by_law:.2f}", f"{1_000 * stalls / max(tokens, 1):.2f}", *found])
    header = ["level", "stalls per 1,000 tokens by the law", "server's record", "sweep", "95 % interval", "causes"]
    return table(header, rows)
