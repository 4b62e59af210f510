"""Converts the arguments of `otel-itl`: `argparse` prints what is wrong with one that is not accepted."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable, Collection
from typing import Final, NamedTuple, TypeVar
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from otel_itl.core.moments import parse_time
from otel_itl.core.option_values import NotAcceptedError, parse_objectives
from otel_itl.core.slo import MAX_SECONDS, Objectives
from otel_itl.core.spelling import did_you_mean
from otel_itl.core.without_secrets import show_address
from otel_itl.tools.compare.rows import COMPARED
from otel_itl.tools.demo.sdks import SDKS
from otel_itl.tools.fleet.collector_config import CONFIGURATIONS
from otel_itl.tools.report.other_tools import TOOLS

_T = TypeVar("_T")

MAX_LEVEL: Final = 1_000.0
MAX_COUNT: Final = 10**9
_SLO_TAKES: Final = (
    "chat, code, agent, or TTFT/ITL such as 0.5/0.05 (seconds), 500ms/50ms or 0.5/0.05@0.995, with a TTFT above 0 and "
    f"below {MAX_SECONDS['ttft']:g} s, an ITL above 0 and below {MAX_SECONDS['itl']:g} s, a target between 0 and 1; "
    "for models, as gpt-4o*=chat,*=0.5/0.05"
)


class Kind(NamedTuple):
    """What an argument may be: how the help shows it, and a function that converts it."""

    metavar: str
    convert: Callable[[str], object]


def number(kind: type[int | float], minimum: float, maximum: float, noun: str) -> Kind:
    """Return the kind of a number within a range."""
    whole = "a whole number" if kind is int else "a number"
    takes = f"{whole} from {minimum:.0f} to {maximum:.0f}"
    return Kind("N", _converter(f"a {noun}", takes, lambda text: _check(kind(text), lambda n: minimum <= n <= maximum)))


def positive(noun: str, maximum: float = MAX_COUNT) -> Kind:
    """Return the kind of a number above 0."""
    takes = f"a number above 0, up to {maximum:g}"
    return Kind("N", _converter(f"a {noun}", takes, lambda text: _check(float(text), lambda n: 0 < n <= maximum)))


def names(metavar: str, noun: str, known: Collection[str]) -> Kind:
    """Return the kind of several names, with commas between them; each counts once."""

    def convert(text: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(_check_name(name.strip(), noun, known) for name in text.split(",")))

    return Kind(metavar, convert)


def _converter(noun: str, takes: str, convert: Callable[[str], _T]) -> Callable[[str], _T]:
    """Return a function that converts an argument; where that fails, its error names the text and what is accepted."""

    def converted(text: str) -> _T:
        try:
            return convert(text)
        except (ValueError, OverflowError, KeyError, OSError):
            raise ArgumentTypeError(f"{text!r} is not {noun}: it takes {takes}") from None

    return converted


def _check(value: _T, is_accepted: Callable[[_T], object]) -> _T:
    """Return a value.

    Raises:
        ValueError: it is not accepted.
    """
    if not is_accepted(value):
        raise ValueError
    return value


def _check_name(name: str, noun: str, known: Collection[str]) -> str:
    """Return a name that is known.

    Raises:
        ArgumentTypeError: it is not.
    """
    if name not in known:
        raise ArgumentTypeError(f"{name!r} is not {noun}: it takes {', '.join(known)}.{did_you_mean(name, known)}")
    return name


def _parse_share(text: str) -> float:
    return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)


def _parse_port_or_off(text: str) -> object:
    return None if text == "off" else number(int, 0, 65_535, "port, or off").convert(text)


def _parse_where(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    return _check(key.strip(), bool), _check(value.strip(), bool)


def _parse_levels(text: str) -> tuple[float, ...]:
    """Return different multiples of the peak, ascending."""
    levels = _check(sorted(map(float, text.split(","))), lambda found: len(set(found)) == len(found))
    return tuple(_check(level, lambda multiple: 0 < multiple <= MAX_LEVEL) for level in levels)


def _parse_base_url(text: str) -> str:
    """Return the address of an endpoint as it is; refuse what is none."""
    try:
        parts = urlsplit(text)
        is_accepted = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port)
    except ValueError:  # a port that is no number
        is_accepted = False
    if not is_accepted:
        raise ArgumentTypeError(
            f"{show_address(text)!r} is not a base URL: it takes one such as http://localhost:8000/v1"
        )
    return text


def _parse_slo(text: str) -> Objectives:
    """Convert the argument of `--slo`, which has to contain an objective."""
    try:
        slo = parse_objectives(text)
    except NotAcceptedError as error:
        raise ArgumentTypeError(f"{text!r} is not an SLO: {error.describe(_SLO_TAKES)}") from None
    if not (slo.edges("ttft") or slo.edges("itl")):
        raise ArgumentTypeError(f"{text!r} has no objective to judge by: {NotAcceptedError().describe(_SLO_TAKES)}")
    return slo


PORT: Final = number(int, 0, 65_535, "port")
PORT_OR_OFF: Final = Kind("N", _parse_port_or_off)
SEED: Final = number(int, 0, 2**32 - 1, "seed")
DESTINATION: Final = Kind("WHERE", lambda text: _check_name(text, "a destination", CONFIGURATIONS))
TOOL: Final = Kind("TOOL", lambda text: _check_name(text, "a known tool", TOOLS))
DEMO_SDKS: Final = names("NAME[,NAME...]", "an SDK of the demo", SDKS)
ROWS: Final = names("ROW[,ROW...]", "a row", COMPARED)
SLO: Final = Kind("SLO", _parse_slo)
MARGIN: Final = Kind(
    "SHARE",
    _converter("a margin", "a share such as 0.05, or 5%", lambda text: _check(_parse_share(text), lambda x: 0 < x < 1)),
)
ERROR_SHARE: Final = Kind(
    "SHARE",
    _converter(
        "a share of errors", "one such as 0.1, or 10%", lambda text: _check(_parse_share(text), lambda x: 0 < x <= 1)
    ),
)
TIME: Final = Kind("TIME", _converter("a time", "ISO 8601, such as 2026-11-01T12:00Z, or Unix seconds", parse_time))
ZONE: Final = Kind("ZONE", _converter("a time zone", "a name such as Europe/Berlin or UTC", ZoneInfo))
WHERE: Final = Kind("KEY=VALUE", _converter("a condition", "an attribute and its value, as tenant=acme", _parse_where))
MODEL: Final = Kind(
    "NAME", _converter("a model", "a name that the endpoint knows", lambda text: _check(text, str.strip))
)
BASE_URL: Final = Kind("BASE_URL", _parse_base_url)
LEVELS: Final = Kind(
    "X[,X...]", _converter("a list of levels", "different multiples of the peak, as 1,1.5,2", _parse_levels)
)
