"""A mapping by identity: objects that are equal or unhashable are kept apart, and none is kept alive."""

from __future__ import annotations

import gc
from dataclasses import dataclass

from otel_itl.export.identity_map import IdentityMap


@dataclass
class Unhashable:
    """Equal to every other one, and unhashable."""


class Slotted:
    """Takes no weak reference."""

    __slots__ = ()


def test_equal_objects_that_cannot_be_hashed_have_values_of_their_own() -> None:
    first, second = Unhashable(), Unhashable()
    found: IdentityMap[int] = IdentityMap()
    found[first] = 1
    before = second in found
    found[second] = 2
    assert (before, found.get(first), found.get(second), found.values()) == (False, 1, 2, [1, 2])


def test_an_entry_goes_with_its_object() -> None:
    key = Unhashable()
    found: IdentityMap[int] = IdentityMap()
    found[key] = 1
    del key
    gc.collect()
    assert found.values() == []


def test_a_value_that_was_set_again_takes_the_place_of_the_one_before() -> None:
    key = Unhashable()
    found: IdentityMap[int] = IdentityMap()
    found[key] = 1
    found[key] = 2
    assert (found.get(key), found.values()) == (2, [2])


def test_what_was_removed_is_gone() -> None:
    key = Unhashable()
    found: IdentityMap[int] = IdentityMap()
    found[key] = 1
    assert (found.pop(key), found.pop(key), key in found) == (1, None, False)


def test_an_object_without_weak_references_has_a_value_as_well() -> None:
    key = Slotted()
    found: IdentityMap[int] = IdentityMap()
    found[key] = 1
    assert found.get(key) == 1
