"""The arguments of `otel-itl`, and their help."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from otel_itl.cli import commands
from otel_itl.cli.command_parser import CommandParser
from otel_itl.cli.demo.sdks import DEFAULT_SDKS, SDKS
from otel_itl.cli.launch.output_file import DEFAULT_OUTPUT
from otel_itl.compare.rows import COMPARED
from otel_itl.core.moments import parse_time
from otel_itl.core.slo import Objectives
from otel_itl.core.spelling import did_you_mean
from otel_itl.option_values import NotAcceptedError, parse_objectives
from otel_itl.report.other_tools import TOOLS

_EXAMPLES = """\
examples:
  otel-itl run app.py                 measure a program, and report at its end
  otel-itl doctor                     find out what is missing
  otel-itl demo                       watch streams while they are measured
  otel-itl report spans.jsonl         latency by model, and the worst stream
  otel-itl report --json *.jsonl.gz   the same as JSON
  ssh host cat spans.jsonl | otel-itl report -
"""
_REPORT = """\
Report the latency of the streams in OTLP JSON files, by provider and model:
time to first token, inter-token latency, and outcomes; and the stream with the
longest wait for a token, drawn over time. Where there are any: stalls by phase
and cause, how many streams met their SLO, and sessions, the worst first.
"""
_REPORT_EXAMPLES = """\
examples:
  otel-itl report spans.jsonl
  otel-itl report spans.jsonl logs.jsonl.gz
  otel-itl report --json spans.jsonl | jq .rows[].inter_token_latency.p99
  otel-itl report --as vllm spans.jsonl
  otel-itl report --slo 0.5/0.05@0.995 spans.jsonl
  otel-itl report --session agent-7 spans.jsonl

exit codes:
  0  a report was made
  1  no usable stream in the input
  2  bad usage, a file that cannot be read, or an unknown session
"""
_DEMO = """\
Measure real SDK clients that stream from a server on this machine, which plays
smooth, bursty, slow, stalling, degrading and breaking models. Stalls are
printed while they last, then a report on all streams.
"""
_DEMO_EXAMPLES = """\
Telemetry goes to a new file of OTLP JSON lines; or, if no --output is given, to
where the environment directs it (OTEL_EXPORTER_OTLP_ENDPOINT,
OTEL_TRACES_EXPORTER and the like).

examples:
  otel-itl demo
  otel-itl demo --seconds 3 --seed 7
  otel-itl demo --sdk openai,groq
  OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4317 otel-itl demo

exit codes:
  0    streams were measured
  1    no stream was measured
  2    bad usage, a missing SDK, a port in use, or a file that exists
  130  interrupted, with the report on what was measured so far, or without one
"""
_RUN = """\
Run a program, measure its streams without a line of code in it, and report on
them on standard error at its end. Every Python process that it starts is
measured, too. Its input, output, signals and exit code are its own.

COMMAND is a Python file, -m and a module, or any command. What follows COMMAND
belongs to it.
"""
_RUN_EXAMPLES = """\
Telemetry goes to a new file of OTLP JSON lines, and to an endpoint or exporter
that the environment names (OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_EXPORTER
and the like).

examples:
  otel-itl run app.py --model gpt-5-mini
  otel-itl run -m chat.worker
  otel-itl run -o chat.jsonl uvicorn app:app --workers 2
  OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4317 otel-itl run app.py

exit codes:
  those of the program; where a signal ended it, the same signal ends otel-itl
  2    bad usage, a file that does not exist or cannot be used; nothing was run
  126  the command cannot be executed
  127  there is no such command
"""
_DOCTOR = """\
Check the installation, and print what is not fine with its remedy: packages,
SDKs and what wraps them, OpenTelemetry's providers and exporters, whether the
endpoints accept telemetry, and variables that switch something off. A stream
of a scripted model is sent through, marked with itl.test and in no metric.

With COMMAND, all this is examined inside the program, when its first stream
has ended or at its end; its standard output goes to standard error.
"""
_DOCTOR_EXAMPLES = """\
examples:
  otel-itl doctor
  otel-itl doctor app.py --model gpt-5-mini
  otel-itl doctor --json uvicorn app:app | jq '.checks[] | select(.remedy)'

exit codes:
  0  all is fine
  1  something is not fine
  2  bad usage, or the program cannot be started
"""
_VIEW = """\
Show streams on a page in the browser: a row for each with a tick per chunk,
stalls while they last, latency over time, sessions and models. Without FILE,
telemetry is received (OTLP over HTTP and gRPC, from this machine alone); with
FILE, what the files hold is shown, and what is appended to them.
"""
_VIEW_EXAMPLES = """\
examples:
  otel-itl view
  otel-itl view spans.jsonl
  otel-itl view --port 8080 --grpc-port off --no-open
  OTEL_ITL_PROGRESS=0.25 opentelemetry-instrument python app.py

exit codes:
  0    ended by Ctrl-C
  2    bad usage, a port in use, or a file that cannot be read
