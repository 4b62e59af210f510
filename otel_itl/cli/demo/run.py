"""Runs the demo once, from the scripted server to the report."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from rich.text import Text

from otel_itl.cli.demo.scenarios import Plan
from otel_itl.cli.demo.telemetry import EnvironmentTelemetry, FileTelemetry, open_telemetry
from otel_itl.cli.demo.truth import Deviation, compare_with_truth
from otel_itl.cli.demo.workload import Workload
from otel_itl.core.stalls import Stall
from otel_itl.report.reading.skipped_input import SkippedInput
from otel_itl.report.reading.streams import StoredStream
from otel_itl.report.render.number_format import format_duration, pluralize
from otel_itl.report.render.progress import REFRESH_INTERVAL, Progress
from otel_itl.report.render.report import print_report
from otel_itl.report.render.styles import STYLES
from otel_itl.report.render.terminal import Terminal, open_terminal, print_to
from otel_itl.report.summary import summarize
from otel_itl.testing import ScriptedServer


class CannotStartError(Exception):
    """The demo cannot start; the message is one sentence with the reason."""


class NothingMeasuredError(Exception):
    """No stream was measured; the message is one sentence."""


def run_demo(plans: Sequence[Plan], *, output: str | None, port: int, quiet: bool) -> None:
    """Run the scripted server and the clients, and print a report on what was measured.

    Args:
        plans: the requests; their SDKs are installed.
        output: the new file for the telemetry; None: see `open_telemetry`.
        port: of the scripted server; 0: any free one.
        quiet: print only the report.

    Raises:
        CannotStartError: the port or the file cannot be used.
        NothingMeasuredError: nothing was measured.
    """
    terminal = open_terminal()
    skipped = SkippedInput()
    with _running_server(port) as server:
        telemetry = _open_telemetry(output)
        _run_workload(plans, server, telemetry, terminal, quiet=quiet)
        measured: list[StoredStream] = []
        report = summarize(_keep(telemetry.finish(skipped), measured), skipped)
        smooth_models = {plan.model for plan in plans if plan.scenario.is_smooth}
        deviation = compare_with_truth(measured, server.exchanges, smooth_models)
    if not report.streams:
        reason = skipped.summarize() or "it was interrupted, or OTEL_* variables switch it off"
        raise NothingMeasuredError(f"no stream was measured: {reason}.")
    print_report(report, terminal)
    if not quiet:
        lines = [*telemetry.describe_location(), _truth_sentence(deviation)]
        print_to(terminal, Text("\n" + "\n".join(lines), overflow="fold"))


def _run_workload(
    plans: Sequence[Plan],
    server: ScriptedServer,
    telemetry: FileTelemetry | EnvironmentTelemetry,
    terminal: Terminal,
    *,
    quiet: bool,
) -> None:
    """Send all requests, or those before Ctrl-C."""
    workload = Workload(plans, server, telemetry.on_stream_opened)
    requests = sum(len(plan.scripts) for plan in plans)
    try:
        if not quiet:
            models = pluralize(len(plans), "scripted model")
            print_to(terminal, f"{pluralize(requests, 'request')} to {models} at {server.url}")
        telemetry.instrument(None if quiet else lambda stall: print_to(terminal, _stall_line(stall)))
        workload.start()
        with Progress(workload.lanes, terminal, shown=not quiet) as progress:
            while not workload.wait(REFRESH_INTERVAL):
                progress.update()
    except KeyboardInterrupt:
        workload.stop()
        if not quiet:
            print_to(terminal, "interrupted: what was measured so far")


def _stall_line(stall: Stall) -> Text:
    """Return the message about a stall that lasts."""
    kind = f"{stall.phase.value}, {stall.cause.value}".replace("_", " ")
    return Text.assemble(
        ("stalled now: ", STYLES["longest gap"]),
        (f"{stall.request.provider} {stall.request.model}", STYLES["provider"]),
        f", no token for {format_duration(stall.duration)} so far, {kind}",
    )


def _keep(streams: Iterable[StoredStream], kept: list[StoredStream]) -> Iterator[StoredStream]:
    """Pass streams on, and keep them to compare them with the truth: those of a demo are few."""
    for stream in streams:
        kept.append(stream)
        yield stream


@contextmanager
def _running_server(port: int) -> Iterator[ScriptedServer]:
    """Start the scripted server in a process of its own, and stop it at the end of the `with` block."""
    server = ScriptedServer(port=port, process=True)
    try:
        server.start()
    except OSError as error:
        reason = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be listened on ({error.strerror})"
        raise CannotStartError(f"port {port} {reason}: give --port another one, or 0 for any that is free.") from error
    try:
        yield server
    finally:
        server.stop()


def _open_telemetry(output: str | None) -> FileTelemetry | EnvironmentTelemetry:
    """Open the telemetry, and turn a failure into a `CannotStartError`."""
    try:
        return open_telemetry(output)
    except FileExistsError as error:
        raise CannotStartError(f"{output} exists and is left as it is: give --output a new name.") from error
    except OSError as error:
        where = output or "the current directory"
        raise CannotStartError(f"{where} cannot be written to ({error.strerror}): give --output a place.") from error


def _truth_sentence(deviation: Deviation | None) -> str:
    """Return the last line of the demo: how far its figures are from the script. None: nothing can be compared."""
    if deviation is None:
        return "scripted truth: no smooth stream was completed, so there is nothing to compare"
    ttft, p99 = format_duration(deviation.time_to_first_token), format_duration(deviation.itl_p99)
    streams = pluralize(deviation.streams, "smooth stream")
    return f"scripted truth: TTFT within {ttft}, p99 ITL within {p99} ({streams})"
