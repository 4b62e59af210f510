"""A clock that a test moves."""

from __future__ import annotations


class FakeClock:
    """A stand-in for `time.perf_counter_ns`, for any argument that takes a `Callable[[], int]`.

    >>> clock = FakeClock(start_ns=0)
    >>> clock.advance(0.25)
    >>> clock()
    250000000
    """

    def __init__(self, start_ns: int = 1_000_000_000) -> None:
        """Start at `start_ns` nanoseconds."""
        self.now_ns = start_ns

    def __call__(self) -> int:
        """Return the time in nanoseconds."""
        return self.now_ns

    def advance(self, seconds: float) -> None:
        """Advance the time by `seconds`, rounded to whole nanoseconds."""
        self.advance_ns(round(seconds * 1e9))

    def advance_ns(self, nanoseconds: int) -> None:
        """Advance the time by `nanoseconds`.

        Raises:
            ValueError: the number is negative: a monotonic clock never goes back.
        """
        if nanoseconds < 0:
            raise ValueError(f"a monotonic clock never goes back, not even by {-nanoseconds} ns")
        self.now_ns += nanoseconds
