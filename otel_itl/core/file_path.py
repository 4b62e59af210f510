"""Checks whether telemetry can be appended to a file of some path."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Any, Final

OTLP_LINE: Final = re.compile(rb'\s*\{\s*"resource(?:Spans|Metrics|Logs)"\s*:')
"""How a line of OTLP JSON begins."""
_START_BYTES: Final = 4_096
_OTHER_KINDS: Final = (
    (stat.S_ISDIR, "it is a directory"),
    (stat.S_ISLNK, "it is a symbolic link"),
    (lambda mode: not stat.S_ISREG(mode), "it is no regular file"),
)
"""Whether the mode of a file is that of another kind than a regular file, and what that is."""


def resolve_file_path(value: Any) -> Path:
    """Return the absolute path of a file that lines can be appended to; `~` is the home directory.

    Raises:
        ValueError: it is no path, or lines cannot be appended; the message is the end of a sentence, or empty.
    """
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value).strip():
        raise ValueError
    try:
        path = Path(value).expanduser().absolute()
    except (RuntimeError, TypeError) as error:  # there is no home directory; a path of bytes
        raise ValueError(str(error)) from None
    obstacle = find_obstacle(path)
    if obstacle is not None:
        raise ValueError(obstacle)
    return path


def find_obstacle(path: Path) -> str | None:
    """Return why lines cannot be appended to a file, as the end of a sentence; None where they can.

    The file need not exist. A symbolic link in its place is an obstacle: what is written would end up elsewhere.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return _find_obstacle_to_creation(path.parent)
    except ValueError:
        return "it holds a null character"
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    for is_kind, obstacle in _OTHER_KINDS:
        if is_kind(mode):
            return obstacle
    if not os.access(path, os.R_OK | os.W_OK):
        return "it may not be written"
    with path.open("rb") as file:
        start = file.read(_START_BYTES)
    return None if not start or OTLP_LINE.match(start) else "it holds something else than OTLP JSON lines"


def _find_obstacle_to_creation(directory: Path) -> str | None:
    if not directory.is_dir():
        return f"there is no directory {str(directory)!r}"
    return None if os.access(directory, os.W_OK | os.X_OK) else f"the directory {str(directory)!r} may not be written"
