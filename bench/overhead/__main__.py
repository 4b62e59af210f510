"""`python -m bench.overhead`: measure the cost of measuring, and print it or write it into a page of docs/."""

from __future__ import annotations

import argparse
import logging
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.overhead import instructions, machine, memory, payload, pieces, tables, times
from bench.overhead.sizes import FULL, QUICK, Sizes
from bench.overhead.steady import Steady
from bench.overhead.subjects import SUBJECTS, Subject
from bench.overhead.variants import COMPARED, FORMS, MAIN, SETTINGS, Variant
from bench.page import replace_section

_NOTES = """\
How it is measured:

* Every round runs every variant once, in a random order. Each SDK and each table has a process of its own.
* All variants are read by the same loop, with real providers. Content capture is off.
* The garbage collector is on; it runs before each sample, and what exists then is frozen.
* The metrics are collected after each sample. A span processor reads the attributes of all events of a span, then
  drops the span; the rest of exporting is left out for all variants.
* *uninstrumented* is the bare SDK.
* *floor* is a generator at the place that otel_itl hooks; it reads the clock twice per chunk and stores both readings.
* Before a stream ends, the recorded moments are replaced by those of a model with a token every 20 ms, with jitter: a
  stream without pauses is cheaper to end. This replacement is not timed.
* Work that otel_itl leaves to its background thread is done, and counted, when the metrics are collected.
* A sample is repeated if a fixed piece of work beside it took 20 % longer than at best: the machine was disturbed.
* CPU caches are warmer than they are between the tokens of a model.

Differences within the range of *uninstrumented* are noise, and so are negative figures."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, in processes of their own, and print the tables."""
    options = _options(arguments)
    if options.child:
        _child(options)
        return
    subjects = [SUBJECTS[name] for name in options.sdk or SUBJECTS if find_spec(name)]
    report = _counted if options.instructions else _timed
    section = "instructions" if options.instructions else "times"
    command = ["python -m bench.overhead", *(["--instructions"] if options.instructions else [])]
    command += [f"--rounds {options.rounds}"] if options.rounds else []
    head = [f"`{' '.join(command)}`", *machine.described(subjects)]
    lines = ["\n".join(f"* {line}" for line in head)]
    if not options.instructions:
        lines.append(f"* {_sizes(options).rounds} rounds\n\n{_NOTES}")
    if options.quick:
        lines.append("\nThis is a quick run, which shows that everything runs. Its figures mean nothing.")
    text = "\n".join(lines) + "\n\n" + "\n".join(report(subjects, options))
    print(text)
    if options.write:
        replace_section(options.write, section, text)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.overhead", description=__doc__)
    parser.add_argument("--sdk", action="append", choices=SUBJECTS, help="only this SDK (may be given again)")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that everything runs")
    parser.add_argument("--rounds", type=int, help="how many rounds")
    parser.add_argument(
        "--instructions",
        nargs="?",
        const="all",
        choices=("all", "bytecodes"),
        help="count instructions (with valgrind) and bytecodes instead of time; `bytecodes`: those alone",
    )
    parser.add_argument("--write", type=Path, metavar="PAGE", help="also replace the section of a page")
    parser.add_argument("--child", choices=(*_PARTS, "callgrind", "bytecodes"), help=argparse.SUPPRESS)
    parser.add_argument("result", nargs="?", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def _sizes(options: argparse.Namespace) -> Sizes:
    sizes = QUICK if options.quick else FULL
    return sizes if options.rounds is None else replace(sizes, rounds=options.rounds)


def _child(options: argparse.Namespace) -> None:
    subject, sizes = SUBJECTS[options.sdk[0]], _sizes(options)
    # The warning that `each` falls back to `packed` for a long stream would be logged in every round.
    logging.getLogger("otel_itl").setLevel(logging.ERROR)
    compared = _installed(subject, COMPARED)
    if options.child in _PARTS:
        steady = Steady()
        result: Any = _PARTS[options.child](subject, sizes, steady), steady
    elif options.child == "bytecodes":
        result = instructions.bytecodes(subject, compared, sizes)
    else:
        result = instructions.drive(subject, compared, sizes, instructions.CallgrindMarker())
    options.result.write_bytes(pickle.dumps(result))


_PARTS: Mapping[str, Callable[[Subject, Sizes, Steady], Any]] = {
    "loopback": lambda subject, sizes, steady: times.loopback(subject, _installed(subject, COMPARED), sizes, steady),
    "stubbed": lambda subject, sizes, steady: times.stubbed(
        subject, _installed(subject, (*COMPARED, *SETTINGS)), sizes, steady
    ),
    "endings": lambda subject, sizes, steady: times.endings(
        subject, _installed(subject, (*MAIN, *FORMS)), sizes, steady
    ),
    "pieces": pieces.pieces,
    "memory": lambda subject, sizes, _: memory.held(subject, _installed(subject, MAIN), sizes),
    "scale": lambda subject, sizes, _: memory.at_scale(subject, _installed(subject, MAIN), sizes),
    "payload": lambda subject, sizes, _: payload.payloads(subject, sizes),
}
"""The measurements, each of which runs in a process of its own."""


def _timed(subjects: Sequence[Subject], options: argparse.Namespace) -> list[str]:
    printed = []
    for subject in subjects:
        parts = {part: _run(_command(part, subject, options)) for part in _PARTS}
        found = {part: result for part, (result, _) in parts.items()}
        disturbed = sum(steady.disturbed for _, steady in parts.values()) / sum(
            steady.taken for _, steady in parts.values()
        )
        sdk = {face: tables.sdk_ns(subject, found["loopback"], face) for face in times.FACES}
        printed.append(f"{subject.package}: the machine was disturbed during {disturbed:.0%} of the samples.\n")
        printed += [
            tables.stubbed_table(subject, face, (*COMPARED, *SETTINGS), found["stubbed"], sdk[face])
            for face in times.FACES
        ]
        printed += [
            tables.length_table(subject, COMPARED, found["stubbed"]),
            tables.loopback_table(subject, COMPARED, found["loopback"]),
            tables.ending_table(subject, (*MAIN, *FORMS), found["endings"], sdk),
            tables.piece_table(subject, found["pieces"]),
            tables.memory_table(subject, MAIN, found["memory"]),
            tables.scale_table(subject, MAIN, found["scale"]),
            tables.payload_table(subject, found["payload"]),
        ]
    return printed


def _counted(subjects: Sequence[Subject], options: argparse.Namespace) -> list[str]:
    printed = []
    for subject in subjects:
        counted = {"Python bytecodes": _run(_command("bytecodes", subject, options))}
        if options.instructions == "all":
            callgrind = instructions.machine_instructions(_command("callgrind", subject, options), _environment())
            counted = {"machine instructions": callgrind, **counted}
        for kind, readings in counted.items():
            if readings:
                printed += [tables.counted_table(subject, kind, COMPARED, readings, face) for face in times.FACES]
            else:
                printed.append(f"{subject.package}: {kind} are not counted, as valgrind is not installed.\n")
    return printed


def _command(child: str, subject: Subject, options: argparse.Namespace) -> list[str]:
    command = [sys.executable, "-m", "bench.overhead", "--child", child, "--sdk", subject.package]
    if options.rounds is not None:
        command += ["--rounds", str(options.rounds)]
    return [*command, "--quick"] if options.quick else command


def _run(command: Sequence[str]) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "result")
        subprocess.run([*command, str(result)], env=_environment(), check=True)  # noqa: S603 - ourselves
        return pickle.loads(result.read_bytes())  # noqa: S301 - written by our own child


def _environment() -> Mapping[str, str]:
    """Return the environment of this process without the variables that configure OpenTelemetry.

    Every run has the same providers.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "TRACELOOP_"))}
    # Other instrumentations capture prompts and answers unless this is off; `otel_itl` never does.
    return {**kept, "TRACELOOP_TRACE_CONTENT": "false"}


def _installed(subject: Subject, variants: Sequence[Variant]) -> list[Variant]:
    return [variant for variant in variants if variant.installed(subject) is not None]


if __name__ == "__main__":
    main()
