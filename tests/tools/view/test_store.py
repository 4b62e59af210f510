"""The store of streams: its bounds, and what a reader is sent."""

from __future__ import annotations

import json
from typing import Any

from otel_itl.tools.view.server.store import Store


def stream(number: int, **more: Any) -> dict[str, Any]:
    return {"id": f"s{number}", "start": number, **more}


def ids(encoded: list[bytes]) -> list[str]:
    return [json.loads(one)["id"] for one in encoded]


def test_the_stream_that_has_not_changed_for_longest_is_let_go() -> None:
    store = Store(keep=2)
    for number in (1, 2, 1, 3):
        store.put(stream(number))
    changes = store.changes_since(0, 10)
    assert (ids(changes.streams), changes.gone, store.let_go) == (["s1", "s3"], ["s2"], 1)


def test_long_streams_are_bounded_by_their_bytes() -> None:
    store = Store(keep=1_000, max_bytes=100_000)
    for number in range(50):
        store.put(stream(number, t="x" * 10_000))
    assert (len(store), store.let_go) == (9, 41)


def test_a_stream_that_runs_is_bounded_by_the_bytes_of_its_chunks() -> None:
    store = Store(keep=1_000, max_bytes=100_000)
    store.put(stream(1))
    store.put(stream(2), is_running=True)
    for _ in range(200):
        store.update("s2", {}, {"n": 1, "d": [1] * 125, "k": [2, 1]})
    assert store.let_go == 1


def test_a_stream_that_is_removed_frees_its_bytes() -> None:
    store = Store(keep=1_000, max_bytes=50_000)
    for number in range(100):
        store.put(stream(number, t="x" * 20_000))
        store.remove(f"s{number}")
    assert (len(store), store.let_go) == (0, 0)


def test_a_reader_gets_what_changed_since_its_version_and_no_more() -> None:
    store = Store(keep=10)
    store.put(stream(1))
    known = store.version
    store.put(stream(2))
    assert ids(store.changes_since(known, 10).streams) == ["s2"]
    assert store.changes_since(store.version, 10).streams == []


def test_a_reader_that_is_behind_gets_the_rest_in_order() -> None:
    store, version, seen = Store(keep=100), 0, list[str]()
    for number in range(25):
        store.put(stream(number))
    while version < store.version:
        changes = store.changes_since(version, 10)
        version = changes.version
        seen += ids(changes.streams)
    assert seen == [f"s{number}" for number in range(25)]


def test_chunks_of_a_stream_that_runs_are_sent_once() -> None:
    store = Store(keep=10)
    store.put(stream(1), is_running=True)
    store.update("s1", {"headers": 5}, {"n": 1})
    version, entries = store.snapshot()
    store.update("s1", {"headers": 6}, {"n": 2})
    first, then = store.describe(entries, version), store.changes_since(version, 10)
    parts = [patch["t"]["n"] for patch in [*first.patches, *then.patches] if "t" in patch]
    assert (ids(first.streams), parts) == (["s1"], [1, 2])


def test_a_reader_whose_losses_are_forgotten_starts_anew() -> None:
    store = Store(keep=1)
    for number in range(20_010):
        store.put(stream(number))
    assert (store.has_forgotten(1), store.has_forgotten(store.version), store.has_forgotten(10**9)) == (
        True,
        False,
        True,
    )
