"""The instrumentors: which SDKs are hooked, by one line, by an entry point, or not at all."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Collection
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from opentelemetry.instrumentation.instrumentor import (  # type: ignore[attr-defined, unused-ignore]  # no types
    BaseInstrumentor,
)

from otel_itl.config import load
from otel_itl.runtime import Providers, runtime
from otel_itl.sdks import MEMBERS
from otel_itl.sdks.patching import Hooks
from otel_itl.sdks.stainless import Member, Stainless

logger = logging.getLogger("otel_itl")

_PROVIDERS = {"tracer_provider": "get_tracer", "meter_provider": "get_meter", "logger_provider": "get_logger"}
_SDK_NAMES = tuple(MEMBERS)
_BASE_OPTIONS = {"skip_dep_check", "raise_exception_on_conflict"}
_hooks: dict[str, Hooks] = {}
_installed: set[str] = set()


class _Streams(BaseInstrumentor):  # type: ignore[misc]  # the base class has no types
    """Instruments the streams of some SDKs."""

    packages: tuple[str, ...] = ()

    def instrumentation_dependencies(self) -> Collection[str]:
        """None: each SDK is looked at on its own, and left alone where it is missing or too old."""
        return ()

    def instrument(self, **options: Any) -> None:
        """Begin to measure; options that come too late are checked, and said to come too late."""
        given = {name: value for name, value in options.items() if name not in _BASE_OPTIONS}
        if self.is_instrumented_by_opentelemetry and given:
            load({name: value for name, value in given.items() if name not in _PROVIDERS}, sdk_names=_SDK_NAMES)
            logger.warning("instrument() was called before: %s will not count until uninstrument().", ", ".join(given))
            return
        super().instrument(**options)

    def _instrument(self, **options: Any) -> None:
        providers = Providers(**{name: _provider(name, options.pop(name, None)) for name in _PROVIDERS})
        # Each entry point of a process is asked in turn: what the first has read holds for the others.
        config = runtime.config if runtime.config is not None and not options else load(options, sdk_names=_SDK_NAMES)
        asked = [package for package in self.packages if config.sdks is None or package in config.sdks]
        chosen = [package for package in asked if not _is_disabled(package) and _is_usable(package, "sdks" in options)]
        if asked and not chosen and not _installed and len(self.packages) > 1:
            logger.warning("otel_itl measures nothing here: none of %s can be instrumented.", ", ".join(asked))
        runtime.start(config, providers)
        for package in chosen:
            _hooks_of(package).install()
            _installed.add(package)

    def _uninstrument(self, **_: Any) -> None:
        for package in self.packages:
            if package in _installed:
                _hooks_of(package).remove()
                _installed.discard(package)
        if not _installed:
            runtime.stop()


class ITLInstrumentor(_Streams):
    """Instruments the streams of every SDK that is supported and installed.

    `instrument()` takes the options of `otel_itl.instrument()`.
    """

    packages = _SDK_NAMES


class OpenAIStreams(_Streams):
    """Instruments the streams of the openai SDK: the entry point `itl_openai`."""

    packages = ("openai",)


class AnthropicStreams(_Streams):
    """Instruments the streams of the anthropic SDK: the entry point `itl_anthropic`."""

    packages = ("anthropic",)


def _provider(name: str, value: Any) -> Any:
    maker = _PROVIDERS[name]
    if value is not None and not hasattr(value, maker):
        message = f"instrument({name}={value!r}) is not accepted: it takes a provider, with a {maker}() method."
        raise TypeError(message)
    return value


def _hooks_of(package: str) -> Hooks:
    if package not in _hooks:
        _hooks[package] = Hooks(package, Stainless(_member(package), runtime).targets())
    return _hooks[package]


def _member(package: str) -> Member:
    member: Member = import_module(MEMBERS[package]).MEMBER
    return member


def _is_disabled(package: str) -> bool:
    disabled = {name.strip() for name in os.environ.get("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", "").split(",")}
    return bool(disabled & {"*", f"itl_{package}"})


def _is_usable(package: str, asked_for: bool) -> bool:  # noqa: FBT001
    oldest = _member(package).oldest
    needed = f"{package} {'.'.join(map(str, oldest))} or newer"
    try:
        installed = version(package)
    except PackageNotFoundError:
        if asked_for:
            logger.warning("%s is not installed: otel_itl measures the streams of %s.", package, needed)
        return False
    if tuple(int(part) for part in re.findall(r"\d+", installed)[: len(oldest)]) < oldest:
        logger.warning(
            "%s %s is too old: otel_itl measures the streams of %s, and leaves this one alone.",
            package,
            installed,
            needed,
        )
        return False
    return True
