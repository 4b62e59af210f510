"""Converts the arguments of `otel-itl`: `argparse` prints what is wrong with one that is not accepted."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from zoneinfo import ZoneInfo

from otel_itl.core.moments import parse_time as parse_moment
from otel_itl.core.option_values import NotAcceptedError, parse_objectives
from otel_itl.core.slo import Objectives
from otel_itl.core.spelling import did_you_mean
from otel_itl.tools.compare.rows import COMPARED
from otel_itl.tools.demo.sdks import SDKS
from otel_itl.tools.report.other_tools import TOOLS

PORTS = (0, 65_535)
SEEDS = (0, 2**32 - 1)
_SLO_TAKES = (
    "chat, code, agent, or TTFT/ITL such as 0.5/0.05 (seconds), 500ms/50ms or 0.5/0.05@0.995; for models, as "
    "gpt-4o*=chat,*=0.5/0.05"
)


def number_parser(kind: type[int | float], minimum: float, maximum: float, noun: str) -> Callable[[str], float]:
    """Return a function that converts an argument to a number of this kind and range."""

    def convert(text: str) -> float:
        """Convert the text of an argument; `argparse` prints what is wrong with it."""
        try:
            number = kind(text)
        except ValueError:
            number = math.nan
        if not minimum <= number <= maximum:
            whole = "a whole number" if kind is int else "a number"
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a {noun}: it takes {whole} from {minimum:.0f} to {maximum:.0f}"
            )
        return number

    return convert


def parse_port_or_off(text: str) -> int | None:
    """Convert the argument of `--grpc-port`."""
    return None if text == "off" else int(number_parser(int, *PORTS, "port, or off")(text))


def parse_tool(text: str) -> str:
    """Convert the argument of `--as`."""
    if text not in TOOLS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a known tool: it takes {', '.join(TOOLS)}.{did_you_mean(text, TOOLS)}"
        )
    return text


def parse_model(text: str) -> str:
    """Convert the argument of `--model`."""
    if not text.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not a model: it takes a name that the endpoint knows")
    return text


def parse_sdks(text: str) -> tuple[str, ...]:
    """Convert the argument of `--sdk`."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    unknown = next((name for name in names if name not in SDKS), None)
    if unknown is not None:
        raise argparse.ArgumentTypeError(
            f"{unknown!r} is not an SDK of the demo: it takes {', '.join(SDKS)}.{did_you_mean(unknown, SDKS)}"
        )
    return names


def parse_quantities(text: str) -> tuple[str, ...]:
    """Convert the argument of `--fail-on`."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    unknown = next((name for name in names if name not in COMPARED), None)
    if unknown is not None:
        raise argparse.ArgumentTypeError(
            f"{unknown!r} is not a row: it takes {', '.join(COMPARED)}.{did_you_mean(unknown, COMPARED)}"
        )
    return names


def parse_margin(text: str) -> float:
    """Convert the argument of `--margin` to a share."""
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = math.nan
    if not 0 < share < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a margin: it takes a share such as 0.05, or 5%")
    return share


def parse_time(text: str) -> int:
    """Convert the argument of `--before` and `--after` to Unix nanoseconds."""
    try:
        return parse_moment(text)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time: it takes ISO 8601, such as 2026-11-01T12:00Z, or Unix seconds"
        ) from None


def parse_zone(text: str) -> ZoneInfo:
    """Convert the argument of `--zone`."""
    try:
        return ZoneInfo(text)
    except (KeyError, ValueError, OSError):  # not known, not a name, or a folder of the database
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time zone: it takes a name such as Europe/Berlin or UTC"
        ) from None


def parse_slo(text: str) -> Objectives:
    """Convert the argument of `--slo`, which has to contain an objective."""
    refusal = NotAcceptedError()
    try:
        slo = parse_objectives(text)
        if slo.edges("ttft") or slo.edges("itl"):
            return slo
    except NotAcceptedError as error:
        refusal = error
    raise argparse.ArgumentTypeError(f"{text!r} is not an SLO: {refusal.describe(_SLO_TAKES)}")
