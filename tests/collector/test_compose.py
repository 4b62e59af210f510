"""`collector/compose.yaml`, of which nothing is started here, agrees with the files that it is made of."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fleet import FILES, ROOT

yaml = pytest.importorskip("yaml")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return dict(yaml.safe_load((FILES / "compose.yaml").read_text()))


def test_the_four_services_are_there(compose: dict[str, Any]) -> None:
    assert list(compose["services"]) == ["app", "collector", "prometheus", "grafana"]


def test_every_file_that_is_mounted_is_in_the_folder(compose: dict[str, Any]) -> None:
    mounted = [
        volume.split(":")[0] for service in compose["services"].values() for volume in service.get("volumes", [])
    ]
    assert mounted == ["./gateway.yaml", "./prometheus.yml", "./rules.yml", "./dashboards"]
    assert [name for name in mounted if not (FILES / name).exists()] == []


def test_the_collector_is_of_the_release_that_is_tested(compose: dict[str, Any]) -> None:
    (release,) = re.findall(r"^  version: (.+)$", (FILES / "builder-config.yaml").read_text(), re.MULTILINE)
    assert compose["services"]["collector"]["image"] == f"otel/opentelemetry-collector-contrib:{release}"


def test_the_collector_is_given_only_variables_that_its_configuration_has(compose: dict[str, Any]) -> None:
    configuration = (FILES / "gateway.yaml").read_text()
    variables = compose["services"]["collector"]["environment"]
    assert [name for name in variables if f"${{env:{name}:-" not in configuration] == []


def test_an_address_between_services_is_that_of_a_service(compose: dict[str, Any]) -> None:
    text = (FILES / "compose.yaml").read_text()
    assert set(re.findall(r"http://(\w+):\d+", text)) - {"localhost"} == {"collector", "prometheus"}
    assert {"collector", "prometheus"} <= compose["services"].keys()


def test_prometheus_is_started_as_the_readme_has_it(compose: dict[str, Any]) -> None:
    readme = (FILES / "README.md").read_text()
    flags = [flag for flag in compose["services"]["prometheus"]["command"] if "path" not in flag and "file" not in flag]
    assert [flag for flag in flags if flag not in readme] == []


def test_grafana_reads_the_dashboards_where_they_are_mounted(compose: dict[str, Any]) -> None:
    provided = yaml.safe_load(compose["configs"]["dashboards"]["content"])["providers"]
    (mounted,) = compose["services"]["grafana"]["volumes"]
    assert [each["options"]["path"] for each in provided] == [mounted.split(":")[1]]


def test_every_config_of_a_service_is_defined(compose: dict[str, Any]) -> None:
    used = [config["source"] for config in compose["services"]["grafana"]["configs"]]
    assert sorted(used) == sorted(compose["configs"])


def test_the_application_is_installed_with_an_extra_that_there_is(compose: dict[str, Any]) -> None:
    (extra,) = re.findall(r"/otel-itl\[(\w+)\]", compose["services"]["app"]["build"]["dockerfile_inline"])
    assert re.search(rf"^{extra} = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
