"""The files of `collector/`, checked by the programs that read them, and held against what is written of them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from fleet import COLLECTOR, FILES, ROOT

from otel_itl.cli import main
from otel_itl.tools.fleet.collector_config import CONFIGURATIONS as CONFIGURATIONS_BY_DESTINATION

VARIABLE = re.compile(r"\$\{env:(ITL_\w+)(?::-((?:\[[^\]]*\]|[^}])*))?\}")
CONFIGURATIONS = sorted(set(FILES.glob("*.yaml")) - {FILES / "compose.yaml"})
ENVIRONMENTS = {
    "agent.env": ("agent.yaml", "agent-tls.yaml"),
    "gateway.env": ("gateway.yaml", "gateway-traces.yaml", "gateway-tls.yaml"),
}


def variables(*configurations: str) -> dict[str, str | None]:
    """The variables of configurations, and their defaults; None: it has none."""
    text = "".join((FILES / configuration).read_text() for configuration in configurations)
    return {found[1]: found[2] for found in VARIABLE.finditer(text)}


def rules() -> str:
    return (FILES / "rules.yml").read_text()


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_an_environment_file_sets_what_has_no_default_and_shows_the_defaults_of_the_rest(environment: str) -> None:
    lines = (FILES / environment).read_text().splitlines()
    shown = dict(re.fullmatch(r"#?(ITL_\w+)=(.*)", line).groups() for line in lines if re.match(r"#?ITL_", line))  # type: ignore[union-attr]
    secret = {"ITL_OTLP_HEADERS", "ITL_REMOTE_WRITE_HEADERS"}
    expected = variables(*ENVIRONMENTS[environment])
    assert expected.keys() == shown.keys()
    assert {name: default for name, default in expected.items() if default is not None and name not in secret} == {
        name: value.strip("'") for name, value in shown.items() if f"#{name}={value}" in lines and name not in secret
    }


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=lambda path: path.name)
def test_the_readme_names_every_variable_of_a_configuration(configuration: Path) -> None:
    readme = (FILES / "README.md").read_text()
    assert [name for name in variables(configuration.name) if f"`{name}`" not in readme] == []


def test_every_file_of_the_folder_is_in_its_readme() -> None:
    readme = (FILES / "README.md").read_text()
    ignored = {"README.md", COLLECTOR.name, "otelcol-clickhouse"}
    assert [path.name for path in sorted(FILES.iterdir()) if path.name not in ignored and path.name not in readme] == []


@pytest.mark.parametrize("configuration", ["builder-config.yaml", "builder-clickhouse.yaml"])
def test_the_components_are_all_of_one_release(configuration: str) -> None:
    text = (FILES / configuration).read_text()
    release = re.findall(r"^  version: (.+)$", text, re.MULTILINE)
    assert set(release) == set(re.findall(r" v(0\.[\d.]+)$", text, re.MULTILINE))


def test_every_alert_has_a_runbook_that_is_there_and_names_it() -> None:
    alerts = re.findall(r"- alert: (\w+)(.*?)(?=- alert: |\Z)", rules(), re.DOTALL)
    assert alerts
    for alert, body in alerts:
        runbook = re.search(r"runbook: (\S+)", body if "*burning" not in body else rules())
        assert runbook, alert
        assert alert in (ROOT / runbook[1]).read_text(), runbook[1]


def test_every_alert_has_a_test_that_it_fires() -> None:
    tests = (FILES / "rules_test.yml").read_text()
    assert [alert for alert in re.findall(r"- alert: (\w+)", rules()) if f"alertname: {alert}" not in tests] == []


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a copy of `collector/`."""
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def copied(programs: None, tmp_path: Path) -> Path:
    """A copy of `collector/`, the Collector included."""
    return Path(shutil.copytree(FILES, tmp_path / "collector", copy_function=link))


