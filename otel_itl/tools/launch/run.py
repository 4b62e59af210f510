"""`otel-itl run`: measures a program without a line of code in it, and reports at its end."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from shlex import quote

from otel_itl.core.option_values import OFF
from otel_itl.tools.launch.command import resolve_command
from otel_itl.tools.launch.environment import launch_environment
from otel_itl.tools.launch.notes import Notes, open_notes
from otel_itl.tools.launch.output_file import DEFAULT_OUTPUT, OutputFile
from otel_itl.tools.launch.process import end_like, run_program
from otel_itl.tools.report.reading.documents import UnreadableSourceError
from otel_itl.tools.report.reading.skipped_input import SkippedInput
from otel_itl.tools.report.reading.streams import read_streams
from otel_itl.tools.report.summary import summarize

FILE_VARIABLE = "OTEL_ITL_FILE"
PROGRESS_VARIABLE = "OTEL_ITL_PROGRESS"
PROGRESS_SECONDS = "0.25"
"""How often a stream that runs is shown, unless the caller's environment has another value."""


def run_command(arguments: argparse.Namespace) -> int:
    """Run a program that is measured, and print a report on standard error at its end.

    The telemetry goes to the file of `--output`; else to the one that `OTEL_ITL_FILE` names, which is added to; else to
    a new one. With `--view`, a page shows the streams while they run, and on a terminal stays until Ctrl-C.

    Returns:
        The program's exit code. Where a signal ended the program, the same signal ends this process.

    Raises:
        CommandError: the program or the file cannot be used, or the page cannot be served; nothing was run.
    """
    words, module, output = arguments.words, arguments.module, arguments.output
    command = resolve_command(words, module=module)
    named = os.environ.get(FILE_VARIABLE, "").strip()
    is_named = output is None and named.lower() not in {"", *OFF}
    file = OutputFile(named if is_named else DEFAULT_OUTPUT if output is None else output)
    file.begin(append=arguments.append or is_named)
    with open_notes() as notes, ExitStack() as stack:
        keep_page = None
        if arguments.view:
            from otel_itl.tools.view.showing import shown_file  # noqa: PLC0415 - needs the extra `view`

            keep_page = stack.enter_context(shown_file(file.path, "run", opens=not arguments.no_open))
        environ = {**launch_environment(os.environ, notes.path), FILE_VARIABLE: str(file.path)}
        if keep_page is not None:
            environ.setdefault(PROGRESS_VARIABLE, PROGRESS_SECONDS)
        exit_code = run_program(command, environ)
        # The end of the program is the result: no failure of the report, no closed terminal, and no Ctrl-C may hide it.
        with suppress(OSError, KeyboardInterrupt):
            if not arguments.quiet:
                _print_end(file, notes, _show_program(words, module), exit_code)
        with suppress(OSError, KeyboardInterrupt):
            file.finish()
        with suppress(KeyboardInterrupt):
            if keep_page is not None and sys.stderr.isatty():
                keep_page()
    return end_like(exit_code)


def _show_program(words: Sequence[str], module: str | None) -> str:
    """Return the program of a command line for a message: without its arguments, which may hold a key."""
    program, arguments = (f"-m {quote(module)}", words) if module is not None else (quote(words[0]), words[1:])
    return f"{program}, with the same arguments" if arguments else program


def _print_end(file: OutputFile, notes: Notes, shown: str, exit_code: int) -> None:
    """Print the report on a run; or one sentence where nothing was measured."""
    skipped = SkippedInput()
    try:
        report = summarize(read_streams([str(part) for part in file.parts], skipped), skipped)
    except UnreadableSourceError as error:
        print(f"otel-itl run: {error}", file=sys.stderr)
        return
    if not report.streams:
        reason = notes.explain_no_stream(os.environ, exit_code)
        doctor = f"otel-itl doctor {shown}"
        print(f"otel-itl run: no stream was measured: {reason}. To see why: {doctor}", file=sys.stderr)
        return
    from otel_itl.tools.report.render.report import print_report  # noqa: PLC0415 - needs the extra `tools`
    from otel_itl.tools.report.render.terminal import open_terminal  # noqa: PLC0415 - likewise

    print_report(report, open_terminal(sys.stderr))
    names = " ".join(quote(name) for name in file.part_names)
    print(f"\ntelemetry: {file.name} (OTLP JSON lines); the same report: otel-itl report {names}", file=sys.stderr)
