"""Read the global providers without setting them, also where an environment variable names one.

The API sets the provider that `OTEL_PYTHON_TRACER_PROVIDER` and its like name with the first call that asks for the
global one. An application's own would be refused from then on.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any, Final, NamedTuple

from opentelemetry import _logs, metrics, trace
from opentelemetry._logs import _internal as _logs_internal
from opentelemetry.metrics import _internal as _metrics_internal

from otel_itl.export.exporters import load_entry_point

_UNKNOWN: Final = object()
_METER_VARIABLE: Final = "OTEL_PYTHON_METER_PROVIDER"


class _Signal(NamedTuple):
    """What the API has for one signal."""

    get: Callable[[], Any]
    """Returns the global provider, and sets the one that `variable` names."""
    variable: str
    group: str
    """The entry points that the variable's value is one of."""
    module: Any
    attribute: str
    """Where `module` keeps the global provider; None there: it is not set."""


_SIGNALS: Final = (
    _Signal(
        trace.get_tracer_provider,
        "OTEL_PYTHON_TRACER_PROVIDER",
        "opentelemetry_tracer_provider",
        trace,
        "_TRACER_PROVIDER",
    ),
    _Signal(
        metrics.get_meter_provider,
        _METER_VARIABLE,
        "opentelemetry_meter_provider",
        _metrics_internal,
        "_METER_PROVIDER",
    ),
    _Signal(
        _logs.get_logger_provider,
        "OTEL_PYTHON_LOGGER_PROVIDER",
        "opentelemetry_logger_provider",
        _logs_internal,
        "_LOGGER_PROVIDER",
    ),
)


class _NamedProvider:
    """Returns the global provider of a signal, or while none is set, the one that the variable names."""

    def __init__(self, of: _Signal) -> None:
        self._of = of
        self._named: Any = None

    def __call__(self) -> Any:
        is_set = getattr(self._of.module, self._of.attribute, _UNKNOWN)
        if is_set is _UNKNOWN:  # a release of the API that keeps it elsewhere
            return self._of.get()
        if is_set is not None:
            return is_set
        if self._named is None:
            make = load_entry_point(self._of.group, os.environ.get(self._of.variable, ""))
            self._named = without_own_metrics(make)()
        return self._named


def find_readers() -> tuple[Callable[[], Any], ...]:
    """Return what reads the global provider of traces, metrics and logs: the API's own where no variable names one.

    What is returned for a signal whose variable names a provider that cannot be loaded raises `LookupError`.
    """
    return tuple(_NamedProvider(each) if each.variable in os.environ else each.get for each in _SIGNALS)


def without_own_metrics(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return what makes a part of the SDK such that this does not ask for the global meter provider.

    Parts of the SDK record metrics of their own. Asking for their provider would set the one that a variable names.
    """
    if _METER_VARIABLE in os.environ and "meter_provider" in signature(make).parameters:
        return partial(make, meter_provider=metrics.NoOpMeterProvider())
    return make
