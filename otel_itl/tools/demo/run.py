"""Runs the demo once, from the scripted server to the report."""

from __future__ import annotations

import argparse
import errno
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING

from rich.text import Text

from otel_itl.core.stalls import Stall
from otel_itl.testing import ScriptedServer
from otel_itl.tools.command_error import CommandError
from otel_itl.tools.demo.scenarios import Plan
from otel_itl.tools.demo.sdks import SDKS
from otel_itl.tools.demo.start import Interrupts, StartLine
from otel_itl.tools.demo.telemetry import Telemetry
from otel_itl.tools.demo.truth import Deviation, compare_with_truth
from otel_itl.tools.demo.workload import Workload
from otel_itl.tools.exit_codes import NOTHING_FOUND
from otel_itl.tools.report.reading.skipped_input import SkippedInput
from otel_itl.tools.report.render.number_format import format_duration, pluralize
from otel_itl.tools.report.render.progress import REFRESH_INTERVAL, Progress
from otel_itl.tools.report.render.report import print_report
from otel_itl.tools.report.render.styles import STYLES
from otel_itl.tools.report.render.terminal import open_terminal, print_to
from otel_itl.tools.report.summary import summarize

if TYPE_CHECKING:
    from otel_itl.tools.view.showing import PageProcess


class NothingMeasuredError(CommandError):
    """No stream was measured; the message is one sentence."""

    exit_code = NOTHING_FOUND


class Demo:
    """One run of the scripted server and the clients, and the report on what was measured.

    Args:
        plans: the requests; their SDKs are installed.
        line: shows the start; stopped when requests are sent.
        interrupts: Ctrl-C; gets what it does in each part of the demo.
        arguments: of `otel-itl demo`.
    """

    def __init__(
        self, plans: Sequence[Plan], line: StartLine, interrupts: Interrupts, arguments: argparse.Namespace
    ) -> None:
        self._plans = plans
        self._line = line
        self._interrupts = interrupts
        self._arguments = arguments
        self._is_quiet: bool = arguments.quiet
        self._terminal = open_terminal()

    def run(self) -> None:
        """Measure the streams, print the report, and on a terminal keep the page, if there is one, until Ctrl-C.

        Raises:
            CommandError: the port or the file cannot be used, or nothing was measured.
        """
        interrupts = self._interrupts
        with ExitStack() as pages:
            page = self._measure(pages)
            if page is not None and sys.stderr.isatty() and not interrupts.is_requested:
                interrupts.call(page.end)
                page.wait_for_reader()
                interrupts.end_process()

    def _measure(self, pages: ExitStack) -> PageProcess | None:
        """Measure the streams and print the report; return the page that shows them until `pages` is closed, if any."""
        arguments, skipped, page = self._arguments, SkippedInput(), None
        self._line.show("starting the scripted server")
        with (
            _running_server(arguments.port) as server,
            closing(Telemetry(arguments.output, is_shown=arguments.view)) as telemetry,
        ):
            if arguments.view:
                from otel_itl.tools.view.showing import shown_by_process  # noqa: PLC0415 - needs the extra `view`

                self._line.stop()
                page = pages.enter_context(shown_by_process(telemetry.path, opens=not arguments.no_open))
            self._interrupts.clean_up = telemetry.close
            self._send_requests(server, telemetry)
            measured = list(telemetry.finish(skipped))  # those of a demo are few
            smooth_models = {plan.model for plan in self._plans if plan.scenario.is_smooth}
            deviation = compare_with_truth(measured, server.exchanges, smooth_models)
        report = summarize(measured, skipped)
        if not report.streams:
            if self._interrupts.is_requested:
                raise NothingMeasuredError("interrupted before a stream was measured.")
            reason = skipped.summarize() or "OTEL_* variables switch it off"
            raise NothingMeasuredError(f"no stream was measured: {reason}.")
        self._interrupts.call(lambda: None)  # the report is printed to its end
        if self._interrupts.is_requested and not self._is_quiet:
            print_to(self._terminal, "interrupted: what was measured so far")
        print_report(report, self._terminal)
        if not self._is_quiet:
            lines = [*telemetry.describe_location(), _truth_sentence(deviation)]
            print_to(self._terminal, Text("\n" + "\n".join(lines), overflow="fold"))
        return page

    def _send_requests(self, server: ScriptedServer, telemetry: Telemetry) -> None:
        """Send all requests, or those before Ctrl-C."""
        workload = Workload(self._plans, server)
        telemetry.instrument(None if self._is_quiet else self._print_stall)
        for sdk in dict.fromkeys(plan.sdk for plan in self._plans):
            self._line.show(f"loading {sdk}")
            import_module(SDKS[sdk].module)  # once, and before several threads need it
        self._line.show("warming up the clients")
        workload.start()
        while not workload.is_ready.is_set() and not workload.wait(REFRESH_INTERVAL):
            pass
        self._line.stop()
        self._interrupts.call(self._interrupts.request_end)
        if not self._is_quiet:
            requests = pluralize(sum(len(plan.scripts) for plan in self._plans), "request")
            models = pluralize(len(self._plans), "scripted model")
            print_to(self._terminal, f"{requests} to {models} at {server.url}")
        with Progress(workload.lanes, self._terminal, shown=not self._is_quiet) as progress:
            while not self._interrupts.is_requested and not workload.wait(REFRESH_INTERVAL):
                progress.update()
        self._interrupts.end_process("the report was made")
        if self._interrupts.is_requested:
            workload.stop()

    def _print_stall(self, stall: Stall) -> None:
        """Print a stall while it lasts. That nothing can be printed is noticed by the report, in the main thread."""
        with suppress(OSError):
            print_to(self._terminal, _stall_line(stall))


def _stall_line(stall: Stall) -> Text:
    """Return the message about a stall that lasts."""
    kind = f"{stall.phase.value}, {stall.cause.value}".replace("_", " ")
    return Text.assemble(
        ("stalled now: ", STYLES["longest gap"]),
        (f"{stall.request.provider} {stall.request.model}", STYLES["provider"]),
        f", no token for {format_duration(stall.duration)} so far, {kind}",
    )


@contextmanager
def _running_server(port: int) -> Iterator[ScriptedServer]:
    """Start the scripted server in a process of its own, and stop it at the end of the `with` block."""
    server = ScriptedServer(port=port, process=True)
    try:
        server.start()
    except OSError as error:
        reason = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be listened on ({error.strerror})"
        raise CommandError(f"port {port} {reason}: give --port another one, or 0 for any that is free.") from error
    try:
        yield server
    finally:
        server.stop()


def _truth_sentence(deviation: Deviation | None) -> str:
    """Return the last line of the demo: how far its figures are from the script. None: nothing can be compared."""
    if deviation is None:
        return "scripted truth: no smooth stream was completed, so there is nothing to compare"
    ttft, p99 = format_duration(deviation.time_to_first_token), format_duration(deviation.itl_p99)
    streams = pluralize(deviation.streams, "smooth stream")
    return f"scripted truth: TTFT within {ttft}, p99 ITL within {p99} ({streams})"
