"""Options of `instrument()` and `OTEL_ITL_*` variables → one frozen Config.

`OPTIONS` is the one place that describes what each option does and accepts. The docstring of `otel_itl.instrument` and
the table of docs/configuration.md are checked against it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from otel_itl.core.metric_conventions import STANDARD_NAMES, default_generation
from otel_itl.core.option_values import (
    FILE,
    PROGRESS,
    NotAcceptedError,
    SessionFrom,
    parse_callback,
    parse_file,
    parse_names,
    parse_objectives,
    parse_one_of,
    parse_positive,
    parse_progress,
    parse_session_from,
    parse_some_of,
    parse_stall,
    parse_switch,
)
from otel_itl.core.slo import PROFILES, Objectives
from otel_itl.core.spelling import did_you_mean, find_nearest
from otel_itl.core.stalls import Stall, StallPolicy

logger = logging.getLogger("otel_itl")

PREFIX: Final = "OTEL_ITL_"
DISABLED_VARIABLE: Final = PREFIX + "DISABLED"
"""The operator's switch. It is no option: whatever starts the instrumentation reads it from the environment."""
_MAX_SHOWN_SWITCH: Final = 10
"""Letters of a value of a switch that a warning shows."""
PROVIDERS: Final = ("tracer_provider", "meter_provider", "logger_provider")
"""The arguments of `instrument()` that are no options."""


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
    progress: float | None = None
    """Seconds between two progress events of a stream that runs; None: there are none."""


class Option(NamedTuple):
    """One option: what it does, which values it accepts, and how a value is parsed."""

    name: str
    description: str
    accepted: str
    """Completes the sentence "it takes …"."""
    parse: Callable[[Any], Any]
    """Returns the value of the field of `Config`; raises `NotAcceptedError`."""
    accepted_text: str = ""
    """What its variable takes, where an argument takes more than text; empty: the same."""
    has_variable: bool = True
    """False: a variable cannot hold such a value."""

    @property
    def variable(self) -> str:
        """The name of its environment variable."""
        return PREFIX + self.name.upper()


def load(
    options: Mapping[str, Any], environ: Mapping[str, str] | None = None, *, sdk_names: Sequence[str] | None = None
) -> Config:
    """Build the configuration: arguments win over `OTEL_ITL_*` variables, which win over defaults.

    An unknown or malformed variable is logged as one warning and ignored. The warning has the name and never the value,
    which may be a key: of a variable that is unknown, or that was taken for another one.

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
        accepted = "some of " + ", ".join(sdk_names)
        known["sdks"] = known["sdks"]._replace(accepted=accepted, accepted_text="", parse=parse_some_of(sdk_names))
    settings = defaults | _read_variables(environ, known, defaults)
    for name, value in options.items():
        if name not in known:
            raise TypeError(
                f"instrument() has no option {name!r}: it takes {', '.join(known)} and the OpenTelemetry providers."
                f"{did_you_mean(name, [*known, *PROVIDERS])}"
            )
        try:
            settings[name] = known[name].parse(value)
        except NotAcceptedError as error:
            message = f"instrument({name}={value!r}) is not accepted: {error.describe(known[name].accepted)}"
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
                logger.warning("%s is not accepted: it takes true or false. Streams are measured.", variable)
            continue
        option = by_variable.get(variable)
        if option is None:
            _warn_of_unknown_variable(variable, [*by_variable, DISABLED_VARIABLE])
            continue
        try:
            settings[option.name] = option.parse(value.strip())
        except NotAcceptedError as error:
            default = defaults.get(option.name, Config.__dataclass_fields__[option.name].default)
            shown = repr(default) if isinstance(default, (str, int, tuple)) else default
            logger.warning(
                "%s is not accepted: %s The default %s is used.",
                variable if option.parse is not parse_switch else _show_switch(variable, value.strip()),
                error.describe(option.accepted_text or option.accepted),
                str(default).lower() if isinstance(default, bool) else shown,
            )
    return settings


def _show_switch(variable: str, value: str) -> str:
    """Return a switch's variable with its value, unless that is more than a short word: it may be a secret."""
    return f"{variable}={value}" if value.isalpha() and len(value) <= _MAX_SHOWN_SWITCH else variable


