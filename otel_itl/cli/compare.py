"""`otel-itl compare`: reads two sides, compares them, prints the answers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from otel_itl.cli.input import Input, check_slo, read_selection
from otel_itl.core import conventions as names
from otel_itl.tools.command_error import CommandError
from otel_itl.tools.compare.baseline import write_baseline
from otel_itl.tools.compare.comparison import compare
from otel_itl.tools.compare.gate import exit_code
from otel_itl.tools.compare.render.json import comparison_to_json
from otel_itl.tools.compare.render.junit import comparison_to_junit
from otel_itl.tools.compare.render.markdown import comparison_to_markdown
from otel_itl.tools.compare.render.words import headline
from otel_itl.tools.compare.requests import Side
from otel_itl.tools.compare.results import Comparison
from otel_itl.tools.compare.sides import CannotSplitError, SideReader
from otel_itl.tools.output import let_reader_go, open_output
from otel_itl.tools.report.reading.streams import StoredStream
from otel_itl.tools.report.selection import Selection

_OF_MODELS: Final = frozenset({names.REQUEST_MODEL, names.RESPONSE_MODEL, names.PROVIDER_NAME})
"""Attributes by which models are compared to each other."""


def run_compare(arguments: argparse.Namespace) -> int:
    """Run `otel-itl compare`, and return its exit code.

    Raises:
        CommandError: the input cannot be compared, or the output cannot be written.
    """
    files, selection = [*arguments.files, *arguments.a, *arguments.b], read_selection(arguments)
    outputs = (arguments.html, arguments.junit, arguments.save_baseline)
    given = Input(files, *outputs, selection=selection)
    reader = SideReader(given.skipped, selection, arguments.slo, None if arguments.html is None else _describe)
    _show("reading …")
    try:
        alone = _find_alone(arguments)
        sides = [reader.read_files(alone)] if alone else _read_sides(arguments, reader)
    finally:
        _show("")
    given.print_skipped()
    _check_sides(arguments, selection, *sides)
    if arguments.save_baseline is not None:
        with open_output(arguments.save_baseline) as file:
            write_baseline(sides[-1], file)
    if alone:
        return 0
    a, b = sides
    is_of_models = arguments.by is not None and arguments.by.partition("=")[0] in _OF_MODELS
    _show(f"comparing {len(a.requests) + len(b.requests):,} streams …")
    comparison = replace(compare(a, b, arguments.margin, seed=arguments.seed), is_of_models=is_of_models)
    _show("")
    sentence, code = headline(comparison, arguments.fail_on), exit_code(comparison, arguments.fail_on)
    if arguments.html is not None:
        _write_page(comparison, sentence, arguments.html)
    if arguments.junit is not None:
        with open_output(arguments.junit) as file:
            file.write(comparison_to_junit(comparison, sentence, arguments.fail_on))
    with let_reader_go():
        _print(arguments, comparison, sentence, code)
    return code


def _check_sides(arguments: argparse.Namespace, selection: Selection, *sides: Side) -> None:
    """Check that both sides have streams, and `--slo` is for any of their models.

    Raises:
        CommandError: they have not, or it is not.
    """
    empty = next((side for side in sides if not side.requests), None)
    if empty is not None:
        lacking = f" that is selected by {selection.options}" if selection.options else ""
        raise CommandError(f"no usable stream in {empty.name}{lacking}: there is nothing to compare.")
    check_slo(arguments.slo, (request.model.partition(" / ")[2] for side in sides for request in side.requests))


def _print(arguments: argparse.Namespace, comparison: Comparison, sentence: str, code: int) -> None:
    """Print a comparison in the form that the arguments ask for."""
    if arguments.json:
        print(comparison_to_json(comparison, sentence, code))
    elif arguments.markdown:
        print(comparison_to_markdown(comparison, sentence), end="")
    else:
        from otel_itl.tools.compare.render.terminal import print_comparison  # noqa: PLC0415 - only this form needs rich
        from otel_itl.tools.report.render.terminal import open_terminal  # noqa: PLC0415 - likewise

        print_comparison(comparison, sentence, open_terminal())


def _write_page(comparison: Comparison, sentence: str, path: str) -> None:
    """Write the page with the streams of both sides."""
    from otel_itl.tools.view.bundle import render_page  # noqa: PLC0415 - only this form needs the page
    from otel_itl.tools.view.document import describe_page  # noqa: PLC0415 - likewise

    sides = list(comparison.sides.values())
    streams = [stream | {"side": number} for number, side in enumerate(sides) for stream in side.described]
    document = describe_page(streams, "compare", {"sides": [side.name for side in sides], "headline": sentence})
    with open_output(path) as file:
        file.write(render_page(document))


def _describe(stream: StoredStream) -> dict[str, Any]:
    """Describe a stream for the page."""
    from otel_itl.tools.view.document import describe_stream  # noqa: PLC0415 - only this form needs the page

    return describe_stream(stream)


def _show(step: str) -> None:
    """Show on a terminal what is being done; an empty step wipes the line."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{step}")
        sys.stderr.flush()


def _find_alone(arguments: argparse.Namespace) -> Sequence[str]:
    """Return the files of the one side that there is, to be written as a baseline; empty: there are to be two."""
    is_split = any(option is not None for option in (arguments.by, arguments.before, arguments.after))
    if arguments.save_baseline is None or is_split or arguments.a:
        return []
    named: list[Sequence[str]] = [files for files in (arguments.files, arguments.b) if files]
    is_alone = len(named) == 1 and (bool(arguments.b) or len(arguments.files) == 1)
    return named[0] if is_alone else []


def _read_sides(arguments: argparse.Namespace, reader: SideReader) -> tuple[Side, Side]:
    """Read the two sides that the arguments name.

    Raises:
        CannotSplitError: they do not name two sides, or the input does not have them.
        UnreadableSourceError: a file cannot be read.
    """
    files: Sequence[str] = arguments.files
    before, after = arguments.before, arguments.after
    is_by_time, has_runs = before is not None or after is not None, bool(arguments.a or arguments.b)
    ways = {"--by": arguments.by is not None, "--before or --after": is_by_time, "--a and --b": has_runs}
    chosen = [option for option, is_chosen in ways.items() if is_chosen]
    if len(chosen) > 1:
        raise CannotSplitError(f"{chosen[0]} and {chosen[1]} both split the input: leave one out.")
    if has_runs:
        if files or not (arguments.a and arguments.b):
            raise CannotSplitError("--a and --b name the files of both sides: give both, and no other files.")
        return reader.read_files(arguments.a), reader.read_files(arguments.b)
    if not files:
        raise CannotSplitError("name two files, A and B, or --a FILE ... --b FILE ...: got none.")
    if arguments.by is not None:
        return reader.read_by_attribute(files, arguments.by)
    if is_by_time:
        before, after = after if before is None else before, before if after is None else after
        if before > after:
            raise CannotSplitError("--before is later than --after: a stream would be on both sides.")
        return reader.read_by_time(files, before, after)
    if len(files) != 2:  # noqa: PLR2004 - two sides
        message = f"name two files, A and B, or split one with --by, --before or --after: got {len(files)}."
        raise CannotSplitError(message)
    return reader.read_files(files[:1]), reader.read_files(files[1:])
