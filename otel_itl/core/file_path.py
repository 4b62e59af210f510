"""Checks whether telemetry can be appended to a file of some path."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

from otel_itl.core.private_file import find_obstacle_in, open_own

OTLP_LINE: Final = re.compile(rb'\s*\{\s*"resource(?:Spans|Metrics|Logs)"\s*:')
"""How a line of OTLP JSON begins."""
_START_BYTES: Final = 4_096
_URL: Final = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]*://")


def resolve_file_path(value: Any) -> Path:
    """Return the absolute path of a file that lines can be appended to; `~` is the home directory.

    Raises:
        ValueError: it is no path, or lines cannot be appended; the message is the end of a sentence, or empty.
    """
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value).strip():
        raise ValueError
    if _URL.match(os.fsdecode(value)):
        raise ValueError("it is a URL")  # which may hold a password, and no path of it is named
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

    The file need not exist. A symbolic link in its place is an obstacle: what is written would end up elsewhere. So are
    a file of another user, and one with a second name: it would be read there.
    """
    try:
        return find_obstacle_in(path.lstat()) or _find_obstacle_to_appending(path)
    except FileNotFoundError:
        return _find_obstacle_to_creation(path.parent)
    except ValueError:
        return "it holds a null character"
    except OSError as error:
        return f"it cannot be read: {error.strerror}"


def _find_obstacle_to_appending(path: Path) -> str | None:
    """Return why lines cannot be appended to a regular file; None where they can.

    Raises:
        OSError: it cannot be opened.
    """
    if not os.access(path, os.R_OK | os.W_OK):
        return "it may not be written"
    with os.fdopen(open_own(path, os.O_RDONLY), "rb") as file:
        start = file.read(_START_BYTES)
    return None if not start or OTLP_LINE.match(start) else "it holds something else than OTLP JSON lines"


def _find_obstacle_to_creation(directory: Path) -> str | None:
    if not directory.is_dir():
        return f"there is no directory {str(directory)!r}"
    return None if os.access(directory, os.W_OK | os.X_OK) else f"the directory {str(directory)!r} may not be written"
