"""`otel-itl run`: measures a program without a line of code in it, and reports at its end."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from shlex import quote
from typing import Any

from otel_itl.cli.launch.command import resolve_command
from otel_itl.cli.launch.environment import launch_environment
from otel_itl.cli.launch.notes import Notes, open_notes
from otel_itl.cli.launch.output_file import DEFAULT_OUTPUT, OutputFile
from otel_itl.cli.launch.process import end_like, run_program
from otel_itl.option_values import OFF
from otel_itl.report.reading.lines import UnreadableSourceError
from otel_itl.report.reading.skipped_input import SkippedInput
from otel_itl.report.reading.streams import read_streams
from otel_itl.report.summary import Report, summarize

FILE_VARIABLE = "OTEL_ITL_FILE"


def run_command(words: Sequence[str], *, module: str | None, output: str | None, append: bool, quiet: bool) -> int:
    """Run a program that is measured, and print a report on standard error at its end.

    Args:
        words: the program and its arguments; with `module`, the arguments.
        module: a Python module to run.
        output: the file for the telemetry; None: the one that `OTEL_ITL_FILE` names, which is added to, else a new one.
        append: add to the file; else it is begun anew.
        quiet: print nothing at the end.

    Returns:
        The program's exit code. Where a signal ended the program, the same signal ends this process.

    Raises:
        CannotLaunchError: the program or the file cannot be used; nothing was run.
    """
    command = resolve_command(words, module=module)
    named = os.environ.get(FILE_VARIABLE, "").strip()
    is_named = output is None and named.lower() not in {"", *OFF}
    file = OutputFile(named if is_named else DEFAULT_OUTPUT if output is None else output)
    file.begin(append=append or is_named)
    with open_notes() as notes:
        environ = {**launch_environment(os.environ, notes.path), FILE_VARIABLE: str(file.path)}
        exit_code = run_program(command, environ)
        # The end of the program is the result: no failure of the report, and no closed terminal, may hide it.
        with suppress(OSError, KeyboardInterrupt):
            if not quiet:
                shown = ["-m", module, *words] if module is not None else list(words)
                _print_end(file, notes, " ".join(map(quote, shown)))
        with suppress(OSError):
            file.finish()
    return end_like(exit_code)


def _print_end(file: OutputFile, notes: Notes, shown: str) -> None:
    """Print the report on a run; or one sentence where nothing was measured."""
    skipped = SkippedInput()
    try:
        report = summarize(read_streams([str(part) for part in file.parts], skipped), skipped)
    except UnreadableSourceError as error:
        print(f"otel-itl run: {error}", file=sys.stderr)
        return
    if not report.streams:
        reason = notes.explain_no_stream(os.environ)
        print(
            f"otel-itl run: no stream was measured: {reason}. To see why: otel-itl doctor {shown}",
            file=sys.stderr,
        )
        return
    _print_report(report)
    names = " ".join(quote(name) for name in file.part_names)
    print(f"\ntelemetry: {file.name} (OTLP JSON lines); the same report: otel-itl report {names}", file=sys.stderr)


def _print_report(report: Report) -> None:
    """Print the tables of a report on standard error."""
    from otel_itl.report.render.report import print_report  # noqa: PLC0415 - needs the extra `cli`
    from otel_itl.report.render.terminal import open_terminal  # noqa: PLC0415 - likewise

    stream: Any = sys.stderr
    print_report(report, open_terminal(stream))
