"""The public face of the package: exactly these names, and nothing by accident."""

from __future__ import annotations

from importlib import import_module

import pytest

import otel_itl

PUBLIC = [
    "SLO",
    "ASGISessionMiddleware",
    "ITLInstrumentor",
    "ITLSpanProcessor",
    "Kind",
    "MalformedEventsError",
    "Measures",
    "Outcome",
    "ResponseFacts",
    "Stall",
    "StallPolicy",
    "Timeline",
    "WSGISessionMiddleware",
    "flush",
    "instrument",
    "measure",
    "observe",
    "read_timeline",
    "session",
    "uninstrument",
]


def test_all_is_exactly_the_public_names() -> None:
    assert otel_itl.__all__ == PUBLIC


def test_dir_lists_the_public_names_and_no_others() -> None:
    assert dir(otel_itl) == sorted(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(otel_itl, name).__name__ == name


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_is_the_object_that_its_home_defines(name: str) -> None:
    public = getattr(otel_itl, name)
    assert getattr(import_module(public.__module__), name) is public


def test_a_star_import_brings_the_public_names_and_no_others() -> None:
    namespace: dict[str, object] = {}
    exec("from otel_itl import *", namespace)  # noqa: S102 - a star import cannot be written inside a function
    assert sorted(namespace.keys() - {"__builtins__"}) == sorted(PUBLIC)


@pytest.mark.parametrize("name", ["StreamRecorder", "runtime_", "_nothing", "instrumentor_"])
def test_an_unknown_attribute_is_an_attribute_error_that_names_it(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'otel_itl' has no attribute '{name}'"):
        getattr(otel_itl, name)


def test_an_unknown_attribute_is_absent_to_hasattr() -> None:
    assert not hasattr(otel_itl, "nothing_of_that_name")


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_a_docstring(name: str) -> None:
    assert (getattr(otel_itl, name).__doc__ or "").strip() != ""
