"""Runs the commands of `otel-itl`: checks what they need, and passes their arguments to the tools."""

# ruff: noqa: PLC0415 - what only one command needs is imported where it runs

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec

from otel_itl.tools.command_error import CommandError
from otel_itl.tools.exit_codes import BAD_USAGE, NOT_FINE
from otel_itl.tools.stderr import print_line

_NEEDED_BY_TABLES = ("rich",)
_NEEDED_BY_COMPARE = ("numpy", "scipy")
_NEEDED_BY_SWEEP = ("numpy", "plotext", "scipy")
_NEEDED_BY_EXPLAIN = ("numpy", "scipy", "sklearn", "statsmodels")
_NEEDED_BY_VIEW = ("starlette", "uvicorn", "opentelemetry.proto.collector")


def run_run(arguments: argparse.Namespace) -> int:
    """Run `otel-itl run`, and return its exit code."""
    if not arguments.words and arguments.module is None:
        raise CommandError("name a program: app.py, -m module, or any command (see otel-itl run --help).")
    _check_page(arguments)
    _require(() if arguments.quiet else _NEEDED_BY_TABLES)
    _require(_NEEDED_BY_VIEW if arguments.view else (), "view")
    from otel_itl.tools.launch.run import run_command

    return run_command(arguments)


def run_doctor(arguments: argparse.Namespace) -> int:
    """Run `otel-itl doctor`, and return its exit code."""
    _require(_NEEDED_BY_TABLES)
    from otel_itl.tools.doctor.checks import State
    from otel_itl.tools.doctor.examine import examine_here, examine_program
    from otel_itl.tools.doctor.render import checks_to_json, print_checks
    from otel_itl.tools.report.render.terminal import open_terminal

    has_program = arguments.module is not None or bool(arguments.words)
    trace_id, checks = examine_program(arguments.words, arguments.module) if has_program else examine_here()
    if arguments.json:
        print(checks_to_json(trace_id, checks))
    else:
        print_checks(checks, open_terminal())
    return NOT_FINE if any(check.state is State.WRONG for check in checks) else 0


def run_report(arguments: argparse.Namespace) -> int:
    """Run `otel-itl report`, and return its exit code."""
    if arguments.explain:
        _check_explain(arguments)
        from otel_itl.cli import explain

        return explain.run_explain(arguments)
    _check_report(arguments)
    has_file = arguments.html is not None or arguments.perfetto is not None
    if not (has_file or arguments.json):
        _require(_NEEDED_BY_TABLES)
    return _write_export(arguments) if has_file else _print_report(arguments)


def run_view(arguments: argparse.Namespace) -> int:
    """Run `otel-itl view`, and return its exit code."""
    _require(_NEEDED_BY_VIEW, "view")
    from otel_itl.tools.report.reading.lines import check_readable, check_text
    from otel_itl.tools.view.server.serve import DEFAULT_PORT, ServerOptions
    from otel_itl.tools.view.showing import show_until_interrupted

    for source in arguments.files:
        check_readable(source)
        check_text(source)
    default_port = 0 if arguments.files else DEFAULT_PORT
    options = ServerOptions(
        sources=arguments.files,
        port=default_port if arguments.port is None else arguments.port,
        grpc_port=arguments.grpc_port,
        address=arguments.listen,
        keep=arguments.keep,
    )
    show_until_interrupted(options, opens=not arguments.no_open)
    return 0


def run_compare(arguments: argparse.Namespace) -> int:
    """Run `otel-itl compare`, and return its exit code."""
    needs_rich = not (arguments.json or arguments.markdown)
    _require(_NEEDED_BY_COMPARE + (_NEEDED_BY_TABLES if needs_rich else ()), "cli,compare")
    from otel_itl.cli import compare

    return compare.run_compare(arguments)


def run_sweep(arguments: argparse.Namespace) -> int:
    """Run `otel-itl sweep`, and return its exit code."""
    _require(_NEEDED_BY_TABLES + _NEEDED_BY_SWEEP, "cli,sweep")
    from otel_itl.tools.sweep.command import run_sweep_command

    return run_sweep_command(arguments)


def run_demo(arguments: argparse.Namespace) -> int:
    """Run `otel-itl demo`, and return its exit code."""
    _check_page(arguments)
    _require(_NEEDED_BY_TABLES)
    _require(_NEEDED_BY_VIEW if arguments.view else (), "view")
    from otel_itl.tools.demo.command import run_demo_command

    return run_demo_command(arguments)


