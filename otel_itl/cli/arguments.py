"""What `otel-itl` takes on the command line."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NoReturn

from otel_itl.cli import commands
from otel_itl.config import load
from otel_itl.core.slo import Objectives
from otel_itl.report.other_tools import TOOLS

_EXAMPLES = """\
examples:
  otel-itl demo                       watch streams being measured
  otel-itl report spans.jsonl         latency by model, and the worst stream
  otel-itl report --json *.jsonl.gz   the same for machines
  ssh host cat spans.jsonl | otel-itl report -
"""
_REPORT = """\
Latency of the streams in OTLP JSON files, by provider and model: time to first
token, inter-token latency, how the streams ended; and the stream with the
longest wait for a token, drawn over time. Where there are any: stalls and whose
they are, how many streams met their objective, and sessions, the worst first.
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
  2  bad usage, a file that cannot be read, or a session that is not there
"""
_DEMO = """\
A server on this machine plays smooth, bursty, slow, stalling, degrading and
breaking models; the real openai and anthropic clients stream from it; stalls are
told of while they last; and what otel_itl measured is reported.
"""
_DEMO_EXAMPLES = """\
Telemetry goes to a new file of OTLP JSON lines. Where the environment says
where it goes (OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_EXPORTER and the like)
and no --output is given, it goes there.

examples:
  otel-itl demo
  otel-itl demo --seconds 3 --seed 7
  OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4317 otel-itl demo

exit codes:
  0  streams were measured
  1  none was
  2  bad usage, a port in use, a file that exists
"""
_SECONDS = (0.0, 3_600.0)
_PORTS = (0, 65_535)
_SEEDS = (0, 2**32 - 1)


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence."""

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(2)


def parser() -> argparse.ArgumentParser:
    """The parser of `otel-itl`: its namespace has `run`, which takes the namespace and returns an exit code."""
    made = _Parser(
        prog="otel-itl",
        description="Token-level latency of streaming LLM clients over OpenTelemetry.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--version", action="version", version=f"otel-itl {_version()}")
    made.set_defaults(run=lambda _: made.error("name a command: report or demo"))
    each = made.add_subparsers(title="commands", metavar="COMMAND")
    _add_report(each)
    _add_demo(each)
    return made


def _add_report(each: Any) -> None:
    report = _command(each, "report", "report the latency of streams in OTLP JSON files", _REPORT, _REPORT_EXAMPLES)
    report.add_argument(
        "files", nargs="+", metavar="FILE", help="OTLP JSON lines, traces and logs, plain or gzip; - is standard input"
    )
    report.add_argument("--json", action="store_true", help="print JSON; docs/report.md has its schema")
    report.add_argument(
        "--as",
        dest="tool",
        type=_tool,
        metavar="TOOL",
        help=f"latency as another tool would have printed it: {', '.join(TOOLS)}",
    )
    report.add_argument(
        "--slo",
        type=_objectives,
        metavar="OBJECTIVE",
        help="hold every stream against chat, code, agent or TTFT/ITL[@target], times in seconds, instead of against "
        "what it was held against when it was measured",
    )
    report.add_argument("--session", metavar="ID", help="the requests of one session, in order of time")
    report.set_defaults(run=commands.report)


def _add_demo(each: Any) -> None:
    demo = _command(each, "demo", "measure streams from scripted models on this machine", _DEMO, _DEMO_EXAMPLES)
    demo.add_argument(
        "--seconds",
        type=_number(float, *_SECONDS, "number of seconds"),
        default=10.0,
        metavar="N",
        help="how long to send requests (default: 10); every model gets at least one",
    )
    demo.add_argument(
        "--seed",
        type=_number(int, *_SEEDS, "seed"),
        default=1,
        metavar="N",
        help="what the scripted models' pace is drawn from (default: 1)",
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
    demo.add_argument("--quiet", action="store_true", help="print the report and nothing else")
    demo.set_defaults(run=commands.demo)


def _command(each: Any, name: str, short: str, description: str, epilog: str) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = each.add_parser(
        name,
        help=short,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return made


def _number(kind: type[int | float], least: float, most: float, noun: str) -> Callable[[str], float]:
    def check(text: str) -> float:
        try:
            number = kind(text)
        except ValueError:
            number = math.nan
        if not least <= number <= most:
            whole = "a whole number" if kind is int else "a number"
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a {noun}: it takes {whole} from {least:.0f} to {most:.0f}"
            )
        return number

    return check


def _tool(text: str) -> str:
    if text not in TOOLS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a tool that is known: it takes {', '.join(TOOLS)}")
    return text


def _objectives(text: str) -> Objectives:
    try:
        objectives = load({"slo": text}, {}).slo
    except ValueError:
        objectives = Objectives()
    if not objectives.edges("ttft") and not objectives.edges("itl"):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an objective: it takes chat, code, agent, or TTFT/ITL in seconds such as 0.5/0.05 or "
            "0.5/0.05@0.995; for models, as gpt-4o*=chat,*=0.5/0.05"
        )
    return objectives


def _version() -> str:
    try:
        return version("otel-itl")
    except PackageNotFoundError:
        return "(not installed)"
