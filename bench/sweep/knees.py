"""Finds the knees of many servers whose knee is known, and compares the figures of each level with the truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from bench.sweep.cases import BATCHING, SLOTS, Case, Figures, figures, plan
from bench.sweep.cells import interval, milliseconds, title
from bench.sweep.drive import Manner, drive, select_steady
from bench.sweep.simulate import Design, simulate
from bench.sweep.upstream import upstream
from bench.truth.tables import table
from otel_itl.tools.sweep.knee import SweepResult, analyze
from otel_itl.tools.sweep.records import Sweep

KEYS: Final = ("ttft_p50", "ttft_p90", "itl_p50", "itl_p90")


@dataclass(frozen=True, slots=True)
class Found:
    """What a sweep found of a case."""

    case: Case
    result: SweepResult
    recorded: dict[float, Figures] = field(default_factory=dict)
    """Level → the same requests by the server's own record; empty for a simulation, which is its own record."""

    @property
    def knee(self) -> float | None:
        """The level that was found; None: not even the lowest one is carried."""
        return None if self.result.knee is None else self.result.knee.level

    @property
    def distance(self) -> int:
        """How many levels it lies above the true knee; below 0: under it."""
        places: list[float | None] = [None, *self.case.design.levels]
        return places.index(self.knee) - places.index(self.case.knee)


def judge(case: Case, sweep: Sweep) -> Found:
    """Analyze a sweep of a case."""
    return Found(case, analyze(sweep))


def simulate_many(count: int, design: Design, repeats: int = 1) -> Iterator[Found]:
    """Simulate sweeps of cases, each a few times with other chances."""
    for number in range(count):
        case = plan(number, design)
        for repeat in range(repeats):
            yield judge(case, simulate(case.law, case.design, case.objective, repeats * number + repeat))


def drive_many(seeds: Iterable[int], design: Design) -> Iterator[Found]:
    """Sweep real servers over sockets, one after another."""
    for seed in seeds:
        case = plan(seed, design)
        with upstream(case.law, seed) as server:
            sweep = drive(server.url, case.design, case.objective, Manner(seed=seed))
            jobs = server.truth()
        found = judge(case, sweep)
        for level in found.result.levels:
            steady = select_steady(jobs, sweep, level.level)
            if any(len(job.sent) > 1 for job in steady):
                found.recorded[level.level] = figures(steady)
        yield found


def knees_table(kinds: Mapping[str, Sequence[Found]]) -> str:
    """Return a table of how far the found knees are from the true ones, for several ways of sweeping."""
    header = ["sweeps", "server", "runs", "the level itself", "one below", "one above", "further", "within one level"]
    rows = []
    for name, all_found in kinds.items():
        for kind in (BATCHING, SLOTS):
            found = [one for one in all_found if one.case.name == kind]
            if found:
                rows.append([name, kind, *_distances(found)])
    return table(header, rows)


def _distances(found: Sequence[Found]) -> Iterator[str]:
    """Yield the cells about the distances of some knees."""
    counts = Counter(one.distance for one in found)
    near = counts[-1] + counts[0] + counts[1]
    shares = (counts[0], counts[-1], counts[1], len(found) - near)
    yield str(len(found))
    yield from map(str, shares)
    yield f"{100 * near / len(found):.1f} %"


def runs_table(found: Iterable[Found]) -> str:
    """Return a table with a row for each sweep: what was planted and what was found."""
    header = ["run", "server", "slots", "peak", "objective", "true knee", "found", "driven up to", "void levels"]
    return table(header, (_run_row(number, one) for number, one in enumerate(found, 1)))


def _run_row(number: int, found: Found) -> list[str]:
    case = found.case
    is_batching = case.name == BATCHING
    limit = case.objective.itl if is_batching else case.objective.ttft
    objective = f"{'ITL' if is_batching else 'TTFT'} p90 {1e3 * (limit or 0):.0f} ms"
    knee = "none" if found.knee is None else f"{found.knee:g}x"
    driven = max((level.level for level in found.result.levels), default=0)
    slots, peak = str(case.law.slots), str(case.design.peak)
    void = ", ".join(f"{level.level:g}x" for level in found.result.levels if level.void_reason)
    return [str(number), case.name, slots, peak, objective, f"{case.knee:g}x", knee, f"{driven:g}x", void]


def levels_table(found: Found) -> str:
    """Return a table of the figures of each level in milliseconds: by the law, by the server's record, by the sweep."""
    header = ["level", "streams", "figure", "by the law", "server's record", "sweep", "95 % interval"]
    rows = []
    for level in found.result.judged:
        for index, key in enumerate(KEYS):
            figure = level.figures[key]
            own = found.recorded.get(level.level)
            times = (found.case.truth[level.level][index], own[index] if own else float("nan"), figure.value)
            cells = [milliseconds(time) for time in times]
            first = [f"{level.level:g}x", f"{level.concurrency:.1f}"] if index == 0 else ["", ""]
            rows.append([*first, title(key), *cells, interval(figure)])
    return table(header, rows)


def agreement_table(found: Sequence[Found]) -> str:
    """Return a table of how far the sweep's figures are from the server's record of the same requests."""
    header = ["figure", "levels", "median difference", "95th percentile", "largest", "as a share: median", "largest"]
    rows = []
    for index, key in enumerate(KEYS):
        pairs = [
            (level.figures[key].value, one.recorded[level.level][index])
            for one in found
            for level in one.result.judged
            if level.level in one.recorded
        ]
        known = [(ours, own) for ours, own in pairs if ours is not None and np.isfinite(ours)]
        apart = np.array([abs(ours - own) for ours, own in known])
        share = np.array([abs(ours / own - 1) for ours, own in known])
        times = [f"{1e3 * value:.2f} ms" for value in (*np.quantile(apart, [0.5, 0.95]), apart.max())]
        shares = [f"{100 * value:.1f} %" for value in (np.median(share), share.max())]
        rows.append([title(key), str(len(known)), *times, *shares])
    return table(header, rows)


def coverage_table(kinds: Mapping[str, Sequence[Found]]) -> str:
    """Return a table of how often the interval of a level up to the knee contains the truth, in percent.

    A level beyond the knee has a queue that grows for as long as it is measured, and so no figures of its own.
    """
    rows = []
    for name, found in kinds.items():
        rows.append(
            [name, *(_coverage(found, index, key, has_few_tail_samples=False) for index, key in enumerate(KEYS))]
        )
        rows.append(
            [
                f"{name}: `~`",
                *(_coverage(found, index, key, has_few_tail_samples=True) for index, key in enumerate(KEYS)),
            ]
        )
    return table(["sweeps", *(title(key) for key in KEYS)], rows)


def _coverage(found: Sequence[Found], index: int, key: str, *, has_few_tail_samples: bool) -> str:
    """Return the share of the intervals with the truth inside, of those of figures that are rough or not."""
    inside = [
        figure.interval[0] <= one.case.truth[level.level][index] <= figure.interval[1]
        for one in found
        for level in one.result.judged
        if (figure := level.figures[key]).has_few_tail_samples == has_few_tail_samples
        and one.case.knee is not None
        and level.level <= one.case.knee
        and figure.interval is not None
    ]
    return f"{100 * np.mean(inside):.1f} of {len(inside):,}" if inside else "-"
