"""`python -m bench.truth known`: whether the truth lies within what is emitted, on machines that are not idle."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any, Final, NamedTuple

from bench.overhead import machine
from bench.page import replace_section, without_write
from bench.truth.judging import FIGURES, GOALS, Emitted, Goal, Sent, Tally, judge, median_width, total
from bench.truth.pressure import describe_quota, prioritize
from bench.truth.reader import WARM_UP, Work, read_row
from bench.truth.rows import ROWS, Row
from bench.truth.tables import NONE, table
from bench.truth.tls import MISSING as MISSING_TLS
from bench.truth.tls import TLSFront
from otel_itl.testing import ScriptedServer, chat

SECTION: Final = "known"
READ_SECONDS: Final = 120.0
"""How long the streams of a row may take."""
TRIES: Final = 3
"""How often a row is run whose reader fails."""
_PRELOADED: Final = [
    *(read_row.__module__, "openai.resources.chat.completions", "otel_itl.instrumentor"),
    *("httpcore", "httpcore2", "h2.connection"),
]
"""Modules that are imported once for all rows, where there are such: they start no threads."""

_NOTES: Final = """\
* A server process plays scripts and records when it wrote what, by the clock that all processes of the machine share:
  that is the truth. The streams are read by a process of their own at ordinary priority, which alone is under quotas.
* *TTFT, p99, TPOT*: share of the streams whose true figure lies within what is emitted, to 1 ms or 2 % (the way of a
  chunk to the caller takes some tenths of a millisecond, and an uncertainty below 1 ms or 1 % is not emitted). It lies
  within no figure that is absent. *off*: the longest time by which one lies outside, in milliseconds.
