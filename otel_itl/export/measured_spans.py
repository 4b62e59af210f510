"""The spans of streams that were measured where they were recorded, so that no span processor measures them again."""

from __future__ import annotations

from collections import deque
from typing import Final

MAX_MEASURED_SPANS: Final = 16_384
"""More than there can be between the end of a stream and the moment at which the processors see its span."""


class MeasuredSpans:
    """A set of span ids that keeps the last `limit` of them. Threads may use it at once, and none waits."""

    def __init__(self, limit: int = MAX_MEASURED_SPANS) -> None:
        self._limit = limit
        self._ids: set[int] = set()
        self._oldest_first: deque[int] = deque()

    def __contains__(self, span_id: int) -> bool:
        """Return whether the span is measured already."""
        return span_id in self._ids

    def __len__(self) -> int:
        """Count the span ids that are kept."""
        return len(self._ids)

    def mark(self, span_id: int) -> None:
        """Note that the stream of this span is measured; beyond the limit, forget the oldest."""
        if span_id in self._ids:
            return
        self._ids.add(span_id)
        self._oldest_first.append(span_id)
        while len(self._oldest_first) > self._limit:
            self._ids.discard(self._oldest_first.popleft())
