"""The instrumentors: which SDKs are measured, by a line of code or by an entry point."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.instrumentation.instrumentor import (  # type: ignore[attr-defined, unused-ignore]  # no types
    BaseInstrumentor,
)

from otel_itl.config import PROVIDERS, is_disabled, load
from otel_itl.export.providers import Providers
from otel_itl.runtime import runtime
from otel_itl.sdks.registry import REGISTRY, SDK_NAMES, SDKEntry

logger = logging.getLogger("otel_itl")

_BASE_OPTIONS: Final = frozenset({"skip_dep_check", "raise_exception_on_conflict"})
"""Options that `BaseInstrumentor.instrument()` takes and that mean nothing here."""


class _StreamInstrumentor(BaseInstrumentor):  # type: ignore[misc]  # the base class has no types
    """Instruments the streams of some SDKs. Whether it does is looked up in the runtime, not stored here as well."""

    sdk_names: tuple[str, ...] = ()

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return none: each SDK is checked on its own, and left alone where it is missing or too old."""
        return ()

    @property
    def is_instrumented_by_opentelemetry(self) -> bool:
        """Whether this instrumentor is in force."""
        return not runtime.installer.installed.isdisjoint(self.sdk_names)

    def instrument(self, **options: Any) -> None:
        """Measure the streams of the SDKs from here on.

        Raises:
            TypeError: an option of another name, or a provider of the wrong type.
            ValueError: a value that an option does not take.
        """
        given = {name: value for name, value in options.items() if name not in _BASE_OPTIONS}
        providers = {name: given.pop(name) for name in PROVIDERS if name in given}
        self._instrument(_check_providers(providers), given)

    def uninstrument(self, **_: Any) -> None:
        """Stop measuring the streams of the SDKs."""
        self._uninstrument()

    def _instrument(self, providers: Providers, options: dict[str, Any]) -> None:
        """Install the patches of an entry point. What the first has read, or a line of code has set, stays."""
        if is_disabled():
            return
        if options or providers.are_given or runtime.config is None:
            runtime.start(load(options), providers)
        self._install(is_required=False)

    def _uninstrument(self, **_: Any) -> None:
        for name in self.sdk_names:
            runtime.installer.remove(name)
        if not runtime.installer.installed:
            runtime.stop()

    def _install(self, *, is_required: bool) -> None:
        """Install the patches of those SDKs of this instrumentor that the configuration asks for.

        Args:
            is_required: the SDKs were asked for by name, so that a missing one is worth a warning.
        """
        config = runtime.config
        asked = [name for name in self.sdk_names if config is None or name in config.sdks]
        installed = [runtime.installer.install(name, is_required=is_required) for name in asked]
        if asked and not any(installed) and len(self.sdk_names) > 1:
            logger.warning("otel_itl measures nothing here: none of %s can be instrumented.", ", ".join(asked))


class ITLInstrumentor(_StreamInstrumentor):
    """Instruments the streams of every SDK that is supported and installed.

    `instrument()` takes the options of `otel_itl.instrument()`, and `uninstrument()` also removes what entry points
    have installed.
    """

    sdk_names = SDK_NAMES

    @property
    def is_instrumented_by_opentelemetry(self) -> bool:
        """Whether `instrument()` was called."""
        return runtime.is_started_by_code

    def _instrument(self, providers: Providers, options: dict[str, Any]) -> None:
        """Start the runtime and install every SDK. A second call only warns of options that come too late."""
        if runtime.is_started_by_code:
            self._warn_of_late_options(providers, options)
            return
        config = load(options)
        if is_disabled():
            logger.info("otel_itl measures nothing: OTEL_ITL_DISABLED or OTEL_SDK_DISABLED is true.")
            return
        runtime.start(config, providers if providers.are_given else runtime.providers, by_code=True)
        self._install(is_required="sdks" in options)

    def _warn_of_late_options(self, providers: Providers, options: dict[str, Any]) -> None:
        load(options)
        given = [*options, *(name for name in PROVIDERS if getattr(providers, name) is not None)]
        if given:
            logger.warning("instrument() was called before: %s will not count until uninstrument().", ", ".join(given))


def _make_instrumentor(sdk: SDKEntry) -> type[_StreamInstrumentor]:
    """Make the class that an SDK's entry point names."""
    description = f"Instruments the streams of {sdk.distribution}: the entry point `{sdk.entry_point}`."
    members = {"__doc__": description, "__module__": __name__, "sdk_names": (sdk.name,)}
    return type(sdk.instrumentor, (_StreamInstrumentor,), members)


globals().update({sdk.instrumentor: _make_instrumentor(sdk) for sdk in REGISTRY.values()})

if TYPE_CHECKING:

    def __getattr__(name: str) -> type[_StreamInstrumentor]:
        """Return the instrumentor of an SDK, such as `OpenAIInstrumentor`: the classes are made from the registry."""


def _check_providers(given: dict[str, Any]) -> Providers:
    """Make `Providers` of those that were given.

    Raises:
        TypeError: one that lacks the method of its kind.
    """
    for name, value in given.items():
        method = PROVIDERS[name]
        if value is not None and not hasattr(value, method):
            message = f"instrument({name}={value!r}) is not accepted: it takes a provider, with a {method}() method."
            raise TypeError(message)
    return Providers(**given)
