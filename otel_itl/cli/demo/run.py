"""One run of the demonstration, from the scripted server to the report."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from rich.text import Text

from otel_itl.cli.demo.scenarios import Plan, plan
from otel_itl.cli.demo.telemetry import AsEnvironmentSays, ToFile, telemetry
from otel_itl.cli.demo.truth import Deviation, deviation
from otel_itl.cli.demo.workload import Workload
from otel_itl.core.stalls import Stall
from otel_itl.report.reading.skipped_input import SkippedInput
from otel_itl.report.reading.streams import Stream
from otel_itl.report.render.console import show
from otel_itl.report.render.number_format import duration, plural
from otel_itl.report.render.progress import REFRESH_SECONDS, Progress
from otel_itl.report.render.styles import STYLES
from otel_itl.report.render.terminal import Screen, put, screen
from otel_itl.report.summary import summarise
from otel_itl.testing import ScriptedServer


class CannotStartError(Exception):
    """The demonstration cannot begin; the message is one sentence that says why."""


class NothingMeasuredError(Exception):
    """No stream was measured; the message is one sentence."""


def run(*, seed: int, seconds: float, output: str | None, port: int, quiet: bool) -> None:
    """Play, measure, report.

    Args:
        seed: what the pace of the scripted models is drawn from.
        seconds: how long to send requests.
        output: the new file for the telemetry; None: see `telemetry`.
        port: of the scripted server; 0: any.
        quiet: print the report and nothing else.

    Raises:
        CannotStartError: the port or the file cannot be used.
        NothingMeasuredError: nothing was measured.
    """
    to = screen()
    plans = plan(seed, seconds)
    losses = SkippedInput()
    with _started(port) as server:
        sink = _sink(output)
        _play(plans, server, sink, to, quiet=quiet)
        measured: list[Stream] = []
        report = summarise(_kept(sink.streams(losses), measured), losses)
        truth = deviation(measured, server.exchanges, {one.scenario.model for one in plans if one.scenario.smooth})
    if not report.streams:
        why = losses.summary() or "it was interrupted, or OTEL_* variables switch it off"
        raise NothingMeasuredError(f"no stream was measured: {why}.")
    show(report, to)
    if not quiet:
        put(Text("\n" + "\n".join([*sink.whereabouts(), _truth_sentence(truth)]), overflow="fold"), to)


def _play(
    plans: list[Plan], server: ScriptedServer, sink: ToFile | AsEnvironmentSays, to: Screen, *, quiet: bool
) -> None:
    """Have all requests made, or those until Ctrl-C."""
    workload = Workload(plans, server, sink.opened)
    requests = sum(len(one.scripts) for one in plans)
    try:
        if not quiet:
            put(f"{plural(requests, 'request')} to {plural(len(plans), 'scripted model')} at {server.url}", to)
        sink.instrument(None if quiet else lambda stall: put(_stall_line(stall), to))
        workload.start()
        with Progress(workload.lanes, to, shown=not quiet) as progress:
            while not workload.wait(REFRESH_SECONDS):
                progress.update()
    except KeyboardInterrupt:
        workload.stop()
        if not quiet:
            put("interrupted: what was measured so far", to)


def _stall_line(stall: Stall) -> Text:
    """A stall while it lasts."""
    kind = f"{stall.phase.value}, {stall.cause.value}".replace("_", " ")
    return Text.assemble(
        ("stalled now: ", STYLES["longest gap"]),
        (f"{stall.request.provider} {stall.request.model}", STYLES["provider"]),
        f", no token for {duration(stall.duration)} so far, {kind}",
    )


def _kept(streams: Iterable[Stream], kept: list[Stream]) -> Iterator[Stream]:
    """The streams of a few seconds are few: they are kept, to be held against the truth."""
    for stream in streams:
        kept.append(stream)
        yield stream


@contextmanager
def _started(port: int) -> Iterator[ScriptedServer]:
    server = ScriptedServer(port=port, process=True)
    try:
        server.start()
    except OSError as error:
        raise CannotStartError(_port_sentence(port, error)) from error
    try:
        yield server
    finally:
        server.stop()


def _sink(output: str | None) -> ToFile | AsEnvironmentSays:
    try:
        return telemetry(output)
    except FileExistsError as error:
        raise CannotStartError(f"{output} exists and is left as it is: give --output a new name.") from error
    except OSError as error:
        where = output or "the current directory"
        raise CannotStartError(f"{where} cannot be written to ({error.strerror}): give --output a place.") from error


def _port_sentence(port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is in use: give --port another one, or 0 for any that is free."
    return f"port {port} cannot be listened on ({error.strerror}): give --port another one, or 0 for any that is free."


def _truth_sentence(truth: Deviation | None) -> str:
    if truth is None:
        return "scripted truth: no smooth stream was completed, so there is nothing to hold against it"
    return (
        f"scripted truth: TTFT within {duration(truth.time_to_first_token)}, p99 ITL within {duration(truth.itl_p99)} "
        f"({plural(truth.streams, 'smooth stream')})"
    )
