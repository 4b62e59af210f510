"""The instrumentation scope: every signal carries the version of the package and the schema URL of its names."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.semconv.schemas import Schemas

from otel_itl.core.metric_conventions import STANDARD_NAMES
from otel_itl.export import scope

RESOURCE = Resource.get_empty()


def tracer_scope(generation: str) -> Any:
    provider = TracerProvider(resource=RESOURCE, shutdown_on_exit=False)
    tracer: Any = scope.get_tracer(provider, generation)
    return tracer.start_span("chat").instrumentation_scope


def meter_scope(generation: str) -> Any:
    meter: Any = scope.get_meter(MeterProvider(resource=RESOURCE, shutdown_on_exit=False), generation)
    return meter._instrumentation_scope


def logger_scope(generation: str) -> Any:
    logger: Any = scope.get_logger(LoggerProvider(resource=RESOURCE, shutdown_on_exit=False), generation)
    return logger._instrumentation_scope


SIGNALS = [tracer_scope, meter_scope, logger_scope]


@pytest.mark.parametrize("scope_of", SIGNALS)
def test_the_scope_has_the_name_and_the_version_of_the_package(scope_of: Any) -> None:
    made = scope_of("operation")
    assert (made.name, made.version) == ("otel_itl", version("otel-itl"))


@pytest.mark.parametrize("scope_of", SIGNALS)
def test_a_released_generation_has_a_schema_url(scope_of: Any) -> None:
    assert scope_of("operation").schema_url == "https://opentelemetry.io/schemas/1.41.0"


@pytest.mark.parametrize("scope_of", SIGNALS)
def test_a_generation_that_is_not_released_has_none(scope_of: Any) -> None:
    assert not scope_of("inference").schema_url


@pytest.mark.skipif(not hasattr(Schemas, "V1_41_0"), reason="this release of the conventions is older than the names")
def test_the_schema_url_is_one_that_was_released() -> None:
    assert STANDARD_NAMES["operation"].schema_url in {schema.value for schema in Schemas}


def test_a_package_that_is_not_installed_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(scope, "version", missing)
    assert scope.package_version.__wrapped__() == ""
