"""Makes the plan and the endpoint of `otel-itl sweep` from its arguments."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from otel_itl.core.slo import SLO
from otel_itl.tools.command_error import CommandError
from otel_itl.tools.report.reading.lines import check_readable
from otel_itl.tools.report.reading.skipped_input import SkippedInput
from otel_itl.tools.stderr import print_line
from otel_itl.tools.sweep.endpoint import SDK, Endpoint
from otel_itl.tools.sweep.plan import (
    DEFAULT_ANSWER_TOKENS,
    DEFAULT_PROMPT_TOKENS,
    MAX_REQUESTS_ELSEWHERE,
    MAX_STREAMS,
    SweepLimits,
    SweepPlan,
)
from otel_itl.tools.sweep.prices import Prices, parse_prices
from otel_itl.tools.sweep.prompts import Prompts, load_prompts, make_filler, read_prompts
from otel_itl.tools.sweep.traffic import Traffic, read_traffic

_ANTHROPIC_HOST: Final = "anthropic.com"
_FUNCTION: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


class BadPlanError(CommandError):
    """The arguments do not go together, or name what is not there; the message is one sentence."""


def make_endpoint(arguments: argparse.Namespace) -> Endpoint:
    """Return the endpoint that the arguments name.

    Raises:
        BadPlanError: its SDK is not installed.
    """
    host = urlsplit(arguments.base_url).hostname or ""
    is_anthropic = host == _ANTHROPIC_HOST or host.endswith(f".{_ANTHROPIC_HOST}")
    sdk: SDK = arguments.api or ("anthropic" if is_anthropic else "openai")
    if find_spec(sdk) is None:
        raise BadPlanError(f"{sdk} is not installed: pip install {sdk}")
    return Endpoint(sdk=sdk, model=arguments.model, base_url=arguments.base_url)


def make_plan(arguments: argparse.Namespace, endpoint: Endpoint) -> SweepPlan:
    """Return the plan that the arguments describe.

    Raises:
        BadPlanError: they do not go together, or a file cannot be read.
        PromptError: there are no prompts where they are to come from.
        NoTrafficError, UnreadableSourceError: the recorded streams are too few, or cannot be read.
    """
    prices = _read_prices(arguments)
    traffic = _read_traffic(arguments)
    peak = _find_peak(arguments, traffic)
    max_requests = arguments.max_requests
    if max_requests is None and not endpoint.is_loopback:
        max_requests = MAX_REQUESTS_ELSEWHERE
    _check_streams(arguments.levels, peak)
    limits = SweepLimits(
        max_requests=max_requests,
        max_tokens=arguments.max_tokens,
        max_cost=arguments.max_cost,
        max_error_share=arguments.max_errors,
    )
    has_arrivals = traffic is not None and any(traffic.inter_arrivals) and not arguments.closed
    return SweepPlan(
        peak=peak,
        prompts=_make_prompts(arguments, traffic),
        levels=arguments.levels,
        rounds=arguments.rounds,
        is_open_loop=not arguments.closed,
        arrivals=arguments.rate or ("recorded" if has_arrivals else "poisson"),
        inter_arrivals=() if traffic is None else traffic.inter_arrivals,
        steady_seconds=arguments.seconds,
        warmup_seconds=arguments.warm_up,
        limits=limits,
        prices=prices,
        objective=_find_objective(arguments),
        seed=arguments.seed,
        output=arguments.output,
    )


def find_inputs(arguments: argparse.Namespace) -> list[str]:
    """Return the names of the files that are read."""
    named = (arguments.recorded, arguments.prompts, arguments.prices)
    return [name for name in named if name is not None and Path(name).exists()]


def _find_objective(arguments: argparse.Namespace) -> SLO | None:
    """Return the objective for the model; None: none is given.

    Raises:
        BadPlanError: `--slo` has none for this model.
    """
    if arguments.slo is None:
        return None
    objective: SLO | None = arguments.slo.for_model(arguments.model)
    if objective is None or (objective.ttft is None and objective.itl is None):
        raise BadPlanError(f"--slo has no objective for the model {arguments.model!r}: name one, as *=chat.")
    return objective


def _read_prices(arguments: argparse.Namespace) -> Prices | None:
    """Return the price table; None: none is given.

    Raises:
        BadPlanError: it cannot be read, or has no price of the model that is to be limited.
    """
    if arguments.prices is None:
        if arguments.max_cost is not None:
            raise BadPlanError(f"--max-cost {arguments.max_cost:g} needs --prices, as in=3,out=15 or a JSON file.")
        return None
    try:
        return parse_prices(arguments.prices)
    except ValueError as error:
        raise BadPlanError(f"--prices {error}") from error
    except OSError as error:
        raise BadPlanError(f"--prices {arguments.prices} cannot be read ({error.strerror or error}).") from error


def _make_prompts(arguments: argparse.Namespace, traffic: Traffic | None) -> Prompts:
    """Return what is asked.

    Raises:
        NoTrafficError: no recorded request has its lengths.
        BadPlanError: `--prompts` does not go with `--prompt-tokens`, or names no file and no function.
        PromptError: there is no prompt in the file, or no such function.
    """
    answer_tokens = arguments.answer_tokens or DEFAULT_ANSWER_TOKENS
    name = arguments.prompts
    if name is None:
        return _make_filler(arguments, traffic)
    if arguments.prompt_tokens is not None:
        raise BadPlanError("--prompts and --prompt-tokens both set the length of prompts: leave one out.")
    if not Path(name).exists() and _FUNCTION.fullmatch(name):
        return load_prompts(name, answer_tokens)
    try:
        return read_prompts(name, answer_tokens)
    except OSError as error:
        raise BadPlanError(f"--prompts {name} cannot be read ({error.strerror or error}).") from error


def _make_filler(arguments: argparse.Namespace, traffic: Traffic | None) -> Prompts:
    """Return prompts of random words: as long as the arguments ask, else as recorded.

    Raises:
        NoTrafficError: no recorded request has its lengths.
    """
    prompt_tokens, answer_tokens = arguments.prompt_tokens, arguments.answer_tokens
    recorded: Sequence[tuple[int, int]] = [(DEFAULT_PROMPT_TOKENS, DEFAULT_ANSWER_TOKENS)]
    if traffic is not None and not (prompt_tokens and answer_tokens):
        recorded = traffic.find_lengths()
    lengths = [(prompt_tokens or of_prompt, answer_tokens or of_answer) for of_prompt, of_answer in recorded]
    return make_filler(lengths, arguments.seed)


def _check_streams(levels: Sequence[float], peak: float) -> None:
    """Refuse more streams than one process can hold.

    Raises:
        BadPlanError: a level has more.
    """
    level = max(*levels, 1.0)
    if level * peak > MAX_STREAMS:
        raise BadPlanError(
            f"a peak of {peak:,.10g} is {level * peak:,.10g} streams at {level:g}x: one process can hold at most "
            f"{MAX_STREAMS:,}; name a lower --peak, or lower --levels."
        )


def _read_traffic(arguments: argparse.Namespace) -> Traffic | None:
    """Return the recorded traffic that is to be repeated, of all its models; None: none is given.

    Raises:
        NoTrafficError, UnreadableSourceError: there is none in the file, or it cannot be read.
    """
    if arguments.recorded is None:
        return None
    skipped = SkippedInput()
    check_readable(arguments.recorded)
    try:
        return read_traffic([arguments.recorded], skipped)
    finally:
        for line in skipped.describe():
            print_line(line)


def _find_peak(arguments: argparse.Namespace, traffic: Traffic | None) -> float:
    """Return the expected peak.

    Raises:
        BadPlanError: it is not given.
    """
    if arguments.peak is not None:
        return float(arguments.peak)
    if traffic is None:
        raise BadPlanError("name the expected peak with --peak, or recorded streams with --from.")
    return float(traffic.peak)