* *± TTFT, ± p99*: the median width of what is emitted, in milliseconds.
* *present*: streams with TTFT and TPOT. *bound*: streams that are called host-bound or consumer-bound.
* *silences*: of those of 2 s and more on the wire, how many are stalls, and how many of them the upstream's.
* *caller's*: of the silences that the caller made itself, how many are not called the upstream's."""
_HEADER: Final = ("row", "streams", *FIGURES, "off", "± TTFT", "± p99", "present", "bound", "silences", "caller's", "s")


class Place(NamedTuple):
    """Where the streams are read: the server, and the front that speaks TLS."""

    server: ScriptedServer
    front: TLSFront | None
    is_prioritized: bool
    """Server and front have real-time priority, so that other work does not delay them."""


class Ran(NamedTuple):
    """A row that was run."""

    row: Row
    tally: Tally
    seconds: float


def main(arguments: Sequence[str]) -> None:
    """Run the rows, and print the table and the goals."""
    options = _options(arguments)
    rows = _chosen(options.row)
    with _place(rows) as place:
        ran = [
            _shown(_run_or_repeat(row.shortened() if options.quick else row, place), with_misses=options.misses)
            for row in rows
            if not _missing(row)
        ]
        priority = "real-time" if place.is_prioritized else "ordinary"
    _, python, hardware = machine.described(())
    head = [
        f"`{shlex.join(['python', '-m', 'bench.truth', 'known', *without_write(arguments)])}`",
        python,
        f"{hardware}; the server has {priority} priority; quotas by {describe_quota()}",
        f"{len(ran)} rows in {sum(one.seconds for one in ran):.0f} s",
        *(f"not run: {row.name}: {_missing(row)}" for row in rows if _missing(row)),
    ]
    lines = "\n".join(f"* {line}" for line in head)
    cells = [_cells(one.row.name, one.tally, one.seconds) for one in ran]
    everything = total(one.tally for one in ran)
    cells.append(_cells("all", everything, sum(one.seconds for one in ran)))
    ordinary = total(one.tally for one in ran if one.row.is_ordinary)
    text = f"{lines}\n\n{_NOTES}\n\n{table(_HEADER, cells)}\n{goals_table(everything, ordinary)}"
    print(text)
    if options.write:
        replace_section(options.write, SECTION, text)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.truth known", description=__doc__)
    parser.add_argument(
        "--row", action="append", metavar="NAME", help="only rows of this name, or with this in it (repeatable)"
    )
    parser.add_argument("--misses", action="store_true", help="print each miss on standard error")
    parser.add_argument("--quick", action="store_true", help="two streams a row: shows that everything runs")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="also replace the section of a page")
    return parser.parse_args(arguments)


def _chosen(names: Sequence[str] | None) -> list[Row]:
    chosen = [row for row in ROWS if not names or any(_is_meant(row, name) for name in names)]
    if not chosen:
        known = "\n".join(row.name for row in ROWS)
        raise SystemExit(f"No row has {' or '.join(map(repr, names or ()))} in its name: there are\n{known}")
    return chosen


def _is_meant(row: Row, name: str) -> bool:
    """Return whether a row has this name or, where no row has it, this in its name."""
    return row.name == name or (name in row.name and name not in {row.name for row in ROWS})


def _missing(row: Row) -> str:
    return row.transport.missing


@contextmanager
def _place(rows: Sequence[Row]) -> Iterator[Place]:
    """Run the server, and its front where a row needs it."""
    with ScriptedServer(process=True) as server, _front(rows, server) as front:
        pids = [server._engine._child.pid, *([front.pid] if front else [])]  # type: ignore[union-attr]  # noqa: SLF001 - our own
        yield Place(server, front, min(map(prioritize, pids)))


def _front(rows: Sequence[Row], server: ScriptedServer) -> AbstractContextManager[TLSFront | None]:
    needs_front = not MISSING_TLS and any(row.transport.tls for row in rows)
    return TLSFront(server.port) if needs_front else nullcontext()


def _run_or_repeat(row: Row, place: Place) -> Ran:
    """Run one row, once more where its reader failed: httpcore may send the headers of two HTTP/2 streams in disorder.

    Raises:
        EOFError: it failed again and again.
    """
    for _ in range(TRIES - 1):
        try:
            return _run(row, place)
        except EOFError:
            place.server.clear()
    return _run(row, place)


def _run(row: Row, place: Place) -> Ran:
    """Run one row."""
    begun = monotonic()
    server, front = place.server, place.front
    waves = [[f"{wave}.{number}" for number in range(row.streams)] for wave in range(row.waves)]
    server.play(chat.reply(3), model=WARM_UP)
    for models in waves:
        for number, model in enumerate(models):
            server.play(row.script(number, Random(f"{row.name}, {model}")), model=model)  # noqa: S311 - gaps
    url = front.url if row.transport.tls and front is not None else server.url
    emitted = _read(row, Work(row.caller(front.certificate if front is not None else ""), url, waves))
    sent = _sent(server)
    server.clear()
    tally = total(judge(one, sent[one.model], is_silenced_by_caller=row.is_silenced_by_caller) for one in emitted)
    return Ran(row, tally, monotonic() - begun)


def _sent(server: ScriptedServer) -> Mapping[str, Sent]:
    """Return what the server sent, by model."""
    exchanges = [exchange.wait_done() for exchange in server.exchanges]
    return {str(one.model): Sent(one.arrived_ns, one.output_times_ns) for one in exchanges}


def _read(row: Row, work: Work) -> list[Emitted]:
    """Read the streams in a new process, under the pressure of the row, and return what was emitted."""
    context: Any = get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    ours, theirs = context.Pipe()
    process = context.Process(target=read_row, args=(theirs, work))
    process.start()
    theirs.close()
    try:
        _receive(ours)
        with row.pressure.begin(process.pid):
            ours.send(None)
            _receive(ours)
        ours.send(None)
        emitted: list[Emitted] = _receive(ours)
        process.join(READ_SECONDS)
    finally:
        process.kill()
        process.join()
    return emitted


def _receive(pipe: Connection) -> Any:
    if not pipe.poll(READ_SECONDS):
        raise TimeoutError(f"the streams of a row were not read within {READ_SECONDS:.0f} s")
    return pipe.recv()


def _shown(ran: Ran, *, with_misses: bool) -> Ran:
    """Print a row as soon as it was run, on standard error."""
    print(*_cells(ran.row.name, ran.tally, ran.seconds), sep="; ", file=sys.stderr, flush=True)
    for miss in ran.tally.misses if with_misses else ():
        print("   ", miss, file=sys.stderr)
    return ran


def _cells(name: str, tally: Tally, seconds: float) -> list[str]:
    """Return one line of the table."""
    return [
        name,
        str(tally.streams),
        *(_share(tally.held[figure], tally.streams) for figure in FIGURES),
        _milliseconds(tally.worst_miss),
        *(_milliseconds(median_width(tally, figure)) for figure in ("TTFT", "p99")),
        _share(tally.present, tally.streams),
        _share(tally.bound, tally.streams),
        f"{tally.stalled}, {tally.blamed_rightly} of {tally.silences}" if tally.silences else NONE,
        f"{tally.own_blamed_rightly} of {tally.own}" if tally.own else NONE,
        f"{seconds:.0f}",
    ]


def goals_table(everything: Tally, ordinary: Tally) -> str:
    """Return a table of the goals, given the counts of all rows and those of the ordinary ones."""
    rows = [[goal.text, _goal(goal), *_found(goal, everything, ordinary)] for goal in GOALS]
    return table(["goal", "at least or at most", "found", ""], rows)


def _goal(goal: Goal) -> str:
    return ("≥ " if goal.is_floor else "≤ ") + _value(goal, goal.bound)


def _found(goal: Goal, everything: Tally, ordinary: Tally) -> list[str]:
    value, is_met = goal.value(everything, ordinary), goal.is_met(everything, ordinary)
    return [NONE if value is None else _value(goal, value), {True: "met", False: "MISSED", None: NONE}[is_met]]


def _value(goal: Goal, value: float) -> str:
    return f"{value * 1e3:.2f} ms" if "width" in goal.text else f"{value:.1%}"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else NONE


def _milliseconds(seconds: float | None) -> str:
    return NONE if seconds is None else f"{seconds * 1e3:.1f}"
