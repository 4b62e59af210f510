"""Followed to the letter, docs/add-an-sdk.md leads to a working adapter."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "add-an-sdk.md"
FILE = re.compile(r"^```(?:python|text)\n# ([\w./-]+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ENTRY = re.compile(r"^```python\n# ([\w./]+): add to (\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package in which every step of the page was done."""
    folder = tmp_path_factory.mktemp("sdk")
    text = PAGE.read_text(encoding="utf-8")
    shutil.copytree(ROOT / "otel_itl", folder / "otel_itl", ignore=shutil.ignore_patterns("__pycache__"))
    for name, content in FILE.findall(text):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content, encoding="utf-8")
    for name, collection, line in ENTRY.findall(text):
        path = folder / name
        code = path.read_text(encoding="utf-8")
        opening = re.search(rf"^{collection}\b.*\($", code, re.MULTILINE)
        assert opening is not None
        path.write_text(f"{code[: opening.end()]}\n    {line.strip()},{code[opening.end() :]}", encoding="utf-8")
    return folder


def test_the_page_names_the_files_of_an_adapter() -> None:
    assert [name for name, _ in FILE.findall(PAGE.read_text(encoding="utf-8"))] == [
        "acme_llm/__init__.py",
        "acme_llm-1.2.0.dist-info/METADATA",
        "otel_itl/sdks/acme.py",
        "test_acme.py",
    ]


def test_the_tests_of_the_page_pass(followed: Path) -> None:
    options = ["-q", "--import-mode=importlib", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "test_acme.py"],
        cwd=followed,
        env={**os.environ, "PYTHONPATH": str(followed)},
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )
    assert (ran.returncode, ran.stdout[-4_000:] if ran.returncode else "") == (0, "")


def test_the_adapter_imports_no_sdk(followed: Path) -> None:
    program = "import sys, otel_itl.sdks.acme; print('acme_llm' in sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=followed,
        env={**os.environ, "PYTHONPATH": str(followed)},
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )
    assert (ran.stdout, ran.stderr) == ("False\n", "")
