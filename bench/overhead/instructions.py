"""Machine instructions and Python bytecodes per chunk: unlike time, they do not depend on what else the machine does.

A driver reads one stream after the other and marks the places between. Valgrind's callgrind counts the instructions of
the process from mark to mark (a mark is a call of `getsid`, which nothing else makes); the interpreter counts its own
bytecodes. The garbage collector is off, because when it runs depends on what ran before.
"""

from __future__ import annotations

import gc
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from bench.inside import ignore_delays, ignore_holds, stop_background_work
from bench.overhead.sizes import Sizes
from bench.overhead.streams import Pace
from bench.overhead.subjects import Subject
from bench.overhead.times import FACES, Cell, Reader
from bench.overhead.variants import UNINSTRUMENTED, Variant

PARSED = "uninstrumented, parsing"
"""The bare SDK including its parsing, which the instructions are compared with."""
WARM_STREAMS = 3
REQUESTS = 20
"""Streams of one chunk whose metrics are collected together."""
_SECONDS = 3_600


class Count(NamedTuple):
    """Instructions or bytecodes of one stream."""

    streaming: float
    ending: float
    metrics: float
    events: float


Counter = Callable[[], int]
"""Returns the number of executed instructions so far, or the number of a mark."""
Readings = dict[Cell, list[int]]
"""Readings of the counter: at the four marks of `consume`, at three around two collections, and after the export."""


def count(readings: list[int]) -> Count:
    """Return the counts of one stream, given its readings."""
    began, drained, settled, ended, collecting, collected, idle, exported = readings
    return Count(drained - began, ended - settled, collected - collecting - (idle - collected), exported - idle)


def drive(
    subject: Subject,
    variants: Sequence[Variant],
    sizes: Sizes,
    counter: Counter,
    *,
    is_short: bool = False,
) -> Readings:
    """Read a stream of every length with every variant, and read the counter between the parts of each.

    Args:
        subject: the SDK.
        variants: what is compared.
        sizes: the lengths of the streams.
        counter: what is read.
        is_short: count the sync streams alone, and the bare SDK without its parsing alone.
    """
    stop_background_work()
    ignore_holds()
    ignore_delays()
    gc.disable()
    found: Readings = {}
    paces = {tokens: Pace(subject.chunks(tokens)) for tokens in sizes.counted_chunks}
    for variant in variants:
        pipeline = variant.pipeline()
        with variant.around(subject, pipeline):
            for parsed in (False, True) if variant.name == UNINSTRUMENTED and not is_short else (False,):
                for tokens in sizes.counted_chunks:
                    clients = subject.in_memory(tokens) if parsed else subject.stubbed(tokens)
                    reader = Reader(subject, clients, subject.chunks(tokens))
                    for face in FACES[:1] if is_short else FACES:
                        readings: list[int] = []

                        def mark(readings: list[int] = readings) -> int:
                            reading = counter()
                            readings.append(reading)
                            return reading

                        for _ in range(WARM_STREAMS):
                            reader.read(face, paces[tokens].settle)
                            pipeline.collect()
                        pipeline.spans.kept = []
                        reader.read(face, paces[tokens].settle, mark)
                        mark()
                        pipeline.collect()
                        mark()
                        pipeline.collect()
                        mark()
                        pipeline.spans.read()
                        mark()
                        found[Cell(PARSED if parsed else variant.name, face, tokens)] = readings
                    reader.close()
    return found


def drive_requests(subject: Subject, variants: Sequence[Variant], counter: Counter) -> Readings:
    """Read `REQUESTS` streams of one chunk with every variant, and collect the metrics: all that requests cost.

    Returns the readings of the counter before and after all of that; what the events of the spans hold is read, too.
    """
    stop_background_work()
    ignore_holds()
    ignore_delays()
    gc.disable()
    found: Readings = {}
    reader, pace = Reader(subject, subject.stubbed(1), subject.chunks(1)), Pace(subject.chunks(1))
    for variant in variants:
        pipeline = variant.pipeline()
        with variant.around(subject, pipeline):
            readings = []
            for streams in (WARM_STREAMS, REQUESTS):
                pipeline.spans.kept = []
                readings = [counter()]
                for _ in range(streams):
                    reader.read("sync", pace.settle)
                pipeline.collect()
                pipeline.spans.read()
                readings.append(counter())
            found[Cell(variant.name, "sync", 1)] = readings
    reader.close()
    return found


