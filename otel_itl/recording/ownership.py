"""Whether a stream is being left by its caller, or is in the hands of the garbage collector."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from weakref import ref

Owner = ref[object]
"""A weak reference to an object that lives as long as a stream."""


def refer_to(owner: object) -> Owner:
    """Make a weak reference to an object that a stream lives and dies with."""
    # With a callback, so that the garbage collector clears the reference before it runs the finalizers of a cycle. Any
    # will do; a builtin function cannot fail there.
    return ref(owner, id)


class Ownership:
    """The objects that a stream lives and dies with, held weakly.

    The SDK closes the response of a stream that is being collected. That close is not the caller's doing, and nothing
    may be reported from there: no lock may be taken and no OpenTelemetry API called.
    """

    __slots__ = ("_holder", "_owners", "_source")

    def __init__(self) -> None:
        self._owners: list[Owner] = []
        self._holder: Owner | None = None
        self._source: ref[object] | None = None

    def add(self, owner: Owner) -> None:
        """Add an object that lives as long as the stream: a response, or the SDK's stream object."""
        self._owners.append(owner)

    def set_holder(self, holder: Owner) -> None:
        """Set the object, an owner as well, without which the iterator is dropped: nothing else refers to that."""
        self.add(holder)
        self._holder = holder

    def set_source(self, source: object) -> None:
        """Set the SDK's iterator: where it runs outside of a pull, it is being finalized."""
        with suppress(TypeError):  # not every iterator can be referred to weakly
            self._source = ref(source)

    @property
    def is_held(self) -> bool:
        """Whether the stream has a holder that is alive: what closes its iterator is then the caller."""
        return self._holder is not None and not self.is_collected

    @property
    def is_collected(self) -> bool:
        """Whether the stream is being garbage-collected, or closed by an event loop that shuts down."""
        source = None if self._source is None else self._source()
        is_running = getattr(source, "gi_running", False) or getattr(source, "ag_running", False)
        return is_running or any(owner() is None for owner in self._owners) or _is_running_loop_closing()


def _is_running_loop_closing() -> bool:
    """Return whether this thread's asyncio loop is closing the asynchronous generators that its program left open."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return False
    return bool(getattr(loop, "_asyncgens_shutdown_called", False))
