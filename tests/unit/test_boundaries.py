"""Which part of the package may import which: the tree shows the flow of data, and imports follow it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.source_tree import MODULES, PACKAGE, Import, imports_of, name_of

MAY_IMPORT = {
    "conventions": {"conventions"},
    "core": {"core", "conventions"},
    "option_values": {"core", "option_values"},
    "config": {"core", "conventions", "option_values", "config"},
    "recording": {"core", "conventions", "config", "recording"},
    "sdks": {"core", "conventions", "config", "option_values", "recording", "sdks"},
    "export": {"core", "conventions", "config", "recording", "export"},
    "report": {"core", "conventions", "report"},
    "view": {"core", "conventions", "report", "view"},
    "compare": {"core", "conventions", "report", "compare"},
    # A sweep is an application of ours: it measures its own requests in process, and reads them as a report does.
    "sweep": {
        *("core", "conventions", "config", "recording", "export", "wiring", "report", "compare", "sweep"),
    },
    "explain": {"core", "conventions", "report", "explain"},
    "testing": {"core", "conventions", "testing"},
    "wiring": {"core", "conventions", "config", "option_values", "recording", "sdks", "export", "wiring"},
    "cli": {
        *(
            "core",
            "conventions",
            "config",
            "option_values",
            "recording",
            "sdks",
            "export",
            "report",
            "compare",
            "explain",
            "sweep",
            "view",
            "testing",
        ),
        *("wiring", "cli"),
    },
}
"""Part → the parts it may import, at any depth of its code.

A part is a folder or a module of the package. `wiring` is every other module beside them, `__main__` is of `cli`.
"""

STANDARD_LIBRARY_ONLY = {"core", "conventions", "config", "option_values"}
"""Parts that import no other package."""

SDK_ON_DEMAND = {"sdks", "wiring", "cli", "sweep"}
"""Parts that may import an LLM SDK inside a function or for the type checker; the other parts never import one."""

LLM_SDKS = {"openai", "anthropic", "groq", "together", "fireworks", "cerebras", "httpx", "httpx2"}


def part_of(module: str) -> str:
    """Return the part that a module of the package, given by its dotted name, belongs to."""
    name = module.split(".")[1] if "." in module else "wiring"
    if name == "__main__":
        return "cli"
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
@pytest.mark.parametrize("file", [pytest.param(file, id=name_of(file)) for file in MODULES])
def test_a_module_imports_only_what_its_part_may(file: Path) -> None:
    assert violations(file) == []


PLANTED = [
    ("core/timeline.py", "import opentelemetry.trace", "the standard library alone"),
    ("core/timeline.py", "def f():\n    import numpy", "the standard library alone"),
    ("core/measures.py", "from otel_itl.recording import probe", "core may not import recording"),
    ("core/codec.py", "from .. import config", "core may not import config"),
    ("core/codec.py", "from otel_itl import instrument", "core may not import wiring"),
    ("conventions.py", "from otel_itl.core import codec", "conventions may not import core"),
    ("config.py", "import rich", "the standard library alone"),
    ("option_values.py", "from otel_itl import config", "option_values may not import config"),
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
    ("export/metrics.py", "import otel_itl.report.render.console", "export may not import report"),
    ("export/metrics.py", "from otel_itl.sdks import openai", "export may not import sdks"),
    ("report/summary.py", "from otel_itl.recording.recorder import Recorder", "report may not import recording"),
    ("report/render/html.py", "from otel_itl.sdks import openai", "report may not import sdks"),
    ("report/summary.py", "from otel_itl.config import Config", "report may not import config"),
    ("testing/server.py", "import openai", "testing imports no LLM SDK"),
    ("instrumentor.py", "def f():\n    from otel_itl.cli import main", "wiring may not import cli"),
    ("__init__.py", "import openai", "inside functions only"),
    ("runtime.py", "import otel_itl.testing", "wiring may not import testing"),
]


def planted(tmp_path: Path, name: str, source: str) -> list[str]:
    """Return the violations of one module in a package that has the folders of ours."""
    package = tmp_path / "otel_itl"
    for part in MAY_IMPORT.keys() - {"conventions", "config", "option_values"}:
        (package / part).mkdir(parents=True)
    for module in ("__init__", "config", "conventions", "option_values"):
        (package / f"{module}.py").touch()
    file = package / name
    file.parent.mkdir(exist_ok=True)
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
        ("core/codec.py", "from otel_itl import conventions as names"),
        ("sdks/openai.py", "def f():\n    import openai"),
        ("sdks/openai.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import openai"),
        ("sdks/openai.py", "from wrapt import ObjectProxy\nfrom ..recording.recorder import Recorder"),
        ("report/render/html.py", "import jinja2\nfrom otel_itl.report.summary import Report"),
        ("cli/demo.py", "from otel_itl.testing import ScriptedServer"),
        ("__main__.py", "from otel_itl.cli import main"),
    ],
)
def test_what_a_part_may_import_is_let_through(tmp_path: Path, name: str, source: str) -> None:
    assert planted(tmp_path, name, source) == []
