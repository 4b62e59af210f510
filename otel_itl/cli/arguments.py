"""The commands of `otel-itl` and their arguments."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from otel_itl.cli import commands, help_texts
from otel_itl.cli.argument_types import (
    PORTS,
    SEEDS,
    number_parser,
    parse_margin,
    parse_port_or_off,
    parse_quantities,
    parse_sdks,
    parse_slo,
    parse_time,
    parse_tool,
    parse_zone,
)
from otel_itl.cli.command_parser import CommandParser
from otel_itl.cli.sweep_arguments import add_arguments as add_sweep_arguments
from otel_itl.tools.compare.rows import COMPARED
from otel_itl.tools.demo.sdks import DEFAULT_SDKS, SDKS
from otel_itl.tools.launch.output_file import DEFAULT_OUTPUT
from otel_itl.tools.report.other_tools import TOOLS

_SECONDS = (0.0, 3_600.0)
_LAUNCHING = ("run", "doctor")
"""The commands that launch a program."""
_WITH_VALUE = ("-o", "--output", "-m")
"""Their options that take the next word."""
_KEPT = (1, 1_000_000)


def build_parser() -> CommandParser:
    """Build the parser. In its namespace, `run` is a function that takes the namespace and returns an exit code."""
    made = CommandParser(
        prog="otel-itl",
        description="Token-level latency of streaming LLM clients over OpenTelemetry.",
        epilog=help_texts.EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--version", action="version", version=f"otel-itl {_version()}")
    subparsers = made.add_commands()
    _add_run(subparsers)
    _add_doctor(subparsers)
    _add_report(subparsers)
    _add_compare(subparsers)
    _add_sweep(subparsers)
    _add_demo(subparsers)
    _add_view(subparsers)
    return made


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments of `otel-itl`; those of a launched program are left as they are.

    Raises:
        SystemExit: with code 2 for bad usage, with 0 after `--help` or `--version`.
    """
    parser = build_parser()
    if not argv or argv[0] not in _LAUNCHING:
        return parser.parse_command_line(argv)
    own, words = _split_at_program(argv[1:])
    arguments = parser.parse_command_line([argv[0], *own])
    arguments.words = words
    return arguments


