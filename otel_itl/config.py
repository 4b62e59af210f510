"""Options of `instrument()` and `OTEL_ITL_*` variables → one frozen Config.

The fields of `Config` are the one table of the options: what parses them, the messages about wrong values, the names of
the variables and the table of docs/configuration.md are derived from it. The docstring of `otel_itl.instrument` has
what each of them does.
"""

# ruff: noqa: RUF009 - `_option` makes a field, and the other defaults are immutable

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from otel_itl.core import option_values as forms
from otel_itl.core.metric_conventions import STANDARD_NAMES, default_generation
from otel_itl.core.slo import Objectives
from otel_itl.core.spelling import did_you_mean, find_nearest
from otel_itl.core.stalls import Stall, StallPolicy
from otel_itl.sdks.registry import SDK_NAMES

logger = logging.getLogger("otel_itl")

PREFIX: Final = "OTEL_ITL_"
DISABLED_VARIABLE: Final = PREFIX + "DISABLED"
"""The operator's switch. It is no option: whatever starts the instrumentation reads it from the environment."""
_OFF_VALUES: Final = {DISABLED_VARIABLE: ("true", "1"), "OTEL_SDK_DISABLED": ("true",)}
"""The operator's variables → the values that switch measuring off. OpenTelemetry takes "true" alone."""
_MAX_SHOWN_SWITCH: Final = 10
"""Letters of a value of a switch that a warning shows."""
PROVIDERS: Final = {
    "tracer_provider": "get_tracer",
    "meter_provider": "get_meter",
    "logger_provider": "get_logger",
}
"""Argument of `instrument()` that is no option → the method that its value must have."""


def _option(default: Any, form: forms.Form) -> Any:
    """Make the field of an option."""
    return field(default=default, metadata={"form": form})


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The options in force: one field for each option, with its default and the form of its values."""

    token_events: str = _option("packed", forms.one_of("packed", "each", "log", "none"))
    sdks: tuple[str, ...] = _option(SDK_NAMES, forms.some_of(SDK_NAMES))
    standard_names: str = _option("operation", forms.one_of(*STANDARD_NAMES))
    model_limit: int = _option(100, forms.POSITIVE)
    chunk_events: tuple[str, ...] = _option((), forms.NAMES)
    stall: StallPolicy | None = _option(StallPolicy(), forms.STALL)
    """None: stall detection is off."""
    on_stall: Callable[[Stall], object] | None = _option(
        None, forms.callback("a function of one Stall, which is not async", "the Stall")
    )
    slo: Objectives = _option(Objectives(), forms.OBJECTIVES)
    session_from: forms.SessionFrom | None = _option(None, forms.SESSION_FROM)
    file: str | None = _option(None, forms.FILE)
    """An absolute path; None: no file is written."""
    summary: bool = _option(default=False, form=forms.SWITCH)
    progress: float | None = _option(None, forms.PROGRESS)
    """Seconds between two progress events of a stream that runs; None: there are none."""


OPTIONS: Final[Mapping[str, forms.Form]] = {option.name: option.metadata["form"] for option in fields(Config)}
"""Option → the form of its values."""
VARIABLES: Final = {PREFIX + name.upper(): name for name in OPTIONS if name != "on_stall"}
"""Variable → its option. A variable cannot hold a function."""


def load(options: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> Config:
    """Build the configuration: arguments win over `OTEL_ITL_*` variables, which win over defaults.

    An unknown or malformed variable is logged as one warning and ignored. The warning has the name and never the value,
    which may be a key: of a variable that is unknown, or that was taken for another one.

    Args:
        options: the arguments that were given to `instrument()`.
        environ: the environment variables; None: those of the process.

    Raises:
        TypeError: there is no option of that name.
        ValueError: the option does not accept the value.
    """
    environ = os.environ if environ is None else environ
    defaults = Config(standard_names=default_generation(environ))
    settings = {option: getattr(defaults, option) for option in OPTIONS} | _read_variables(environ, defaults)
    for name, value in options.items():
        if name not in OPTIONS:
            raise TypeError(
                f"instrument() has no option {name!r}: it takes {', '.join(OPTIONS)} and the OpenTelemetry providers."
                f"{did_you_mean(name, [*OPTIONS, *PROVIDERS])}"
            )
        if refusal := OPTIONS[name].find_refusal("instrument", name, value):
            raise ValueError(refusal)
        settings[name] = OPTIONS[name].parse(value)
    return Config(**settings)


def _read_variables(environ: Mapping[str, str], defaults: Config) -> dict[str, Any]:
    """Parse the `OTEL_ITL_*` variables; logs a warning for each that is unknown or malformed.

    `defaults` are what the warning names, as it applies instead.
    """
    settings: dict[str, Any] = {}
    for variable, value in environ.items():
        text = value.strip()
        if not variable.startswith(PREFIX) or not text:
            continue
        if variable in VARIABLES:
            option = VARIABLES[variable]
            try:
                settings[option] = OPTIONS[option].parse(text)
            except forms.NotAcceptedError as error:
                _warn_of_wrong_value(variable, text, error, getattr(defaults, option))
        elif variable != DISABLED_VARIABLE:
            _warn_of_unknown_variable(variable)
        else:
            try:
                forms.parse_switch(text)
            except forms.NotAcceptedError:
                accepted = forms.SWITCH.accepted_text
                logger.warning("%s is not accepted: it takes %s. Streams are measured.", variable, accepted)
    return settings


def _warn_of_wrong_value(variable: str, value: str, error: forms.NotAcceptedError, default: object) -> None:
    """Log that a variable is not accepted, and which default is used.

    The value is shown of a switch alone, and unless that is more than a short word: it may be a secret.
    """
    form = OPTIONS[VARIABLES[variable]]
    is_shown = form is forms.SWITCH and value.isalpha() and len(value) <= _MAX_SHOWN_SWITCH
    if isinstance(default, bool):
        default = str(default).lower()
    elif isinstance(default, (str, int, tuple)):
        default = repr(default)
    logger.warning(
        "%s is not accepted: %s The default %s is used.",
        f"{variable}={value}" if is_shown else variable,
        error.describe(form.accepted_text or form.accepted),
        default,
    )


def _warn_of_unknown_variable(variable: str) -> None:
    """Log that a variable is not read, with those that are, or with the argument that it is named after."""
    name = variable.removeprefix(PREFIX)
    if name.isupper() and name.lower() in OPTIONS:
        logger.warning("%s is not read: %s is an argument of instrument() alone.", variable, name.lower())
    else:
        known = [*VARIABLES, DISABLED_VARIABLE]
        # Without what all have in common, which would make any two look alike.
        nearest = find_nearest(name, [each.removeprefix(PREFIX) for each in known])
        meant = "" if nearest is None else f" Did you mean {PREFIX}{nearest}?"
        logger.warning("%s is not known to otel_itl, which reads %s.%s", variable, ", ".join(known), meant)


def is_disabled() -> bool:
    """Return whether an operator has switched measuring off, by `OTEL_ITL_DISABLED` or `OTEL_SDK_DISABLED`."""
    return bool(find_off_switches(os.environ))


def find_off_switches(environ: Mapping[str, str]) -> list[str]:
    """Return the names of the variables by which an operator has switched measuring off."""
    return [name for name, values in _OFF_VALUES.items() if environ.get(name, "").strip().lower() in values]
