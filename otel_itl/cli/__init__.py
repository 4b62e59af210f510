"""The command `otel-itl`: parses its arguments, runs what they ask for, and returns the exit code."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence

from otel_itl.tools.command_error import CommandError
from otel_itl.tools.exit_codes import BAD_USAGE, INTERRUPTED
from otel_itl.tools.output import discard_rest
from otel_itl.tools.stderr import print_line


def main(argv: Sequence[str] | None = None) -> int:
    """Run `otel-itl` with these arguments (None: those of the process), and return its exit code.

    0: done. 2: bad usage, a file that cannot be read or has no usable stream, or a missing package. 1 and 3: see the
    help of the command.
    130: interrupted. A process of the command's own ends by SIGINT then, so that a shell ends its loop as well.
    """
    _replace_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # the name of a model must not end a report
    try:
        from otel_itl.cli.arguments import parse_arguments  # noqa: PLC0415 - where an interrupt is handled

        arguments = parse_arguments(sys.argv[1:] if argv is None else argv)
        code = _run(arguments)
        sys.stdout.flush()  # here, where it may fail: at exit, Python would print its own words about it
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else BAD_USAGE
    except KeyboardInterrupt:
        sys.stderr.write("otel-itl: interrupted.\n")
        return INTERRUPTED if argv is not None else _end_by_interrupt()
    except OSError as error:
        # The reader has gone (`otel-itl report … | head`), or standard output cannot be written, as on a full disk.
        discard_rest()
        if isinstance(error, BrokenPipeError):
            return 0
        sys.stderr.write(f"otel-itl: the output cannot be written: {error.strerror or error}.\n")
        return BAD_USAGE
    return code


def _run(arguments: argparse.Namespace) -> int:
    """Run a command; what it refuses is one sentence on standard error."""
    try:
        code: int = arguments.run(arguments)
    except CommandError as error:
        print_line(f"otel-itl {arguments.command}: {error}")
        return error.exit_code
    return code


def _end_by_interrupt() -> int:
    """End this process by SIGINT; returns the exit code for it where that is not possible."""
    if os.name != "posix":
        return INTERRUPTED
    from otel_itl.tools.launch.process import end_like  # noqa: PLC0415 - where the command is interrupted alone

    return end_like(-signal.SIGINT)


def _replace_closed_streams() -> None:
    """Have what is printed go nowhere where a standard stream is closed: `print` would choose another one."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - as long as the process
