"""Options of `instrument()` and `OTEL_ITL_*` variables → one frozen Config.

`OPTIONS` is the one place that describes what each option does and accepts. The docstring of `otel_itl.instrument` and
the table of docs/configuration.md are checked against it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Any, Final, NamedTuple, cast

from otel_itl.conventions import STANDARD_NAMES, default_generation
from otel_itl.core.file_path import resolve_file_path
from otel_itl.core.slo import PROFILES, SLO, Objectives
from otel_itl.core.stalls import Stall, StallPolicy

logger = logging.getLogger("otel_itl")

PREFIX: Final = "OTEL_ITL_"
DISABLED_VARIABLE: Final = PREFIX + "DISABLED"
"""The operator's switch. It is no option: whatever starts the instrumentation reads it from the environment."""
OFF: Final = ("off", "none")

_SWITCHES: Final = {"1": True, "true": True, "0": False, "false": False}

SessionFrom = Callable[[Mapping[str, Any], Mapping[str, Any]], object]
"""Finds the id of a request's session in the body and the headers of the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The options in force, one field for each of `OPTIONS`, with their defaults."""

    token_events: str = "packed"
    sdks: tuple[str, ...] | None = None
    """None: all that are supported."""
    standard_names: str = "operation"
    model_limit: int = 100
    chunk_events: tuple[str, ...] = ()
    stall: StallPolicy | None = StallPolicy()  # noqa: RUF009 - immutable
    """None: stall detection is off."""
    on_stall: Callable[[Stall], object] | None = None
    slo: Objectives = Objectives()  # noqa: RUF009 - immutable
    session_from: SessionFrom | None = None
    file: str | None = None
    """An absolute path; None: no file is written."""
    summary: bool = False


class Option(NamedTuple):
    """One option: what it does, which values it accepts, and how a value is parsed."""

    name: str
    description: str
    accepted: str
    """Completes the sentence "it takes …"."""
    parse: Callable[[Any], Any]
    """Returns the value of the field of `Config`; raises `NotAcceptedError`."""
    has_variable: bool = True
    """False: a variable cannot hold such a value."""

    @property
    def variable(self) -> str:
        """The name of its environment variable."""
        return PREFIX + self.name.upper()


class NotAcceptedError(ValueError):
    """An option does not accept a value; its text, where it has one, is the reason."""


def load(
    options: Mapping[str, Any], environ: Mapping[str, str] | None = None, *, sdk_names: Sequence[str] | None = None
) -> Config:
    """Build the configuration: arguments win over `OTEL_ITL_*` variables, which win over defaults.

    An unknown or malformed variable is logged as one warning and ignored.

    Args:
        options: the arguments that were given to `instrument()`.
        environ: the environment variables; None: those of the process.
        sdk_names: the SDKs that are supported, and that `sdks` has as its default; None: `sdks` accepts any names.

    Raises:
        TypeError: there is no option of that name.
        ValueError: the option does not accept the value.
    """
    known = {option.name: option for option in OPTIONS}
    environ = os.environ if environ is None else environ
    defaults: dict[str, Any] = {"standard_names": default_generation(environ)}
    if sdk_names is not None:
        defaults["sdks"] = tuple(sdk_names)
        known["sdks"] = known["sdks"]._replace(accepted="some of " + ", ".join(sdk_names), parse=_some_of(sdk_names))
    settings = defaults | _read_variables(environ, known, defaults)
    for name, value in options.items():
        if name not in known:
            raise TypeError(
                f"instrument() has no option {name!r}: it takes {', '.join(known)} and the OpenTelemetry providers."
            )
        try:
            settings[name] = known[name].parse(value)
        except NotAcceptedError as error:
            message = f"instrument({name}={value!r}) is not accepted{_reason(error)}: it takes {known[name].accepted}."
            raise ValueError(message) from None
    return Config(**settings)