def _print_report(arguments: argparse.Namespace) -> int:
    """Print the report, and return the exit code."""
    from otel_itl.cli.matched_slo import check_slo
    from otel_itl.tools.report.reading.lines import check_readable, display_name
    from otel_itl.tools.report.reading.skipped_input import SkippedInput, SkipReason
    from otel_itl.tools.report.reading.streams import read_streams
    from otel_itl.tools.report.sessions import find_session
    from otel_itl.tools.report.summary import summarize

    skipped = SkippedInput()
    for source in arguments.files:
        check_readable(source)
    report = summarize(read_streams(arguments.files, skipped), skipped, arguments.tool, arguments.slo)
    inputs = display_name(arguments.files[0]) if len(arguments.files) == 1 else f"{len(arguments.files)} files"
    if skipped.counts == {SkipReason.EMPTY: 1} and len(arguments.files) == 1:
        raise CommandError(f"{inputs} is empty.")
    for line in skipped.describe():
        print_line(line)
    if not report.streams:
        reason = skipped.summarize() or "no span and no log record in it carries token events"
        raise CommandError(f"no usable stream in {inputs}: {reason}.")
    check_slo(arguments.slo, (row.model for row in report.rows))
    session = None if arguments.session is None else find_session(report.sessions, arguments.session)
    if arguments.json:
        from otel_itl.tools.report.render.json import report_to_json

        print(report_to_json(report, session))
        return 0
    from otel_itl.tools.report.render.report import print_report, print_session
    from otel_itl.tools.report.render.terminal import open_terminal

    if session is None:
        print_report(report, open_terminal())
    else:
        print_session(session, open_terminal())
    return 0


def _write_export(arguments: argparse.Namespace) -> int:
    """Write what `report --html` or `--perfetto` asks for, and return the exit code."""
    from otel_itl.cli.exporting import write_html, write_perfetto_file
    from otel_itl.tools.report.reading.skipped_input import SkippedInput

    skipped = SkippedInput()
    if arguments.html is not None:
        sentence = write_html(arguments.files, arguments.html, skipped)
    else:
        sentence = write_perfetto_file(arguments.files, arguments.perfetto, skipped)
    for line in skipped.describe():
        print_line(line)
    print(sentence)
    return 0


def _check_report(arguments: argparse.Namespace) -> None:
    """Refuse options of `report` that do not go together."""
    if arguments.zone is not None or arguments.include_buffered:
        option = "--include-buffered" if arguments.zone is None else "--zone"
        raise CommandError(f"{option} belongs to --explain: leave it out, or add --explain.")
    if arguments.session is not None and arguments.tool is not None:
        raise CommandError(f"--session has no figures of another tool: leave out --as {arguments.tool}.")
    has_file = arguments.html is not None or arguments.perfetto is not None
    if has_file and (arguments.json or arguments.tool or arguments.session or arguments.slo):
        option = "--html" if arguments.html is not None else "--perfetto"
        raise CommandError(f"{option} goes with no other option: it draws every stream of the files.")


def _check_explain(arguments: argparse.Namespace) -> None:
    """Refuse options that do not go with `--explain`, and require what it needs."""
    others = {"--as": "tool", "--slo": "slo", "--session": "session", "--perfetto": "perfetto"}
    given = next((option for option, name in others.items() if getattr(arguments, name) is not None), None)
    if given is None and arguments.json and arguments.html is not None:
        given = "--json and --html together"
    if given is not None:
        goes = "it goes with --zone, --include-buffered, and either --json or --html"
        raise CommandError(f"--explain does not go with {given}: {goes}.")
    needs_rich = not arguments.json and arguments.html is None
    _require(_NEEDED_BY_EXPLAIN + (_NEEDED_BY_TABLES if needs_rich else ()), "cli,explain")


def _check_page(arguments: argparse.Namespace) -> None:
    """Refuse `--no-open` without the page that it is about."""
    if arguments.no_open and not arguments.view:
        raise CommandError("--no-open belongs to --view, which shows a page: add --view, or leave it out.")


def _require(modules: tuple[str, ...], extras: str = "cli") -> None:
    """End the command where modules cannot be imported, with a sentence that names them and the extras with them.

    Raises:
        SystemExit: one cannot be imported.
    """
    missing = [module for module in modules if not _is_installed(module)]
    if missing:
        print(f"otel-itl needs {', '.join(missing)} for this: pip install 'otel-itl[{extras}]'", file=sys.stderr)
        raise SystemExit(BAD_USAGE)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that the module is in
        return False
