"""Arithmetic on whole columns of numbers at once: a column is one big integer with a lane of 64 bits for each number.

Python takes 20 to 70 ns to subtract or divide two numbers, because each of them becomes an object. It adds, subtracts
and multiplies big integers in loops of C: 1 to 3 ns for each lane. Lanes do not disturb one another as long as none
falls below zero or beyond 63 bits; where one would, `LaneError` is raised and the caller computes number by number.
"""

from __future__ import annotations

import sys
from array import array
from operator import sub
from typing import Any, Final

MAX_NUMBER: Final = (1 << 63) - 1
"""The largest number that a lane holds. `column | MAX_NUMBER` puts it into the first lane."""
FEW: Final = 16
"""Up to this many numbers are computed one by one: that takes less than making columns of them."""
_LANE_BITS: Final = 64
_LANE_BYTES: Final = 8
_ONE_LANE: Final = (1).to_bytes(_LANE_BYTES, "little")
_EVERY_SECOND_LANE: Final = b"\xff" * _LANE_BYTES + bytes(_LANE_BYTES)
_MAX_DIVIDEND_BITS: Final = 53
_MAX_DIVISOR_BITS: Final = 10


class LaneError(ArithmeticError):
    """A number of a column, or a result, does not fit into its lane."""


class Columns:
    """Computes with columns of one length. Columns are integers of `pack`; every number in them is 0 to 2**63 - 1.

    Args:
        length: how many numbers a column has.
    """

    __slots__ = ("_even_lanes", "_length", "_ones", "_signs")

    def __init__(self, length: int) -> None:
        self._length = length
        self._ones = int.from_bytes(_ONE_LANE * length, "little")
        self._signs = self._ones << (_LANE_BITS - 1)
        self._even_lanes = 0

    def pack(self, numbers: array[int]) -> int:
        """Make a column of an array of 64-bit integers.

        Raises:
            LaneError: one of them is negative, or there are more or fewer than `length`.
        """
        if sys.byteorder == "big":
            numbers = array(numbers.typecode, numbers)
            numbers.byteswap()
        column = int.from_bytes(numbers.tobytes(), "little")
        if column & self._signs or len(numbers) != self._length or numbers.itemsize != _LANE_BYTES:
            raise LaneError
        return column

    def unpack(self, column: int) -> array[int]:
        """Return the numbers of a column."""
        numbers = array("q")
        numbers.frombytes(column.to_bytes(self._length * _LANE_BYTES, "little"))
        if sys.byteorder == "big":
            numbers.byteswap()
        return numbers

    def repeat(self, number: int) -> int:
        """Make a column of one number.

        Raises:
            LaneError: it is negative, or larger than a lane.
        """
        if not 0 <= number <= MAX_NUMBER:
            raise LaneError
        return self._ones * number

    def shift(self, column: int, first: int) -> int:
        """Return `first` and then all numbers of a column but the last: what stands before each of its numbers.

        Raises:
            LaneError: `first` is negative, or larger than a lane.
        """
        if not 0 <= first <= MAX_NUMBER:
            raise LaneError
        return (column << _LANE_BITS | first) & ((1 << _LANE_BITS * self._length) - 1)

    def subtract(self, left: int, right: int) -> int:
        """Return `left - right`, number by number.

        Raises:
            LaneError: a difference is negative.
        """
        # A bit above each number keeps its lane from borrowing of the next one, and is lost exactly where it would.
        difference = (left | self._signs) - right
        if difference & self._signs != self._signs:
            raise LaneError
        return difference ^ self._signs

    def is_at_least(self, column: int, least: int) -> bool:
        """Return whether every number of a column is `least` or more.

        Raises:
            LaneError: `least` is negative, or larger than a lane.
        """
        return ((column | self._signs) - self.repeat(least)) & self._signs == self._signs

    def is_at_most(self, column: int, most: int) -> bool:
        """Return whether every number of a column is `most` or less.

        Raises:
            LaneError: `most` is negative, or larger than a lane.
        """
        return ((self.repeat(most) | self._signs) - column) & self._signs == self._signs

    def sum(self, column: int) -> int:
        """Return the sum of a column, which has to be less than 2**63: a lane is what the halves are added up in."""
        lanes = self._length
        while lanes > 1:
            half = -(-lanes // 2)
            upper = column >> half * _LANE_BITS
            column, lanes = (column ^ upper << half * _LANE_BITS) + upper, half
        return column

    def divide(self, column: int, divisor: int) -> int:
        """Return `column // divisor`, number by number, exactly.

        Args:
            column: numbers below 2**53.
            divisor: 1 to 1,023.

        Raises:
            LaneError: a number is larger than that.
        """
        if column & (self._signs - (self._ones << _MAX_DIVIDEND_BITS)):
            raise LaneError
        # By a reciprocal that is rounded up: its error is less than `divisor`, so that after the multiplication it is
        # less than 2**53 * 2**10 = 2**63, which the shift removes. The products need two lanes each.
        shift = _MAX_DIVIDEND_BITS + _MAX_DIVISOR_BITS
        reciprocal = -(-(1 << shift) // divisor)
        if not self._even_lanes:
            self._even_lanes = int.from_bytes(_EVERY_SECOND_LANE * (self._length // 2 + 1), "little")
        even_lanes, odd_lanes = self._even_lanes, self._even_lanes << _LANE_BITS
        even = column & even_lanes
        odd = column ^ even
        return (even * reciprocal >> shift & even_lanes) | (odd * reciprocal >> shift & odd_lanes)


def find_differences(numbers: array[int]) -> list[Any]:
    """Return how much each number of an array exceeds the one before it; one entry less than `numbers` has."""
    return list(map(sub, numbers[1:], numbers))
