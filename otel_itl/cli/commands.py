"""From arguments to the work they ask for, and to an exit code."""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec

NOTHING_USABLE = 1
BAD_USAGE = 2

_FOR_TABLES = ("rich",)
_FOR_DEMO = ("rich", "openai", "anthropic", "opentelemetry.exporter.otlp.json.file")


def report(arguments: argparse.Namespace) -> int:
    """`otel-itl report`."""
    if not arguments.json and not _installed(_FOR_TABLES):
        return BAD_USAGE
    from otel_itl.report.reading.lines import UnreadableError, check, title  # noqa: PLC0415 - what only this command needs
    from otel_itl.report.reading.skipped_input import Loss, SkippedInput  # noqa: PLC0415 - likewise
    from otel_itl.report.reading.streams import read_streams  # noqa: PLC0415 - likewise
    from otel_itl.report.sessions import UnknownSessionError, find  # noqa: PLC0415 - likewise
    from otel_itl.report.summary import summarise  # noqa: PLC0415 - likewise

    losses = SkippedInput()
    try:
        for source in arguments.files:
            check(source)
        made = summarise(read_streams(arguments.files, losses), losses, arguments.tool, arguments.slo)
    except UnreadableError as error:
        _complain("report", str(error))
        return BAD_USAGE
    inputs = title(arguments.files[0]) if len(arguments.files) == 1 else f"{len(arguments.files)} files"
    if losses.counts == {Loss.EMPTY: 1} and len(arguments.files) == 1:
        _complain("report", f"{inputs} is empty.")
        return NOTHING_USABLE
    for line in losses.lines():
        print(line if line.isprintable() else ascii(line)[1:-1], file=sys.stderr)
    if not made.streams:
        why = losses.summary() or "no span and no log record in it carries token events"
        _complain("report", f"no usable stream in {inputs}: {why}.")
        return NOTHING_USABLE
    try:
        session = None if arguments.session is None else find(made.sessions, arguments.session)
    except UnknownSessionError as error:
        _complain("report", str(error))
        return BAD_USAGE
    if arguments.json:
        from otel_itl.report.render.json import as_json  # noqa: PLC0415 - likewise

        print(as_json(made, session))
    else:
        from otel_itl.report.render.console import show, show_session  # noqa: PLC0415 - likewise
        from otel_itl.report.render.terminal import screen  # noqa: PLC0415 - likewise

        if session is None:
            show(made, screen())
        else:
            show_session(session, screen())
    return 0


def demo(arguments: argparse.Namespace) -> int:
    """`otel-itl demo`."""
    if not _installed(_FOR_DEMO):
        return BAD_USAGE
    from otel_itl.cli.demo.run import CannotStartError, NothingMeasuredError, run  # noqa: PLC0415 - likewise

    try:
        run(
            seed=arguments.seed,
            seconds=arguments.seconds,
            output=arguments.output,
            port=arguments.port,
            quiet=arguments.quiet,
        )
    except CannotStartError as error:
        _complain("demo", str(error))
        return BAD_USAGE
    except NothingMeasuredError as error:
        _complain("demo", str(error))
        return NOTHING_USABLE
    return 0


def _installed(modules: tuple[str, ...]) -> bool:
    missing = [module for module in modules if not _exists(module)]
    if missing:
        print(f"otel-itl needs {', '.join(missing)} for this: pip install 'otel-itl[cli]'", file=sys.stderr)
    return not missing


def _exists(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of a package that it is in
        return False


def _complain(command: str, sentence: str) -> None:
    print(f"otel-itl {command}: {sentence}", file=sys.stderr)
