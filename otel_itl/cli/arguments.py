"""The commands of `otel-itl` and their arguments."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from otel_itl.cli import commands
from otel_itl.cli.argument_types import (
    DEMO_SDKS,
    DESTINATION,
    MARGIN,
    PORT,
    PORT_OR_OFF,
    ROWS,
    SEED,
    SLO,
    TIME,
    TOOL,
    WHERE,
    ZONE,
    number,
)
from otel_itl.cli.command_parser import CommandParser, add_flag, add_option, read_help
from otel_itl.cli.sweep_arguments import add_sweep_arguments
from otel_itl.tools.compare.rows import COMPARED
from otel_itl.tools.demo.sdks import DEFAULT_SDKS, SDKS
from otel_itl.tools.fleet.collector_config import CONFIGURATIONS
from otel_itl.tools.launch.output_file import DEFAULT_OUTPUT
from otel_itl.tools.report.other_tools import TOOLS

_LAUNCHING = ("run", "doctor")
"""The commands that launch a program."""
_WITH_VALUE = ("-o", "--output", "-m")
"""Their options that take the next word."""


def build_parser() -> CommandParser:
    """Build the parser. In its namespace, `run` is a function that takes the namespace and returns an exit code."""
    description, epilog = read_help("otel-itl")
    made = CommandParser(prog="otel-itl", description=description, epilog=epilog)
    made.add_argument("--version", action="version", version=f"otel-itl {_version()}")
    made.add_commands()
    commands_by_name = (
        ("run", "measure a program, and report at its end", _add_run_arguments, commands.run_run),
        ("doctor", "find out what is missing", _add_doctor_arguments, commands.run_doctor),
        ("report", "report the latency of streams in OTLP JSON files", _add_report_arguments, commands.run_report),
        ("compare", "is B slower than A?", _add_compare_arguments, commands.run_compare),
        ("sweep", "how many streams does an endpoint carry?", add_sweep_arguments, commands.run_sweep),
        ("demo", "measure streams of scripted models on this machine", _add_demo_arguments, commands.run_demo),
        ("view", "show streams on a page, while they run", _add_view_arguments, commands.run_view),
        ("alerts", "write alerts on an objective, for Prometheus", _add_alerts_arguments, commands.run_alerts),
        ("dashboards", "write the dashboards, for Grafana", _add_dashboards_arguments, commands.run_dashboards),
        (
            "collector-config",
            "write a Collector's configuration",
            _add_collector_arguments,
            commands.run_collector,
        ),
    )
    for name, short, add_arguments, run in commands_by_name:
        command = made.add_command(name, short)
        add_arguments(command)
        command.set_defaults(run=run, command=name)
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


def _add_run_arguments(run: CommandParser) -> None:
    """Add the arguments of the command `run`."""
    run.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help=f"the file for the telemetry (default: {DEFAULT_OUTPUT}); that of the run before is kept as FILE.previous",
    )
    add_flag(run, "--append", "add to the file, and report on all that it holds")
    add_flag(run, "--quiet", "print nothing at the end")
    _add_page_arguments(run)
    _add_program(run, "[OPTION ...]", "COMMAND [ARG ...]")


def _add_doctor_arguments(doctor: CommandParser) -> None:
    """Add the arguments of the command `doctor`."""
    add_flag(doctor, "--json", "print JSON; docs/doctor.md has its schema")
    _add_program(doctor, "[-h] [--json]", "[COMMAND [ARG ...]]")


def _add_program(command: CommandParser, options: str, program: str) -> None:
    """Add what names a program. `parse_arguments` sets `words` to the program and its arguments.

    Args:
        command: the command that launches it.
        options: the command's own options, as the usage shows them.
        program: the program, as the usage shows it.
    """
    command.usage = f"{command.prog} {options} {program}\n       {command.prog} {options} -m MODULE [ARG ...]"
    command.add_argument("-m", dest="module", metavar="MODULE", help="run a Python module, as python -m does")
    command.add_argument("words", nargs="*", metavar="COMMAND [ARG ...]", help=argparse.SUPPRESS)
    command.allow_abbrev = False


def add_selection(command: CommandParser, of_session: str) -> None:
    """Add the options that select streams, which every command with files has; `of_session`: the help of one."""
    selection = command.add_argument_group("which streams", "those that all of these options select")
    add_option(selection, "--since", TIME, "those that were requested from then on (ISO 8601)")
    add_option(selection, "--until", TIME, "those that were requested before")
    for name, such_as in (("model", "gpt-4o or 'gpt-*'"), ("provider", "openai")):
        text = f"those of this {name}, as {such_as}; if repeated, of any of them"
        selection.add_argument(f"--{name}", metavar="NAME", action="append", default=[], dest=f"{name}s", help=text)
    selection.add_argument("--session", metavar="ID", help=of_session)
    of_where = "those with this attribute of the span or its resource, as tenant=acme; if repeated, with all of them"
    add_option(selection, "--where", WHERE, of_where, action="append", default=[])


def _add_page_arguments(command: CommandParser) -> None:
    """Add the arguments of a command that can show its streams on a page."""
    add_flag(command, "--view", "show the streams on a page, while they run")
    add_flag(command, "--no-open", "with --view: do not open a browser")


def _add_alerts_arguments(alerts: CommandParser) -> None:
    """Add the arguments of the command `alerts`."""
    text = "the objective of the applications (OTEL_ITL_SLO): chat, code, agent or TTFT/ITL[@target], as 0.5/0.05@0.995"
    add_option(alerts, "--slo", SLO, text, required=True)


def _add_dashboards_arguments(dashboards: CommandParser) -> None:
    """Add the arguments of the command `dashboards`."""
    dashboards.add_argument("folder", metavar="DIR", help="the folder to write them to; it is made if need be")


def _add_collector_arguments(collector: CommandParser) -> None:
    """Add the arguments of the command `collector-config`."""
    text = f"where the Collector sends the telemetry: {', '.join(CONFIGURATIONS)}"
    add_option(collector, "--to", DESTINATION, text, dest="destination", required=True)


def _add_report_arguments(report: CommandParser) -> None:
    """Add the arguments of the command `report`."""
    report.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="OTLP JSON lines, traces and logs, plain, .gz or .zst; - is standard input",
    )
    add_flag(report, "--json", "print JSON; docs/report.md has its schema")
    add_option(report, "--as", TOOL, f"latency as another tool would print it: {', '.join(TOOLS)}", dest="tool")
    add_option(
        report,
        "--slo",
        SLO,
        "judge every stream by chat, code, agent or TTFT/ITL[@target], as 0.5/0.05 (seconds) or 500ms/50ms, "
        "instead of by the SLO that was in force when it was measured",
    )
    report.add_argument(
        "--by",
        metavar="KEY",
        help="split each model by an attribute of the span or its resource; with --explain, examine no other attribute",
    )
    add_flag(
        report,
        "--explain",
        "print what drives TTFT and ITL instead; goes with --json, --html, --by and --zone",
    )
    add_option(
        report, "--zone", ZONE, "time zone of the hours and weekdays of --explain, as Europe/Berlin (default: UTC)"
    )
    outputs = report.add_mutually_exclusive_group()
    outputs.add_argument("--html", metavar="OUT", help="write a page that draws every stream, as one file")
    outputs.add_argument("--perfetto", metavar="OUT", help="write a trace for ui.perfetto.dev")
    add_selection(report, "those of this session; tables show its requests in order of time; not with --as")


def _add_view_arguments(view: CommandParser) -> None:
    """Add the arguments of the command `view`."""
    view.add_argument(
        "files", nargs="*", metavar="FILE", help="OTLP JSON lines to show and follow; - is standard input"
    )
    add_flag(view, "--compare", "show each FILE as a side of its own, all sides in the same pictures")
    add_option(view, "--port", PORT, "port of the page and of OTLP over HTTP (default: 4318; with FILE any free one)")
    of_grpc = "port of OTLP over gRPC, which needs grpcio, or off (default: %(default)s)"
    add_option(view, "--grpc-port", PORT_OR_OFF, of_grpc, default=4317)
    view.add_argument(
        "--listen",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="address to listen on (default: %(default)s); beyond loopback, the page's address holds a token",
    )
    kept = number(int, 1, 1_000_000, "number of streams")
    add_option(
        view, "--keep", kept, "streams that are kept; older ones are let go (default: %(default)s)", default=10_000
    )
    add_flag(view, "--no-open", "do not open a browser")
    view.add_argument("--by", metavar="KEY", help="split each model by an attribute of the span or its resource")
    add_selection(view, "those of this session")


def _add_compare_arguments(compare: CommandParser) -> None:
    """Add the arguments of the command `compare`."""
    compare.add_argument(
        "files", nargs="*", metavar="FILE", help="A and B; or, with --by, --before or --after, any files to split"
    )
    compare.add_argument("--a", nargs="+", metavar="FILE", default=[], help="the runs of A, each a file")
    compare.add_argument("--b", nargs="+", metavar="FILE", default=[], help="the runs of B")
    compare.add_argument(
        "--by", metavar="ATTR[=A,B]", help="split by an attribute of the span or its resource, which has two values"
    )
    add_selection(compare, "those of this session")
    add_option(compare, "--before", TIME, "A is what was requested before (ISO 8601)")
    add_option(compare, "--after", TIME, "B is what was requested from then on")
    add_option(compare, "--margin", MARGIN, "what does not matter, as 0.05 or 5%% (default)", default=0.05)
    add_option(compare, "--slo", SLO, "the objective of which gaps over it are counted")
    add_option(
        compare,
        "--fail-on",
        ROWS,
        f"the rows that decide the exit code: {', '.join(COMPARED)} (default: all)",
        default=COMPARED,
    )
    form = compare.add_mutually_exclusive_group()
    add_flag(form, "--json", "print JSON; docs/compare.md has its schema")
    add_flag(form, "--markdown", "print Markdown, for a pull request")
    compare.add_argument("--html", metavar="PATH", help="write a page with the streams of both sides as well")
    compare.add_argument("--junit", metavar="PATH", help="write JUnit XML as well, with a case for each row")
    compare.add_argument(
        "--save-baseline",
        metavar="PATH",
        help="write what a later comparison needs of B, to be given as its A; with one FILE nothing is compared",
    )
    add_option(compare, "--seed", SEED, "seed of the resampling (default: %(default)s)", default=1)


def _add_demo_arguments(demo: CommandParser) -> None:
    """Add the arguments of the command `demo`."""
    seconds = number(float, 0.0, 3_600.0, "number of seconds")
    of_seconds = "how long to send requests (default: %(default)s); every model gets at least one"
    add_option(demo, "--seconds", seconds, of_seconds, default=10)
    add_option(
        demo,
        "--sdk",
        DEMO_SDKS,
        f"the SDKs to run: {', '.join(SDKS)} (default: those of {', '.join(DEFAULT_SDKS)} that are installed)",
        dest="sdks",
    )
    add_option(demo, "--seed", SEED, "seed of the scripted models' times (default: %(default)s)", default=1)
    demo.add_argument(
        "--output",
        metavar="PATH",
        help="the new file for the telemetry (default: otel-itl-demo.jsonl here, with a number when it exists)",
    )
    add_option(demo, "--port", PORT, "port of the scripted server (default: any free one)", default=0)
    add_flag(demo, "--quiet", "print only the report")
    _add_page_arguments(demo)


def _version() -> str:
    try:
        return version("otel-itl")
    except PackageNotFoundError:
        return "(not installed)"