def count_requests(readings: Readings) -> dict[str, float]:
    """Return what one request costs with each variant, beyond the bare SDK, given the readings of `drive_requests`."""
    costs = {cell.variant: (after - before) / REQUESTS for cell, (before, after) in readings.items()}
    return {name: cost - costs[UNINSTRUMENTED] for name, cost in costs.items()}


def bytecodes(subject: Subject, variants: Sequence[Variant], sizes: Sizes) -> Readings:
    """Return the number of Python bytecodes that were executed until each mark."""
    with counted_bytecodes() as executed:
        return drive(subject, variants, sizes, executed)


@contextmanager
def counted_bytecodes() -> Iterator[Counter]:
    """Count the bytecodes that are executed in the block; yield a function that returns the number so far.

    From Python 3.12 on `sys.monitoring` counts those of all threads. Before, only a trace function can: it counts those
    of this thread, in frames that are entered in the block. The benchmark does its work in such frames.
    """
    executed = 0
    monitoring: Any = getattr(sys, "monitoring", None)
    if monitoring is not None:

        def count_instruction(_: object, __: int) -> None:
            nonlocal executed
            executed += 1

        monitoring.use_tool_id(monitoring.PROFILER_ID, "bench")
        monitoring.register_callback(monitoring.PROFILER_ID, monitoring.events.INSTRUCTION, count_instruction)
        monitoring.set_events(monitoring.PROFILER_ID, monitoring.events.INSTRUCTION)
        try:
            yield lambda: executed
        finally:
            monitoring.set_events(monitoring.PROFILER_ID, 0)
            monitoring.free_tool_id(monitoring.PROFILER_ID)
    else:

        def count_opcode(frame: Any, event: str, _: object) -> Any:
            nonlocal executed
            if event == "call":
                frame.f_trace_lines, frame.f_trace_opcodes = False, True
            elif event == "opcode":
                executed += 1
            return count_opcode

        before = sys.gettrace()
        sys.settrace(count_opcode)
        try:
            yield lambda: executed
        finally:
            sys.settrace(before)


def machine_instructions(command: Sequence[str], environment: Mapping[str, str]) -> Readings:
    """Return the number of machine instructions that were executed until each mark; {} without valgrind.

    Args:
        command: runs `drive` with a `CallgrindMarker` and pickles the readings into the file that is its last argument.
        environment: of that process.
    """
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        out, result = Path(folder, "counts"), Path(folder, "readings")
        callgrind = [valgrind, "-q", "--tool=callgrind", "--dump-before=getsid", f"--callgrind-out-file={out}"]
        subprocess.run(  # noqa: S603 - our own driver
            [*callgrind, *command, str(result)],
            env={**environment, "PYTHONHASHSEED": "0"},
            check=True,
            timeout=_SECONDS,
        )
        readings: Readings = pickle.loads(result.read_bytes())  # noqa: S301 - our own driver's
        marks = max(mark for marks in readings.values() for mark in marks)
        totals = list(accumulate(_counted(Path(f"{out}.{mark}")) for mark in range(1, marks + 1)))
        assert not Path(f"{out}.{marks + 1}").exists(), "getsid is called by something else, too"
        return {cell: [totals[mark - 1] for mark in marks] for cell, marks in readings.items()}


class CallgrindMarker:
    """Makes callgrind write its count to a file and start again from 0; returns the number of the mark, from 1."""

    def __init__(self) -> None:
        self._marks = 0

    def __call__(self) -> int:
        """Set a mark; return its number."""
        os.getsid(0)
        self._marks += 1
        return self._marks


def _counted(dump: Path) -> int:
    """Return the number of instructions since the mark before, from a file of callgrind."""
    with dump.open() as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(("totals:", "summary:")))
