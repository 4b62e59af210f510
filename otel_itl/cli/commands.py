"""Runs the commands of `otel-itl`: checks what they need, and passes their arguments to the tools."""

# ruff: noqa: PLC0415 - what only one command needs is imported where it runs

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

from otel_itl.tools.command_error import CommandError
from otel_itl.tools.exit_codes import BAD_USAGE, NOT_FINE

_TABLES: Final = ("rich",)
_STATISTICS: Final = ("numpy", "scipy")
_PAGE: Final = ("starlette", "uvicorn")
"""The modules of the extra `tools` without which a command cannot run: by what they are for."""


def run_run(arguments: argparse.Namespace) -> int:
    """Run `otel-itl run`, and return its exit code."""
    if not arguments.words and arguments.module is None:
        raise CommandError("name a program: app.py, -m module, or any command (see otel-itl run --help).")
    _check_page(arguments)
    if not arguments.quiet:
        _require(_TABLES)
    from otel_itl.tools.launch.run import run_command

    return run_command(arguments)


def run_doctor(arguments: argparse.Namespace) -> int:
    """Run `otel-itl doctor`, and return its exit code."""
    _require(() if arguments.json else _TABLES)
    from otel_itl.tools.doctor.examine import examine_here, examine_program
    from otel_itl.tools.doctor.finding import State, checks_to_json

    has_program = arguments.module is not None or bool(arguments.words)
    trace_id, checks = examine_program(arguments.words, arguments.module) if has_program else examine_here()
    if arguments.json:
        print(checks_to_json(trace_id, checks))
    else:
        from otel_itl.tools.doctor.render import print_checks
        from otel_itl.tools.report.render.terminal import open_terminal

        print_checks(checks, open_terminal())
    return NOT_FINE if any(check.state is State.WRONG for check in checks) else 0


def run_alerts(arguments: argparse.Namespace) -> int:
    """Run `otel-itl alerts`, and return its exit code."""
    from otel_itl.tools.fleet.alerts import write_rules

    print(write_rules(arguments.slo), end="")
    return 0


def run_dashboards(arguments: argparse.Namespace) -> int:
    """Run `otel-itl dashboards`, and return its exit code."""
    from otel_itl.tools.fleet.dashboards import write_dashboards

    for path in write_dashboards(arguments.folder):
        print(path)
    return 0


def run_collector(arguments: argparse.Namespace) -> int:
    """Run `otel-itl collector-config`, and return its exit code."""
    from otel_itl.tools.fleet.collector_config import read_configuration

    print(read_configuration(arguments.destination), end="")
    return 0


def run_report(arguments: argparse.Namespace) -> int:
    """Run `otel-itl report`, and return its exit code."""
    _check_report(arguments)
    has_tables = not arguments.json and arguments.html is None and arguments.perfetto is None
    _require(_TABLES if has_tables else (), _STATISTICS if arguments.explain else ())
    from otel_itl.cli import report

    if arguments.explain:
        report.explain_latency(arguments)
    elif arguments.html is not None:
        report.write_page(arguments)
    elif arguments.perfetto is not None:
        report.write_trace(arguments)
    else:
        report.print_report(arguments)
    return 0


def run_view(arguments: argparse.Namespace) -> int:
    """Run `otel-itl view`, and return its exit code."""
    _require(_PAGE)
    from otel_itl.cli.input import read_selection
    from otel_itl.tools.report.reading.documents import check_readable, check_text
    from otel_itl.tools.view.server.serve import DEFAULT_PORT, ServerOptions
    from otel_itl.tools.view.showing import show_until_interrupted

    for source in arguments.files:
        check_readable(source)
        check_text(source)
    if arguments.compare and len(arguments.files) < 2:  # noqa: PLR2004 - two sides
        raise CommandError("--compare takes two files or more: each is a side.")
    default_port = 0 if arguments.files else DEFAULT_PORT
    options = ServerOptions(
        sources=arguments.files,
        compares=arguments.compare,
        port=default_port if arguments.port is None else arguments.port,
        grpc_port=arguments.grpc_port,
        address=arguments.listen,
        keep=arguments.keep,
        selection=read_selection(arguments),
        by=arguments.by,
    )
    show_until_interrupted(options, opens=not arguments.no_open)
    return 0


def run_compare(arguments: argparse.Namespace) -> int:
    """Run `otel-itl compare`, and return its exit code."""
    has_tables = not (arguments.json or arguments.markdown)
    _require(_TABLES if has_tables else (), _STATISTICS)
    from otel_itl.cli import compare

    return compare.run_compare(arguments)


def run_sweep(arguments: argparse.Namespace) -> int:
    """Run `otel-itl sweep`, and return its exit code."""
    has_sdk = _is_installed("openai") or _is_installed("anthropic")
    _require(_TABLES, _STATISTICS, extra="tools" if has_sdk else "tools,openai")
    from otel_itl.tools.sweep.command import run_sweep_command

    return run_sweep_command(arguments)


def run_demo(arguments: argparse.Namespace) -> int:
    """Run `otel-itl demo`, and return its exit code."""
    _check_page(arguments)
    _require(_TABLES, extra="demo")
    from otel_itl.tools.demo.command import run_demo_command

    return run_demo_command(arguments)


def _check_report(arguments: argparse.Namespace) -> None:
    """Refuse options of `report` that do not go together."""
    given = {option for option, value in vars(arguments).items() if value not in (None, False)}
    files = [f"--{option}" for option in ("html", "perfetto") if option in given]
    if "explain" in given:
        others = ("--as", "tool"), ("--slo", "slo"), ("--perfetto", "perfetto")
        misfits = [option for option, name in others if name in given]
        if {"json", "html"} <= given:
            misfits.append("--json and --html together")
        if misfits:
            goes = "it goes with --zone, --by, what selects streams, and either --json or --html"
            raise CommandError(f"--explain does not go with {misfits[0]}: {goes}.")
    elif "zone" in given:
        raise CommandError("--zone belongs to --explain: leave it out, or add --explain.")
    elif {"session", "tool"} <= given:
        raise CommandError(f"--session has no figures of another tool: leave out --as {arguments.tool}.")
    elif files and given & ({"json", "tool", "slo"} | ({"by"} if "perfetto" in given else set())):
        raise CommandError(f"{files[0]} goes with no other option than what selects streams: it draws each of them.")


def _check_page(arguments: argparse.Namespace) -> None:
    """Refuse `--no-open` without the page that it is about, and require what the page needs."""
    if arguments.no_open and not arguments.view:
        raise CommandError("--no-open belongs to --view, which shows a page: add --view, or leave it out.")
    if arguments.view:
        _require(_PAGE)


def _require(*needed: Sequence[str], extra: str = "tools") -> None:
    """End the command where modules cannot be imported, with a sentence that names them and the extra with them.

    Raises:
        SystemExit: one cannot be imported.
    """
    missing = [module for modules in needed for module in modules if not _is_installed(module)]
    if missing:
        print(f"otel-itl needs {', '.join(missing)} for this: pip install 'otel-itl[{extra}]'", file=sys.stderr)
        raise SystemExit(BAD_USAGE)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that the module is in
        return False
