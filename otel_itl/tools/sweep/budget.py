"""What a sweep may consume: requests, tokens and money, counted so that what is under way cannot exceed it."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from operator import add
from typing import Final, NamedTuple

from otel_itl.tools.sweep.plan import SweepPlan
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


class _Limit(NamedTuple):
    """A limit of what input and output tokens add up to."""

    option: str
    """How it was given: `--max-tokens 5,000`."""
    most: float
    amount_of: Callable[[int, int], float]
    """Returns what a number of input and of output tokens count."""
    form: str
    """Format of an amount."""


class Budget:
    """Counts what ended requests have consumed, and reserves the most that open ones may.

    A request that ends without its token counts (a failed one, or one of an endpoint that reports none) counts with
    its whole reservation.

    Args:
        plan: has the limits that are kept, and the price of the model.
    """

    def __init__(self, plan: SweepPlan) -> None:
        self._max_requests = plan.max_requests
        self._price = plan.price
        self._limits: list[_Limit] = []
        if plan.max_tokens is not None:
            self._limits.append(_Limit(f"--max-tokens {plan.max_tokens:,}", plan.max_tokens, add, ","))
        if plan.max_cost is not None and plan.price is not None:
            self._limits.append(_Limit(f"--max-cost {plan.max_cost:g}", plan.max_cost, plan.price.of, ".3g"))
        self._reserved = (0, 0)
        self._used = (0, 0)
        self._usages = 0
        self._densest = 0.0
        self._longest = 0
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
        has_count_left = self._max_requests is None or self.requests < self._max_requests
        return self.exhausted is not None and has_count_left and any(self._reserved)

    @property
    def used_share(self) -> float:
        """Share of the limit that is nearest, used or reserved; 0: there is no limit."""
        of_requests = 0.0 if self._max_requests is None else self.requests / self._max_requests
        taken = _add(self._used, self._reserved)
        return max([of_requests, *(limit.amount_of(*taken) / limit.most for limit in self._limits)])

    def reserve(self, prompt: Prompt) -> Reservation | None:
        """Reserve what a request may consume; None: it would exceed a limit, and is not to be sent."""
        reservation = self.estimate(prompt)
        self.exhausted = self._find_exceeded(reservation)
        if self.exhausted is not None:
            return None
        self.requests += 1
        self._reserved = _add(self._reserved, reservation)
        return reservation

    def release(self, reservation: Reservation) -> None:
        """Give a reservation back: the request was not sent."""
        self.requests -= 1
        self._reserved = _add(self._reserved, reservation, -1)

    def settle(self, reservation: Reservation, input_tokens: int | None, output_tokens: int | None) -> None:
        """Replace a reservation by what the request has consumed; None: not known, it counts in full."""
        self._reserved = _add(self._reserved, reservation, -1)
        used_input = reservation.input_tokens if input_tokens is None else input_tokens
        used_output = reservation.output_tokens if output_tokens is None else output_tokens
        self._used = _add(self._used, (used_input, used_output))
        if used_output > reservation.output_tokens:  # the endpoint does not keep to what an answer may have
            self._longest = max(self._longest, used_output)
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
        return Reservation(most, max(prompt.max_output_tokens, self._longest), size)

    def _find_exceeded(self, more: Reservation) -> str | None:
        """Return the limit that a further request would exceed, in one clause; None: none."""
        if self._max_requests is not None and self.requests + 1 > self._max_requests:
            return f"--max-requests {self._max_requests} was reached"
        for option, most, amount_of, form in self._limits:
            if amount_of(*_add(_add(self._used, self._reserved), more)) > most:
                used, each = (format(amount_of(*tokens), form) for tokens in (self._used, more[:2]))
                of_open = f", up to {amount_of(*self._reserved):{form}} by open requests" if any(self._reserved) else ""
                return f"{option} would be exceeded by a further request ({used} used{of_open}, up to {each} each)"
        return None


def _add(tokens: tuple[int, int], more: tuple[int, ...], sign: int = 1) -> tuple[int, int]:
    """Add input and output tokens, or subtract them (`sign` is -1)."""
    return tokens[0] + sign * more[0], tokens[1] + sign * more[1]