"""
_COMPARE = """\
Compare two sides, model by model and over all models: is B slower than A, the
same, or is there not enough data to know? Whole sessions are resampled, as the
gaps of a request and the requests of a session are alike; docs/compare.md says
how. Streams bound by their caller or their machine are set aside and counted.
"""
_COMPARE_EXAMPLES = """\
examples:
  otel-itl compare before.jsonl after.jsonl
  otel-itl compare --by service.version week.jsonl
  otel-itl compare --by gen_ai.request.model=gpt-5-mini,gpt-5 week.jsonl
  otel-itl compare --before 2026-11-01T12:00Z week.jsonl
  otel-itl compare --markdown --fail-on itl_p50,ttft_p50 main.jsonl branch.jsonl
  otel-itl compare --otava runs.csv runs/*.jsonl

exit codes:
  0  B is the same or faster
  1  B is slower
  2  bad usage, or a file that cannot be read
  3  it is not known: there is not enough data
"""
_SLO_TAKES = (
    "chat, code, agent, or TTFT/ITL such as 0.5/0.05 (seconds), 500ms/50ms or 0.5/0.05@0.995; for models, as "
    "gpt-4o*=chat,*=0.5/0.05"
)
_SECONDS = (0.0, 3_600.0)
_LAUNCHING = ("run", "doctor")
"""The commands that launch a program."""
_WITH_VALUE = ("-o", "--output", "-m")
"""Their options that take the next word."""
_PORTS = (0, 65_535)
_SEEDS = (0, 2**32 - 1)
_KEPT = (1, 1_000_000)


def build_parser() -> CommandParser:
    """Build the parser. In its namespace, `run` is a function that takes the namespace and returns an exit code."""
    made = CommandParser(
        prog="otel-itl",
        description="Token-level latency of streaming LLM clients over OpenTelemetry.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--version", action="version", version=f"otel-itl {_version()}")
    subparsers = made.add_commands()
    _add_run(subparsers)
    _add_doctor(subparsers)
    _add_report(subparsers)
    _add_compare(subparsers)
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
    run = _add_command(subparsers, "run", "measure a program, and report at its end", _RUN, _RUN_EXAMPLES)
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
    doctor = _add_command(subparsers, "doctor", "find out what is missing", _DOCTOR, _DOCTOR_EXAMPLES)
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
        subparsers, "report", "report the latency of streams in OTLP JSON files", _REPORT, _REPORT_EXAMPLES
    )
    report.add_argument(
        "files", nargs="+", metavar="FILE", help="OTLP JSON lines, traces and logs, plain or gzip; - is standard input"
    )
    report.add_argument("--json", action="store_true", help="print JSON; docs/report.md has its schema")
    report.add_argument(
        "--as",
        dest="tool",
        type=_tool,
        metavar="TOOL",
        help=f"latency as another tool would print it: {', '.join(TOOLS)}",
    )
    report.add_argument(
        "--slo",
        type=_slo,
        metavar="SLO",
        help="judge every stream by chat, code, agent or TTFT/ITL[@target], as 0.5/0.05 (seconds) or 500ms/50ms, "
        "instead of by the SLO that was in force when it was measured",
    )
    report.add_argument(
        "--session", metavar="ID", help="show the requests of one session, in order of time; not with --as"
    )
    outputs = report.add_mutually_exclusive_group()
    outputs.add_argument("--html", metavar="OUT", help="write a page that draws every stream, as one file")
    outputs.add_argument("--perfetto", metavar="OUT", help="write a trace for ui.perfetto.dev")
    report.set_defaults(run=commands.run_report)


def _add_view(subparsers: Any) -> None:
    """Add the command `view` and its arguments."""
    view = _add_command(subparsers, "view", "show streams on a page, while they run", _VIEW, _VIEW_EXAMPLES)
    view.add_argument(
        "files", nargs="*", metavar="FILE", help="OTLP JSON lines to show and follow; - is standard input"
    )
    view.add_argument(
        "--port",
        type=_number(int, *_PORTS, "port"),
        default=None,
        metavar="N",
        help="port of the page and of OTLP over HTTP (default: 4318; with FILE any free one)",
    )
    view.add_argument(
        "--grpc-port",
        type=_port_or_off,
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
        type=_number(int, *_KEPT, "number of streams"),
        default=10_000,
        metavar="N",
        help="streams that are kept; older ones are let go (default: 10000)",
    )
    view.add_argument("--no-open", action="store_true", help="do not open a browser")
    view.set_defaults(run=commands.run_view)


def _add_compare(subparsers: Any) -> None:
    """Add the command `compare` and its arguments."""
    compare = _add_command(subparsers, "compare", "is B slower than A?", _COMPARE, _COMPARE_EXAMPLES)
    compare.add_argument(
        "files", nargs="+", metavar="FILE", help="A and B; or, with --by, --before or --after, any files to split"
    )
    compare.add_argument(
        "--by", metavar="ATTR[=A,B]", help="split by an attribute of the span or its resource, which has two values"
    )
    compare.add_argument("--before", type=_time, metavar="TIME", help="A is what was requested before (ISO 8601)")
    compare.add_argument("--after", type=_time, metavar="TIME", help="B is what was requested from then on")
    compare.add_argument(
        "--margin", type=_margin, default=0.05, metavar="SHARE", help="what does not matter, as 0.05 or 5%% (default)"
    )
    compare.add_argument("--slo", type=_slo, metavar="SLO", help="the objective of which gaps over it are counted")
    compare.add_argument(
        "--fail-on",
        type=_quantities,
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
        "--seed", type=_number(int, *_SEEDS, "seed"), default=1, metavar="N", help="seed of the resampling (default: 1)"
    )
    compare.set_defaults(run=commands.run_compare)


def _add_demo(subparsers: Any) -> None:
    """Add the command `demo` and its arguments."""
    demo = _add_command(subparsers, "demo", "measure streams of scripted models on this machine", _DEMO, _DEMO_EXAMPLES)
    demo.add_argument(
        "--seconds",
        type=_number(float, *_SECONDS, "number of seconds"),
        default=10.0,
        metavar="N",
        help="how long to send requests (default: 10); every model gets at least one",
    )
    demo.add_argument(
        "--sdk",
        dest="sdks",
        type=_sdks,
        metavar="NAME[,NAME...]",
        help=f"the SDKs to run: {', '.join(SDKS)} (default: those of {', '.join(DEFAULT_SDKS)} that are installed)",
    )
    demo.add_argument(
        "--seed",
        type=_number(int, *_SEEDS, "seed"),
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
        type=_number(int, *_PORTS, "port"),
        default=0,
        metavar="N",
        help="port of the scripted server (default: any free one)",
    )
    demo.add_argument("--quiet", action="store_true", help="print only the report")
    demo.add_argument("--view", action="store_true", help="show the streams on a page, while they run")
    demo.add_argument("--no-open", action="store_true", help="with --view: do not open a browser")
    demo.set_defaults(run=commands.run_demo)


def _add_command(subparsers: Any, name: str, short: str, description: str, epilog: str) -> argparse.ArgumentParser:
    """Add a command; its description and epilog are printed as they are written."""
    made: argparse.ArgumentParser = subparsers.add_parser(
        name,
        help=short,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return made


def _number(kind: type[int | float], minimum: float, maximum: float, noun: str) -> Callable[[str], float]:
    """Return a function that converts an argument to a number of this kind and range."""

    def convert(text: str) -> float:
        """Convert the text of an argument; `argparse` prints what is wrong with it."""
        try:
            number = kind(text)
        except ValueError:
            number = math.nan
        if not minimum <= number <= maximum:
            whole = "a whole number" if kind is int else "a number"
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a {noun}: it takes {whole} from {minimum:.0f} to {maximum:.0f}"
            )
        return number

    return convert


def _port_or_off(text: str) -> int | None:
    """Convert the argument of `--grpc-port`."""
    return None if text == "off" else int(_number(int, *_PORTS, "port, or off")(text))


def _tool(text: str) -> str:
    """Convert the argument of `--as`."""
    if text not in TOOLS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a known tool: it takes {', '.join(TOOLS)}.{did_you_mean(text, TOOLS)}"
        )
    return text


def _sdks(text: str) -> tuple[str, ...]:
    """Convert the argument of `--sdk`."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    unknown = next((name for name in names if name not in SDKS), None)
    if unknown is not None:
        raise argparse.ArgumentTypeError(
            f"{unknown!r} is not an SDK of the demo: it takes {', '.join(SDKS)}.{did_you_mean(unknown, SDKS)}"
        )
    return names


def _quantities(text: str) -> tuple[str, ...]:
    """Convert the argument of `--fail-on`."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    unknown = next((name for name in names if name not in COMPARED), None)
    if unknown is not None:
        raise argparse.ArgumentTypeError(
            f"{unknown!r} is not a row: it takes {', '.join(COMPARED)}.{did_you_mean(unknown, COMPARED)}"
        )
    return names


def _margin(text: str) -> float:
    """Convert the argument of `--margin` to a share."""
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = math.nan
    if not 0 < share < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a margin: it takes a share such as 0.05, or 5%")
    return share


def _time(text: str) -> int:
    """Convert the argument of `--before` and `--after` to Unix nanoseconds."""
    try:
        return parse_time(text)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time: it takes ISO 8601, such as 2026-11-01T12:00Z, or Unix seconds"
        ) from None


def _slo(text: str) -> Objectives:
    """Convert the argument of `--slo`, which has to contain an objective."""
    refusal = NotAcceptedError()
    try:
        slo = parse_objectives(text)
        if slo.edges("ttft") or slo.edges("itl"):
            return slo
    except NotAcceptedError as error:
        refusal = error
    raise argparse.ArgumentTypeError(f"{text!r} is not an SLO: {refusal.describe(_SLO_TAKES)}")


def _version() -> str:
    try:
        return version("otel-itl")
    except PackageNotFoundError:
        return "(not installed)"
