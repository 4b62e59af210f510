"""Runs the commands of `otel-itl`, and returns their exit codes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from otel_itl.tools.demo.sdks import DEFAULT_SDKS, SDKS
from otel_itl.tools.exit_codes import BAD_USAGE, INTERRUPTED, NOT_FINE, NOTHING_FOUND
from otel_itl.tools.stderr import print_line

_NEEDED_BY_TABLES = ("rich",)
_NEEDED_BY_COMPARE = ("numpy", "scipy")
_NEEDED_BY_SWEEP = ("numpy", "plotext", "scipy")
_NEEDED_BY_EXPLAIN = ("numpy", "scipy", "sklearn", "statsmodels")
_NEEDED_BY_DEMO = ("rich", "opentelemetry.exporter.otlp.json.file")
_NEEDED_BY_VIEW = ("starlette", "uvicorn", "opentelemetry.proto.collector")


def run_run(arguments: argparse.Namespace) -> int:
    """Run `otel-itl run`, and return its exit code."""
    from otel_itl.cli.run import ViewOptions, run_command  # noqa: PLC0415 - likewise
    from otel_itl.tools.launch.command import CannotLaunchError  # noqa: PLC0415 - what only this command needs

    if not (_names_program("run", arguments) and _has_page("run", arguments)):
        return BAD_USAGE
    if not (arguments.quiet or _are_installed(_NEEDED_BY_TABLES)):
        return BAD_USAGE
    if arguments.view and not _are_installed(_NEEDED_BY_VIEW, "view"):
        return BAD_USAGE
    try:
        return run_command(
            arguments.words,
            module=arguments.module,
            output=arguments.output,
            append=arguments.append,
            quiet=arguments.quiet,
            view=ViewOptions(opens=not arguments.no_open, stays=sys.stderr.isatty()) if arguments.view else None,
        )
    except CannotLaunchError as error:
        _print_error("run", str(error))
        return error.exit_code


def run_doctor(arguments: argparse.Namespace) -> int:
    """Run `otel-itl doctor`, and return its exit code."""
    if not _are_installed(_NEEDED_BY_TABLES):
        return BAD_USAGE
    from otel_itl.tools.doctor.checks import State  # noqa: PLC0415 - what only this command needs
    from otel_itl.tools.doctor.examine import examine_here, examine_program  # noqa: PLC0415 - likewise
    from otel_itl.tools.doctor.render import checks_to_json, print_checks  # noqa: PLC0415 - likewise
    from otel_itl.tools.launch.command import CannotLaunchError  # noqa: PLC0415 - likewise
    from otel_itl.tools.report.render.terminal import open_terminal  # noqa: PLC0415 - likewise

    has_program = arguments.module is not None or bool(arguments.words)
    try:
        facts, checks = examine_program(arguments.words, arguments.module) if has_program else examine_here()
    except CannotLaunchError as error:
        _print_error("doctor", str(error))
        return BAD_USAGE
    if arguments.json:
        print(checks_to_json(facts, checks))
    else:
        print_checks(checks, open_terminal())
    return NOT_FINE if any(check.state is State.WRONG for check in checks) else 0


def _names_program(command: str, arguments: argparse.Namespace) -> bool:
    """Return whether a program is named; print a sentence where none is."""
    if not arguments.words and arguments.module is None:
        _print_error(command, f"name a program: app.py, -m module, or any command (see otel-itl {command} --help).")
        return False
    return True


def _has_page(command: str, arguments: argparse.Namespace) -> bool:
    """Return whether there is a page where --no-open is about one; print a sentence where there is none."""
    if arguments.no_open and not arguments.view:
        _print_error(command, "--no-open belongs to --view, which shows a page: add --view, or leave it out.")
        return False
    return True


def run_report(arguments: argparse.Namespace) -> int:
    """Run `otel-itl report`, and return its exit code."""
    if not _can_report(arguments):
        return BAD_USAGE
    if arguments.explain:
        from otel_itl.cli import explain  # noqa: PLC0415 - what only this option needs

        return explain.run_explain(arguments)
    has_file = arguments.html is not None or arguments.perfetto is not None
    return _write_export(arguments) if has_file else _print_report(arguments)


def _print_report(arguments: argparse.Namespace) -> int:
    """Print the report, and return the exit code."""
    from otel_itl.cli.matched_slo import UnmatchedSLOError, check_slo  # noqa: PLC0415 - what only this command needs
    from otel_itl.tools.report.reading.lines import UnreadableSourceError, check_readable, display_name  # noqa: PLC0415 - what only this command needs
    from otel_itl.tools.report.reading.skipped_input import SkippedInput, SkipReason  # noqa: PLC0415 - likewise
    from otel_itl.tools.report.reading.streams import read_streams  # noqa: PLC0415 - likewise
    from otel_itl.tools.report.sessions import UnknownSessionError, find_session  # noqa: PLC0415 - likewise
    from otel_itl.tools.report.summary import summarize  # noqa: PLC0415 - likewise

    skipped = SkippedInput()
    try:
        for source in arguments.files:
            check_readable(source)
        report = summarize(read_streams(arguments.files, skipped), skipped, arguments.tool, arguments.slo)
    except UnreadableSourceError as error:
        _print_error("report", str(error))
        return BAD_USAGE
    inputs = display_name(arguments.files[0]) if len(arguments.files) == 1 else f"{len(arguments.files)} files"
    if skipped.counts == {SkipReason.EMPTY: 1} and len(arguments.files) == 1:
        _print_error("report", f"{inputs} is empty.")
        return BAD_USAGE
    for line in skipped.describe():
        print_line(line)
    if not report.streams:
        reason = skipped.summarize() or "no span and no log record in it carries token events"
        _print_error("report", f"no usable stream in {inputs}: {reason}.")
        return BAD_USAGE
    try:
        check_slo(arguments.slo, (row.model for row in report.rows))
        session = None if arguments.session is None else find_session(report.sessions, arguments.session)
    except (UnmatchedSLOError, UnknownSessionError) as error:
        _print_error("report", str(error))
        return BAD_USAGE
    if arguments.json:
        from otel_itl.tools.report.render.json import report_to_json  # noqa: PLC0415 - likewise

        print(report_to_json(report, session))
    else:
        from otel_itl.tools.report.render.report import print_report, print_session  # noqa: PLC0415 - likewise
        from otel_itl.tools.report.render.terminal import open_terminal  # noqa: PLC0415 - likewise

        if session is None:
            print_report(report, open_terminal())
        else:
            print_session(session, open_terminal())
    return 0


def run_view(arguments: argparse.Namespace) -> int:
    """Run `otel-itl view`, and return its exit code."""
    if not _are_installed(_NEEDED_BY_VIEW, "view"):
        return BAD_USAGE
    from otel_itl.tools.report.reading.lines import UnreadableSourceError, check_readable, check_text  # noqa: PLC0415 - likewise
    from otel_itl.tools.view.server.serve import DEFAULT_PORT, CannotServeError, ServerOptions  # noqa: PLC0415 - likewise
    from otel_itl.tools.view.showing import show_until_interrupted  # noqa: PLC0415 - what only this command needs

    default_port = 0 if arguments.files else DEFAULT_PORT
    options = ServerOptions(
        sources=arguments.files,
        port=default_port if arguments.port is None else arguments.port,
        grpc_port=arguments.grpc_port,
        address=arguments.listen,
        keep=arguments.keep,
    )
    try:
        for source in arguments.files:
            check_readable(source)
            check_text(source)
        show_until_interrupted(options, opens=not arguments.no_open)
    except (UnreadableSourceError, CannotServeError) as error:
        _print_error("view", str(error))
        return BAD_USAGE
    return 0


def _write_export(arguments: argparse.Namespace) -> int:
    """Write what `report --html` or `--perfetto` asks for, and return the exit code."""
    from otel_itl.cli.exporting import NothingToWriteError, write_html, write_perfetto_file  # noqa: PLC0415 - what only these options need
    from otel_itl.cli.output import CannotWriteError  # noqa: PLC0415 - likewise
    from otel_itl.tools.report.reading.lines import UnreadableSourceError  # noqa: PLC0415 - likewise
    from otel_itl.tools.report.reading.skipped_input import SkippedInput  # noqa: PLC0415 - likewise

    skipped = SkippedInput()
    try:
        if arguments.html is not None:
            sentence = write_html(arguments.files, arguments.html, skipped)
        else:
            sentence = write_perfetto_file(arguments.files, arguments.perfetto, skipped)
    except (UnreadableSourceError, CannotWriteError, NothingToWriteError) as error:
        _print_error("report", str(error))
        return BAD_USAGE
    for line in skipped.describe():
        print_line(line)
    print(sentence)
    return 0


def _can_report(arguments: argparse.Namespace) -> bool:
    """Return whether the arguments go together and what they need is installed; print a sentence where not."""
    if arguments.explain:
        return _can_explain(arguments)
    if arguments.zone is not None or arguments.include_buffered:
        option = "--include-buffered" if arguments.zone is None else "--zone"
        _print_error("report", f"{option} belongs to --explain: leave it out, or add --explain.")
        return False
    if arguments.session is not None and arguments.tool is not None:
        _print_error("report", f"--session has no figures of another tool: leave out --as {arguments.tool}.")
        return False
    has_file = arguments.html is not None or arguments.perfetto is not None
    if has_file and (arguments.json or arguments.tool or arguments.session or arguments.slo):
        option = "--html" if arguments.html is not None else "--perfetto"
        _print_error("report", f"{option} goes with no other option: it draws every stream of the files.")
        return False
    return has_file or bool(arguments.json) or _are_installed(_NEEDED_BY_TABLES)


def _can_explain(arguments: argparse.Namespace) -> bool:
    """Return whether the arguments go with `--explain` and what it needs is installed; print a sentence where not."""
    others = {"--as": "tool", "--slo": "slo", "--session": "session", "--perfetto": "perfetto"}
    given = next((option for option, name in others.items() if getattr(arguments, name) is not None), None)
    if given is None and arguments.json and arguments.html is not None:
        given = "--json and --html together"
    if given is not None:
        goes = "it goes with --zone, --include-buffered, and either --json or --html"
        _print_error("report", f"--explain does not go with {given}: {goes}.")
        return False
    needs_rich = not arguments.json and arguments.html is None
    return _are_installed(_NEEDED_BY_EXPLAIN + (_NEEDED_BY_TABLES if needs_rich else ()), "cli,explain")


def run_compare(arguments: argparse.Namespace) -> int:
    """Run `otel-itl compare`, and return its exit code."""
    needs_rich = not (arguments.json or arguments.markdown)
    if not _are_installed(_NEEDED_BY_COMPARE + (_NEEDED_BY_TABLES if needs_rich else ()), "cli,compare"):
        return BAD_USAGE
    from otel_itl.cli import compare  # noqa: PLC0415 - what only this command needs

    return compare.run_compare(arguments)


def run_sweep(arguments: argparse.Namespace) -> int:
    """Run `otel-itl sweep`, and return its exit code."""
    if not _are_installed(_NEEDED_BY_TABLES + _NEEDED_BY_SWEEP, "cli,sweep"):
        return BAD_USAGE
    from otel_itl.cli.sweep import run_sweep_command  # noqa: PLC0415 - what only this command needs

    return run_sweep_command(arguments)


def run_demo(arguments: argparse.Namespace) -> int:
    """Run `otel-itl demo`, and return its exit code."""
    if not _has_page("demo", arguments):
        return BAD_USAGE
    if not _are_installed(_NEEDED_BY_DEMO) or (arguments.view and not _are_installed(_NEEDED_BY_VIEW, "view")):
        return BAD_USAGE
    wanted = arguments.sdks or DEFAULT_SDKS
    sdks = [name for name in wanted if SDKS[name].is_installed]
    missing = [name for name in wanted if name not in sdks]
    if missing and (arguments.sdks or not sdks):
        _print_error("demo", _missing_sentence(missing))
        return BAD_USAGE
    if missing and not arguments.quiet:
        print(f"left out: {_missing_sentence(missing)}", flush=True)
    from otel_itl.tools.demo.start import Interrupts, Stage, StartLine  # noqa: PLC0415 - likewise

    line = StartLine(is_shown=not arguments.quiet)
    interrupts = Interrupts(line)
    interrupts.install()
    line.show("loading OpenTelemetry")
    from otel_itl.tools.demo import run  # noqa: PLC0415 - after the first sign of life
    from otel_itl.tools.demo.scenarios import plan_requests  # noqa: PLC0415 - likewise

    plans = plan_requests(arguments.seed, arguments.seconds, sdks)
    view = run.DemoView(opens=not arguments.no_open, stays=sys.stderr.isatty()) if arguments.view else None
    demo = run.Demo(plans, line, interrupts, is_quiet=arguments.quiet, view=view)
    code, sentence = 0, ""
    try:
        demo.run(output=arguments.output, port=arguments.port)
    except run.CannotStartError as error:
        code, sentence = BAD_USAGE, str(error)
    except run.NothingMeasuredError as error:
        code, sentence = NOTHING_FOUND, str(error)
    finally:
        line.stop()
    if sentence:
        _print_error("demo", sentence)
    sys.stdout.flush()
    interrupts.stage = Stage.OVER
    return INTERRUPTED if interrupts.is_requested else code


def _missing_sentence(sdks: Sequence[str]) -> str:
    """Return which SDKs are not installed, and how to install them."""
    verb, packages = "is" if len(sdks) == 1 else "are", " ".join(SDKS[name].package for name in sdks)
    return f"{' and '.join(sdks)} {verb} not installed: pip install {packages}"


def _are_installed(modules: tuple[str, ...], extras: str = "cli") -> bool:
    """Return whether all modules can be imported; print a sentence with those that cannot, and the extras with them."""
    missing = [module for module in modules if not _is_installed(module)]
    if missing:
        print(f"otel-itl needs {', '.join(missing)} for this: pip install 'otel-itl[{extras}]'", file=sys.stderr)
    return not missing


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that the module is in
        return False


def _print_error(command: str, sentence: str) -> None:
    print(f"otel-itl {command}: {sentence}", file=sys.stderr)
