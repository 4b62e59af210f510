"""`python -m bench.overhead.others`: what measuring the streams of the other SDKs costs, and other calls of AWS.

These SDKs have clients and transports of their own, so that they are measured here and not among those that are made
alike. Responses come from bytes in memory; bare and measured samples alternate. Instructions are counted by valgrind.
"""

from __future__ import annotations

import argparse
import gc
import os
import pickle
import sys
from collections.abc import Callable, Iterable, Sequence
from io import BytesIO
from pathlib import Path
from statistics import median
from time import process_time_ns
from typing import Any, NamedTuple

from botocore.awsrequest import AWSResponse
from botocore.session import get_session

import otel_itl
from bench.inside import ignore_holds, stop_background_work
from bench.overhead.in_memory import KEYS
from bench.overhead.instructions import CallgrindMarker, machine_instructions
from bench.overhead.sources import SOURCES, Reader, Source, over_a_socket
from bench.overhead.variants import Pipeline
from otel_itl.testing import ScriptedServer

_VARIANTS = ("bare", "floor", "measured")
_COUNTED_TOKENS = (20, 60)


class Line(NamedTuple):
    """One line of the table: nanoseconds, or instructions, per chunk or per call."""

    name: str
    bare: float
    floor: float | None
    measured: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a table of times or of instructions."""
    parser = argparse.ArgumentParser(prog="python -m bench.overhead.others", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that everything runs")
    parser.add_argument("--instructions", action="store_true", help="count machine instructions (needs valgrind)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only the streams with this in their name")
    parser.add_argument("--child", type=Path, metavar="RESULT", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    sources = [source for source in SOURCES if options.only in source.name]
    if options.child is not None:
        options.child.write_bytes(pickle.dumps(_drive(sources, CallgrindMarker())))
    elif options.instructions:
        _print(_counted(sources, options.only), "", 1)
    else:
        _print(_timed(sources, quick=options.quick), " µs", 1_000)


def _print(lines: Iterable[Line], unit: str, per: float) -> None:
    """Print a line as soon as it is there."""
    print("| | bare | floor | otel_itl | added | of the bare |\n|---|---|---|---|---|---|")
    digits = 2 if unit else 0
    for line in lines:
        added = line.measured - line.bare
        floor = "-" if line.floor is None else f"{(line.floor - line.bare) / per:+,.{digits}f}{unit}"
        cells = [
            line.name,
            f"{line.bare / per:,.{digits}f}{unit}",
            floor,
            f"{line.measured / per:,.{digits}f}{unit}",
            f"{added / per:+,.{digits}f}{unit}",
            f"{added / line.bare:+.1%}",
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


def _timed(sources: Sequence[Source], *, quick: bool) -> Iterable[Line]:
    """Measure what a chunk costs while a stream runs: the least over streams that alternate."""
    tokens, rounds = (20, 2) if quick else (1_000, 60)
    for source in sources:
        yield _stream_line(source.name, source.sdk, source.reader(tokens), rounds)
    with ScriptedServer(process=True) as server:
        reader = over_a_socket(server, 20 if quick else 300, 0.001)
        yield _stream_line("`converse_stream`, sync, over a socket", "bedrock", reader, 2 if quick else 20)
    yield _other_calls(20 if quick else 6_000)


def _stream_line(name: str, sdk: str, reader: Reader, rounds: int) -> Line:
    def sample(*, floor: bool) -> int:
        began, drained = reader.read(process_time_ns, floor=floor)
        return drained - began

    variants = {variant: lambda floor=variant == "floor": sample(floor=floor) for variant in _VARIANTS}
    samples = _alternate(sdk, variants, rounds)
    return Line(f"a chunk of {name}", *(min(samples[variant]) / (reader.chunks - 1) for variant in _VARIANTS))


def _other_calls(rounds: int) -> Line:
    """Measure a call of another service, whose response is read at once."""
    client: Any = get_session().create_client("s3", **KEYS)
    raw: Any = type("Raw", (BytesIO,), {"stream": lambda self, **_: iter([self.read()])})
    client.meta.events.register(
        "before-send", lambda request, **_: AWSResponse(request.url, 200, {"content-length": "5"}, raw(b"hello"))
    )

    def call() -> int:
        began = process_time_ns()
        client.get_object(Bucket="b", Key="k")["Body"].read()
        return process_time_ns() - began

    samples = _alternate("bedrock", {"bare": call, "measured": call}, rounds, batch=200)
    return Line("a call of S3's `get_object`", median(samples["bare"]), None, median(samples["measured"]))


def _alternate(sdk: str, variants: dict[str, Callable[[], int]], rounds: int, batch: int = 1) -> dict[str, list[int]]:
    """Take samples of each variant in turns; `measured` with the instrumentation on, the others without."""
    samples: dict[str, list[int]] = {name: [] for name in variants}
    pipeline = Pipeline()
    for turn in range(-1, -(-rounds // batch)):
        for name, sample in variants.items():
            if name == "measured":
                otel_itl.instrument(sdks=[sdk], **pipeline.providers())
            taken = [sample() for _ in range(batch + batch // 4)][batch // 4 :]
            otel_itl.uninstrument()
            if turn >= 0:  # the first turn is for warming up
                samples[name] += taken
    return samples


def _counted(sources: Sequence[Source], only: str) -> Iterable[Line]:
    """Count the instructions of a chunk, from streams of two lengths."""
    command = [sys.executable, "-m", "bench.overhead.others", "--only", only, "--child"]
    readings: Any = machine_instructions(command, {**os.environ, "PYTHONPATH": "."})
    if not readings:
        print("instructions are not counted, as valgrind is not installed.")
        return
    few, many = _COUNTED_TOKENS
    for source in sources:
        spent = {cell: drained - began for cell, (began, drained) in readings.items()}
        counts = ((spent[source.name, one, many] - spent[source.name, one, few]) / (many - few) for one in _VARIANTS)
        yield Line(f"a chunk of {source.name}", *counts)


def _drive(sources: Sequence[Source], mark: CallgrindMarker) -> dict[tuple[str, str, int], list[int]]:
    """Read streams of both lengths from every source with every variant; return the marks of each."""
    stop_background_work()
    ignore_holds()
    gc.disable()
    found = {}
    for source in sources:
        for tokens in _COUNTED_TOKENS:
            reader = source.reader(tokens)
            for variant in _VARIANTS:
                if variant == "measured":
                    otel_itl.instrument(sdks=[source.sdk], **Pipeline().providers())
                for _ in range(2):
                    reader.read(process_time_ns, floor=variant == "floor")
                found[source.name, variant, tokens] = reader.read(mark, floor=variant == "floor")
                otel_itl.uninstrument()
    return found


if __name__ == "__main__":
    main()
