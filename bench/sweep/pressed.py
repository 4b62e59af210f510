"""A machine that cannot drive the load: whether that is reported as such, and not as a limit of the server."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Final, NamedTuple

from bench.sweep.drive import Manner, drive
from bench.sweep.service import Law
from bench.sweep.simulate import Design
from bench.sweep.upstream import upstream
from bench.truth.pressure import gil_hog, quota
from bench.truth.tables import table
from otel_itl.core.slo import SLO
from otel_itl.tools.sweep.knee import analyze
from otel_itl.tools.sweep.records import Sweep

FAST: Final = Law(step=0.025, free=1_000, slots=1_000, tokens=(16, 24))
"""A server that carries far more than any load here."""
OBJECTIVE: Final = SLO(ttft=0.5, itl=0.06, target=0.9)


class Hardship(NamedTuple):
    """One way in which a machine may be too slow for its load."""

    name: str
    design: Design
    begin: Callable[[], AbstractContextManager[None]]
    """Begins what makes it slow, and ends it with the context."""
    is_hard: bool
    """The machine cannot drive it: no level counts for or against the server."""


HARDSHIPS: Final = (
    Hardship("nothing else runs", Design(peak=4, levels=(1.0, 2.0), steady=8.0), nullcontext, is_hard=False),
    Hardship("a thread that keeps the GIL", Design(peak=4, levels=(1.0, 2.0), steady=8.0), gil_hog, is_hard=True),
    Hardship(
        "a fifth of a core",
        Design(peak=4, levels=(1.0, 2.0), steady=8.0),
        partial(quota, 0.2, os.getpid()),
        is_hard=True,
    ),
    Hardship("far too many streams", Design(peak=250, levels=(1.0, 2.0), steady=8.0), nullcontext, is_hard=True),
)


def pressed_table(hardships: tuple[Hardship, ...] = HARDSHIPS) -> str:
    """Drive a server that carries everything, on a machine that does not, and return a table of what is reported."""
    rows = [_row(hardship) for hardship in hardships]
    return table(["this machine", "level", "p99 of a late request", "host delay", "reported"], rows)


def measure(hardship: Hardship) -> Sweep:
    """Drive the fast server in a hardship."""
    with upstream(FAST) as server, hardship.begin():
        return drive(server.url, hardship.design, OBJECTIVE, Manner(is_prioritized=not hardship.is_hard))


def report(sweep: Sweep) -> str:
    """Return what a sweep reports of a server that carries everything."""
    result = analyze(sweep)
    levels = result.levels
    if any(level.is_driver_bound for level in levels):
        return "this machine could not drive it"
    knee = "nothing" if result.knee is None else f"{result.knee.level:g}x"
    return f"carries {knee}"


def _row(hardship: Hardship) -> list[str]:
    sweep = measure(hardship)
    late = max((one.schedule_delay_p99 for one in sweep.rounds), default=0.0)
    delay = max((one.host_delay_share for one in sweep.rounds), default=0.0)
    driven = max((one.level for one in sweep.rounds), default=0.0)
    return [hardship.name, f"{driven:g}x", f"{1e3 * late:.1f} ms", f"{100 * delay:.1f} %", report(sweep)]
