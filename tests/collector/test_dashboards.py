"""The dashboards: what is committed is what the program writes, and every query has an answer."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fleet import FILES, ROOT, Prometheus, get_json, wait_until

if TYPE_CHECKING:
    from load import Played
    from workers import Truth

DASHBOARDS = sorted((FILES / "dashboards").glob("*.json"))
VARIABLES = {"$job": ".*", "$provider": ".*", "$model": ".*", "$__rate_interval": "5s"}


def panels() -> list[Any]:
    return [
        pytest.param(target["expr"], id=f"{path.stem}: {panel['title']} {target['refId']}")
        for path in DASHBOARDS
        for panel in json.loads(path.read_text())["panels"]
        for target in panel["targets"]
        if "expr" in target
    ]


def test_the_dashboards_are_what_their_program_writes(tmp_path: Path) -> None:
    (tmp_path / "dashboards.py").write_text((FILES / "dashboards.py").read_text())
    subprocess.run([sys.executable, str(tmp_path / "dashboards.py")], check=True)
    written = {path.name: path.read_text() for path in (tmp_path / "dashboards").iterdir()}
    assert written == {path.name: path.read_text() for path in DASHBOARDS}


def test_panels_do_not_overlap() -> None:
    for path in DASHBOARDS:
        taken: set[tuple[int, int]] = set()
        for panel in json.loads(path.read_text())["panels"]:
            at = panel["gridPos"]
            cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
            assert not taken & cells, panel["title"]
            taken |= cells


def test_trace_queries_ask_for_attributes_that_are_documented() -> None:
    asked = {
        attribute
        for path in [*DASHBOARDS, FILES / "rules.yml"]
        for attribute in re.findall(r"span\.((?:itl|gen_ai|session)\.[\w.]+)", path.read_text())
    }
    documented = (ROOT / "docs" / "telemetry.md").read_text()
    assert asked
    assert sorted(attribute for attribute in asked if f"`{attribute}`" not in documented) == []


def has_answer(prometheus: Prometheus, expression: str) -> bool:
    """Whether a query had a number to give at any moment since the fleet came up."""
    now = time.time()
    answer = get_json(f"{prometheus.url}/api/v1/query_range", query=expression, start=now - 300, end=now, step="1s")
    return any(
        "histograms" in series or any(value != "NaN" for _, value in series["values"])
        for series in answer["data"]["result"]
    )


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("expression", panels())
def test_every_query_has_an_answer(
    played: dict[str, Played], truths: dict[str, Truth], emitted: object, expression: str
) -> None:
    for variable, value in VARIABLES.items():
        expression = expression.replace(variable, value)
    prometheus = played["slow"].fleet.prometheus
    wait_until(lambda: has_answer(prometheus, expression), expression)
