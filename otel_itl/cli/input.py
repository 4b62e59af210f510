"""The input of a command: checks its files, reads their streams, and prints what of them cannot be used."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from otel_itl.core.slo import Objectives
from otel_itl.tools.command_error import CommandError
from otel_itl.tools.output import check_output
from otel_itl.tools.report.reading.documents import check_readable, display_name
from otel_itl.tools.report.reading.skipped_input import SkippedInput, SkipReason
from otel_itl.tools.report.reading.streams import StoredStream, read_streams
from otel_itl.tools.report.selection import Selection
from otel_itl.tools.stderr import print_line

_MAX_NAMED: Final = 5
"""Models that a message names."""


class Input:
    """The files that a command reads.

    Args:
        files: paths; `-` is standard input.
        outputs: the files that it writes; None: it does not write that one.
        selection: which streams of the files it uses; None: all.

    Raises:
        CommandError: a file cannot be read, or an output is no file or one of those that are read.
    """

    def __init__(self, files: Sequence[str], *outputs: str | None, selection: Selection | None = None) -> None:
        for output in outputs:
            if output is not None:
                check_output(output, files)
        for source in files:
            check_readable(source)
        self.files = files
        self.name = display_name(files[0]) if len(files) == 1 else f"{len(files)} files"
        self.skipped = SkippedInput()
        self.selection = selection or Selection()

    def read(self, *files: str) -> Iterator[StoredStream]:
        """Yield the selected streams of these files, by default of all, as `read_streams` does."""
        return self.selection.select(read_streams(files or self.files, self.skipped))

    def print_skipped(self) -> None:
        """Print what cannot be used, and which part of the streams is selected, once the files have been read."""
        for line in self.skipped.describe():
            print_line(line)
        if self.selection.selected and (selected := self.selection.describe()):
            print_line(selected)

    def check_streams(self, *, has_any: bool) -> None:
        """Print what cannot be used, once the files have been read.

        Raises:
            CommandError: there is no stream in them.
        """
        if len(self.files) == 1 and self.skipped.counts == {SkipReason.EMPTY: 1}:
            raise CommandError(f"{self.name} is empty.")
        if not has_any and not self.selection.read and self.skipped.counts.total() == 1:
            (line,) = self.skipped.describe()
            raise CommandError(f"no usable stream: {line}.")
        self.print_skipped()
        if not has_any and self.selection.read:
            read = "the one stream" if self.selection.read == 1 else f"none of the {self.selection.read:,} streams"
            verb = "is not" if self.selection.read == 1 else "is"
            raise CommandError(f"{read} of {self.name} {verb} selected by {self.selection.options}.")
        if not has_any:
            reason = self.skipped.summarize() or "no span and no log record in it carries token events"
            raise CommandError(f"no usable stream in {self.name}: {reason}.")


def read_selection(arguments: argparse.Namespace) -> Selection:
    """Return the selection that the arguments of `add_selection` name."""
    return Selection(
        since=arguments.since,
        until=arguments.until,
        models=arguments.models,
        providers=arguments.providers,
        sessions=() if arguments.session is None else (arguments.session,),
        where=arguments.where,
    )


def check_slo(slo: Objectives | None, models: Iterable[str]) -> None:
    """Check that `--slo`, if it is given, has an objective for any of these models.

    Raises:
        CommandError: it does not.
    """
    names = sorted(set(models))
    if slo is None or not names or any(slo.for_model(name) for name in names):
        return
    patterns = ", ".join(pattern for pattern, _ in slo.by_model)
    more = f" and {len(names) - _MAX_NAMED:,} more" if len(names) > _MAX_NAMED else ""
    raise CommandError(
        f"--slo is for {patterns!r}, which is no model of the input: it has {', '.join(names[:_MAX_NAMED])}{more}."
    )
