"""Everything that lists the supported SDKs lists those of the one registry."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any, Final

import pytest
from clients import CLIENTS
from surfaces import BEDROCK, CREATED, OTHER_STREAMS, ROUTED, SURFACES

from otel_itl.config import load
from otel_itl.sdks.registry import REGISTRY, SDK_NAMES, SDKEntry

# pytest needs tomli where the standard library has no tomllib.
toml: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

ROOT: Final = Path(__file__).parents[2]
PROJECT: Final = toml.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: Final[dict[str, list[str]]] = PROJECT["optional-dependencies"]
MATRIX: Final = re.search(
    r"\nmatrix=\((.*?)\n\)", (ROOT / ".ci" / "environments").read_text(encoding="utf-8"), re.DOTALL
)

every = pytest.mark.parametrize("sdk", REGISTRY.values(), ids=SDK_NAMES)


def matrix_rows() -> list[str]:
    """The rows of the matrix of `.ci/environments`."""
    assert MATRIX is not None
    return re.findall(r'"([^"]*)"', MATRIX[1])


def _lines_of(sdk: SDKEntry) -> int:
    return len(Path(import_module(sdk.module).__file__ or "").read_text(encoding="utf-8").splitlines())


@every
def test_the_file_of_an_sdk_describes_the_sdk_of_its_name(sdk: SDKEntry) -> None:
    assert any(hook.module.startswith(sdk.package) for hook in import_module(sdk.module).SDK)


@every
def test_the_file_of_an_sdk_has_at_most_150_lines(sdk: SDKEntry) -> None:
    assert _lines_of(sdk) <= 150


def test_the_files_of_half_of_the_sdks_have_less_than_80_lines() -> None:
    assert median(map(_lines_of, REGISTRY.values())) < 80


def test_no_file_describes_an_sdk_that_is_not_in_the_registry() -> None:
    files = (ROOT / "otel_itl" / "sdks").glob("*.py")
    described = {file.stem for file in files if "\nSDK = " in file.read_text(encoding="utf-8")}
    assert described == {sdk.module.rpartition(".")[2] for sdk in REGISTRY.values()}


def test_every_sdk_is_instrumented_by_default() -> None:
    assert load({}, {}).sdks == SDK_NAMES


@every
def test_an_sdk_has_an_extra_with_its_oldest_release(sdk: SDKEntry) -> None:
    assert EXTRAS[sdk.name] == [sdk.requirement]


def test_one_extra_has_every_sdk_that_leaves_the_others_their_newest_release() -> None:
    names = [sdk.name for sdk in REGISTRY.values() if not sdk.pins_others]
    assert [name for line in EXTRAS["sdks"] for name in line[len("otel-itl[") : -1].split(",")] == names


def test_every_sdk_has_an_entry_point() -> None:
    assert list(PROJECT["entry-points"]["opentelemetry_instrumentor"]) == [sdk.entry_point for sdk in REGISTRY.values()]


@every
def test_the_entry_point_of_an_sdk_leads_to_an_instrumentor(sdk: SDKEntry) -> None:
    module, _, name = PROJECT["entry-points"]["opentelemetry_instrumentor"][sdk.entry_point].partition(":")
    expected = f"{sdk.name.replace('-', '')}instrumentor"
    assert (getattr(import_module(module), name).__name__, name.lower()) == (name, expected)


@every
def test_an_sdk_is_a_keyword_of_the_package(sdk: SDKEntry) -> None:
    assert sdk.name in PROJECT["keywords"]


@every
def test_the_tests_have_a_client_of_an_sdk(sdk: SDKEntry) -> None:
    assert sdk.name in {*(host.sdk for host in (*CLIENTS, BEDROCK)), *(row.sdk for row in ROUTED)}


@every
def test_the_tests_of_every_ending_have_a_stream_of_an_sdk(sdk: SDKEntry) -> None:
    assert sdk.name in {surface.sdk for surface in (*CREATED, *OTHER_STREAMS, *ROUTED)}


def test_the_tests_have_no_surface_of_another_sdk() -> None:
    assert {surface.sdk for surface in (*SURFACES, *ROUTED)} == set(SDK_NAMES)


@every
def test_the_page_of_supported_surfaces_has_a_section_for_an_sdk(sdk: SDKEntry) -> None:
    page = (ROOT / "docs" / "supported.md").read_text(encoding="utf-8")
    assert f"\n## {sdk.distribution} {'.'.join(map(str, sdk.oldest))} or later\n" in page


@every
def test_the_readme_names_an_sdk(sdk: SDKEntry) -> None:
    assert sdk.distribution in (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_row_of_the_matrix_but_the_oldest_installs_every_sdk() -> None:
    extras = {row.split("|")[0].strip(): row.split("|")[2].strip().split(",") for row in matrix_rows()}
    assert [name for name, names in extras.items() if "sdks" not in names] == ["oldest"]


@every
def test_the_matrix_has_the_oldest_release_of_an_sdk(sdk: SDKEntry) -> None:
    (pin,) = [pin for row in matrix_rows() for pin in re.findall(rf"(?<!\S){sdk.distribution}==(\S+)", row)]
    assert tuple(map(int, pin.split(".")))[: len(sdk.oldest)] == sdk.oldest