def _split_at_program(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split at the first word that is no option of ours, or that follows `--`. `-m` and its module are options."""
    words = list(argv)
    own: list[str] = []
    while words and words[0].startswith("-") and words[0] != "-":
        option = words.pop(0)
        if option == "--":
            break
        own.append(option)
        if option in _WITH_VALUE and words:
            own.append(words.pop(0))
        if option.startswith("-m"):
            break
    return own, words


def _add_run(subparsers: Any) -> None:
    """Add the command `run` and its arguments."""
    run = _add_command(subparsers, "run", "measure a program, and report at its end")
    run.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help=f"the file for the telemetry (default: {DEFAULT_OUTPUT}); that of the run before is kept as FILE.previous",
    )
    run.add_argument("--append", action="store_true", help="add to the file, and report on all that it holds")
    run.add_argument("--quiet", action="store_true", help="print nothing at the end")
    run.add_argument("--view", action="store_true", help="show the streams on a page, while they run")
    run.add_argument("--no-open", action="store_true", help="with --view: do not open a browser")
    _add_program(run, "[OPTION ...]")
    run.set_defaults(run=commands.run_run)


def _add_doctor(subparsers: Any) -> None:
    """Add the command `doctor` and its arguments."""
    doctor = _add_command(subparsers, "doctor", "find out what is missing")
    doctor.add_argument("--json", action="store_true", help="print JSON; docs/doctor.md has its schema")
    _add_program(doctor, "[-h] [--json]", is_required=False)
    doctor.set_defaults(run=commands.run_doctor)


def _add_program(command: argparse.ArgumentParser, options: str, *, is_required: bool = True) -> None:
    """Add what names a program. `parse_arguments` sets `words` to the program and its arguments.

    Args:
        command: the command that launches it.
        options: the command's own options, as the usage shows them.
        is_required: the command does nothing without a program.
    """
    program = "COMMAND [ARG ...]" if is_required else "[COMMAND [ARG ...]]"
    command.usage = f"{command.prog} {options} {program}\n       {command.prog} {options} -m MODULE [ARG ...]"
    command.add_argument("-m", dest="module", metavar="MODULE", help="run a Python module, as python -m does")
    command.add_argument("words", nargs="*", metavar="COMMAND [ARG ...]", help=argparse.SUPPRESS)
    command.allow_abbrev = False


def _add_report(subparsers: Any) -> None:
    """Add the command `report` and its arguments."""
    report = _add_command(
        subparsers,
        "report",
        "report the latency of streams in OTLP JSON files",
    )
    report.add_argument(
        "files", nargs="+", metavar="FILE", help="OTLP JSON lines, traces and logs, plain or gzip; - is standard input"
    )
    report.add_argument("--json", action="store_true", help="print JSON; docs/report.md has its schema")
    report.add_argument(
        "--as",
        dest="tool",
        type=parse_tool,
        metavar="TOOL",
        help=f"latency as another tool would print it: {', '.join(TOOLS)}",
    )
    report.add_argument(
        "--slo",
        type=parse_slo,
        metavar="SLO",
        help="judge every stream by chat, code, agent or TTFT/ITL[@target], as 0.5/0.05 (seconds) or 500ms/50ms, "
        "instead of by the SLO that was in force when it was measured",
    )
    report.add_argument(
        "--session", metavar="ID", help="show the requests of one session, in order of time; not with --as"
    )
    report.add_argument(
        "--explain",
        action="store_true",
        help="print what drives TTFT and ITL instead; goes with --json, --html, --zone and --include-buffered",
    )
    report.add_argument(
        "--zone",
        type=parse_zone,
        metavar="ZONE",
        help="time zone of the hours and weekdays of --explain, as Europe/Berlin (default: UTC)",
    )
    report.add_argument(
        "--include-buffered",
        action="store_true",
        help="with --explain: also streams that came through a buffer",
    )
    outputs = report.add_mutually_exclusive_group()
    outputs.add_argument("--html", metavar="OUT", help="write a page that draws every stream, as one file")
    outputs.add_argument("--perfetto", metavar="OUT", help="write a trace for ui.perfetto.dev")
    report.set_defaults(run=commands.run_report)


def _add_view(subparsers: Any) -> None:
    """Add the command `view` and its arguments."""
    view = _add_command(subparsers, "view", "show streams on a page, while they run")
    view.add_argument(
        "files", nargs="*", metavar="FILE", help="OTLP JSON lines to show and follow; - is standard input"
    )
    view.add_argument(
        "--port",
        type=number_parser(int, *PORTS, "port"),
        default=None,
        metavar="N",
        help="port of the page and of OTLP over HTTP (default: 4318; with FILE any free one)",
    )
    view.add_argument(
        "--grpc-port",
        type=parse_port_or_off,
        default=4317,
        metavar="N",
        help="port of OTLP over gRPC, which needs grpcio, or off (default: 4317)",
    )
    view.add_argument(
        "--listen",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="address to listen on (default: 127.0.0.1); beyond loopback, the page's address holds a token",
    )
    view.add_argument(
        "--keep",
        type=number_parser(int, *_KEPT, "number of streams"),
        default=10_000,
        metavar="N",
        help="streams that are kept; older ones are let go (default: 10000)",
    )
    view.add_argument("--no-open", action="store_true", help="do not open a browser")
    view.set_defaults(run=commands.run_view)


def _add_compare(subparsers: Any) -> None:
    """Add the command `compare` and its arguments."""
    compare = _add_command(subparsers, "compare", "is B slower than A?")
    compare.add_argument(
        "files", nargs="+", metavar="FILE", help="A and B; or, with --by, --before or --after, any files to split"
    )
    compare.add_argument(
        "--by", metavar="ATTR[=A,B]", help="split by an attribute of the span or its resource, which has two values"
    )
    compare.add_argument("--before", type=parse_time, metavar="TIME", help="A is what was requested before (ISO 8601)")
    compare.add_argument("--after", type=parse_time, metavar="TIME", help="B is what was requested from then on")
    compare.add_argument(
        "--margin",
        type=parse_margin,
        default=0.05,
        metavar="SHARE",
        help="what does not matter, as 0.05 or 5%% (default)",
    )
    compare.add_argument("--slo", type=parse_slo, metavar="SLO", help="the objective of which gaps over it are counted")
    compare.add_argument(
        "--fail-on",
        type=parse_quantities,
        default=COMPARED,
        metavar="ROW[,ROW...]",
        help=f"the rows that decide the exit code: {', '.join(COMPARED)} (default: all)",
    )
    form = compare.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON; docs/compare.md has its schema")
    form.add_argument("--markdown", action="store_true", help="print Markdown, for a pull request")
    compare.add_argument("--html", metavar="PATH", help="write a page with percentile spectra as well")
    compare.add_argument("--otava", metavar="CSV", help="write each FILE as one run for apache-otava instead")
    compare.add_argument(
        "--seed",
        type=number_parser(int, *SEEDS, "seed"),
        default=1,
        metavar="N",
        help="seed of the resampling (default: 1)",
    )
    compare.set_defaults(run=commands.run_compare)


def _add_sweep(subparsers: Any) -> None:
    """Add the command `sweep` and its arguments."""
    sweep = _add_command(subparsers, "sweep", "how many streams does an endpoint carry?")
    add_sweep_arguments(sweep)
    sweep.set_defaults(run=commands.run_sweep)


def _add_demo(subparsers: Any) -> None:
    """Add the command `demo` and its arguments."""
    demo = _add_command(
        subparsers,
        "demo",
        "measure streams of scripted models on this machine",
    )
    demo.add_argument(
        "--seconds",
        type=number_parser(float, *_SECONDS, "number of seconds"),
        default=10.0,
        metavar="N",
        help="how long to send requests (default: 10); every model gets at least one",
    )
    demo.add_argument(
        "--sdk",
        dest="sdks",
        type=parse_sdks,
        metavar="NAME[,NAME...]",
        help=f"the SDKs to run: {', '.join(SDKS)} (default: those of {', '.join(DEFAULT_SDKS)} that are installed)",
    )
    demo.add_argument(
        "--seed",
        type=number_parser(int, *SEEDS, "seed"),
        default=1,
        metavar="N",
        help="seed of the scripted models' times (default: 1)",
    )
    demo.add_argument(
        "--output",
        metavar="PATH",
        help="the new file for the telemetry (default: otel-itl-demo.jsonl here, with a number when it exists)",
    )
    demo.add_argument(
        "--port",
        type=number_parser(int, *PORTS, "port"),
        default=0,
        metavar="N",
        help="port of the scripted server (default: any free one)",
    )
    demo.add_argument("--quiet", action="store_true", help="print only the report")
    demo.add_argument("--view", action="store_true", help="show the streams on a page, while they run")
    demo.add_argument("--no-open", action="store_true", help="with --view: do not open a browser")
    demo.set_defaults(run=commands.run_demo)


def _add_command(subparsers: Any, name: str, short: str) -> argparse.ArgumentParser:
    """Add a command, whose help is printed as it is written in `help_texts`."""
    description, epilog = help_texts.BY_COMMAND[name]
    made: argparse.ArgumentParser = subparsers.add_parser(
        name,
        help=short,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return made


def _version() -> str:
    try:
        return version("otel-itl")
    except PackageNotFoundError:
        return "(not installed)"
