"""The server-sent events of one page: everything that is kept, the newest first, and then what changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import pairwise
from time import time_ns
from typing import Any, Final

from otel_itl.tools.report.json_text import encode_json
from otel_itl.tools.view.server.store import Changes, Store

TICK_SECONDS: Final = 0.1
"""How often a page is sent what changed."""
HEARTBEAT_TICKS: Final = 50
"""After this many ticks without a change, the page gets the facts, so that both sides notice a lost connection."""
BATCH: Final = 400
"""Streams in one event."""
FIRST_BATCH: Final = 120
"""Streams in the first event: the first picture needs no more."""


async def generate_events(
    store: Store,
    describe: Callable[[], dict[str, Any]],
    run: str,
    last_event_id: str,
    is_closing: Callable[[], bool],
) -> AsyncIterator[bytes]:
    """Yield the events for one page, until it goes or the server ends.

    Args:
        store: the streams.
        describe: returns the facts that the page shows of the server.
        run: identifies this server: the ids of another one's events mean nothing here.
        last_event_id: of a page that connects again; empty: it is new.
        is_closing: returns whether the server is about to end.
    """
    version = _known_version(last_event_id, run)
    is_new = version is None or store.has_forgotten(version)
    yield _event("hello", {**describe(), "now": time_ns() // 1_000, "restart": is_new})

    def make_end(version: int, gone: list[str]) -> bytes:
        """Return the event after which a page has a version."""
        return _event("gone", {"ids": gone, "total": store.let_go}, f"{run}:{version}")

    if version is None or is_new:
        version, entries = store.snapshot()
        for start, end in pairwise([0, *range(FIRST_BATCH, len(entries), BATCH), len(entries)]):
            for event in _changes_to_events(store.describe(entries[start:end], version)):
                yield event
            await asyncio.sleep(0)
        yield make_end(version, [])
    quiet, shown = 0, describe()
    while not is_closing():
        changes = store.changes_since(version, BATCH)
        if changes.version > version:
            for event in _changes_to_events(changes):
                yield event
            version = changes.version
            yield make_end(version, changes.gone)
        quiet = 0 if changes.streams else quiet + 1
        if (known := describe()) != shown or quiet >= HEARTBEAT_TICKS:
            quiet, shown = 0, known
            yield _event("facts", known)
        await asyncio.sleep(TICK_SECONDS if changes.version >= store.version else 0)


def _known_version(last_event_id: str, run: str) -> int | None:
    """Return the version that a page has; None: it has nothing of this server."""
    known, _, version = last_event_id.partition(":")
    return int(version) if known == run and version.isascii() and version.isdigit() else None


def _changes_to_events(changes: Changes) -> Iterator[bytes]:
    """Yield the events with streams and patches: patches follow the streams that they change."""
    if changes.streams:
        yield _event("streams", b"[" + b",".join(changes.streams) + b"]")
    if changes.patches:
        yield _event("patches", changes.patches)


def _event(name: str, data: Any, identifier: str | None = None) -> bytes:
    """Return one event of data, or of JSON; that has no line break outside of its strings, where it is escaped."""
    head = f"id: {identifier}\n" if identifier is not None else ""
    encoded = data if isinstance(data, bytes) else encode_json(data)
    return f"{head}event: {name}\ndata: ".encode() + encoded + b"\n\n"
