"""`otel-itl compare`: reads two sides, compares them, prints the answers."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from otel_itl.cli.input import Input, check_slo
from otel_itl.core.moments import format_time
from otel_itl.tools.command_error import CommandError
from otel_itl.tools.compare.comparison import compare
from otel_itl.tools.compare.gate import exit_code
from otel_itl.tools.compare.otava import CONFIGURATION_MARK, make_series
from otel_itl.tools.compare.render.html import comparison_to_html
from otel_itl.tools.compare.render.json import comparison_to_json
from otel_itl.tools.compare.render.markdown import comparison_to_markdown
from otel_itl.tools.compare.render.words import headline
from otel_itl.tools.compare.requests import Side
from otel_itl.tools.compare.sides import CannotSplitError, read_by_attribute, read_by_time, read_file, read_runs
from otel_itl.tools.output import CannotWriteError, check_output, open_output
from otel_itl.tools.report.reading.skipped_input import SkippedInput
from otel_itl.tools.report.render.number_format import pluralize


def run_compare(arguments: argparse.Namespace) -> int:
    """Run `otel-itl compare`, and return its exit code.

    Raises:
        CommandError: the input cannot be compared, or the output cannot be written.
    """
    given = Input(arguments.files, arguments.html, arguments.otava)
    if arguments.otava is not None:
        return _write_series(arguments, given)
    a, b = _read_sides(arguments, given.skipped)
    given.print_skipped()
    empty = next((side for side in (a, b) if not side.requests), None)
    if empty is not None:
        raise CommandError(f"no usable stream in {empty.name}: there is nothing to compare.")
    check_slo(arguments.slo, (request.model.partition(" / ")[2] for side in (a, b) for request in side.requests))
    comparison = compare(a, b, arguments.margin, seed=arguments.seed)
    sentence, code = headline(comparison, arguments.fail_on), exit_code(comparison, arguments.fail_on)
    if arguments.html is not None:
        with open_output(arguments.html) as file:
            file.write(comparison_to_html(comparison, sentence))
    if arguments.json:
        print(comparison_to_json(comparison, sentence, code))
    elif arguments.markdown:
        print(comparison_to_markdown(comparison, sentence), end="")
    else:
        from otel_itl.tools.compare.render.terminal import print_comparison  # noqa: PLC0415 - only this form needs rich
        from otel_itl.tools.report.render.terminal import open_terminal  # noqa: PLC0415 - likewise

        print_comparison(comparison, sentence, open_terminal())
    return code


def _read_sides(arguments: argparse.Namespace, skipped: SkippedInput) -> tuple[Side, Side]:
    """Read the two sides that the arguments name.

    Raises:
        CannotSplitError: they do not name two sides, or the input does not have them.
        UnreadableSourceError: a file cannot be read.
    """
    files: Sequence[str] = arguments.files
    slo, before, after = arguments.slo, arguments.before, arguments.after
    is_by_time = before is not None or after is not None
    if arguments.by is not None and is_by_time:
        raise CannotSplitError("--by and --before or --after both split the input: leave one out.")
    if arguments.by is not None:
        return read_by_attribute(files, arguments.by, skipped, slo)
    if is_by_time:
        before, after = after if before is None else before, before if after is None else after
        if before > after:
            raise CannotSplitError("--before is later than --after: a stream would be on both sides.")
        return read_by_time(files, before, after, skipped, slo)
    if len(files) != 2:  # noqa: PLR2004 - two sides
        message = f"name two files, A and B, or split one with --by, --before or --after: got {len(files)}."
        raise CannotSplitError(message)
    return read_file(files[0], skipped, slo), read_file(files[1], skipped, slo)


def _write_series(arguments: argparse.Namespace, given: Input) -> int:
    """Write the runs for apache-otava, and print how to analyze them.

    Raises:
        CannotWriteError: a file cannot be written, or the configuration's is somebody else's.
        UnreadableSourceError: a file cannot be read.
    """
    runs = read_runs(arguments.files, given.skipped, arguments.slo)
    given.print_skipped()
    if not runs:
        raise CommandError("no usable stream in any of the files.")
    path = Path(arguments.otava)
    configuration = path.with_name(f"{path.name}.otava.yaml")
    check_output(configuration, arguments.files)
    if configuration.exists() and not configuration.read_text("utf-8", "replace").startswith(CONFIGURATION_MARK):
        raise CannotWriteError(f"{configuration} is not of otel-itl, and is left as it is: name another CSV file.")
    for file_path, text in zip((path, configuration), make_series(runs, path), strict=True):
        with open_output(file_path) as file:
            file.write(text)
    # Of its own accord, otava leaves out what is older than about a month.
    analyze = f"OTAVA_CONFIG={configuration} otava analyze streams --since {format_time(runs[0].first_unix_ns)}"
    print(f"{pluralize(len(runs), 'run')} in {path}. Next: {analyze}")
    return 0
