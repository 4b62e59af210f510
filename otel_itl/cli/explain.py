"""`otel-itl report --explain`: reads streams, finds what drives their latency, prints it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from datetime import timezone
from typing import Any

from otel_itl.cli.exporting import check_files, nothing_in, write_page
from otel_itl.tools.command_error import CommandError
from otel_itl.tools.exit_codes import NOTHING_FOUND
from otel_itl.tools.explain.explaining import explain
from otel_itl.tools.explain.findings import Explanation
from otel_itl.tools.explain.render.json import explanation_to_json
from otel_itl.tools.explain.render.page import describe_for_page
from otel_itl.tools.explain.render.words import describe_short_input, describe_too_few
from otel_itl.tools.explain.trials import MIN_STREAMS
from otel_itl.tools.report.reading.lines import check_readable
from otel_itl.tools.report.reading.skipped_input import SkippedInput, SkipReason
from otel_itl.tools.report.reading.streams import StoredStream, read_streams
from otel_itl.tools.stderr import print_line
from otel_itl.tools.view.document import describe_stream


class TooFewStreamsError(CommandError):
    """No model of the input has enough streams; the message is one sentence."""

    exit_code = NOTHING_FOUND


def run_explain(arguments: argparse.Namespace) -> int:
    """Run `otel-itl report --explain`, and return its exit code.

    Raises:
        CommandError: the input cannot be explained, or the output cannot be written.
    """
    skipped = SkippedInput()
    described: list[dict[str, Any]] = []
    if arguments.html is not None:
        check_files(arguments.files, arguments.html)
    for source in arguments.files:
        check_readable(source)
    streams = read_streams(arguments.files, skipped)
    if arguments.html is not None:
        streams = _describe_each(streams, described)
    explanation = explain(streams, arguments.zone or timezone.utc, includes_buffered=arguments.include_buffered)
    _print_warnings(explanation, skipped)
    if not explanation.streams and not explanation.set_aside:
        raise nothing_in(arguments.files, skipped)
    if not any(facts.tested.values() for facts in explanation.models):
        raise TooFewStreamsError(describe_too_few(explanation, MIN_STREAMS))
    if arguments.html is not None:
        more = {"skipped": skipped.summarize(), "explanation": describe_for_page(explanation)}
        print(write_page(described, arguments.files, arguments.html, more))
    else:
        _print(explanation, skipped, is_json=arguments.json)
    return 0


def _print_warnings(explanation: Explanation, skipped: SkippedInput) -> None:
    """Print what was skipped in the input, and what cannot be seen in an input of less than an hour."""
    for line in skipped.describe():
        print_line(line)
    if warning := describe_short_input(explanation):
        print(f"otel-itl report: {warning}", file=sys.stderr)


def _describe_each(streams: Iterable[StoredStream], described: list[dict[str, Any]]) -> Iterator[StoredStream]:
    """Yield streams, and append the description of each for the page."""
    for stream in streams:
        described.append(describe_stream(stream))
        yield stream


def _print(explanation: Explanation, skipped: SkippedInput, *, is_json: bool) -> None:
    """Print the explanation in the form that is asked for."""
    if is_json:
        skipped_input = {reason.value: skipped.counts[reason] for reason in SkipReason}
        print(explanation_to_json(explanation, skipped_input))
        return
    from otel_itl.tools.explain.render.terminal import print_explanation  # noqa: PLC0415 - only this form needs rich
    from otel_itl.tools.report.render.terminal import open_terminal  # noqa: PLC0415 - likewise

    print_explanation(explanation, open_terminal())
