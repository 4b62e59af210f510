"""Which recorder belongs to which HTTP response: it travels with the response, and leaves no mark on it."""

from __future__ import annotations

from functools import partial
from typing import Any
from weakref import ref

from otel_itl.recording.recorder import StreamRecorder


class ResponseRecorders:
    """Recorders by the response of their stream, which is known by its identity: it may not be hashable.

    A response is held weakly; its recorder is held until the response is freed.
    """

    def __init__(self) -> None:
        self._by_id: dict[int, tuple[ref[Any], StreamRecorder]] = {}

    def __len__(self) -> int:
        """Return the number of responses that are alive and have a recorder."""
        return len(self._by_id)

    def add(self, response: Any, recorder: StreamRecorder) -> None:
        """Bind a recorder to a response.

        Raises:
            TypeError: the response cannot be referred to weakly.
        """
        key, by_id = id(response), self._by_id
        # The callback is no function of ours, which could fail in the garbage collector: `pop` takes the reference as
        # its default. It takes no lock, as `dict.pop` is atomic.
        by_id[key] = ref(response, partial(by_id.pop, key)), recorder

    def find(self, response: Any) -> StreamRecorder | None:
        """Return the recorder of a response; None where it has none."""
        found = self._by_id.get(id(response))
        return found[1] if found is not None and found[0]() is response else None
