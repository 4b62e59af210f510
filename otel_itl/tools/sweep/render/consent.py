"""Describes what an endpoint would get from a sweep, planned and at most, so that it can be agreed to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from otel_itl.tools.report.render.number_format import pluralize
from otel_itl.tools.sweep.budget import Budget
from otel_itl.tools.sweep.calibration import MIN_MEASURED, REQUESTS_PER_CALLER
from otel_itl.tools.sweep.endpoint import Endpoint
from otel_itl.tools.sweep.plan import SweepPlan
from otel_itl.tools.sweep.render.progress import describe_seconds
from otel_itl.tools.sweep.render.words import describe_streams

_SAMPLE: Final = 10
"""Prompts whose lengths stand for all."""
_TTFT: Final = 0.5
_TOKENS_PER_SECOND: Final = 50
"""Of an answer, with `_TTFT` (s) before it: a guess for the question, because a sweep measures it only after a yes."""


def describe_demand(plan: SweepPlan, endpoint: Endpoint) -> Iterator[str]:
    """Yield lines with what an endpoint would get: about how much is planned, and how much it is at most.

    Raises:
        CommandError: a prompt cannot be made.
    """
    yield f"{endpoint.host} is not this machine. It would get, from {endpoint.model},"
    input_size, output_size = _tokens_of_a_request(plan)
    yield from _describe_planned(plan, output_size)
    if plan.max_requests is not None:
        yield f"  at most {pluralize(plan.max_requests, 'request')}"
        input_tokens, output_tokens = plan.max_requests * input_size, plan.max_requests * output_size
        if plan.max_tokens is None:
            yield f"  about {input_tokens + output_tokens:,} tokens at most"
        if plan.max_cost is None and plan.price is not None:
            yield f"  about {plan.price.of(input_tokens, output_tokens):,.2f} by --prices at most"
    if plan.max_tokens is not None:
        yield f"  at most {plan.max_tokens:,} tokens"
    if plan.max_cost is not None:
        yield f"  at most {plan.max_cost:,.2f} by --prices"


def _describe_planned(plan: SweepPlan, output_tokens: int) -> Iterator[str]:
    """Yield the rounds, and an estimate of the requests and of the time that they take with the calibration."""
    duration = _TTFT + output_tokens / _TOKENS_PER_SECOND
    each = {level: plan.estimate_round(level, duration) for level in plan.levels}
    callers = plan.callers_at(1.0)
    calibrating = callers + max((REQUESTS_PER_CALLER - 1) * callers, MIN_MEASURED)
    in_rounds = sum(level * seconds for level, seconds in each.items()) * plan.peak / duration
    requests = calibrating + plan.rounds * in_rounds
    requests = min(requests, plan.max_requests or requests)
    rounds = len(plan.levels) * plan.rounds
    seconds = calibrating / callers * duration + plan.rounds * sum(each.values())
    most = describe_streams(max(plan.levels) * plan.peak)
    yield f"  planned: {pluralize(rounds, 'round')}, with up to {most} at a time"
    about = pluralize(round(requests), "request")
    yield f"  about {about} in {describe_seconds(seconds)}, if one takes {describe_seconds(duration)}"


def _tokens_of_a_request(plan: SweepPlan) -> tuple[int, int]:
    """Return how many input and output tokens a request has at most, by the first prompts, as the budget counts it."""
    budget = Budget(plan)
    estimates = [budget.estimate(plan.prompts(number)) for number in range(_SAMPLE)]
    return max(one.input_tokens for one in estimates), max(one.output_tokens for one in estimates)
