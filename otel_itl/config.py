"""Options of `instrument()` and `OTEL_ITL_*` variables → one frozen Config."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from inspect import iscoroutinefunction
from typing import Any, Final, cast

from otel_itl.conventions import STANDARD_NAMES
from otel_itl.core.slo import PROFILES, SLO, Objectives
from otel_itl.core.stalls import Stall, StallPolicy
from otel_itl.sdks.registry import SDK_NAMES

logger = logging.getLogger("otel_itl")

PREFIX: Final = "OTEL_ITL_"
TOKEN_EVENT_FORMS: Final = ("packed", "each", "log", "none")
OFF: Final = ("off", "none")

SessionFrom = Callable[[Mapping[str, Any], Mapping[str, Any]], object]
"""The session's id, from the body and the headers of a request."""


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
        stall: from when on a silence is a stall; None: nobody looks out for stalls.
        on_stall: called with each `Stall` that begins, on the watchdog's thread.
        slo: the objectives, by model.
        session_from: where a request says which session it belongs to.
    """

    token_events: str = "packed"
    sdks: tuple[str, ...] = SDK_NAMES
    standard_names: str = "operation"
    model_limit: int = 100
    chunk_events: tuple[str, ...] = ()
    stall: StallPolicy | None = StallPolicy()  # noqa: RUF009 - immutable
    on_stall: Callable[[Stall], object] | None = None
    slo: Objectives = Objectives()  # noqa: RUF009 - immutable
    session_from: SessionFrom | None = None


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
    if all(name in SDK_NAMES for name in chosen):
        return chosen
    raise InvalidValueError("some of " + ", ".join(SDK_NAMES))


def _positive(value: Any) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        number = 0
    if number < 1 or isinstance(value, (bool, float)):
        accepted = "a whole number from 1"
        raise InvalidValueError(accepted)
    return number


def _pairs(value: str) -> list[tuple[str, str]]:
    """`a=1, b=2` as pairs; what has no `=` is the value of no name."""
    parts = [part.strip().rpartition("=") for part in value.split(",")]
    return [(name.strip(), given.strip()) for name, _, given in parts]


def _stall(value: Any) -> StallPolicy | None:
    if isinstance(value, StallPolicy):
        return value
    if value is None or value is False or (isinstance(value, str) and value.lower() in OFF):
        return None
    try:
        given = {name: None if number.lower() in OFF else float(number) for name, number in _pairs(value)}
        return StallPolicy(**given)
    except (AttributeError, TypeError, ValueError):
        accepted = (
            "a StallPolicy, or its values as first_token=10,reasoning=10,next_token=2,relative=20,abort_after=60 "
            "(seconds above 0, or off), or off"
        )
        raise InvalidValueError(accepted) from None


def _callable(value: Any) -> Callable[[Stall], object] | None:
    if value is None or (callable(value) and not iscoroutinefunction(value)):
        return cast("Callable[[Stall], object] | None", value)
    accepted = "a function of one Stall, which is not async"
    raise InvalidValueError(accepted)


def _slo(value: Any) -> Objectives:
    if isinstance(value, Objectives):
        return value
    if value is None or (isinstance(value, str) and value.lower() in OFF):
        return Objectives()
    by_model: Iterable[tuple[Any, Any]]
    if isinstance(value, Mapping):
        by_model = value.items()
    elif isinstance(value, str):
        by_model = [(pattern or "*", objective) for pattern, objective in _pairs(value)]
    else:
        by_model = [("*", value)]
    return Objectives(tuple((_pattern(pattern), _objective(objective)) for pattern, objective in by_model))


_OBJECTIVES: Final = (
    f"{', '.join(PROFILES)}, an SLO, TTFT/ITL in seconds such as 0.5/0.05 or 0.5/0.05@0.995, or off; each may be given "
    "for models, as {'gpt-4o*': 'chat'} or gpt-4o*=chat,*=batch"
)


def _pattern(value: Any) -> str:
    if isinstance(value, str) and value:
        return value
    raise InvalidValueError(_OBJECTIVES)


def _objective(value: Any) -> SLO:
    if isinstance(value, SLO):
        return value
    if isinstance(value, str) and value in PROFILES:
        return PROFILES[value]
    try:
        times, _, target = value.partition("@")
        ttft, itl = (float(time) if time.strip() else None for time in times.split("/"))
        return SLO(ttft=ttft, itl=itl, target=float(target) if target else 0.99)
    except (AttributeError, TypeError, ValueError):
        raise InvalidValueError(_OBJECTIVES) from None


@dataclass(frozen=True, slots=True)
class FieldOf:
    """A field of the request's body, at any depth."""

    path: tuple[str, ...]

    def __call__(self, body: Mapping[str, Any], _: Mapping[str, Any]) -> object:
        """What the request says there."""
        found: Any = body
        for field in self.path:
            found = found.get(field) if isinstance(found, Mapping) else None
        return found


@dataclass(frozen=True, slots=True)
class HeaderOf:
    """A header of the request."""

    name: str

    def __call__(self, _: Mapping[str, Any], headers: Mapping[str, Any]) -> object:
        """What the request says there."""
        # The request's own come last, in whatever case the client has a header of that name, too.
        return next((headers[name] for name in reversed([*headers]) if name.lower() == self.name), None)


def _session_from(value: Any) -> SessionFrom | None:
    if value is None or (callable(value) and not iscoroutinefunction(value)):
        return cast("SessionFrom | None", value)
    if isinstance(value, str) and value.strip().lower() in OFF:
        return None
    if isinstance(value, str):
        where, colon, header = value.strip().partition(":")
        if where == "header" and header:
            return HeaderOf(header.strip().lower())
        if not colon and all(where.split(".")):
            return FieldOf(tuple(where.split(".")))
    accepted = (
        "a field of the request such as user, safety_identifier or metadata.session_id, header:NAME, or a function of "
        "its body and headers"
    )
    raise InvalidValueError(accepted)


_CHECKS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "token_events": _one_of(*TOKEN_EVENT_FORMS),
    "sdks": _sdks,
    "standard_names": _one_of(*STANDARD_NAMES),
    "model_limit": _positive,
    "chunk_events": _names,
    "stall": _stall,
    "on_stall": _callable,
    "slo": _slo,
    "session_from": _session_from,
}
_ARGUMENTS_ONLY: Final = {"on_stall"}
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
        if name not in _CHECKS or name in _ARGUMENTS_ONLY:
            known = ", ".join(PREFIX + option.upper() for option in OPTIONS if option not in _ARGUMENTS_ONLY)
            logger.warning("%s=%r is not known to otel_itl, which reads %s.", variable, value, known)
            continue
        try:
            settings[name] = _CHECKS[name](value.strip())
        except InvalidValueError as accepted:
            default = Config.__dataclass_fields__[name].default
            shown = repr(default) if isinstance(default, (str, int, tuple)) else default
            logger.warning(
                "%s=%r is not accepted: it takes %s. The default %s is used.", variable, value, accepted, shown
            )
    return settings
