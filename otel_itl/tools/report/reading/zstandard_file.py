"""Decompresses Zstandard, by Python 3.14 itself or by the package `zstandard`."""

from __future__ import annotations

import io
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

MAGIC: Final = b"\x28\xb5\x2f\xfd"
_READ_BYTES: Final = 1_024
"""A kilobyte becomes at most some megabytes, of which a line may be the last."""


class DamagedZstandardError(Exception):
    """The data cannot be decompressed from here on."""


class ZstandardFile(io.RawIOBase):
    """The content of a file of Zstandard frames.

    Args:
        file: the open file.

    Raises:
        ImportError: nothing that decompresses is installed.
    """

    def __init__(self, file: io.BufferedReader) -> None:
        self._file = file
        self._make, self._error = _find_decompressor()
        self._frame: Any = None
        """Decompresses the frame that is being read; None: the next one has not begun."""
        self._left = b""

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer; 0: the data has ended.

        Raises:
            EOFError: the data ends in the middle of a frame.
            DamagedZstandardError: it is damaged.
        """
        while not self._left:
            data = (self._frame.unused_data if self._frame is not None and self._frame.eof else b"") or self._file.read(
                _READ_BYTES
            )
            if self._frame is None or self._frame.eof:
                if not data:
                    return 0
                self._frame = self._make()
            if not data:
                raise EOFError
            try:
                self._left = self._frame.decompress(data)
            except self._error as error:
                raise DamagedZstandardError from error
        count = min(len(buffer), len(self._left))
        buffer[:count], self._left = self._left[:count], self._left[count:]
        return count


def _find_decompressor() -> tuple[Callable[[], Any], type[Exception]]:
    """Return what makes the decompressor of a frame, and the error that it raises."""
    try:
        module = import_module("compression.zstd")
    except ImportError:
        module = import_module("zstandard")
        return lambda: module.ZstdDecompressor().decompressobj(), module.ZstdError
    return module.ZstdDecompressor, module.ZstdError
