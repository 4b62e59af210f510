"""The streams that are stalled, and which of them go on: found in loops of C, however many are silent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from operator import eq, ne


class StalledStreams:
    """Streams whose stall is reported: nothing is due for them until a chunk comes. One thread uses it."""

    def __init__(self) -> None:
        self._keys: list[int] = []
        self._codes: list[Sequence[int]] = []
        self._counts: list[int] = []

    def __len__(self) -> int:
        """Count the streams."""
        return len(self._keys)

    def add(self, key: int, codes: Sequence[int], count: int) -> None:
        """Add a stream.

        Args:
            key: its key in the registry.
            codes: what its chunks carried; it grows with each.
            count: the chunks that it had when it was checked.
        """
        self._keys.append(key)
        self._codes.append(codes)
        self._counts.append(count)

    def take_resumed(self) -> list[int]:
        """Take out the streams that had a chunk since they were added; returns their keys."""
        counts = list(map(len, self._codes))
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
        self._codes = list(compress(self._codes, kept))
        self._counts = list(compress(self._counts, kept))
