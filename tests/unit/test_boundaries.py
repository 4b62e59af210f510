"""Which part of the package may import which: the tree shows the flow of data, and imports follow it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.source_tree import MODULES, PACKAGE, Import, imports_of, name_of

MAY_IMPORT = {
    "core": {"core"},
    "config": {"core", "config", "sdks.registry"},
    "recording": {"core", "config", "recording"},
    "sdks": {"core", "config", "recording", "sdks", "sdks.registry"},
    "sdks.registry": set(),
    "export": {"core", "config", "recording", "export"},
    "process": {"core", "config", "recording", "export", "process"},
    "wiring": {"core", "config", "recording", "sdks", "sdks.registry", "export", "process", "wiring"},
    "testing": {"core", "testing"},
    "tools": {"tools"},
    "tools.statistics": {"tools.statistics"},
    "tools.report": {"core", "tools", "tools.report"},
    "tools.view": {"core", "tools", "tools.report", "tools.view"},
    "tools.compare": {"core", "tools", "tools.statistics", "tools.report", "tools.compare"},
    "tools.explain": {"core", "tools", "tools.statistics", "tools.report", "tools.explain"},
    # A sweep is an application of ours: it measures its own requests in process, and reads them as a report does.
    "tools.sweep": {
        *("core", "config", "recording", "export", "process", "wiring"),
        *("tools", "tools.report", "tools.view", "tools.compare", "tools.sweep", "tools.statistics"),
    },
    "tools.fleet": {"core", "tools", "tools.fleet"},
    # These run an application, or are one.
    "tools.launch": {
        *("core", "config", "sdks.registry", "wiring"),
        *("tools", "tools.report", "tools.view", "tools.launch"),
    },
    "tools.demo": {
        *("core", "config", "sdks.registry", "wiring", "testing"),
        *("tools", "tools.report", "tools.view", "tools.demo"),
    },
    "tools.doctor": {
        *("core", "config", "recording", "sdks", "sdks.registry", "export", "process", "wiring", "testing"),
        *("tools", "tools.report", "tools.launch", "tools.demo", "tools.doctor"),
    },
    "cli": {
        *("core", "config", "recording", "sdks", "sdks.registry", "export", "wiring", "testing", "cli"),
        *("tools", "tools.report", "tools.view", "tools.compare", "tools.explain", "tools.sweep"),
        *("tools.fleet", "tools.launch", "tools.demo", "tools.doctor"),
    },
}
"""Part → the parts it may import, at any depth of its code.

