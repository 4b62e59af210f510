"""Options of `instrument()` and `OTEL_ITL_*` variables → one frozen Config."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from otel_itl.conventions import STANDARD_NAMES

logger = logging.getLogger("otel_itl")

PREFIX: Final = "OTEL_ITL_"
TOKEN_EVENT_FORMS: Final = ("packed", "each", "log", "none")
SDKS: Final = ("openai", "anthropic")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """How streams are measured and reported.

    Args:
        token_events: what a span carries per token: `packed` arrays, an event for `each` output chunk, the arrays as
            `log` events, or `none`.
        sdks: which SDKs to instrument; all that are installed by default.
        standard_names: the generation of the standard metrics' names, `operation` or `inference`.
        model_limit: how many model names the metrics tell apart; the rest become `other`.
        chunk_events: names of the span events with which another instrumentation marks output chunks; spans that carry
            them are measured when they end.
    """

    token_events: str = "packed"
    sdks: tuple[str, ...] = SDKS
    standard_names: str = "operation"
    model_limit: int = 100
    chunk_events: tuple[str, ...] = ()


class InvalidValueError(ValueError):
    """A value that an option does not take; the message says which, and what is accepted."""


def _one_of(*accepted: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if value in accepted:
            return str(value)
        raise InvalidValueError("one of " + ", ".join(accepted))

    return check


def _names(value: Any) -> tuple[str, ...]:
    listed = [name for name in value.split(",") if name.strip()] if isinstance(value, str) else value
    if isinstance(listed, Iterable):
        names = [name.strip() if isinstance(name, str) else "" for name in listed]
        if names and all(names):
            return tuple(names)
    accepted = "names, as a list or separated by commas"
    raise InvalidValueError(accepted)


def _sdks(value: Any) -> tuple[str, ...]:
    try:
        chosen = _names(value)
    except InvalidValueError:
        chosen = ("?",)
    if all(name in SDKS for name in chosen):
        return chosen
    raise InvalidValueError("some of " + ", ".join(SDKS))


def _positive(value: Any) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        number = 0
    if number < 1 or isinstance(value, (bool, float)):
        accepted = "a whole number from 1"
        raise InvalidValueError(accepted)
    return number


_CHECKS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "token_events": _one_of(*TOKEN_EVENT_FORMS),
    "sdks": _sdks,
    "standard_names": _one_of(*STANDARD_NAMES),
    "model_limit": _positive,
    "chunk_events": _names,
}
OPTIONS: Final = tuple(field.name for field in fields(Config))


def load(options: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> Config:
    """The configuration that arguments, then `OTEL_ITL_*` variables, then defaults make.

    A variable that is unknown or malformed is one warning, and does not count.

    Raises:
        TypeError: an option of another name.
        ValueError: a value that an option does not take.
    """
    settings = _from_environment(os.environ if environ is None else environ)
    for name, value in options.items():
        if name not in _CHECKS:
            message = (
                f"instrument() has no option {name!r}: it takes {', '.join(OPTIONS)} and the OpenTelemetry providers."
            )
            raise TypeError(message)
        try:
            settings[name] = _CHECKS[name](value)
        except InvalidValueError as accepted:
            message = f"instrument({name}={value!r}) is not accepted: it takes {accepted}."
            raise ValueError(message) from None
    return Config(**settings)


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for variable, value in environ.items():
        if not variable.startswith(PREFIX) or not value.strip():
            continue
        name = variable[len(PREFIX) :].lower()
        if name not in _CHECKS:
            known = ", ".join(PREFIX + option.upper() for option in OPTIONS)
            logger.warning("%s=%r is not known to otel_itl, which reads %s.", variable, value, known)
            continue
        try:
            settings[name] = _CHECKS[name](value.strip())
        except InvalidValueError as accepted:
            default = Config.__dataclass_fields__[name].default
            logger.warning(
                "%s=%r is not accepted: it takes %s. The default %r is used.", variable, value, accepted, default
            )
    return settings
