"""Opens regular files that belong to this user alone, whatever else somebody has put in their place."""

from __future__ import annotations

import errno
import os
import stat
import sys
from pathlib import Path
from typing import Final

OWNER_ONLY: Final = 0o600
"""Mode of a file that is made here."""
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_FLAGS: Final = (
    getattr(os, "O_NOFOLLOW", 0)  # a symbolic link is not followed: it would lead to another file
    | getattr(os, "O_NONBLOCK", 0)  # a named pipe or a device is not waited for
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
_OTHER_KINDS: Final = (
    (stat.S_ISDIR, "it is a directory"),
    (stat.S_ISLNK, "it is a symbolic link"),
    (lambda mode: not stat.S_ISREG(mode), "it is no regular file"),
)
"""Whether the mode of a file is that of another kind than a regular file, and what that is."""


def open_private(path: str | Path, flags: int) -> int:
    """Open a regular file that belongs to this user alone, after taking the permissions of all others from it.

    A process that has the file open already keeps its access. A file system that ignores a change of permissions,
    without an error, has none of its own: there, the file is opened as it is. So it is on Windows, where a file has the
    permissions of its folder.

    Args:
        path: of the file.
        flags: of `os.open()`; with `O_CREAT`, the file is made with the mode `OWNER_ONLY`.

    Raises:
        OSError: as `open_own` does; or others have access to the file, and its permissions cannot be changed.
    """
    descriptor = open_own(path, flags)
    try:
        _restrict_to_owner(descriptor, str(path))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def open_own(path: str | Path, flags: int) -> int:
    """Open a regular file of this user, whatever others may do with it, and return its descriptor.

    It is checked when it is open, so that nothing can be exchanged in between. On Windows, a symbolic link is looked
    for before the file is opened, and not while it is.

    Args:
        path: of the file. Symbolic links in the path of its folder are followed.
        flags: of `os.open()`. Further ones keep it from following a link and from waiting.

    Raises:
        OSError: it cannot be opened; or, as a PermissionError, it is another kind of file or belongs to somebody else,
            in which case `strerror` is the reason as the end of a sentence.
    """
    if not hasattr(os, "O_NOFOLLOW") and Path(path).is_symlink():
        raise PermissionError(errno.ELOOP, "it is a symbolic link", str(path))
    try:
        descriptor = os.open(path, flags | _FLAGS, OWNER_ONLY)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.EMLINK}:  # EMLINK: FreeBSD
            raise PermissionError(error.errno, "it is a symbolic link", str(path)) from None
        raise
    obstacle = find_obstacle_in(os.fstat(descriptor))
    if obstacle is not None:
        os.close(descriptor)
        raise PermissionError(errno.EPERM, obstacle, str(path))
    return descriptor


def find_obstacle_in(status: os.stat_result) -> str | None:
    """Return why a file is not this user's alone, as the end of a sentence; None where it is, or can be made so.

    Args:
        status: of the file, as `os.lstat()` or `os.fstat()` returns it.
    """
    for is_kind, obstacle in _OTHER_KINDS:
        if is_kind(status.st_mode):
            return obstacle
    if sys.platform != "win32" and status.st_uid != os.geteuid():
        return "it belongs to another user"
    # Another name of the same file, perhaps in a folder of somebody else, or of a file that is no telemetry.
    return "it has another name (a hard link)" if status.st_nlink > 1 else None


def _restrict_to_owner(descriptor: int, path: str) -> None:
    """Take the permissions of all but the owner from an open file.

    Raises:
        PermissionError: the file system refuses that.
    """
    mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
    if sys.platform == "win32" or not mode & _OTHERS:
        return
    try:
        os.fchmod(descriptor, mode & ~_OTHERS)
    except OSError as error:
        reason = "others have access to it, and its permissions cannot be changed"
        raise PermissionError(error.errno, reason, path) from None
