"""`otel-itl report`: reads streams, and writes the report on them, what drives their latency, a page or a trace."""

# ruff: noqa: PLC0415 - what only one form needs is imported where it is written

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timezone
from pathlib import Path
from typing import Any

from otel_itl.cli.input import Input, check_slo, read_selection
from otel_itl.tools.command_error import CommandError
from otel_itl.tools.exit_codes import NOTHING_FOUND
from otel_itl.tools.output import open_output
from otel_itl.tools.report.reading.streams import StoredStream
from otel_itl.tools.report.render.number_format import pluralize


class TooFewStreamsError(CommandError):
    """No model of the input has enough streams; the message is one sentence."""

    exit_code = NOTHING_FOUND


def print_report(arguments: argparse.Namespace) -> None:
    """Print the report, or one session, as tables or as JSON.

    Raises:
        CommandError: the input cannot be reported on.
    """
    from otel_itl.tools.report.sessions import find_session
    from otel_itl.tools.report.summary import summarize

    # The one session is looked for among all, so that the message on one that does not exist names similar ones.
    given = Input(arguments.files, selection=replace(read_selection(arguments), sessions=()))
    report = summarize(given.read(), given.skipped, arguments.tool, arguments.slo, arguments.by)
    given.check_streams(has_any=report.streams > 0)
    check_slo(arguments.slo, (row.model for row in report.rows))
    session = None if arguments.session is None else find_session(report.sessions, arguments.session)
    if arguments.json:
        from otel_itl.tools.report.render.json import report_to_json

        print(report_to_json(report, session))
        return
    from otel_itl.tools.report.render.report import print_report as print_tables
    from otel_itl.tools.report.render.terminal import open_terminal

    print_tables(session or report, open_terminal())


def write_page(arguments: argparse.Namespace) -> None:
    """Write the page with every stream as one file.

    Raises:
        CommandError: the input has no stream, or the page cannot be written.
    """
    from otel_itl.tools.view.document import describe_stream

    given = Input(arguments.files, arguments.html, selection=read_selection(arguments))
    described = [describe_stream(stream, arguments.by) for stream in given.read()]
    given.check_streams(has_any=bool(described))
    _write_page(described, given, arguments.html)


def write_trace(arguments: argparse.Namespace) -> None:
    """Write every stream as a trace for Perfetto; raises as `write_page` does."""
    from otel_itl.tools.report.render.perfetto import write_perfetto

    output = arguments.perfetto
    given = Input(arguments.files, output, selection=read_selection(arguments))
    streams = list(given.read())
    given.check_streams(has_any=bool(streams))
    with open_output(output) as file:
        write_perfetto(streams, file)
    print(f"{output}: {pluralize(len(streams), 'stream')}; open it in https://ui.perfetto.dev")


def explain_latency(arguments: argparse.Namespace) -> None:
    """Print what drives TTFT and ITL, in words or as JSON, or write it on a page.

    Raises:
        CommandError: the input cannot be explained, or the page cannot be written.
    """
    from otel_itl.tools.explain.explaining import explain
    from otel_itl.tools.explain.render.words import describe_short_input, describe_too_few
    from otel_itl.tools.explain.trials import MIN_STREAMS

    given = Input(arguments.files, arguments.html, selection=read_selection(arguments))
    described = list[dict[str, Any]]()
    streams = given.read() if arguments.html is None else _describe_each(given.read(), described)
    explanation = explain(streams, arguments.zone or timezone.utc, arguments.by)
    given.check_streams(has_any=explanation.streams > 0)
    if warning := describe_short_input(explanation):
        print(f"otel-itl report: {warning}", file=sys.stderr)
    if not any(facts.tested for facts in explanation.models):
        raise TooFewStreamsError(describe_too_few(explanation, MIN_STREAMS))
    if arguments.html is not None:
        from otel_itl.tools.explain.render.page import describe_for_page

        _write_page(described, given, arguments.html, {"explanation": describe_for_page(explanation)})
    elif arguments.json:
        from otel_itl.tools.explain.render.json import explanation_to_json

        print(explanation_to_json(explanation, given.skipped.by_name))
    else:
        from otel_itl.tools.explain.render.terminal import print_explanation
        from otel_itl.tools.report.render.terminal import open_terminal

        print_explanation(explanation, open_terminal())


def _describe_each(streams: Iterable[StoredStream], described: list[dict[str, Any]]) -> Iterator[StoredStream]:
    """Yield streams, and append the description of each for the page."""
    from otel_itl.tools.view.document import describe_stream

    for stream in streams:
        described.append(describe_stream(stream))
        yield stream


def _write_page(
    described: Sequence[dict[str, Any]], given: Input, output: str, more: Mapping[str, Any] | None = None
) -> None:
    """Write the page with streams that are described already, and print what to do with it.

    Args:
        described: the streams, as `describe_stream` returns them.
        given: the input that they come from.
        output: the file to write.
        more: further keys of the page's document.

    Raises:
        CannotWriteError: the output cannot be written.
    """
    from otel_itl.tools.view.bundle import render_page
    from otel_itl.tools.view.document import describe_page

    keys = {"skipped": given.skipped.summarize(), "selected": given.selection.describe(), **(more or {})}
    text = render_page(describe_page(described, Path(given.name).name, keys))
    with open_output(output) as file:
        file.write(text)
    print(f"{output}: {pluralize(len(described), 'stream')} on a page that works offline; open it in a browser")
