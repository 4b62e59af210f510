"""`python -m bench.sessions`: play steady and slowed sessions to the detector; count false alarms and delays."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from bench.page import replace_section
from bench.sessions.trial import NEVER, SLOW, Delays, count_reports, delays, steady
from bench.sessions.upstream import UPSTREAMS, Upstream
from bench.truth.tables import table
from otel_itl.core.sessions import DegradationScope

SECTION = "sessions"
TOKENS = (20, 100, 500)
FACTORS = (1.25, 1.5, 2.0, 3.0)
GROWTHS = (0.0025, 0.005, 0.01, 0.02)
TOGETHER = (2, 5, 20)
TRIALS = 500
QUICK_TRIALS = 30


def main(arguments: Sequence[str] | None = None) -> None:
    """Simulate, and print the tables."""
    options = _options(arguments)
    upstreams = [upstream for upstream in UPSTREAMS if options.only in {None, upstream.name}]
    tokens = (options.tokens,) if options.tokens else TOKENS
    text = "\n".join(_text(upstreams, tokens, QUICK_TRIALS if options.quick else TRIALS))
    print(text)
    if options.write:
        replace_section(options.write, SECTION, text)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.sessions", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few trials")
    parser.add_argument("--only", choices=[upstream.name for upstream in UPSTREAMS], help="one upstream")
    parser.add_argument("--tokens", type=int, choices=TOKENS, help="one length of requests")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="also replace the section of a page")
    return parser.parse_args(arguments)


def _text(upstreams: Sequence[Upstream], tokens: Sequence[int], trials: int) -> Iterator[str]:
    yield "### False alarms, and how soon a slowdown is reported\n"
    header = ["upstream", "tokens", "false alarms per 1,000", *(f"{factor:g} times slower" for factor in FACTORS)]
    yield table(header, _rows(upstreams, tokens, trials))
    yield "### A context that grows\n"
    header = ["upstream", *(f"{growth:.2%} a request" for growth in GROWTHS)]
    yield table(header, ([up.name, *_grown(up, trials)] for up in upstreams))
    yield "### Whose slowdown it is\n"
    header = ["upstream", "sessions", "become slower", "`session` reported", "`model` reported"]
    yield table(header, _scopes(upstreams, trials))


def _rows(upstreams: Sequence[Upstream], tokens: Sequence[int], trials: int) -> Iterator[list[str]]:
    for upstream in upstreams:
        for length in tokens:
            quiet = steady(upstream, length, trials)
            soon = (_soon(delays(upstream, length, factor, trials)) for factor in FACTORS)
            yield [upstream.name, str(length), f"{quiet.per_thousand:.2f}", *soon]


def _soon(found: Delays) -> str:
    """Median and 95th percentile of the delays; where there are none, how many were reported at all."""
    median, late = found.percentile(50), found.percentile(95)
    share = f"{found.within(SLOW):.0%} in {SLOW}"
    if median == NEVER:
        return share
    return f"{median}, {share}" if late == NEVER else f"{median}, p95 {late}"


def _grown(upstream: Upstream, trials: int) -> Iterable[str]:
    return (f"{steady(upstream, 100, trials // 3, growth=growth, requests=100).per_thousand:.2f}" for growth in GROWTHS)


def _scopes(upstreams: Sequence[Upstream], trials: int) -> Iterator[list[str]]:
    for upstream in upstreams:
        for sessions in TOGETHER:
            for slow in (1, sessions):
                played = max(trials // sessions, 1)
                counts = count_reports(upstream, sessions, slow, played)
                shares = (f"{counts[scope] / played:.2f}" for scope in DegradationScope)
                yield [upstream.name, str(sessions), "one" if slow == 1 else "all", *shares]


if __name__ == "__main__":
    main()
