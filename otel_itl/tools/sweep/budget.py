"""What a sweep may consume: requests, tokens and money, counted so that what is under way cannot exceed it."""

from __future__ import annotations

from math import ceil
from typing import Final, NamedTuple

from otel_itl.tools.sweep.plan import SweepLimits
from otel_itl.tools.sweep.prices import Price
from otel_itl.tools.sweep.prompts import TEMPLATE_TOKENS, Prompt

MIN_USAGES: Final = 5
"""Requests whose token counts have to be known before the size of a prompt in tokens is estimated from them."""
SAFETY: Final = 1.25
"""A prompt may have this many times the tokens per byte of the densest one so far."""
FILLER_SAFETY: Final = 1.5
"""Before anything was counted, a prompt of a known length may have this many times its tokens."""


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

    @property
    def is_waiting(self) -> bool:
        """Whether the request that was refused last may fit as soon as open ones have ended: each reserves its most."""
        has_count_left = self._limits.max_requests is None or self.requests < self._limits.max_requests
        return self.exhausted is not None and has_count_left and any(self._reserved)

    @property
    def used_share(self) -> float:
        """Share of the limit that is nearest, used or reserved; 0: there is no limit."""
        limits, cost = self._limits, self._cost_of(0, 0)
        pairs = (
            (self.requests, limits.max_requests),
            (sum(self._used) + sum(self._reserved), limits.max_tokens),
            (cost, limits.max_cost),
        )
        return max((used / limit for used, limit in pairs if limit is not None), default=0.0)

    def reserve(self, prompt: Prompt) -> Reservation | None:
        """Reserve what a request may consume; None: it would exceed a limit, and is not to be sent."""
        limit = self.estimate(prompt)
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

    def estimate(self, prompt: Prompt) -> Reservation:
        """Return the most that a request may consume.

        A prompt has at most one token a byte. A prompt of random words has a known length, and as soon as the endpoint
        has reported the tokens of some prompts, they show how many bytes a token has.
        """
        size = prompt.size
        template = TEMPLATE_TOKENS * len(prompt.messages)
        most = size + template
        if self._usages >= MIN_USAGES:
            most = min(most, ceil(size * self._densest * SAFETY))
        elif prompt.tokens is not None:
            expected = ceil(max(FILLER_SAFETY * prompt.tokens, SAFETY * size * self._densest))
            most = min(most, expected + template)
        return Reservation(most, prompt.max_output_tokens, size)

    def _cost_of(self, input_tokens: int, output_tokens: int) -> float:
        """Return the cost of all that is used, reserved and given, by the price; 0 where there is none."""
        if self._price is None:
            return 0.0
        used = [of_used + of_reserved for of_used, of_reserved in zip(self._used, self._reserved, strict=True)]
        return self._price.of(used[0] + input_tokens, used[1] + output_tokens)

    def _find_exceeded(self, more: Reservation) -> str | None:
        """Return the limit that a further request would exceed, in one clause; None: none."""
        limits = self._limits
        if limits.max_requests is not None and self.requests + 1 > limits.max_requests:
            return f"--max-requests {limits.max_requests} was reached"
        used, held, each = sum(self._used), sum(self._reserved), more.input_tokens + more.output_tokens
        if limits.max_tokens is not None and used + held + each > limits.max_tokens:
            return _describe_exceeded(f"--max-tokens {limits.max_tokens:,}", f"{used:,}", f"{held:,}", f"{each:,}")
        cost = self._cost_of(more.input_tokens, more.output_tokens)
        if self._price is not None and limits.max_cost is not None and cost > limits.max_cost:
            money = (self._price.of(*tokens) for tokens in (self._used, self._reserved, more[:2]))
            return _describe_exceeded(f"--max-cost {limits.max_cost:g}", *(f"{one:.3g}" for one in money))
        return None


def _describe_exceeded(limit: str, used: str, held: str, each: str) -> str:
    """Return as a clause that a further request would exceed a limit, with what is used and what each may consume."""
    of_open = "" if held == "0" else f", up to {held} by open requests"
    return f"{limit} would be exceeded by a further request ({used} used{of_open}, up to {each} each)"
