"""The file of a run's telemetry: begun anew, or added to, but only where it is one of ours."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Final

from otel_itl.cli.launch.command import BAD_USAGE, CannotLaunchError

DEFAULT_OUTPUT: Final = "otel-itl.jsonl"

_OWNER_ONLY: Final = 0o600
_SNIFFED_BYTES: Final = 4_096
_OTLP_START: Final = re.compile(rb'\s*\{\s*"resource(?:Spans|Metrics|Logs)"\s*:')
_MAX_ROTATED: Final = 99


class OutputFile:
    """The file that the processes of one run append OTLP JSON lines to.

    Args:
        path: as the caller named it.
    """

    def __init__(self, path: str) -> None:
        self.name = path
        self.path = Path(path).absolute()

    @property
    def parts(self) -> list[Path]:
        """The file and those that it was rotated to (`<name>.1`, …), the oldest first."""
        rotated = []
        for number in range(1, _MAX_ROTATED):
            candidate = self.path.with_name(f"{self.path.name}.{number}")
            if not candidate.exists():
                break
            rotated.append(candidate)
        return [*reversed(rotated), self.path]

    @property
    def part_names(self) -> list[str]:
        """The names of the parts, as the caller named the file."""
        return [self.name + part.name.removeprefix(self.path.name) for part in self.parts]

    def begin(self, *, append: bool) -> None:
        """Make the file, readable by its owner only, in the place of one that holds OTLP JSON lines.

        Args:
            append: leave what it holds.

        Raises:
            CannotLaunchError: it holds something else, or cannot be written to.
        """
        try:
            self._refuse_foreign()
            if not append:
                for rotated in self.parts[:-1]:
                    if _is_otlp(rotated):
                        rotated.unlink()
                self.path.unlink(missing_ok=True)  # one of another mode, too, is begun as its owner's alone
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT, _OWNER_ONLY))
        except OSError as error:
            raise CannotLaunchError(
                f"{self.name} cannot be written to ({error.strerror or error}): give --output another place.", BAD_USAGE
            ) from error

    def remove_if_empty(self) -> None:
        """Remove the file where nothing was written to it: an empty one would only be refused by a report."""
        if self.path.is_file() and self.path.stat().st_size == 0:
            self.path.unlink()

    def _refuse_foreign(self) -> None:
        """Refuse what is no file of ours.

        Raises:
            CannotLaunchError: it is a link, a directory or a device, or holds something else than OTLP JSON lines.
            OSError: it cannot be read.
        """
        try:
            mode = os.lstat(self.path).st_mode
        except FileNotFoundError:
            return
        if not stat.S_ISREG(mode):
            raise CannotLaunchError(f"{self.name} is not a regular file: give --output a new name.", BAD_USAGE)
        if not _is_otlp(self.path):
            raise CannotLaunchError(
                f"{self.name} exists, holds something else than OTLP JSON lines, and is left as it is: give --output a "
                "new name.",
                BAD_USAGE,
            )


def _is_otlp(path: Path) -> bool:
    """Return whether a file holds OTLP JSON lines, or nothing."""
    with path.open("rb") as file:
        start = file.read(_SNIFFED_BYTES)
    return not start or _OTLP_START.match(start) is not None
