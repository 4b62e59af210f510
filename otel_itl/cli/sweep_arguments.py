"""The arguments of `otel-itl sweep`."""

from __future__ import annotations

from otel_itl.cli.argument_types import (
    BASE_URL,
    ERROR_SHARE,
    LEVELS,
    MAX_COUNT,
    MODEL,
    SEED,
    SLO,
    number,
    positive,
)
from otel_itl.cli.command_parser import CommandParser, add_flag, add_option
from otel_itl.tools.sweep.plan import (
    DEFAULT_ANSWER_TOKENS,
    DEFAULT_LEVELS,
    DEFAULT_MAX_ERROR_SHARE,
    DEFAULT_PROMPT_TOKENS,
    DEFAULT_ROUNDS,
    MAX_REQUESTS_ELSEWHERE,
    MAX_WORKERS,
)

_MAX_SECONDS = 86_400.0
_TOKENS = number(int, 1, MAX_COUNT, "number of tokens")


def add_sweep_arguments(sweep: CommandParser) -> None:
    """Add the arguments of `otel-itl sweep`."""
    add_option(sweep, "base_url", BASE_URL, "the endpoint, such as http://localhost:8000/v1")
    add_option(sweep, "--model", MODEL, "the model to ask for", required=True)
    sweep.add_argument(
        "--api",
        choices=("openai", "anthropic"),
        help="what the endpoint speaks (default: by its host; openai if that shows nothing)",
    )
    _add_load(sweep)
    prompts = sweep.add_argument_group("prompts")
    prompts.add_argument(
        "--prompts",
        metavar="FILE|MODULE:FUNCTION",
        help="one prompt a line, text or JSON; or a function that makes the Nth (default: random words)",
    )
    of_words = f"length of prompts of random words (default: {DEFAULT_PROMPT_TOKENS})"
    add_option(prompts, "--prompt-tokens", _TOKENS, of_words)
    of_answers = f"tokens that an answer has at most (default: {DEFAULT_ANSWER_TOKENS})"
    add_option(prompts, "--answer-tokens", _TOKENS, of_answers)
    add_flag(prompts, "--ignore-eos", "ask for answers of exactly that length (vLLM, SGLang, llama.cpp)")
    prompts.add_argument("--extra-body", metavar="JSON", help="an object that is added to the body of each request")
    prompts.add_argument(
        "--header", metavar="NAME:VALUE", action="append", default=[], help="a header of each request; may be repeated"
    )
    _add_brakes(sweep)
    add_option(
        sweep, "--slo", SLO, "the objective: chat, code, agent or TTFT/ITL[@target], as 500ms/50ms (default: none)"
    )
    sweep.add_argument(
        "--server-metrics",
        metavar="URL",
        help="show the server's own Prometheus metrics beside each level, as http://localhost:8000/metrics",
    )
    add_flag(sweep, "--yes", "do not ask before a host that is not this machine is swept")
    add_flag(sweep, "--json", "print JSON; docs/sweep.md has its schema")
    sweep.add_argument(
        "--html",
        metavar="PATH",
        help="write the streams as the page of `otel-itl view` as well, with the levels as its sides",
    )
    sweep.add_argument("--output", metavar="FILE", help="write the streams to this new file, as OTLP JSON lines")


def _add_load(sweep: CommandParser) -> None:
    """Add the arguments of the load."""
    load = sweep.add_argument_group("load")
    add_option(load, "--peak", positive("number of streams"), "the expected peak: streams that are open at a time")
    load.add_argument(
        "--from",
        dest="recorded",
        metavar="FILE",
        help="take the peak, the arrivals and the lengths from recorded streams (OTLP JSON lines)",
    )
    default = ",".join(f"{level:g}" for level in DEFAULT_LEVELS)
    of_levels = f"multiples of the peak to try (default: a search for the knee; without --slo {default})"
    add_option(load, "--levels", LEVELS, of_levels)
    loop = load.add_mutually_exclusive_group()
    loop.add_argument(
        "--rate",
        choices=("poisson", "constant"),
        help="requests are due by the clock, at random (poisson, the default) or evenly (constant)",
    )
    add_flag(loop, "--closed", "each caller waits for its answer before it asks again")
    seconds = positive("number of seconds", _MAX_SECONDS)
    of_seconds = "how long each round measures (default: until there are the requests that an answer takes)"
    add_option(load, "--seconds", seconds, of_seconds)
    rounds = number(int, 1, 100, "number of rounds")
    add_option(
        load, "--rounds", rounds, "repeats of each level, in turn (default: %(default)s)", default=DEFAULT_ROUNDS
    )
    workers = number(int, 1, MAX_WORKERS, "number of processes")
    of_workers = "processes that send the requests (default: as many as the load needs, up to the CPUs)"
    add_option(load, "--workers", workers, of_workers)
    warm_up = number(float, 0.0, _MAX_SECONDS, "number of seconds")
    of_warm_up = "seconds at each level before it is measured (default: by the duration of a request)"
    add_option(load, "--warm-up", warm_up, of_warm_up)
    add_option(load, "--seed", SEED, "seed of the arrivals and the prompts (default: %(default)s)", default=1)


def _add_brakes(sweep: CommandParser) -> None:
    """Add the arguments that end a sweep early."""
    brakes = sweep.add_argument_group("brakes")
    requests = number(int, 1, MAX_COUNT, "number of requests")
    of_requests = f"send no more requests than these (default: {MAX_REQUESTS_ELSEWHERE}; on this machine no limit)"
    add_option(brakes, "--max-requests", requests, of_requests)
    add_option(brakes, "--max-tokens", _TOKENS, "use no more tokens than these, input and output together")
    add_option(brakes, "--max-cost", positive("cost"), "cost no more than this; needs --prices")
    brakes.add_argument("--prices", metavar="IN,OUT", help="price of a million tokens, as in=3,out=15")
    of_errors = "share of failed requests in a round that ends its level, as 0.1 or 10%% (default)"
    add_option(brakes, "--max-errors", ERROR_SHARE, of_errors, default=DEFAULT_MAX_ERROR_SHARE)
