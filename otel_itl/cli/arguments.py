"""The arguments of `otel-itl`, and their help."""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NoReturn

from otel_itl.cli import commands
from otel_itl.cli.demo.sdks import DEFAULT_SDKS, SDKS
from otel_itl.core.slo import Objectives
from otel_itl.core.spelling import did_you_mean
from otel_itl.option_values import NotAcceptedError, parse_objectives
from otel_itl.report.other_tools import TOOLS

_EXAMPLES = """\
examples:
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
_SLO_TAKES = (
    "chat, code, agent, or TTFT/ITL such as 0.5/0.05 (seconds), 500ms/50ms or 0.5/0.05@0.995; for models, as "
    "gpt-4o*=chat,*=0.5/0.05"
)
_LONG_OPTION = re.compile(r"--[a-z][a-z-]*")
_SECONDS = (0.0, 3_600.0)
_PORTS = (0, 65_535)
_SEEDS = (0, 2**32 - 1)


class CommandParser(argparse.ArgumentParser):
    """A parser that reports an error in one sentence, under the name of the command that it is about."""

    def error(self, message: str) -> NoReturn:
        """Print the message, and exit with code 2."""
        print(f"{self.prog}: {message.removesuffix('.')} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(2)

    def add_commands(self) -> Any:
        """Return what commands are added to."""
        self._commands = self.add_subparsers(title="commands", metavar="COMMAND")
        self.set_defaults(run=lambda _: self.error(f"name a command: {self._names_of_commands()}"))
        return self._commands

    def parse_command_line(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        """Parse the arguments of the process (None) or others; unlike `parse_args`, name what was probably meant.

        Raises:
            SystemExit: the arguments are not accepted, or ask for the help.
        """
        given = sys.argv[1:] if arguments is None else arguments
        command = next((argument for argument in given if not argument.startswith("-")), None)
        if command is not None and command not in self._commands.choices:
            meant = did_you_mean(command, self._commands.choices)
            self.error(f"{command!r} is not a command: it takes {self._names_of_commands()}.{meant}")
        parsed, unknown = self.parse_known_args(given)
        if unknown:
            (self if command is None else self._commands.choices[command]).refuse(unknown)
        return parsed

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """Report arguments that are not known, and exit with code 2."""
        name = unknown[0].partition("=")[0]
        meant = did_you_mean(name, _LONG_OPTION.findall(self.format_usage())) if name.startswith("-") else ""
        self.error(f"unrecognized arguments: {' '.join(unknown)}.{meant}")

    def _names_of_commands(self) -> str:
        *others, last = self._commands.choices
        return f"{', '.join(others)} or {last}"


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
    _add_report(subparsers)
    _add_demo(subparsers)
    return made


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
    report.set_defaults(run=commands.run_report)


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
        default=DEFAULT_SDKS,
        metavar="NAME[,NAME...]",
        help=f"the SDKs to run: {', '.join(SDKS)} (default: {','.join(DEFAULT_SDKS)})",
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
