"""Chooses the OpenTelemetry provider of each signal: the given one, the application's, or one of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from opentelemetry import _logs, metrics, trace

from otel_itl.export.exporters import SIGNALS
from otel_itl.export.file.output import FileOutput
from otel_itl.export.stand_ins import StandIns

_GLOBAL: Final[tuple[Callable[[], Any], ...]] = (
    trace.get_tracer_provider,
    metrics.get_meter_provider,
    _logs.get_logger_provider,
)
"""Return the global providers, in the order of `SIGNALS`."""
_API_PACKAGES: Final = frozenset({"trace", "metrics", "_logs"})


class Providers(NamedTuple):
    """The OpenTelemetry providers that were given, in the order of `SIGNALS`; None stands for the global one."""

    tracer_provider: trace.TracerProvider | None = None
    meter_provider: metrics.MeterProvider | None = None
    logger_provider: _logs.LoggerProvider | None = None

    @property
    def are_given(self) -> bool:
        """Whether any provider was given."""
        return any(provider is not None for provider in self)


class Chosen(NamedTuple):
    """The providers that streams are reported to, in the order of `SIGNALS`; made by `ProviderChoice.choose`."""

    tracer_provider: Any
    meter_provider: Any
    logger_provider: Any


class ProviderChoice:
    """Chooses the providers when the first stream opens, and attaches the telemetry file to them.

    Args:
        file: the telemetry file; it has no path where none is written.
        stand_ins: our own providers.
    """

    def __init__(self, file: FileOutput, stand_ins: StandIns) -> None:
        self._file = file
        self._stand_ins = stand_ins
        self._found: tuple[tuple[Callable[[], Any], Any], ...] = ()
        """The function that returns a global provider, and what it returned, for each signal without a given one."""
        self._chosen: Chosen | None = None

    @property
    def chosen(self) -> Chosen | None:
        """What the last call of `choose` returned; None: there was none."""
        return self._chosen

    @property
    def is_outdated(self) -> bool:
        """Whether the application has set a global provider since the last choice."""
        return any(get() is not found for get, found in self._found)

    def choose(self, given: Providers) -> Chosen:
        """Return the provider of each signal.

        Where the application has no provider at all, ours export what the `OTEL_*` environment asks for. They stand in
        for a signal until the application sets a global provider of it.
        """
        found = [get() for get in _GLOBAL]
        applications = [
            globally if own is None or is_unset(own) else own for own, globally in zip(given, found, strict=True)
        ]
        self._found = tuple(
            (get, globally)
            for get, globally, chosen in zip(_GLOBAL, found, applications, strict=True)
            if chosen is globally
        )
        if all(map(is_unset, applications)):
            self._stand_ins.read_environment()
        chosen = Chosen(*(self._stand_in(*each) for each in zip(SIGNALS, applications, strict=True)))
        self._file.attach(*chosen)
        self._chosen = chosen
        return chosen

    def forget(self) -> None:
        """Drop what is the parent's, in a forked process, or of a recording that was stopped."""
        self._found, self._chosen = (), None

    def _stand_in(self, signal: str, provider: Any) -> Any:
        """Return our provider of a signal in the place of the API's own; the given one where nothing is to stand in."""
        if not is_unset(provider):
            return provider
        ours = self._stand_ins.provider_of(signal)
        return provider if ours is None else ours


def is_unset(provider: object) -> bool:
    """Return whether a provider is the API's own, which stands for the global one until that is set.

    Two of the three classes have no public name. Frameworks have providers of their own that are called proxies, too.
    """
    package, _, module = type(provider).__module__.partition(".")
    is_of_api = package == "opentelemetry" and module.partition(".")[0] in _API_PACKAGES
    return is_of_api and "Proxy" in type(provider).__name__
