"""The arguments of `otel-itl sweep`."""

from __future__ import annotations

import argparse
import math
from typing import Any, Final
from urllib.parse import urlsplit

from otel_itl.cli.argument_types import SEEDS, number_parser, parse_model, parse_slo
from otel_itl.core.without_secrets import show_address

APIS: Final = ("openai", "anthropic")
ARRIVALS: Final = ("poisson", "constant")
DEFAULT_LEVELS: Final = (1.0, 1.5, 2.0, 3.0, 5.0)
MAX_REQUESTS_ELSEWHERE: Final = 5_000
"""Requests at most to a host that is not this machine, unless `--max-requests` is given."""
_MAX_LEVEL: Final = 1_000.0
_MAX_COUNT: Final = 10**9
_MAX_SECONDS: Final = 86_400.0
_ROUNDS: Final = (1, 100)


def add_arguments(sweep: argparse.ArgumentParser) -> None:
    """Add the arguments of `otel-itl sweep`."""
    sweep.add_argument(
        "base_url", type=parse_base_url, metavar="BASE_URL", help="the endpoint, such as http://localhost:8000/v1"
    )
    sweep.add_argument("--model", required=True, type=parse_model, metavar="NAME", help="the model to ask for")
    sweep.add_argument(
        "--api", choices=APIS, help="what the endpoint speaks (default: by its host; openai if that shows nothing)"
    )
    _add_load(sweep)
    _add_prompts(sweep)
    _add_brakes(sweep)
    sweep.add_argument(
        "--slo",
        type=parse_slo,
        metavar="SLO",
        help="the objective: chat, code, agent or TTFT/ITL[@target], as 500ms/50ms (default: none)",
    )
    sweep.add_argument("--yes", action="store_true", help="do not ask before a host that is not this machine is swept")
    sweep.add_argument("--json", action="store_true", help="print JSON; docs/sweep.md has its schema")
    sweep.add_argument("--html", metavar="PATH", help="write a page with pictures as well")
    sweep.add_argument("--output", metavar="FILE", help="write the streams to this new file, as OTLP JSON lines")


def _add_load(sweep: argparse.ArgumentParser) -> None:
    """Add the arguments of the load."""
    load = sweep.add_argument_group("load")
    load.add_argument(
        "--peak",
        type=positive_parser("number of streams", _MAX_COUNT),
        metavar="N",
        help="the expected peak: streams that are open at a time",
    )
    load.add_argument(
        "--from",
        dest="recorded",
        metavar="FILE",
        help="take the peak, the arrivals and the lengths from recorded streams (OTLP JSON lines)",
    )
    load.add_argument(
        "--levels",
        type=parse_levels,
        default=DEFAULT_LEVELS,
        metavar="X[,X...]",
        help="multiples of the peak to try (default: 1,1.5,2,3,5)",
    )
    kind = load.add_mutually_exclusive_group()
    kind.add_argument(
        "--rate",
        choices=ARRIVALS,
        help="requests are due by the clock, at random (poisson, the default) or evenly (constant)",
    )
    kind.add_argument("--closed", action="store_true", help="each caller waits for its answer before it asks again")
    load.add_argument(
        "--seconds",
        type=positive_parser("number of seconds", _MAX_SECONDS),
        default=30.0,
        metavar="N",
        help="how long each round measures (default: 30)",
    )
    load.add_argument(
        "--rounds",
        type=number_parser(int, *_ROUNDS, "number of rounds"),
        default=3,
        metavar="N",
        help="repeats of each level, in turn (default: 3)",
    )
    load.add_argument(
        "--warm-up",
        type=number_parser(float, 0.0, _MAX_SECONDS, "number of seconds"),
        metavar="N",
        help="seconds at each level before it is measured (default: by the duration of a request)",
    )
    load.add_argument(
        "--seed",
        type=number_parser(int, *SEEDS, "seed"),
        default=1,
        metavar="N",
        help="seed of the arrivals and the prompts (default: 1)",
    )


def _add_prompts(sweep: argparse.ArgumentParser) -> None:
    """Add the arguments of what is asked."""
    prompts = sweep.add_argument_group("prompts")
    prompts.add_argument(
        "--prompts",
        metavar="FILE|MODULE:FUNCTION",
        help="one prompt a line, text or JSON; or a function that makes the Nth (default: random words)",
    )
    prompts.add_argument(
        "--prompt-tokens",
        type=number_parser(int, 1, _MAX_COUNT, "number of tokens"),
        metavar="N",
        help="length of prompts of random words (default: 256)",
    )
    prompts.add_argument(
        "--answer-tokens",
        type=number_parser(int, 1, _MAX_COUNT, "number of tokens"),
        metavar="N",
        help="tokens that an answer has at most (default: 256)",
    )


def _add_brakes(sweep: argparse.ArgumentParser) -> None:
    """Add the arguments that end a sweep early."""
    brakes = sweep.add_argument_group("brakes")
    brakes.add_argument(
        "--max-requests",
        type=number_parser(int, 1, _MAX_COUNT, "number of requests"),
        metavar="N",
        help=f"send no more requests than these (default: {MAX_REQUESTS_ELSEWHERE}; on this machine no limit)",
    )
    brakes.add_argument(
        "--max-tokens",
        type=number_parser(int, 1, _MAX_COUNT, "number of tokens"),
        metavar="N",
        help="use no more tokens than these, input and output together",
    )
    brakes.add_argument(
        "--max-cost",
        type=positive_parser("cost", _MAX_COUNT),
        metavar="N",
        help="cost no more than this; needs --prices",
    )
    brakes.add_argument(
        "--prices", metavar="IN,OUT|FILE", help="price of a million tokens, as in=3,out=15, or a JSON file by model"
    )
    brakes.add_argument(
        "--max-errors",
        type=parse_error_share,
        default=0.1,
        metavar="SHARE",
        help="share of failed requests in a round that ends its level, as 0.1 or 10%% (default)",
    )


def parse_base_url(text: str) -> str:
    """Convert the argument `BASE_URL`."""
    try:
        parts = urlsplit(text)
        is_accepted = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port)
    except ValueError:  # a port that is no number
        is_accepted = False
    if not is_accepted:
        raise argparse.ArgumentTypeError(
            f"{show_address(text)!r} is not a base URL: it takes one such as http://localhost:8000/v1"
        )
    return text


def parse_levels(text: str) -> tuple[float, ...]:
    """Convert the argument of `--levels`: different multiples, ascending."""
    try:
        levels = sorted(float(part) for part in text.split(","))
    except ValueError:
        levels = []
    if not levels or not all(0 < level <= _MAX_LEVEL for level in levels) or len(set(levels)) < len(levels):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of levels: it takes different multiples of the peak, as 1,1.5,2"
        )
    return tuple(levels)


def parse_error_share(text: str) -> float:
    """Convert the argument of `--max-errors` to a share."""
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = math.nan
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share of errors: it takes one such as 0.1, or 10%")
    return share


def positive_parser(noun: str, maximum: float) -> Any:
    """Return a function that converts an argument to a number above 0 and up to `maximum`."""

    def convert(text: str) -> float:
        """Convert the text of an argument; `argparse` prints what is wrong with it."""
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not 0 < number <= maximum:
            raise argparse.ArgumentTypeError(f"{text!r} is not a {noun}: it takes a number above 0, up to {maximum:g}")
        return number

    return convert
