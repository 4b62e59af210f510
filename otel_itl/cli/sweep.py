"""`otel-itl sweep`: drives an endpoint, finds what it carries, prints the answer."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Final

from otel_itl.cli.output import CannotWriteError, check_output, open_output
from otel_itl.cli.sweep_plan import BadPlanError, find_inputs, make_endpoint, make_plan
from otel_itl.tools.exit_codes import BAD_USAGE, INTERRUPTED
from otel_itl.tools.report.reading.lines import UnreadableSourceError
from otel_itl.tools.report.render.terminal import open_terminal
from otel_itl.tools.stderr import print_line
from otel_itl.tools.sweep.calibration import CannotSweepError
from otel_itl.tools.sweep.driver import run_sweep
from otel_itl.tools.sweep.endpoint import Endpoint, EndpointError
from otel_itl.tools.sweep.gate import exit_code, is_interrupted
from otel_itl.tools.sweep.knee import SweepResult, analyze
from otel_itl.tools.sweep.measurement import CannotMeasureError
from otel_itl.tools.sweep.plan import SweepPlan
from otel_itl.tools.sweep.prompts import PromptError
from otel_itl.tools.sweep.records import Sweep
from otel_itl.tools.sweep.render.consent import describe_demand
from otel_itl.tools.sweep.render.html import sweep_to_html
from otel_itl.tools.sweep.render.json import sweep_to_json
from otel_itl.tools.sweep.render.progress import ProgressDisplay
from otel_itl.tools.sweep.render.terminal import print_sweep
from otel_itl.tools.sweep.render.words import headline
from otel_itl.tools.sweep.traffic import NoTrafficError

_REFUSALS: Final = (
    *(BadPlanError, NoTrafficError, PromptError, EndpointError, CannotMeasureError, CannotSweepError),
    *(CannotWriteError, UnreadableSourceError),
)
"""Errors whose message is one sentence for the user."""


def run_sweep_command(arguments: argparse.Namespace) -> int:
    """Run `otel-itl sweep`, and return its exit code."""
    try:
        endpoint = make_endpoint(arguments)
        endpoint.find_key()  # before the question, so that a missing key is reported first
        plan = make_plan(arguments, endpoint)
        _check_outputs(arguments)
        if not arguments.yes and not endpoint.is_loopback and not _is_consented(plan, endpoint):
            return BAD_USAGE
        sweep = _drive(plan, endpoint, is_quiet=arguments.json)
        result = analyze(sweep)
        code = INTERRUPTED if is_interrupted(sweep) else exit_code(result)
        if arguments.html is not None:
            with open_output(arguments.html) as file:
                file.write(sweep_to_html(result))
    except _REFUSALS as error:
        return _refuse(str(error))
    _print(result, code, is_json=arguments.json)
    return code


def _check_outputs(arguments: argparse.Namespace) -> None:
    """Check that the outputs can be written, before anything is sent.

    Raises:
        CannotWriteError: one cannot.
    """
    inputs = find_inputs(arguments)
    if arguments.html is not None:
        check_output(arguments.html, inputs)
        with open_output(arguments.html):
            pass
    if arguments.output is not None:
        check_output(arguments.output, inputs)


def _drive(plan: SweepPlan, endpoint: Endpoint, *, is_quiet: bool) -> Sweep:
    """Run the sweep with a display of its progress.

    Raises:
        CannotWriteError: the output file exists, or cannot be written.
    """
    try:
        with ProgressDisplay(is_shown=not is_quiet) as display:
            return asyncio.run(run_sweep(plan, endpoint, display.show))
    except FileExistsError as error:
        raise CannotWriteError(f"{plan.output} exists, and is left as it is: name a new file.") from error
    except OSError as error:
        raise CannotWriteError(f"{plan.output} cannot be written to ({error.strerror or error}).") from error


def _is_consented(plan: SweepPlan, endpoint: Endpoint) -> bool:
    """Ask whether a host that is not this machine may be swept, with what it would get at most."""
    if not sys.stdin.isatty():
        _refuse(f"{endpoint.host} is not this machine: with --yes it is swept without a question.")
        return False
    for line in describe_demand(plan, endpoint):
        print(line, file=sys.stderr)
    print("Go on? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() in {"y", "yes"}:
        return True
    _refuse("nothing was sent.")
    return False


def _print(result: SweepResult, code: int, *, is_json: bool) -> None:
    """Print the answer in the form that is asked for."""
    if is_json:
        print(sweep_to_json(result, headline(result), code))
    else:
        print_sweep(result, open_terminal())


def _refuse(sentence: str) -> int:
    """Print a sentence, and return the exit code."""
    print_line(f"otel-itl sweep: {sentence}")
    return BAD_USAGE