def link(source: str, target: str) -> None:
    """Copy a file, but for the Collectors, which are large."""
    if Path(source).name.startswith("otelcol-"):
        Path(target).symlink_to(source)
    else:
        shutil.copy2(source, target)


def test_the_configuration_for_clickhouse_is_the_one_for_otlp_but_for_its_exporter() -> None:
    def without_exporter(name: str) -> list[str]:
        text = (FILES / f"{name}.yaml").read_text()
        body = text[text.index("extensions:") :]
        before, rest = body.split("exporters:\n", 1)
        return [before, rest[rest.index("service:") :].replace(name if name == "clickhouse" else "otlp_http", "x")]

    assert without_exporter("clickhouse") == without_exporter("otlp")


@pytest.mark.parametrize("destination", CONFIGURATIONS_BY_DESTINATION)
def test_a_configuration_is_printed_as_it_stands_in_the_folder(
    destination: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["collector-config", "--to", destination]) == 0
    assert capsys.readouterr().out == (FILES / CONFIGURATIONS_BY_DESTINATION[destination]).read_text()


def test_a_wheel_has_every_configuration() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    names = CONFIGURATIONS_BY_DESTINATION.values()
    assert [name for name in names if f'"collector/{name}" = "otel_itl/tools/fleet/{name}"' not in project] == []


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_programs_accept_their_files(programs: None) -> None:
    checked = run(["make", "collector-check"], ROOT)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "before", "after", "sentence"),
    [
        ("agent.yaml", "num_consumers: 10", "num_consumer: 10", "has invalid keys: num_consumer"),
        (
            "gateway-traces.yaml",
            "decision_wait:",
            "decision_await:",
            "'tailsamplingprocessor.Config' has invalid keys: decision_await",
        ),
        ("local.yaml", "verbosity:", "verbose:", "has invalid keys: verbose"),
        ("gateway-traces.yaml", "sampling_percentage:", "sampling_share:", "has invalid keys: sampling_share"),
        ("gateway.yaml", "max_batch_request_parallelism:", "max_batches:", "has invalid keys: max_batches"),
        ("otlp.yaml", "max_elapsed_time:", "elapsed_time:", "has invalid keys: elapsed_time"),
        ("clickhouse.yaml", "ttl:", "keep:", "has invalid keys: keep"),
        ("agent.env", "ITL_GATEWAYS=", "ELSEWHERE=", "no resolvers specified for the exporter"),
        ("gateway.env", "ITL_OTLP_URL=", "ELSEWHERE=", "exporters::otlp_http: at least one endpoint must be specified"),
    ],
)
def test_what_the_collector_refuses_fails_the_check_in_its_own_words(
    copied: Path, file: str, before: str, after: str, sentence: str
) -> None:
    if file == "clickhouse.yaml" and not (copied / "otelcol-clickhouse").exists():
        pytest.skip("not on this machine: `collector/build builder-clickhouse.yaml` builds it")
    text = (copied / file).read_text()
    assert before in text
    (copied / file).write_text(text.replace(before, after))
    checked = run(["./check"], copied)
    assert checked.returncode != 0
    assert sentence in checked.stdout + checked.stderr


@pytest.mark.slow
def test_the_distribution_has_no_component_that_no_configuration_uses(programs: None) -> None:
    printed = run([str(COLLECTOR), "components"], FILES).stdout
    components = re.findall(r"^    - name: (\w+)$", printed, re.MULTILINE)
    text = "".join(path.read_text() for path in CONFIGURATIONS if not path.name.startswith("builder-"))
    assert components
    assert [name for name in components if not re.search(rf"^  {name}(/\w+)?:", text, re.MULTILINE)] == []


@pytest.mark.slow
def test_without_the_collector_the_check_says_how_to_get_it(programs: None, copied: Path) -> None:
    (copied / COLLECTOR.name).unlink()
    checked = run(["./check"], copied)
    assert (checked.returncode, checked.stderr) == (1, "There is no Collector here: `make collector` builds it.\n")
