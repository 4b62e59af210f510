"""Makes the plan and the endpoint of `otel-itl sweep` from its arguments."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from otel_itl.core.slo import SLO, Objectives
from otel_itl.tools.command_error import CommandError
from otel_itl.tools.report.reading.documents import check_readable
from otel_itl.tools.report.reading.skipped_input import SkippedInput
from otel_itl.tools.stderr import print_line
from otel_itl.tools.sweep.endpoint import SDK, Endpoint
from otel_itl.tools.sweep.plan import (
    DEFAULT_ANSWER_TOKENS,
    DEFAULT_LEVELS,
    DEFAULT_PROMPT_TOKENS,
    MAX_REQUESTS_ELSEWHERE,
    MAX_STREAMS,
    SweepPlan,
)
from otel_itl.tools.sweep.prices import parse_price
from otel_itl.tools.sweep.prompts import Prompts, load_prompts, make_filler, read_prompts
from otel_itl.tools.sweep.traffic import Traffic, read_traffic

_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OWN_FIELDS: Final = frozenset({"messages", "model", "stream", "stream_options", "max_tokens", "max_completion_tokens"})
_ANTHROPIC_HOST: Final = "anthropic.com"
_FUNCTION: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def make_endpoint(arguments: argparse.Namespace) -> Endpoint:
    """Return the endpoint that the arguments name.

    Raises:
        CommandError: its SDK is not installed, or a header or the extra body is not accepted.
    """
    host = urlsplit(arguments.base_url).hostname or ""
    is_anthropic = host == _ANTHROPIC_HOST or host.endswith(f".{_ANTHROPIC_HOST}")
    sdk: SDK = arguments.api or ("anthropic" if is_anthropic else "openai")
    if find_spec(sdk) is None:
        raise CommandError(f"{sdk} is not installed: pip install {sdk}")
    return Endpoint(
        sdk=sdk,
        model=arguments.model,
        base_url=arguments.base_url,
        headers=dict(map(_parse_header, arguments.header)),
        body=_parse_body(arguments.extra_body),
        is_exact=arguments.ignore_eos,
    )


def _parse_header(text: str) -> tuple[str, str]:
    """Parse `NAME:VALUE`; the message of an error does not repeat the value, which may be a secret.

    Raises:
        CommandError: it is no header.
    """
    name, colon, value = text.partition(":")
    if not colon or not _HEADER_NAME.fullmatch(name) or "\n" in value or "\r" in value:
        raise CommandError("--header is not accepted: it takes a header in one line, as 'x-tenant: a'.")
    return name, value.strip()


def _parse_body(text: str | None) -> dict[str, Any]:
    """Parse what is added to the body of each request.

    Raises:
        CommandError: it is no JSON object, or sets what the sweep needs.
    """
    try:
        body = {} if text is None else json.loads(text)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise CommandError(f"--extra-body {text} is not accepted: it takes a JSON object, as '{{\"top_k\": 1}}'.")
    own = sorted(_OWN_FIELDS & body.keys())
    if own:
        raise CommandError(f"--extra-body sets {own[0]}, which the sweep sets itself: leave it out.")
    return body


def make_plan(arguments: argparse.Namespace, endpoint: Endpoint) -> SweepPlan:
    """Return the plan that the arguments describe.

    Raises:
        CommandError: they do not go together, a file cannot be read, or has no prompt or stream.
    """
    if arguments.max_cost is not None and arguments.prices is None:
        raise CommandError(f"--max-cost {arguments.max_cost:g} needs --prices, as in=3,out=15.")
    traffic = None if arguments.recorded is None else _read_recorded(arguments.recorded)
    max_requests = arguments.max_requests
    if max_requests is None and not endpoint.is_loopback:
        max_requests = MAX_REQUESTS_ELSEWHERE
    has_arrivals = traffic is not None and any(traffic.inter_arrivals) and not arguments.closed
    return SweepPlan(
        peak=_find_peak(arguments, traffic),
        prompts=_make_prompts(arguments, traffic),
        levels=arguments.levels or DEFAULT_LEVELS,
        is_search=arguments.levels is None and arguments.slo is not None,
        rounds=arguments.rounds,
        is_open_loop=not arguments.closed,
        arrivals=arguments.rate or ("recorded" if has_arrivals else "poisson"),
        inter_arrivals=() if traffic is None else traffic.inter_arrivals,
        steady_seconds=arguments.seconds,
        warmup_seconds=arguments.warm_up,
        max_requests=max_requests,
        max_tokens=arguments.max_tokens,
        max_cost=arguments.max_cost,
        max_error_share=arguments.max_errors,
        price=None if arguments.prices is None else parse_price(arguments.prices),
        objective=None if arguments.slo is None else _find_objective(arguments.slo, arguments.model),
        workers=arguments.workers,
        server_metrics=arguments.server_metrics,
        seed=arguments.seed,
        output=arguments.output,
        has_page=arguments.html is not None,
    )


def find_inputs(arguments: argparse.Namespace) -> list[str]:
    """Return the names of the files that are read."""
    named = (arguments.recorded, arguments.prompts)
    return [name for name in named if name is not None and Path(name).exists()]


def _read_recorded(source: str) -> Traffic:
    """Return the recorded traffic that is to be repeated, of all its models."""
    skipped = SkippedInput()
    check_readable(source)
    try:
        return read_traffic([source], skipped)
    finally:
        for line in skipped.describe():
            print_line(line)


def _find_peak(arguments: argparse.Namespace, traffic: Traffic | None) -> float:
    """Return the expected peak of streams at a time; refuse one of which a level is more than one process can hold."""
    if arguments.peak is None and traffic is None:
        raise CommandError("name the expected peak with --peak, or recorded streams with --from.")
    peak = float(traffic.peak if arguments.peak is None and traffic is not None else arguments.peak)
    level = max(*(arguments.levels or DEFAULT_LEVELS), 1.0)
    if level * peak > MAX_STREAMS:
        raise CommandError(
            f"a peak of {peak:,.10g} is {level * peak:,.10g} streams at {level:g}x: one process can hold at most "
            f"{MAX_STREAMS:,}; name a lower --peak, or lower --levels."
        )
    return peak


def _make_prompts(arguments: argparse.Namespace, traffic: Traffic | None) -> Prompts:
    """Return what is asked: prompts of random words are as long as the arguments ask, else as recorded."""
    name, prompt_tokens, answer_tokens = arguments.prompts, arguments.prompt_tokens, arguments.answer_tokens
    if name is None:
        lengths: Sequence[tuple[int, int]] = [(DEFAULT_PROMPT_TOKENS, DEFAULT_ANSWER_TOKENS)]
        if traffic is not None and not (prompt_tokens and answer_tokens):
            if not traffic.lengths:
                raise CommandError("no recorded request has its input and output tokens: give prompts.")
            lengths = traffic.lengths
        return make_filler([(prompt_tokens or one[0], answer_tokens or one[1]) for one in lengths], arguments.seed)
    if prompt_tokens is not None:
        raise CommandError("--prompts and --prompt-tokens both set the length of prompts: leave one out.")
    is_function = not Path(name).exists() and _FUNCTION.fullmatch(name)
    return (load_prompts if is_function else read_prompts)(name, answer_tokens or DEFAULT_ANSWER_TOKENS)


def _find_objective(slo: Objectives, model: str) -> SLO:
    """Return the objective for the model."""
    objective = slo.for_model(model)
    if objective is None or (objective.ttft is None and objective.itl is None):
        raise CommandError(f"--slo has no objective for the model {model!r}: name one, as *=chat.")
    return objective