def _read_variables(
    environ: Mapping[str, str], known: Mapping[str, Option], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """Parse the `OTEL_ITL_*` variables; logs a warning for each that is unknown or malformed."""
    settings: dict[str, Any] = {}
    by_variable = {option.variable: option for option in known.values() if option.has_variable}
    for variable, value in environ.items():
        if not variable.startswith(PREFIX) or not value.strip():
            continue
        if variable == DISABLED_VARIABLE:
            if value.strip().lower() not in {"true", "false"}:
                logger.warning("%s=%r is not accepted: it takes true or false. Streams are measured.", variable, value)
            continue
        option = by_variable.get(variable)
        if option is None:
            names = ", ".join([*by_variable, DISABLED_VARIABLE])
            logger.warning("%s=%r is not known to otel_itl, which reads %s.", variable, value, names)
            continue
        try:
            settings[option.name] = option.parse(value.strip())
        except NotAcceptedError as error:
            default = defaults.get(option.name, Config.__dataclass_fields__[option.name].default)
            logger.warning(
                "%s=%r is not accepted%s: it takes %s. The default %s is used.",
                variable,
                value,
                _reason(error),
                option.accepted,
                repr(default) if isinstance(default, (str, int, tuple)) else default,
            )
    return settings


def _reason(error: NotAcceptedError) -> str:
    return f", as {error}" if str(error) else ""


def _one_of(*accepted: str) -> Callable[[Any], str]:
    """Make a parser that accepts one of these texts."""

    def parse(value: Any) -> str:
        if value in accepted:
            return str(value)
        raise NotAcceptedError

    return parse


def _parse_names(value: Any) -> tuple[str, ...]:
    """Parse names that are given as a list, or as text separated by commas; there is at least one."""
    names = [name for name in value.split(",") if name.strip()] if isinstance(value, str) else value
    if isinstance(names, Iterable):
        stripped = [name.strip() if isinstance(name, str) else "" for name in names]
        if stripped and all(stripped):
            return tuple(stripped)
    raise NotAcceptedError


def _some_of(accepted: Sequence[str]) -> Callable[[Any], tuple[str, ...]]:
    """Make a parser that accepts some of these names."""

    def parse(value: Any) -> tuple[str, ...]:
        names = _parse_names(value)
        if all(name in accepted for name in names):
            return names
        raise NotAcceptedError

    return parse


def _parse_positive(value: Any) -> int:
    """Parse a whole number from 1."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        number = 0
    if number < 1 or isinstance(value, (bool, float)):
        raise NotAcceptedError
    return number


def _split_pairs(value: str) -> list[tuple[str, str]]:
    """Split `a=1, b=2` into pairs; a part without `=` is the value of an empty name."""
    parts = [part.strip().rpartition("=") for part in value.split(",")]
    return [(name.strip(), text.strip()) for name, _, text in parts]


def _is_off(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value.strip().lower() in OFF)


def _parse_stall(value: Any) -> StallPolicy | None:
    """Parse a stall policy, or its values as text; None: stall detection is off."""
    if isinstance(value, StallPolicy):
        return value
    if value is False or _is_off(value):
        return None
    try:
        return StallPolicy(**{name: None if _is_off(text) else float(text) for name, text in _split_pairs(value)})
    except (AttributeError, TypeError, ValueError):
        raise NotAcceptedError from None


def _parse_function(value: Any) -> Callable[..., object] | None:
    """Return a function that is not async; None: there is none."""
    if value is None or (callable(value) and not iscoroutinefunction(value)):
        return cast("Callable[..., object] | None", value)
    raise NotAcceptedError


def _parse_objectives(value: Any) -> Objectives:
    """Parse one objective for all models, or objectives by pattern of model names."""
    if isinstance(value, Objectives):
        return value
    if _is_off(value):
        return Objectives()
    by_model: Iterable[tuple[Any, Any]]
    if isinstance(value, Mapping):
        by_model = value.items()
    elif isinstance(value, str):
        by_model = [(pattern or "*", objective) for pattern, objective in _split_pairs(value)]
    else:
        by_model = [("*", value)]
    return Objectives(tuple((_parse_pattern(pattern), _parse_objective(objective)) for pattern, objective in by_model))


def _parse_pattern(value: Any) -> str:
    if isinstance(value, str) and value:
        return value
    raise NotAcceptedError


def _parse_objective(value: Any) -> SLO:
    """Parse an objective: an `SLO`, the name of a profile, or `TTFT/ITL@target` in seconds."""
    if isinstance(value, SLO):
        return value
    if isinstance(value, str) and value in PROFILES:
        return PROFILES[value]
    try:
        times, _, target = value.partition("@")
        ttft, itl = (float(time) if time.strip() else None for time in times.split("/"))
        return SLO(ttft=ttft, itl=itl, target=float(target) if target else 0.99)
    except (AttributeError, TypeError, ValueError):
        raise NotAcceptedError from None


def _parse_file(value: Any) -> str | None:
    """Return the absolute path of a file that may be written; None: no file is written."""
    try:
        return None if _is_off(value) else str(resolve_file_path(value))
    except ValueError as error:
        raise NotAcceptedError(*error.args) from None


def _parse_switch(value: Any) -> bool:
    """Parse true or false, or 1 or 0 as text."""
    text = str(value).strip().lower() if isinstance(value, (bool, str)) else ""
    if text not in _SWITCHES:
        raise NotAcceptedError
    return _SWITCHES[text]


@dataclass(frozen=True, slots=True)
class BodyField:
    """Reads a session's id from a field of the request's body, at any depth."""

    path: tuple[str, ...]

    def __call__(self, body: Mapping[str, Any], _: Mapping[str, Any]) -> object:
        """Return the value of the field; None: the body has no such field."""
        found: Any = body
        for field in self.path:
            found = found.get(field) if isinstance(found, Mapping) else None
        return found


@dataclass(frozen=True, slots=True)
class Header:
    """Reads a session's id from a header of the request."""

    name: str
    """In lower case."""

    def __call__(self, _: Mapping[str, Any], headers: Mapping[str, Any]) -> object:
        """Return the value of the header, whatever its case; None: there is no such header."""
        # The request's own come last; the client may have a header of that name in another case.
        return next((headers[name] for name in reversed([*headers]) if name.lower() == self.name), None)


def _parse_session_from(value: Any) -> SessionFrom | None:
    """Parse where a request names its session: a field, `header:NAME`, or a function."""
    if _is_off(value):
        return None
    if not isinstance(value, str):
        return _parse_function(value)
    place, colon, name = value.strip().partition(":")
    if place == "header" and name:
        return Header(name.strip().lower())
    if not colon and all(place.split(".")):
        return BodyField(tuple(place.split(".")))
    raise NotAcceptedError


OPTIONS: Final = (
    Option(
        "token_events",
        "How the timings of tokens are recorded: `packed` arrays on the span, an event for `each` output chunk, the "
        "arrays as `log` events, or `none`.",
        "one of packed, each, log, none",
        _one_of("packed", "each", "log", "none"),
    ),
    Option(
        "sdks",
        "Which SDKs to instrument; by default all that are supported. Those that are not installed are skipped.",
        "names of SDKs, as a list or separated by commas",
        _parse_names,
    ),
    Option(
        "standard_names",
        "Generation of the standard metrics: `operation` (`gen_ai.client.operation.*`) or `inference`.",
        "one of " + ", ".join(STANDARD_NAMES),
        _one_of(*STANDARD_NAMES),
    ),
    Option(
        "model_limit",
        "How many request models, and how many response models, the metrics distinguish; the rest become `other`.",
        "a whole number from 1",
        _parse_positive,
    ),
    Option(
        "chunk_events",
        "Names of the span events by which another instrumentation marks output chunks: its spans are measured when "
        "they end.",
        "names, as a list or separated by commas",
        _parse_names,
    ),
    Option(
        "stall",
        "How long the caller has to wait for a chunk, in seconds, before that is a stall.",
        "a StallPolicy, or its values as first_token=10,reasoning=10,next_token=2,relative=20,abort_after=60 (seconds "
        "above 0, or off), or off",
        _parse_stall,
    ),
    Option(
        "on_stall",
        "A function that is called with each `Stall` when it begins, while the stream is silent, on a thread for such "
        "calls.",
        "a function of one Stall, which is not async",
        _parse_function,
        has_variable=False,
    ),
    Option(
        "slo",
        "The objectives for TTFT and ITL, one for all models or by model.",
        f"{', '.join(PROFILES)}, an SLO, TTFT/ITL in seconds such as 0.5/0.05 or 0.5/0.05@0.995, or off; each may be "
        "given for models, as {'gpt-4o*': 'chat'} or gpt-4o*=chat,*=batch",
        _parse_objectives,
    ),
    Option(
        "session_from",
        "Where a request names the session that it belongs to.",
        "a field of the request such as user, safety_identifier or metadata.session_id, header:NAME, or a function of "
        "its body and headers",
        _parse_session_from,
    ),
    Option(
        "file",
        "A file that spans, metrics and log events are appended to as OTLP JSON lines, beside whatever exporters there "
        "are.",
        "the path of a file that may be written, or off",
        _parse_file,
    ),
    Option(
        "summary",
        "Whether a line about each stream that ended is printed on the standard error.",
        "true or false",
        _parse_switch,
    ),
)
