"""What a sweep may consume: requests, tokens and money, counted so that what is under way cannot exceed it."""

from __future__ import annotations

from math import ceil
from typing import Final, NamedTuple

from otel_itl.sweep.plan import SweepLimits
from otel_itl.sweep.prices import Price
from otel_itl.sweep.prompts import TEMPLATE_TOKENS, Prompt

MIN_USAGES: Final = 5
"""Requests whose token counts have to be known before the size of a prompt in tokens is estimated from them."""
SAFETY: Final = 1.5
"""A prompt may have this many times the tokens per byte of the densest one so far."""


class Reservation(NamedTuple):
    """The most that a request under way may consume."""

    input_tokens: int
    output_tokens: int
    size: int
    """Size of the prompt in bytes."""


class Budget:
    """Counts what ended requests have consumed, and reserves the most that open ones may.

    A request that ends without its token counts (a failed one, or one of an endpoint that reports none) counts with
    its whole reservation.

    Args:
        limits: the limits that are kept.
        price: price of the model; None: there is none.
    """

    def __init__(self, limits: SweepLimits, price: Price | None = None) -> None:
        self._limits = limits
        self._price = price
        self._reserved: list[int] = [0, 0]
        self._used: list[int] = [0, 0]
        self._usages = 0
        self._densest = 0.0
        self.requests = 0
        self.exhausted: str | None = None
        """The limit that the next request would exceed, in one clause; None: none."""

    @property
    def tokens(self) -> int:
        """Input and output tokens of the requests that have ended."""
        return sum(self._used)

    @property
    def cost(self) -> float | None:
        """Cost of the requests that have ended; None: there is no price."""
        return None if self._price is None else self._price.of(*self._used)

    def reserve(self, prompt: Prompt) -> Reservation | None:
        """Reserve what a request may consume; None: it would exceed a limit, and is not to be sent."""
        size = prompt.size
        limit = Reservation(self._max_input_tokens(prompt, size), prompt.max_output_tokens, size)
        self.exhausted = self._find_exceeded(limit)
        if self.exhausted is not None:
            return None
        self.requests += 1
        self._reserved[0] += limit.input_tokens
        self._reserved[1] += limit.output_tokens
        return limit

    def release(self, reservation: Reservation) -> None:
        """Give a reservation back: the request was not sent."""
        self.requests -= 1
        self._reserved[0] -= reservation.input_tokens
        self._reserved[1] -= reservation.output_tokens

    def settle(self, reservation: Reservation, input_tokens: int | None, output_tokens: int | None) -> None:
        """Replace a reservation by what the request has consumed; None: not known, it counts in full."""
        self._reserved[0] -= reservation.input_tokens
        self._reserved[1] -= reservation.output_tokens
        self._used[0] += reservation.input_tokens if input_tokens is None else input_tokens
        self._used[1] += reservation.output_tokens if output_tokens is None else output_tokens
        if input_tokens is not None and reservation.size:
            self._usages += 1
            self._densest = max(self._densest, input_tokens / reservation.size)

    def _max_input_tokens(self, prompt: Prompt, size: int) -> int:
        """Return the most tokens that a prompt may have: one a byte, and fewer as soon as prompts were counted."""
        most = size + TEMPLATE_TOKENS * len(prompt.messages)
        return most if self._usages < MIN_USAGES else min(most, ceil(size * self._densest * SAFETY))

    def _find_exceeded(self, more: Reservation) -> str | None:
        """Return the limit that a further request would exceed, in one clause; None: none."""
        limits = self._limits
        if limits.max_requests is not None and self.requests + 1 > limits.max_requests:
            return f"--max-requests {limits.max_requests} was reached"
        input_tokens = self._used[0] + self._reserved[0] + more.input_tokens
        output_tokens = self._used[1] + self._reserved[1] + more.output_tokens
        if limits.max_tokens is not None and input_tokens + output_tokens > limits.max_tokens:
            return f"--max-tokens {limits.max_tokens} was reached"
        cost = 0.0 if self._price is None else self._price.of(input_tokens, output_tokens)
        if limits.max_cost is not None and cost > limits.max_cost:
            return f"--max-cost {limits.max_cost:g} was reached"
        return None