A part is a folder or a module of the package, of `tools` each tool; the registry of SDKs, a table, is one as well.
`wiring` is every other module beside the folders,
`__main__` is of `cli`, and `tools` alone are the modules beside the tools.
"""

STANDARD_LIBRARY_ONLY = {"core", "config"}
"""Parts that import no other package."""

SDK_ON_DEMAND = {"sdks", "wiring", "cli", "tools.sweep", "tools.demo", "tools.doctor"}
"""Parts that may import an LLM SDK inside a function or for the type checker; the other parts never import one."""

IN_APPLICATIONS = {"core", "config", "recording", "sdks", "export", "process", "wiring"}
"""The wing that runs in an application."""

LLM_SDKS = {"openai", "anthropic", "groq", "together", "fireworks", "cerebras", "httpx", "httpx2"}


def part_of(module: str) -> str:
    """Return the part that a module of the package, given by its dotted name, belongs to."""
    _, name, tool, *_ = [*module.split("."), "", ""]
    if name == "__main__":
        return "cli"
    if f"{name}.{tool}" in MAY_IMPORT:
        return f"{name}.{tool}"
    return name if name in MAY_IMPORT else "wiring"


def objection(importer: str, imported: Import, package: Path) -> str | None:
    """Return why a part may not import something; None where it may."""
    top = imported.module.partition(".")[0]
    if top == package.name:
        part = part_of(imported.module)
        return None if part in MAY_IMPORT[importer] else f"{importer} may not import {part}"
    if importer in STANDARD_LIBRARY_ONLY and top not in sys.stdlib_module_names:
        return f"{importer} imports the standard library alone"
    if top in LLM_SDKS and importer not in SDK_ON_DEMAND:
        return f"{importer} imports no LLM SDK"
    if top in LLM_SDKS and not imported.is_deferred:
        return f"{importer} imports an LLM SDK inside functions only"
    return None


def violations(file: Path, package: Path = PACKAGE) -> list[str]:
    """Return the imports that a module may not have, as `file:line: imports X, but …`."""
    importer = part_of(name_of(file, package))
    return [
        f"{file.relative_to(package.parent)}:{found.line}: imports {found.module}, but {why}"
        for found in imports_of(file, package)
        if (why := objection(importer, found, package))
    ]


@pytest.mark.requirement("R62")
def test_a_module_imports_only_what_its_part_may() -> None:
    assert [found for file in MODULES for found in violations(file)] == []


def test_nothing_that_runs_in_an_application_imports_what_people_run() -> None:
    tools = {part for part in MAY_IMPORT if part.startswith("tools")} | {"cli", "testing"}
    assert {part: MAY_IMPORT[part] & tools for part in IN_APPLICATIONS} == {part: set() for part in IN_APPLICATIONS}


def test_at_most_eight_modules_are_beside_the_folders() -> None:
    assert len(list(PACKAGE.glob("*.py"))) == 8


PLANTED = [
    ("core/timeline.py", "import opentelemetry.trace", "the standard library alone"),
    ("core/timeline.py", "def f():\n    import numpy", "the standard library alone"),
    ("core/measures.py", "from otel_itl.recording import probe", "core may not import recording"),
    ("core/decoding.py", "from .. import config", "core may not import config"),
    ("core/decoding.py", "from otel_itl import instrument", "core may not import wiring"),
    ("config.py", "import rich", "the standard library alone"),
    ("core/option_values.py", "from otel_itl import config", "core may not import config"),
    ("config.py", "from .export.metrics import labels", "config may not import export"),
    ("recording/recorder.py", "def f():\n    import httpx", "recording imports no LLM SDK"),
    ("recording/recorder.py", "from ..export import metrics", "recording may not import export"),
    ("recording/recorder.py", "from otel_itl.sdks import openai", "recording may not import sdks"),
    ("recording/recorder.py", "from otel_itl.runtime import runtime", "recording may not import wiring"),
    ("sdks/openai.py", "import openai", "inside functions only"),
    ("sdks/openai.py", "from openai import Stream", "inside functions only"),
    ("sdks/openai.py", "try:\n    import openai\nexcept ImportError:\n    pass", "inside functions only"),
    ("sdks/openai.py", "class A:\n    import openai", "inside functions only"),
    ("sdks/openai.py", "from importlib import import_module\nimport_module('openai')", "inside functions only"),
    ("sdks/openai.py", "from otel_itl.export import metrics", "sdks may not import export"),
    ("export/metrics.py", "import otel_itl.tools.report.render.terminal", "export may not import tools.report"),
    ("export/metrics.py", "from otel_itl.sdks import openai", "export may not import sdks"),
    (
        "tools/report/summary.py",
        "from otel_itl.recording.recorder import Recorder",
        "tools.report may not import recording",
    ),
    ("tools/report/render/html.py", "from otel_itl.sdks import openai", "tools.report may not import sdks"),
    ("tools/report/summary.py", "from otel_itl.config import Config", "tools.report may not import config"),
    ("testing/server.py", "import openai", "testing imports no LLM SDK"),
    ("instrumentor.py", "def f():\n    from otel_itl.cli import main", "wiring may not import cli"),
    ("__init__.py", "import openai", "inside functions only"),
    ("runtime.py", "import otel_itl.testing", "wiring may not import testing"),
]


def planted(tmp_path: Path, name: str, source: str) -> list[str]:
    """Return the violations of one module in a package that has the folders of ours."""
    package = tmp_path / "otel_itl"
    for part in MAY_IMPORT.keys() - {"config"}:
        (package / part.replace(".", "/")).mkdir(parents=True, exist_ok=True)
    for module in ("__init__", "config"):
        (package / f"{module}.py").touch()
    file = package / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(source, encoding="utf-8")
    return violations(file, package)


@pytest.mark.parametrize(("name", "source", "why"), PLANTED)
def test_a_planted_violation_is_found(tmp_path: Path, name: str, source: str, why: str) -> None:
    assert [why in found for found in planted(tmp_path, name, source)] == [True]


def test_a_violation_is_reported_with_file_and_line(tmp_path: Path) -> None:
    expected = [f"{Path('otel_itl/core/timeline.py')}:2: imports rich, but core imports the standard library alone"]
    assert expected == planted(tmp_path, "core/timeline.py", "import sys\nimport rich\n")


@pytest.mark.parametrize(
    ("name", "source"),
    [
        (
            "core/measures.py",
            "from __future__ import annotations\nfrom otel_itl.core.timeline import Timeline\nimport math",
        ),
        ("core/decoding.py", "from otel_itl.core import conventions as names"),
        ("sdks/openai.py", "def f():\n    import openai"),
        ("sdks/openai.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import openai"),
        ("sdks/openai.py", "from wrapt import ObjectProxy\nfrom ..recording.recorder import Recorder"),
        ("tools/report/render/html.py", "import jinja2\nfrom otel_itl.tools.report.summary import Report"),
        ("cli/demo.py", "from otel_itl.testing import ScriptedServer"),
        ("__main__.py", "from otel_itl.cli import main"),
    ],
)
def test_what_a_part_may_import_is_let_through(tmp_path: Path, name: str, source: str) -> None:
    assert planted(tmp_path, name, source) == []
