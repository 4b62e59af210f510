"""`otel-itl sweep`: drives an endpoint, finds what it carries, prints the answer."""

from __future__ import annotations

import argparse
import asyncio
import sys

from otel_itl.tools.command_error import CommandError
from otel_itl.tools.exit_codes import INTERRUPTED
from otel_itl.tools.output import CannotWriteError, check_output, open_output
from otel_itl.tools.report.render.terminal import open_terminal
from otel_itl.tools.sweep.driver import run_sweep
from otel_itl.tools.sweep.endpoint import Endpoint
from otel_itl.tools.sweep.from_arguments import find_inputs, make_endpoint, make_plan
from otel_itl.tools.sweep.knee import analyze
from otel_itl.tools.sweep.plan import SweepPlan
from otel_itl.tools.sweep.records import Sweep
from otel_itl.tools.sweep.render.consent import describe_demand
from otel_itl.tools.sweep.render.json import sweep_to_json
from otel_itl.tools.sweep.render.page import sweep_to_page
from otel_itl.tools.sweep.render.progress import ProgressDisplay
from otel_itl.tools.sweep.render.terminal import print_sweep
from otel_itl.tools.sweep.render.words import headline


def run_sweep_command(arguments: argparse.Namespace) -> int:
    """Run `otel-itl sweep`, and return its exit code.

    Raises:
        CommandError: the arguments do not go together, the endpoint cannot be asked, or nothing may be sent to it.
    """
    endpoint = make_endpoint(arguments)
    endpoint.find_key()  # before the question, so that a missing key is reported first
    plan = make_plan(arguments, endpoint)
    _check_outputs(arguments)
    if not arguments.yes and not endpoint.is_loopback:
        _ask_for_consent(plan, endpoint)
    sweep = _drive(plan, endpoint, is_quiet=arguments.json)
    result = analyze(sweep)
    code = INTERRUPTED if sweep.is_interrupted else result.exit_code
    if arguments.html is not None:
        with open_output(arguments.html) as file:
            file.write(sweep_to_page(result))
    if arguments.json:
        print(sweep_to_json(result, headline(result), code))
    else:
        print_sweep(result, open_terminal())
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


def _ask_for_consent(plan: SweepPlan, endpoint: Endpoint) -> None:
    """Ask whether a host that is not this machine may be swept, with what it would get at most.

    Raises:
        CommandError: it may not, or no terminal is there to ask on.
    """
    if not sys.stdin.isatty():
        raise CommandError(f"{endpoint.host} is not this machine: with --yes it is swept without a question.")
    for line in describe_demand(plan, endpoint):
        print(line, file=sys.stderr)
    print("Go on? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise CommandError("nothing was sent.")
