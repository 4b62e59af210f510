"""Keeps the newest streams for the page, and what changed since a version, for any number of readers."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final, NamedTuple

from otel_itl.tools.report.json_text import encode_json, parse_json

MAX_BYTES: Final = 256 * 1024 * 1024
"""Of the streams that are kept, as JSON: where they are long, fewer than `keep` of them are."""
MAX_GONE: Final = 20_000
"""Ids of streams that were let go, kept for readers that have them. A reader that is further behind starts anew."""

_ENTRY_BYTES: Final = 500
"""What an entry takes beside its data."""


class Part(NamedTuple):
    """Packed chunks of a stream that runs, and the version in which they were added."""

    version: int
    packed: dict[str, Any]


@dataclass(slots=True)
class Entry:
    """One stream. One that has ended is kept as JSON, one that runs as its description and the chunks so far."""

    id: str
    made_in: int
    """The version in which it was first described, or described anew."""
    version: int
    encoded: bytes | None = None
    described: dict[str, Any] = field(default_factory=dict)
    changing: set[str] = field(default_factory=set)
    """Keys of the description that have changed since it was made."""
    parts: list[Part] = field(default_factory=list)


class Changes(NamedTuple):
    """What a reader has to be sent: encoded streams, patches of those that run, and the ids of those let go."""

    version: int
    streams: list[bytes]
    patches: list[dict[str, Any]]
    gone: list[str]
    let_go: int


class Store:
    """The streams by id, in the order in which they last changed. Safe to use from any thread.

    Nothing is queued for a reader: it asks for what changed since the version that it has. A slow one gets less often
    more.

    Args:
        keep: how many streams are kept; the one that has not changed for longest is let go.
        max_bytes: how many bytes of JSON they may take together.
    """

    def __init__(self, keep: int, max_bytes: int = MAX_BYTES) -> None:
        self.keep = keep
        self._max_bytes = max_bytes
        self._bytes = 0
        self._lock = Lock()
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._gone: deque[tuple[int, str]] = deque(maxlen=MAX_GONE)
        self._version = 0
        self._let_go = 0
        self._forgotten_before = 0

    def __len__(self) -> int:
        """Return the number of streams that are kept."""
        return len(self._entries)

    @property
    def version(self) -> int:
        """The number of changes so far."""
        return self._version

    @property
    def let_go(self) -> int:
        """How many streams were let go because there were more than `keep`."""
        return self._let_go

    def put(self, described: dict[str, Any]) -> None:
        """Keep a stream that has ended, in place of one with the same id."""
        encoded = encode_json(described)
        with self._lock:
            self._version += 1
            self._keep(Entry(described["id"], made_in=self._version, version=self._version, encoded=encoded))

    def start(self, described: dict[str, Any]) -> None:
        """Keep a stream that runs, without chunks yet."""
        with self._lock:
            self._version += 1
            self._keep(Entry(described["id"], made_in=self._version, version=self._version, described=dict(described)))

    def update(self, identifier: str, changed: Mapping[str, Any], packed: dict[str, Any] | None = None) -> bool:
        """Change the description of a stream that runs, and add chunks; returns False where it is not kept."""
        with self._lock:
            entry = self._entries.get(identifier)
            if entry is None or entry.encoded is not None:
                return False
            self._version += 1
            entry.version = self._version
            entry.described.update(changed)
            entry.changing.update(changed)
            if packed is not None:
                entry.parts.append(Part(self._version, packed))
                self._bytes += _size_of_part(packed)
            self._entries.move_to_end(identifier)
            self._let_go_oldest()
            return True

    def remove(self, identifier: str) -> None:
        """Remove a stream, if it is kept."""
        with self._lock:
            entry = self._entries.pop(identifier, None)
            if entry is not None:
                self._bytes -= _size_of(entry)
                self._version += 1
                self._note_gone(identifier)

    def changes_since(self, version: int, limit: int) -> Changes:
        """Return what changed since a version, the oldest first: at most `limit` streams."""
        with self._lock:
            changed = []
            for entry in reversed(self._entries.values()):
                if entry.version <= version:
                    break
                changed.append(entry)
            changed.reverse()
            until = changed[limit - 1].version if len(changed) > limit else self._version
            gone = [name for moment, name in self._gone if version < moment <= until and name not in self._entries]
            streams, patches = _describe(changed[:limit], version, until)
            return Changes(until, streams, patches, gone, self._let_go)

    def snapshot(self) -> tuple[int, list[str]]:
        """Return the version, and the ids of all streams, the newest change first."""
        with self._lock:
            return self._version, list(reversed(self._entries))

    def describe(self, identifiers: Sequence[str], version: int) -> Changes:
        """Return streams of a snapshot as they were in its version, for a reader that has nothing.

        What changed meanwhile is left to `changes_since`.
        """
        with self._lock:
            entries = [entry for name in identifiers if (entry := self._entries.get(name)) and entry.made_in <= version]
            streams, patches = _describe(entries, 0, version)
            return Changes(version, streams, patches, [], self._let_go)

    def has_forgotten(self, version: int) -> bool:
        """Return whether a reader with this version has to start anew."""
        return version < self._forgotten_before or version > self._version

    def documents(self) -> list[dict[str, Any]]:
        """Return every stream with its chunks, for a page that is saved; those that run are left out."""
        with self._lock:
            encoded = [entry.encoded for entry in self._entries.values() if entry.encoded is not None]
        return [parse_json(one) for one in encoded]

    def _keep(self, entry: Entry) -> None:
        """Keep a stream as the one that changed last, in place of one with the same id."""
        former = self._entries.pop(entry.id, None)
        self._bytes += _size_of(entry) - (0 if former is None else _size_of(former))
        self._entries[entry.id] = entry
        self._let_go_oldest()

    def _let_go_oldest(self) -> None:
        """Let go of streams until the others keep both bounds; the one that changed last always stays."""
        while len(self._entries) > max(self.keep, 1) or (self._bytes > self._max_bytes and len(self._entries) > 1):
            identifier, entry = self._entries.popitem(last=False)
            self._bytes -= _size_of(entry)
            self._let_go += 1
            self._note_gone(identifier)

    def _note_gone(self, identifier: str) -> None:
        if len(self._gone) == MAX_GONE:
            self._forgotten_before = self._gone[0][0]
        self._gone.append((self._version, identifier))


def _describe(entries: Iterable[Entry], since: int, until: int) -> tuple[list[bytes], list[dict[str, Any]]]:
    """Return entries as streams, and as patches of those that run: the chunks between two versions."""
    streams: list[bytes] = []
    patches: list[dict[str, Any]] = []
    for entry in entries:
        if entry.encoded is not None:
            streams.append(entry.encoded)
            continue
        is_new = entry.made_in > since
        if is_new:
            streams.append(encode_json(entry.described))
        else:
            patches.append({"id": entry.id, "set": {key: entry.described[key] for key in entry.changing}})
        patches += [{"id": entry.id, "t": part.packed} for part in entry.parts if since < part.version <= until]
    return streams, patches


def _size_of(entry: Entry) -> int:
    """Return about how many bytes an entry takes."""
    return _ENTRY_BYTES + len(entry.encoded or b"") + sum(_size_of_part(part.packed) for part in entry.parts)


def _size_of_part(packed: dict[str, Any]) -> int:
    """Return about how many bytes packed chunks take."""
    return _ENTRY_BYTES + len(packed.get("d", "")) + 8 * (len(packed.get("k", ())) + len(packed.get("h", ())))


def iterate_batches(items: list[bytes], size: int) -> Iterator[bytes]:
    """Yield JSON arrays of up to `size` encoded items each."""
    for start in range(0, len(items), size):
        yield b"[" + b",".join(items[start : start + size]) + b"]"
