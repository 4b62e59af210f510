"""Streams for which nothing is due, and which of them go on: found in loops of C, however many are silent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from operator import eq, ne


class QuietStreams:
    """Streams for which nothing is due until a sequence of theirs grows. One thread uses it."""

    def __init__(self) -> None:
        self._keys: list[int] = []
        self._growing: list[Sequence[int]] = []
        self._counts: list[int] = []

    def __len__(self) -> int:
        """Count the streams."""
        return len(self._keys)

    def add(self, key: int, growing: Sequence[int], count: int) -> None:
        """Add a stream.

        Args:
            key: its key in the registry.
            growing: grows when the stream goes on.
            count: its length when the stream was checked.
        """
        self._keys.append(key)
        self._growing.append(growing)
        self._counts.append(count)

    def take_resumed(self) -> list[int]:
        """Take out the streams that went on since they were added; returns their keys."""
        counts = list(map(len, self._growing))
        if counts == self._counts:
            return []
        resumed = list(compress(self._keys, map(ne, counts, self._counts)))
        self._keep(list(map(eq, counts, self._counts)))
        return resumed

    def forget_ended(self, is_open: Callable[[int], bool]) -> None:
        """Drop the streams that are not open any more.

        Args:
            is_open: whether there is an open stream with a key.
        """
        self._keep(list(map(is_open, self._keys)))

    def _keep(self, kept: Sequence[bool]) -> None:
        self._keys = list(compress(self._keys, kept))
        self._growing = list(compress(self._growing, kept))
        self._counts = list(compress(self._counts, kept))
