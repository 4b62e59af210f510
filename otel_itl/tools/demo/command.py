"""Runs the demo as a command: whether it can, and how it ends."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from otel_itl.tools.command_error import CommandError
from otel_itl.tools.demo.sdks import DEFAULT_SDKS, SDKS
from otel_itl.tools.demo.start import Interrupts, StartLine
from otel_itl.tools.exit_codes import INTERRUPTED


def run_demo_command(arguments: argparse.Namespace) -> int:
    """Run `otel-itl demo`, and return its exit code.

    Raises:
        CommandError: an SDK is missing, the port or the file cannot be used, or nothing was measured.
    """
    wanted = arguments.sdks or DEFAULT_SDKS
    sdks = [name for name in wanted if SDKS[name].is_installed]
    missing = [name for name in wanted if name not in sdks]
    if missing and (arguments.sdks or not sdks):
        raise CommandError(_describe_missing(missing))
    if missing and not arguments.quiet:
        print(f"left out: {_describe_missing(missing)}", flush=True)
    line = StartLine(is_shown=not arguments.quiet)
    interrupts = Interrupts(line)
    interrupts.end_process("a stream was measured")
    line.show("loading OpenTelemetry")
    from otel_itl.tools.demo.run import Demo  # noqa: PLC0415 - after the first sign of life
    from otel_itl.tools.demo.scenarios import plan_requests  # noqa: PLC0415 - likewise

    try:
        Demo(plan_requests(arguments.seed, arguments.seconds, sdks), line, interrupts, arguments).run()
    except CommandError as error:
        interrupts.end_process()
        error.exit_code = INTERRUPTED if interrupts.is_requested else error.exit_code
        raise
    finally:
        line.stop()
    sys.stdout.flush()
    interrupts.end_process()
    return INTERRUPTED if interrupts.is_requested else 0


def _describe_missing(sdks: Sequence[str]) -> str:
    """Return which SDKs are not installed, and how to install them."""
    verb, packages = "is" if len(sdks) == 1 else "are", " ".join(SDKS[name].package for name in sdks)
    return f"{' and '.join(sdks)} {verb} not installed: pip install {packages}"
