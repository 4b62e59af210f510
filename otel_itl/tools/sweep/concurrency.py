"""How many streams are open at a time, on average and at most, in constant time and memory."""

from __future__ import annotations


class Concurrency:
    """Counts open streams. Moments are seconds on one clock, and never go back."""

    def __init__(self) -> None:
        self.open = 0
        self.most = 0
        """Most streams open at a time since `forget_most`."""
        self._area = 0.0
        self._since = 0.0

    def change(self, by: int, now: float) -> None:
        """Note that a stream was opened (1) or has ended (-1)."""
        self._area, self._since = self.area(now), now
        self.open += by
        self.most = max(self.most, self.open)

    def forget_most(self) -> None:
        """Look for the most from now on."""
        self.most = self.open

    def area(self, now: float) -> float:
        """Return the time that all streams together were open so far: twice read, it gives the mean in between."""
        return self._area + (now - self._since) * self.open
