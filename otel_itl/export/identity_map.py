"""A mapping by identity that keeps no key alive: for objects of others, that may be unhashable, or compare as equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar
from weakref import ref

V = TypeVar("V")


class IdentityMap(Generic[V]):
    """Holds a value for each of some objects; an entry goes with its object.

    Providers of frameworks may be data classes, which Python makes unhashable. An object that takes no weak reference
    is kept.
    """

    def __init__(self) -> None:
        self._entries: dict[int, tuple[Callable[[], Any], V]] = {}

    def __contains__(self, key: object) -> bool:
        """Return whether there is a value for this very object."""
        return self._find(key) is not None

    def __setitem__(self, key: object, value: V) -> None:
        """Set the value of an object."""
        place, entries = id(key), self._entries

        def forget(reference: object) -> None:
            # The place may be another object's by now.
            if place in entries and entries[place][0] is reference:
                del entries[place]

        try:
            reference: Callable[[], Any] = ref(key, forget)
        except TypeError:
            self._entries[place] = (lambda: key), value
        else:
            self._entries[place] = reference, value

    def get(self, key: object) -> V | None:
        """Return the value of an object; None: there is none."""
        entry = self._find(key)
        return None if entry is None else entry[1]

    def pop(self, key: object) -> V | None:
        """Remove the value of an object and return it; None: there was none."""
        entry = self._find(key)
        if entry is None:
            return None
        self._entries.pop(id(key), None)
        return entry[1]

    def values(self) -> list[V]:
        """Return the values of all objects that exist."""
        return [value for _, value in list(self._entries.values())]

    def _find(self, key: object) -> tuple[Callable[[], Any], V] | None:
        entry = self._entries.get(id(key))
        return entry if entry is not None and entry[0]() is key else None
