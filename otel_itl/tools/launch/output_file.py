"""The file of a run's telemetry: begun anew, or added to, but only where it is one of ours and no other run's."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Final

from otel_itl.core.file_path import OTLP_LINE
from otel_itl.core.private_file import open_own, open_private
from otel_itl.tools.launch.command import CannotLaunchError

DEFAULT_OUTPUT: Final = "otel-itl.jsonl"

_OURS: Final = re.compile(rb'"(?:otel_itl|itl\.[a-z_.]+)"')
"""The name of our scope, or of an attribute of ours."""
_PREVIOUS: Final = ".previous"
_MAX_ROTATED: Final = 99


class OutputFile:
    """The file that the processes of one run append OTLP JSON lines to.

    Args:
        path: as the caller named it.
    """

    def __init__(self, path: str) -> None:
        self.name = path
        self.path = Path(path).absolute()
        self._held = -1
        self._set_aside: dict[Path, Path] = {}

    @property
    def parts(self) -> list[Path]:
        """The file and those that it was rotated to (`<name>.1`, …), the oldest first."""
        numbered = (self.path.with_name(f"{self.path.name}.{number}") for number in range(1, _MAX_ROTATED))
        return [*reversed(list(takewhile(_is_regular, numbered))), self.path]

    @property
    def part_names(self) -> list[str]:
        """The names of the parts, as the caller named the file."""
        return [self.name + part.name.removeprefix(self.path.name) for part in self.parts]

    def begin(self, *, append: bool) -> None:
        """Make the file, readable by its owner only; the telemetry of an earlier run is set aside as `<name>.previous`.

        Args:
            append: leave what the file holds, and add to it.

        Raises:
            CannotLaunchError: it holds something else, another run writes to it, or it cannot be written to.
        """
        try:
            self._refuse_foreign()
            if not append:
                self._refuse_used()
                for rotated in self.parts[:-1]:
                    if _is_ours(rotated):
                        self._move_aside(rotated)
                if _is_regular(self.path):
                    self._move_aside(self.path)
            self._held = open_private(self.path, os.O_RDWR | os.O_CREAT)
            _lock(self._held, exclusively=False)
        except OSError as error:
            raise CannotLaunchError(
                f"{self.name} cannot be written to ({error.strerror or error}): give --output another place."
            ) from error

    def finish(self) -> None:
        """Let other runs replace the file. Where nothing was written to it, what was set aside is put back."""
        if self._held >= 0:
            os.close(self._held)
            self._held = -1
        if self.path.is_file() and self.path.stat().st_size == 0:
            self.path.unlink()
            for part, aside in self._set_aside.items():
                aside.replace(part)

    def _move_aside(self, part: Path) -> None:
        """Rename a part of an earlier run, in the place of what the run before that left; an empty one is removed."""
        if part.stat().st_size == 0:
            part.unlink()
            return
        os.close(open_private(part, os.O_RDONLY))  # restricts it to its owner
        aside = part.with_name(self.path.name + _PREVIOUS + part.name.removeprefix(self.path.name))
        self._set_aside[part] = part.replace(aside)

    def _refuse_foreign(self) -> None:
        """Refuse what is no file of ours.

        Raises:
            CannotLaunchError: it has no name, is a link, a directory or a device, or holds something else.
            OSError: it cannot be read.
        """
        if self.name in {"", "-"}:
            raise CannotLaunchError(f"{self.name!r} is not the name of a file: give --output one.")
        if not os.path.lexists(self.path):
            return
        if not _is_regular(self.path):
            raise CannotLaunchError(f"{self.name} is not a regular file: give --output a new name.")
        if not _is_ours(self.path):
            raise CannotLaunchError(
                f"{self.name} exists, holds something else than the telemetry of earlier runs, and is left as it is: "
                "give --output a new name."
            )

    def _refuse_used(self) -> None:
        """Refuse a file that another run writes to.

        Raises:
            CannotLaunchError: there is such a run.
        """
        with suppress(FileNotFoundError):
            descriptor = open_own(self.path, os.O_RDWR)
            try:
                _lock(descriptor, exclusively=True)
            except (BlockingIOError, PermissionError):
                raise CannotLaunchError(
                    f"{self.name} is being written by another run: give --output a new name, or --append."
                ) from None
            finally:
                os.close(descriptor)


def _lock(descriptor: int, *, exclusively: bool) -> None:
    """Lock a file for this process, until it closes it; on Windows, nothing is locked.

    It is a lock of POSIX: those who write to the file use the other kind, `flock`, and neither sees the other.

    Raises:
        OSError: another process has locked it.
    """
    with suppress(ImportError):
        import fcntl  # noqa: PLC0415 - not on Windows

        fcntl.lockf(descriptor, (fcntl.LOCK_EX if exclusively else fcntl.LOCK_SH) | fcntl.LOCK_NB)


def _is_regular(path: Path) -> bool:
    """Return whether there is a regular file of this path: no link, no pipe, no directory."""
    return path.is_file() and not path.is_symlink()


def _is_ours(path: Path) -> bool:
    """Return whether a file holds OTLP JSON lines, ours among them, and nothing else; or nothing at all."""
    has_ours = path.stat().st_size == 0
    with os.fdopen(open_own(path, os.O_RDONLY), "rb") as file:
        for line in file:
            if not OTLP_LINE.match(line):
                return False
            has_ours = has_ours or _OURS.search(line) is not None
    return has_ours
