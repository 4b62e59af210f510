"""Which exporters, samplers and id generators the `OTEL_*` environment asks for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

from otel_itl.export import exporters
from otel_itl.export.exporters import (
    describe_exporters,
    find_exporters,
    find_global_setup,
    make_id_generator,
    make_sampler,
)

GRPC, HTTP = ["otlp_proto_grpc"], ["otlp_proto_http"]
REFUSED = {"OTEL_EXPORTER_OTLP_PROTOCOL": "carrier-pigeon"}


def names(environ: Mapping[str, str], *, has_file: bool = False) -> list[list[str]]:
    """The entry points of the exporters of traces, metrics and logs."""
    return [[exporter.name for exporter in found] for found in find_exporters(environ, has_file=has_file).values()]


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, [GRPC, GRPC, GRPC]),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, [HTTP, HTTP, HTTP]),
        (
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "grpc"},
            [HTTP, GRPC, HTTP],
        ),
        ({"OTEL_TRACES_EXPORTER": "console", "OTEL_LOGS_EXPORTER": "none"}, [["console"], GRPC, []]),
        ({"OTEL_TRACES_EXPORTER": "otlp, console", "OTEL_METRICS_EXPORTER": ""}, [[*GRPC, "console"], [], GRPC]),
        (
            {**REFUSED, **{f"OTEL_{each}_EXPORTER": "console" for each in ("TRACES", "METRICS", "LOGS")}},
            [["console"]] * 3,
        ),
    ],
    ids=repr,
)
def test_a_signal_without_an_exporter_is_exported_by_otlp(environ: dict[str, str], expected: list[list[str]]) -> None:
    assert names(environ) == expected


@pytest.mark.parametrize(
    ("environ", "asked"),
    [
        ({}, ()),
        ({"OTEL_SERVICE_NAME": "chat", "OTEL_TRACES_SAMPLER": "always_on"}, ()),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, ()),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector"}, ("traces", "metrics", "logs")),
        ({"OTEL_EXPORTER_OTLP_HEADERS": "key=1"}, ("traces", "metrics", "logs")),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector"}, ("traces",)),
        ({"OTEL_METRICS_EXPORTER": "none"}, ()),
        ({"OTEL_LOGS_EXPORTER": "otlp"}, ("logs",)),
    ],
    ids=repr,
)
def test_beside_a_file_a_signal_is_exported_where_a_variable_asks_for_that(
    environ: dict[str, str], asked: tuple[str, ...]
) -> None:
    found = find_exporters(environ, has_file=True)
    assert tuple(signal for signal in found if found[signal]) == asked


def test_a_protocol_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="Unsupported OTLP protocol 'carrier-pigeon'"):
        find_exporters(REFUSED)


@pytest.mark.parametrize(
    ("environ", "described"),
    [
        (
            {},
            (
                "traces: otlp_proto_grpc http://localhost:4317, metrics: otlp_proto_grpc http://localhost:4317, "
                "logs: otlp_proto_grpc http://localhost:4317"
            ),
        ),
        (
            {
                "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
                "OTEL_EXPORTER_OTLP_ENDPOINT": "https://me:secret@collector:4318",
                "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "https://metrics/v1/metrics",
                "OTEL_TRACES_EXPORTER": "otlp,console",
                "OTEL_LOGS_EXPORTER": "none",
            },
            (
                "traces: otlp_proto_http https://collector:4318 and console, "
                "metrics: otlp_proto_http https://metrics/v1/metrics, logs: none"
            ),
        ),
    ],
)
def test_exporters_are_described_without_credentials(environ: Mapping[str, str], described: str) -> None:
    assert describe_exporters(find_exporters(environ)) == described


def test_an_exporter_is_loaded_by_its_entry_point() -> None:
    (exporter,) = find_exporters({"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"})["traces"]
    assert exporter.load() is OTLPSpanExporter


def test_an_exporter_that_is_not_installed_is_named() -> None:
    (exporter,) = find_exporters({"OTEL_TRACES_EXPORTER": "carrier_pigeon"})["traces"]
    with pytest.raises(LookupError, match="'carrier_pigeon'"):
        exporter.load()


@pytest.mark.parametrize("variable", ["OTEL_CONFIG_FILE", "OTEL_PYTHON_CONFIGURATOR"])
def test_a_variable_that_asks_for_global_providers_is_named(variable: str) -> None:
    assert (find_global_setup({variable: "x"}), find_global_setup({variable: ""})) == (variable, None)


# --- Samplers and id generators ---------------------------------------------------------------------------------------


class Made:
    """Stands for a sampler or an id generator of another package."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package has a component `theirs` of every group."""

    def find(*, group: str, name: str) -> list[EntryPoint]:
        return [EntryPoint(name, f"{__name__}:Made", group)] if name == "theirs" else []

    monkeypatch.setattr(exporters, "entry_points", find)


@pytest.mark.usefixtures("installed")
def test_a_sampler_of_another_package_is_made_with_its_argument() -> None:
    made = make_sampler({"OTEL_TRACES_SAMPLER": "theirs", "OTEL_TRACES_SAMPLER_ARG": "0.5"})
    assert (type(made).__name__, getattr(made, "arguments", None)) == ("Made", ("0.5",))


@pytest.mark.parametrize("named", ["", "parentbased_traceidratio", "always_off", "nobody_has_it"])
def test_any_other_sampler_is_left_to_the_sdk(named: str) -> None:
    assert make_sampler({"OTEL_TRACES_SAMPLER": named}) is None


@pytest.mark.usefixtures("installed")
def test_an_id_generator_of_another_package_is_made() -> None:
    assert type(make_id_generator({"OTEL_PYTHON_ID_GENERATOR": "theirs"})).__name__ == "Made"


def test_without_the_variable_the_sdk_makes_its_own_id_generator() -> None:
    assert make_id_generator({}) is None
