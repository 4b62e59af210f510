"""Describes what an endpoint would get from a sweep at most, so that it can be agreed to."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Final

from otel_itl.sweep.endpoint import Endpoint
from otel_itl.sweep.plan import SweepPlan
from otel_itl.sweep.prompts import TEMPLATE_TOKENS
from otel_itl.sweep.render.progress import describe_seconds

_SAMPLE: Final = 10
"""Prompts whose lengths stand for all."""
_BYTES_PER_TOKEN: Final = 3
"""Bytes of a prompt for each token: fewer than usual, so that an estimate of its tokens is rather too high."""


def describe_demand(plan: SweepPlan, endpoint: Endpoint) -> Iterator[str]:
    """Yield lines with what an endpoint would get.

    Raises:
        PromptError: a prompt cannot be made.
    """
    yield f"{endpoint.host} is not this machine. It would get, from {endpoint.model},"
    limits = plan.limits
    price = None if plan.prices is None else plan.prices.for_model(endpoint.model)
    if limits.max_requests is not None:
        yield f"  at most {limits.max_requests:,} requests"
        input_tokens, output_tokens = (limits.max_requests * tokens for tokens in _tokens_of_a_request(plan))
        if limits.max_tokens is None:
            yield f"  about {input_tokens + output_tokens:,} tokens at most"
        if limits.max_cost is None and price is not None:
            yield f"  about {price.of(input_tokens, output_tokens):,.2f} by the price table at most"
    if limits.max_tokens is not None:
        yield f"  at most {limits.max_tokens:,} tokens"
    if limits.max_cost is not None:
        yield f"  at most {limits.max_cost:,.2f} by the price table"
    rounds = len(plan.levels) * plan.rounds
    shortest = describe_seconds(rounds * (plan.steady_seconds + (plan.warmup_seconds or 0.0)))
    yield f"  for {shortest} or more: {rounds} rounds, with up to {max(plan.levels) * plan.peak:g} streams at a time"


def _tokens_of_a_request(plan: SweepPlan) -> tuple[int, int]:
    """Return how many input and output tokens a request has at most, by the first prompts."""
    prompts = [plan.prompts.make(number) for number in range(_SAMPLE)]
    input_tokens = max(ceil(prompt.size / _BYTES_PER_TOKEN) + TEMPLATE_TOKENS for prompt in prompts)
    return input_tokens, max(prompt.max_output_tokens for prompt in prompts)