def _warn_of_unknown_variable(variable: str, known: Sequence[str]) -> None:
    """Log that a variable is not read, with those that are, or with the argument that it is named after."""
    argument = next((option.name for option in OPTIONS if option.variable == variable), None)
    if argument is not None:
        logger.warning("%s is not read: %s is an argument of instrument() alone.", variable, argument)
    else:
        # Without what all have in common, which would make any two look alike.
        nearest = find_nearest(variable.removeprefix(PREFIX), [name.removeprefix(PREFIX) for name in known])
        meant = "" if nearest is None else f" Did you mean {PREFIX}{nearest}?"
        logger.warning("%s is not known to otel_itl, which reads %s.%s", variable, ", ".join(known), meant)


_STALL_TEXT: Final = (
    "first_token=10,reasoning=10,next_token=500ms,relative=20,abort_after=60 (above 0, in seconds without a unit, or "
    "off), or off"
)
_SLO_TEXT: Final = f"{', '.join(PROFILES)}, TTFT/ITL such as 0.5/0.05 (seconds), 500ms/50ms or 0.5/0.05@0.995"
_SESSION_TEXT: Final = "a field of the request such as user, safety_identifier or metadata.session_id, header:NAME"

OPTIONS: Final = (
    Option(
        "token_events",
        "How the timings of tokens are recorded: `packed` arrays on the span, an event for `each` output chunk, the "
        "arrays as `log` events, or `none`.",
        "one of packed, each, log, none",
        parse_one_of("packed", "each", "log", "none"),
    ),
    Option(
        "sdks",
        "Which SDKs to instrument; by default all that are supported. Those that are not installed are skipped.",
        "names of SDKs, as a list or separated by commas",
        parse_names,
        "names of SDKs, separated by commas",
    ),
    Option(
        "standard_names",
        "Generation of the standard metrics: `operation` (`gen_ai.client.operation.*`) or `inference`.",
        "one of " + ", ".join(STANDARD_NAMES),
        parse_one_of(*STANDARD_NAMES),
    ),
    Option(
        "model_limit",
        "How many request models, response models and servers the metrics distinguish; the rest become `other`.",
        "a whole number from 1",
        parse_positive,
    ),
    Option(
        "chunk_events",
        "Names of the span events by which another instrumentation marks output chunks: its spans are measured when "
        "they end.",
        "names, as a list or separated by commas",
        parse_names,
        "names, separated by commas",
    ),
    Option(
        "stall",
        "How long the caller has to wait for a chunk, in seconds, before that is a stall.",
        f"a StallPolicy, or its values as {_STALL_TEXT}",
        parse_stall,
        f"values such as {_STALL_TEXT}",
    ),
    Option(
        "on_stall",
        "A function that is called with each `Stall` when it begins, while the stream is silent, on a thread for such "
        "calls.",
        "a function of one Stall, which is not async",
        parse_callback("the Stall"),
        has_variable=False,
    ),
    Option(
        "slo",
        "The objectives for TTFT and ITL, one for all models or by model.",
        f"{_SLO_TEXT}, an SLO, or off; each may be given for models, as {{'gpt-4o*': 'chat'}} or gpt-4o*=chat,*=batch",
        parse_objectives,
        f"{_SLO_TEXT}, or off; each may be given for models, as gpt-4o*=chat,*=batch",
    ),
    Option(
        "session_from",
        "Where a request names the session that it belongs to.",
        f"{_SESSION_TEXT}, or a function of its body and headers",
        parse_session_from,
        f"{_SESSION_TEXT}, or off",
    ),
    Option(
        "file",
        "A file that spans, metrics and log events are appended to as OTLP JSON lines, beside whatever exporters there "
        "are.",
        FILE,
        parse_file,
    ),
    Option(
        "summary",
        "Whether a line about each stream that ended is printed on the standard error.",
        "true or false",
        parse_switch,
        "true or false, or 1 or 0",
    ),
    Option(
        "progress",
        "Seconds between the log events with the chunks of a stream that runs, which show it before it ends.",
        PROGRESS,
        parse_progress,
    ),
)


def is_disabled() -> bool:
    """Return whether an operator has switched measuring off, by `OTEL_ITL_DISABLED` or `OTEL_SDK_DISABLED`."""
    switches = map(os.environ.get, ("OTEL_ITL_DISABLED", "OTEL_SDK_DISABLED"))
    return any(switch is not None and switch.strip().lower() == "true" for switch in switches)
