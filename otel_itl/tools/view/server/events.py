"""The server-sent events of one page: everything that is kept, the newest first, and then what changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from time import time_ns
from typing import Any, Final

from otel_itl.tools.report.json_text import encode_json
from otel_itl.tools.view.server.store import Changes, Store, iterate_batches

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
    facts: Callable[[], dict[str, Any]],
    run: str,
    last_event_id: str,
    is_closing: Callable[[], bool] = lambda: False,
) -> AsyncIterator[bytes]:
    """Yield the events for one page, until it goes or the server ends.

    Args:
        store: the streams.
        facts: returns what the page shows of the server.
        run: identifies this server: the ids of another one's events mean nothing here.
        last_event_id: of a page that connects again; empty: it is new.
        is_closing: returns whether the server is about to end.
    """
    version = _known_version(last_event_id, run)
    is_new = version is None or store.has_forgotten(version)
    yield _event("hello", encode_json({**facts(), "now": time_ns() // 1_000, "restart": is_new}))
    if version is None or is_new:
        version, identifiers = store.snapshot()
        start, size = 0, FIRST_BATCH
        while start < len(identifiers):
            for event in _changes_to_events(store.describe(identifiers[start : start + size], version)):
                yield event
            start, size = start + size, BATCH
            await asyncio.sleep(0)
        yield _event("gone", encode_json({"ids": [], "total": store.let_go}), f"{run}:{version}")
    quiet, shown = 0, facts()
    while not is_closing():
        changes = store.changes_since(version, BATCH)
        if changes.version > version:
            for event in _changes_to_events(changes):
                yield event
            version = changes.version
            ending = encode_json({"ids": changes.gone, "total": changes.let_go})
            yield _event("gone", ending, f"{run}:{version}")
        quiet = 0 if changes.streams else quiet + 1
        if (known := facts()) != shown or quiet >= HEARTBEAT_TICKS:
            quiet, shown = 0, known
            yield _event("facts", encode_json(known))
        if changes.version >= store.version:
            await asyncio.sleep(TICK_SECONDS)
        else:
            await asyncio.sleep(0)


def _known_version(last_event_id: str, run: str) -> int | None:
    """Return the version that a page has; None: it has nothing of this server."""
    known, _, version = last_event_id.partition(":")
    return int(version) if known == run and version.isascii() and version.isdigit() else None


def _changes_to_events(changes: Changes) -> list[bytes]:
    """Return the events with streams and patches: patches follow the streams that they change."""
    events = [_event("streams", batch) for batch in iterate_batches(changes.streams, BATCH)]
    if changes.patches:
        events.append(_event("patches", encode_json(changes.patches)))
    return events


def _event(name: str, data: bytes, identifier: str | None = None) -> bytes:
    """Return one event; JSON has no line break outside of its strings, where it is escaped."""
    head = f"id: {identifier}\n" if identifier is not None else ""
    return f"{head}event: {name}\ndata: ".encode() + data + b"\n\n"
