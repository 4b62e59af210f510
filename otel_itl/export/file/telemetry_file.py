"""Appends whole lines to one file that several processes share, and rotates it by size."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic, sleep
from typing import Final

from otel_itl.core.private_file import open_private

try:
    import fcntl
except ImportError:  # Windows: the operating system appends each write as a whole, and nothing keeps others out
    fcntl = None  # type: ignore[assignment]

MAX_FILE_BYTES: Final = 64 * 1024 * 1024
"""A file that would become larger is renamed to `<name>.1` first."""
MAX_ROTATED_FILES: Final = 3
"""`<name>.1` to `<name>.3` are kept; the oldest is replaced."""
MAX_LOCK_WAIT: Final = 5.0
"""Seconds to wait for another process that writes."""

_NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})
"""Raised by file systems that have no locks: there each write is appended as it is."""
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_APPEND


class TelemetryFile:
    """A file of lines, readable by its owner alone.

    It is opened for each write: so it may be moved away or deleted at any time, and a forked process shares no
    descriptor. Every write holds a lock of the file (`flock`), in which the file is also rotated. Where there is no
    `flock` (Windows), the processes that share a file may rotate it at the same moment.

    Args:
        path: of the file.
        max_bytes: size from which on the file is rotated.
        max_rotated: how many older files are kept.
    """

    def __init__(self, path: str, max_bytes: int = MAX_FILE_BYTES, max_rotated: int = MAX_ROTATED_FILES) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._max_rotated = max_rotated

    def append(self, lines: bytes) -> None:
        """Append lines, each with its newline; all of them or none.

        Raises:
            OSError: they cannot be written: the disk is full, the directory is gone, another process keeps the lock, or
                the file is not this user's alone and cannot be made so.
        """
        deadline = monotonic() + MAX_LOCK_WAIT
        while True:
            with self._open(deadline) as descriptor:
                if not self._is_current(descriptor):
                    if monotonic() > deadline:
                        raise TimeoutError(errno.ETIMEDOUT, "it is replaced again and again")
                    continue  # another process has rotated it meanwhile
                size = os.fstat(descriptor).st_size
                if size and size + len(lines) > self._max_bytes and self._rotate():
                    continue
                self._write(descriptor, size, lines)
                return

    @contextmanager
    def _open(self, deadline: float) -> Iterator[int]:
        """Open the file and lock it until the end of the block."""
        descriptor = open_private(self.path, _FLAGS)
        try:
            _lock(descriptor, deadline)
            try:
                yield descriptor
            finally:
                # Explicitly: a process that was forked meanwhile may hold a copy of the descriptor.
                _unlock(descriptor)
        finally:
            os.close(descriptor)

    def _is_current(self, descriptor: int) -> bool:
        """Return whether the open file is still the one of that name."""
        try:
            return os.path.samestat(os.fstat(descriptor), os.lstat(self.path))
        except FileNotFoundError:
            return False

    def _rotate(self) -> bool:
        """Rename the file and the older ones; returns False where that is not possible, and the file just grows."""
        names = [self.path, *(f"{self.path}.{number}" for number in range(1, self._max_rotated + 1))]
        for older, newer in zip(reversed(names[2:]), reversed(names[1:-1]), strict=True):
            with suppress(OSError):
                os.close(open_private(newer, os.O_RDONLY))  # restricts it to its owner, if it is ours
            with suppress(OSError):
                os.replace(newer, older)  # noqa: PTH105 - the paths are text
        try:
            os.replace(self.path, names[1])  # noqa: PTH105 - as above
        except OSError:
            return False
        return True

    def _write(self, descriptor: int, size: int, lines: bytes) -> None:
        """Append to the open file; where that fails midway, what was written of it is removed."""
        if size and _last_byte(descriptor, size) != b"\n":
            lines = b"\n" + lines  # a process was killed within a line
        rest = memoryview(lines)
        try:
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        except OSError:
            with suppress(OSError):
                os.ftruncate(descriptor, size)
            raise


def _lock(descriptor: int, deadline: float) -> None:
    """Lock an open file against other processes and threads.

    Raises:
        TimeoutError: another one holds the lock until the deadline.
    """
    while fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if monotonic() > deadline:
                raise TimeoutError(errno.ETIMEDOUT, "another process keeps the file locked") from None
            sleep(0.002)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            return
        else:
            return


def _unlock(descriptor: int) -> None:
    if fcntl is not None:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def _last_byte(descriptor: int, size: int) -> bytes:
    os.lseek(descriptor, size - 1, os.SEEK_SET)
    return os.read(descriptor, 1)
