"""Reads the configuration of an OpenTelemetry Collector on one host, by where it sends the telemetry."""

from __future__ import annotations

from typing import Final

from otel_itl.tools.fleet.packaged_files import find_file

CONFIGURATIONS: Final = {
    "prometheus": "gateway.yaml",
    "otlp": "otlp.yaml",
    "clickhouse": "clickhouse.yaml",
    "file": "local.yaml",
}
"""Destination → the file of `collector/`."""


def read_configuration(destination: str) -> str:
    """Return the text of the configuration for a destination of `CONFIGURATIONS`."""
    return find_file(CONFIGURATIONS[destination]).read_text(encoding="utf-8")
