"""Keeps the newest streams for the page, and what changed since a version, for any number of readers."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from threading import Lock
from typing import Any, Final, NamedTuple

from otel_itl.tools.report.json_text import encode_json, parse_json

MAX_BYTES: Final = 256 * 1024 * 1024
"""Of the streams that are kept, as JSON: where they are long, fewer than `keep` of them are."""
MAX_GONE: Final = 20_000
"""Ids of streams that were let go, kept for readers that have them. A reader that is further behind starts anew."""

_ENTRY_BYTES: Final = 500
"""What an entry takes beside its data."""


@dataclass(slots=True)
class Entry:
    """One stream. One that has ended is kept as JSON, one that runs as its description and the chunks so far."""

    id: str
    made_in: int
    """The version in which it was first described, or described anew."""
    version: int
    encoded: bytes | None
    """None: it runs."""
    described: dict[str, Any]
    """Empty where it has ended."""
    size: int = 0
    """About how many bytes it takes."""
    parts: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    """Packed chunks, each with the version in which they were added."""


class Changes(NamedTuple):
    """What a reader has to be sent: encoded streams, patches of those that run, and the ids of those let go."""

    version: int
    streams: list[bytes]
    patches: list[dict[str, Any]]
    gone: list[str]


class Store:
    """The streams by id, in the order in which they last changed. Safe to use from any thread.

    Nothing is queued for a reader: it asks for what changed since the version that it has. A slow one gets less often
    more.

    Args:
        keep: how many streams are kept; the one that has not changed for longest is let go.
        max_bytes: how many bytes of JSON they may take together.
    """

    def __init__(self, keep: int, max_bytes: int = MAX_BYTES) -> None:
        self.keep = max(keep, 1)
        self._max_bytes = max_bytes
        self._bytes = 0
        self._lock = Lock()
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._gone: deque[tuple[int, str]] = deque(maxlen=MAX_GONE)
        self._forgotten_before = 0
        self.version = 0
        """The number of changes so far."""
        self.let_go = 0
        """How many streams were let go because there were too many."""

    def __len__(self) -> int:
        """Return the number of streams that are kept."""
        return len(self._entries)

    def put(self, described: dict[str, Any], *, is_running: bool = False) -> None:
        """Keep a stream that has ended, or that runs and has no chunks yet, in place of one with the same id."""
        identifier, encoded = described["id"], None if is_running else encode_json(described)
        with self._lock:
            self.version += 1
            former = self._entries.pop(identifier, None)
            self._bytes -= former.size if former else 0
            entry = Entry(identifier, self.version, self.version, encoded, dict(described) if is_running else {})
            self._entries[identifier] = entry
            self._grow(entry, _ENTRY_BYTES + len(encoded or b""))

    def update(self, identifier: str, changed: Mapping[str, Any], packed: dict[str, Any] | None = None) -> None:
        """Change the description of a stream that runs, and add chunks, if it is kept."""
        with self._lock:
            entry = self._entries.get(identifier)
            if entry is None or entry.encoded is not None:
                return
            self.version += 1
            entry.version = self.version
            entry.described.update(changed)
            self._entries.move_to_end(identifier)
            if packed is not None:
                entry.parts.append((self.version, packed))
                size = _ENTRY_BYTES + 8 * sum(len(packed.get(key, ())) for key in ("d", "k", "h"))
                self._grow(entry, size)

    def remove(self, identifier: str) -> None:
        """Remove a stream, if it is kept."""
        with self._lock:
            if identifier in self._entries:
                self.version += 1
                self._drop(identifier)

    def changes_since(self, version: int, limit: int) -> Changes:
        """Return what changed since a version, the oldest first: at most `limit` streams."""
        with self._lock:
            newest_first = takewhile(lambda entry: entry.version > version, reversed(self._entries.values()))
            changed = [*newest_first][::-1]
            until = changed[limit - 1].version if len(changed) > limit else self.version
            gone = [name for moment, name in self._gone if version < moment <= until and name not in self._entries]
            return Changes(until, *_describe(changed[:limit], version, until), gone)

    def snapshot(self) -> tuple[int, list[Entry]]:
        """Return the version, and all streams, the newest change first."""
        with self._lock:
            return self.version, list(reversed(self._entries.values()))

    def describe(self, entries: Iterable[Entry], version: int) -> Changes:
        """Return streams of a snapshot as they were in its version, for a reader that has nothing.

        What changed meanwhile is left to `changes_since`.
        """
        with self._lock:
            return Changes(version, *_describe(entries, 0, version), [])

    def has_forgotten(self, version: int) -> bool:
        """Return whether a reader with this version has to start anew."""
        return version < self._forgotten_before or version > self.version

    def documents(self) -> list[dict[str, Any]]:
        """Return every stream with its chunks, for a page that is saved; those that run are left out."""
        with self._lock:
            encoded = [entry.encoded for entry in self._entries.values() if entry.encoded is not None]
        return [parse_json(one) for one in encoded]

    def _grow(self, entry: Entry, size: int) -> None:
        """Count the bytes of the entry that changed last, and let go of others until they keep both bounds."""
        entry.size += size
        self._bytes += size
        while len(self._entries) > self.keep or (self._bytes > self._max_bytes and len(self._entries) > 1):
            self.let_go += 1
            self._drop(next(iter(self._entries)))

    def _drop(self, identifier: str) -> None:
        """Drop an entry, and keep its id for readers that have it."""
        self._bytes -= self._entries.pop(identifier).size
        if len(self._gone) == MAX_GONE:
            self._forgotten_before = self._gone[0][0]
        self._gone.append((self.version, identifier))


def _describe(entries: Iterable[Entry], since: int, until: int) -> tuple[list[bytes], list[dict[str, Any]]]:
    """Return entries as streams, and as patches of those that run: the chunks between two versions."""
    streams: list[bytes] = []
    patches: list[dict[str, Any]] = []
    for entry in entries:
        if entry.encoded is not None:
            streams.append(entry.encoded)
            continue
        if entry.made_in > since:
            streams.append(encode_json(entry.described))
        else:
            patches.append({"id": entry.id, "set": entry.described.copy()})
        added = (packed for version, packed in entry.parts if since < version <= until)
        patches += [{"id": entry.id, "t": packed} for packed in added]
    return streams, patches
