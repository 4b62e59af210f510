"""What a type checker reports to users of the public names."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import otel_itl

HERE = Path(__file__).parent
API = HERE / "public_api.py"


@pytest.mark.timeout(300)
def test_the_public_api_has_the_types_that_callers_rely_on() -> None:
    pytest.importorskip("mypy")
    # Somebody else's project: the configuration of this one is not in force.
    command = [sys.executable, "-m", "mypy", "--config-file=", "--strict", str(API)]
    checked = subprocess.run(command, check=False, capture_output=True, text=True, timeout=280, cwd=HERE)
    assert (checked.returncode, checked.stdout) == (0, "Success: no issues found in 1 source file\n"), checked.stderr


def test_every_public_name_is_type_checked() -> None:
    names = {node.id for node in ast.walk(ast.parse(API.read_text())) if isinstance(node, ast.Name)}
    attributes = {node.attr for node in ast.walk(ast.parse(API.read_text())) if isinstance(node, ast.Attribute)}
    assert set(otel_itl.__all__) - names - attributes == set()
