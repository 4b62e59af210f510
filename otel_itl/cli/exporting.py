"""Writes the streams of files as a page of one file, or as a trace for Perfetto."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import time_ns
from typing import Any

from otel_itl.tools.command_error import CommandError
from otel_itl.tools.output import check_output, open_output
from otel_itl.tools.report.reading.lines import check_readable, display_name
from otel_itl.tools.report.reading.skipped_input import SkippedInput
from otel_itl.tools.report.reading.streams import read_streams
from otel_itl.tools.report.render.number_format import pluralize
from otel_itl.tools.report.render.perfetto import write_perfetto
from otel_itl.tools.view.bundle import render_single_file
from otel_itl.tools.view.document import describe_page, describe_streams


class NothingToWriteError(CommandError):
    """The input has no usable stream; the message is one sentence."""


def write_html(sources: Sequence[str], output: str, skipped: SkippedInput) -> str:
    """Write the page with the streams of files, and return a sentence for the user.

    Raises:
        UnreadableSourceError: a source cannot be read.
        CannotWriteError: the output cannot be written.
        NothingToWriteError: no stream was read; nothing was written.
    """
    check_files(sources, output)
    streams = describe_streams(read_streams(sources, skipped))
    if not streams:
        raise nothing_in(sources, skipped)
    return write_page(streams, sources, output, {"skipped": skipped.summarize()})


def write_page(described: Sequence[dict[str, Any]], sources: Sequence[str], output: str, more: dict[str, Any]) -> str:
    """Write the page with streams that are described already, and return a sentence for the user.

    Args:
        described: the streams, as `describe_stream` returns them.
        sources: the files that they come from, for the title.
        output: the file to write.
        more: further keys of the page's document.

    Raises:
        CannotWriteError: the output cannot be written.
    """
    document = describe_page(described, name=_name(sources), made_unix_us=time_ns() // 1_000, more=more)
    text = render_single_file(document)
    with open_output(output) as file:
        file.write(text)
    return f"{output}: {pluralize(len(described), 'stream')} on a page that works offline; open it in a browser"


def write_perfetto_file(sources: Sequence[str], output: str, skipped: SkippedInput) -> str:
    """Write the streams of files as a trace, and return a sentence for the user; raises as `write_html` does."""
    check_files(sources, output)
    streams = list(read_streams(sources, skipped))
    if not streams:
        raise nothing_in(sources, skipped)
    with open_output(output) as file:
        write_perfetto(streams, file)
    return f"{output}: {pluralize(len(streams), 'stream')}; open it in https://ui.perfetto.dev"


def check_files(sources: Sequence[str], output: str) -> None:
    """Check that the output has a name, and that the sources can be read and are not the output.

    Raises:
        UnreadableSourceError: a source cannot be read.
        CannotWriteError: the output is no file, or one of the sources.
    """
    check_output(output, sources)
    for source in sources:
        check_readable(source)


def _name(sources: Sequence[str]) -> str:
    return Path(display_name(sources[0])).name if len(sources) == 1 else f"{len(sources)} files"


def nothing_in(sources: Sequence[str], skipped: SkippedInput) -> NothingToWriteError:
    """Return the error for an input without a usable stream."""
    reason = skipped.summarize() or "no span and no log record in it carries token events"
    return NothingToWriteError(f"no usable stream in {_name(sources)}: {reason}.")
