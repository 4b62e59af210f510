"""Which part of the package may import which: the tree shows the flow of data, and imports follow it, never back."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

import otel_itl
from otel_itl.sdks.registry import REGISTRY

PACKAGE = Path(otel_itl.__file__).parent

MAY_IMPORT = {
    "conventions": set(),
    "core": {"conventions"},
    "config": {"conventions", "core"},
    "recording": {"conventions", "core"},
    "sdks": {"conventions", "core", "config", "recording"},
    "export": {"conventions", "core", "recording"},
    "reading": {"conventions", "core"},
    "other_tools": {"core"},
    "report": {"conventions", "core", "reading", "other_tools"},
    "render": {"conventions", "core", "reading", "other_tools", "report"},
    "testing": set(),
    "wiring": {"conventions", "core", "config", "recording", "sdks", "export"},
    "cli": {"conventions", "core", "config", "reading", "other_tools", "report", "render", "testing", "wiring"},
}
"""Part → the other parts that it may import, at any depth of its code. Only `cli` may import `testing`, none `cli`."""

FOLDERS = {
    "core": "core",
    "recording": "recording",
    "sdks": "sdks",
    "export": "export",
    "report/reading": "reading",
    "report/other_tools": "other_tools",
    "report/render": "render",
    "report": "report",
    "testing": "testing",
    "cli": "cli",
}
"""Folder of the package → its part. A module in no folder is a part of its own, or wires the parts together."""

STANDARD_LIBRARY_ONLY = {"conventions", "core", "config"}
"""Parts that import nothing but the standard library from outside."""

MAY_DEFER_SDKS = {"sdks", "cli"}
"""Parts that may import an LLM SDK inside a function or for the type checker; the others never do."""

LLM_SDKS = {entry.package.partition(".")[0] for entry in REGISTRY.values()} | {"httpx", "httpx2"}


class Import(NamedTuple):
    """One import statement, or one `import_module()` of a literal name."""

    line: int
    module: str
    deferred: bool
    """Inside a function, or for the type checker alone: not run when the importing module is loaded."""


def part_of(module: str) -> str:
    """The part of the package that a dotted name inside it belongs to."""
    path = "/".join(module.split(".")[1:])
    for folder, part in FOLDERS.items():
        if path == folder or path.startswith(f"{folder}/"):
            return part
    if path == "__main__":
        return "cli"
    return path if path in MAY_IMPORT else "wiring"


def name_of(file: Path, package: Path) -> str:
    """The dotted name of a module."""
    parts = file.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(file: Path, package: Path) -> Iterator[Import]:
    """Every import of a module, at any depth."""
    yield from _imports_in(ast.parse(file.read_text(encoding="utf-8")), file, package, deferred=False)


def _imports_in(node: ast.AST, file: Path, package: Path, *, deferred: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Import(names=names):
                yield from (Import(child.lineno, alias.name, deferred) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = _absolute(module, level, file, package)
                for alias in names:
                    inner = f"{base}.{alias.name}"
                    yield Import(child.lineno, inner if _is_module(inner, package) else base, deferred)
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield Import(child.lineno, name, deferred)
            case ast.If(
                test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"), body=body, orelse=rest
            ):
                yield from _imports_in(ast.Module(body, []), file, package, deferred=True)
                yield from _imports_in(ast.Module(rest, []), file, package, deferred=deferred)
                continue
        is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from _imports_in(child, file, package, deferred=deferred or is_function)


def _absolute(module: str | None, level: int, file: Path, package: Path) -> str:
    if not level:
        return module or ""
    folder = file.parent if level == 1 else file.parents[level - 1]
    return ".".join(filter(None, [*folder.relative_to(package.parent).parts, module]))


def _is_module(dotted: str, package: Path) -> bool:
    path = package.parent.joinpath(*dotted.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def objection(importer: str, imported: Import, package: Path) -> str | None:
    """Why a part may not import something, if so."""
    top = imported.module.partition(".")[0]
    if top == package.name:
        part = part_of(imported.module)
        return None if part in {importer, *MAY_IMPORT[importer]} else f"{importer} may not import {part}"
    if importer in STANDARD_LIBRARY_ONLY and top not in sys.stdlib_module_names:
        return f"{importer} imports the standard library only"
    if top in LLM_SDKS and importer not in MAY_DEFER_SDKS:
        return f"{importer} imports no LLM SDK"
    if top in LLM_SDKS and not imported.deferred:
        return f"{importer} imports an LLM SDK inside functions only"
    return None


def violations(file: Path, package: Path) -> list[str]:
    """What a module imports and may not, as `file:line: imports this, why not`."""
    importer = part_of(name_of(file, package))
    return [
        f"{file.relative_to(package.parent)}:{found.line}: imports {found.module}, but {why}"
        for found in imports_of(file, package)
        if (why := objection(importer, found, package))
    ]


@pytest.mark.requirement("R62")
@pytest.mark.parametrize(
    "file", [pytest.param(file, id=name_of(file, PACKAGE)) for file in sorted(PACKAGE.rglob("*.py"))]
)
def test_a_module_imports_only_what_its_part_may(file: Path) -> None:
    assert not violations(file, PACKAGE), "\n".join(violations(file, PACKAGE))


PLANTED = [
    ("core/timeline.py", "import opentelemetry.trace", "the standard library only"),
    ("core/timeline.py", "def f():\n    import numpy", "the standard library only"),
    ("core/measures.py", "from otel_itl.recording import recorder", "core may not import recording"),
    ("core/codec.py", "from .. import config", "core may not import config"),
    ("core/codec.py", "from otel_itl import instrument", "core may not import wiring"),
    ("conventions.py", "from otel_itl.core.timeline import Kind", "conventions may not import core"),
    ("config.py", "import rich", "the standard library only"),
    ("config.py", "from .export.metrics import labels", "config may not import export"),
    ("recording/recorder.py", "def f():\n    import httpx", "recording imports no LLM SDK"),
    ("recording/recorder.py", "from ..export import metrics", "recording may not import export"),
    ("recording/recorder.py", "from otel_itl.sdks import openai", "recording may not import sdks"),
    ("sdks/openai.py", "import openai", "inside functions only"),
    ("sdks/openai.py", "from openai import Stream", "inside functions only"),
    ("sdks/openai.py", "try:\n    import openai\nexcept ImportError:\n    pass", "inside functions only"),
    ("sdks/openai.py", "class A:\n    import openai", "inside functions only"),
    ("sdks/openai.py", "from importlib import import_module\nimport_module('openai')", "inside functions only"),
    ("sdks/cerebras.py", "import cerebras.cloud.sdk", "inside functions only"),
    ("sdks/openai.py", "from otel_itl.export import metrics", "sdks may not import export"),
    ("export/metrics.py", "import otel_itl.report.render.console", "export may not import render"),
    ("export/metrics.py", "def f():\n    import anthropic", "export imports no LLM SDK"),
    ("report/summary.py", "from otel_itl.recording.recorder import StreamRecorder", "report may not import recording"),
    ("report/summary.py", "from otel_itl.report.render import json", "report may not import render"),
    ("report/render/html.py", "from otel_itl.sdks import openai", "render may not import sdks"),
    ("testing/server.py", "import openai", "testing imports no LLM SDK"),
    ("instrumentor.py", "def f():\n    from otel_itl.cli import main", "wiring may not import cli"),
    ("__init__.py", "def f():\n    import openai", "wiring imports no LLM SDK"),
    ("runtime.py", "import otel_itl.testing", "wiring may not import testing"),
]


def planted(tmp_path: Path, modules: Mapping[str, str]) -> Path:
    """Make a package with the folders of ours and these modules, file name → source."""
    package = tmp_path / "otel_itl"
    for folder in FOLDERS:
        (package / folder).mkdir(parents=True, exist_ok=True)
    for name, source in {"__init__.py": "", "config.py": "", "conventions.py": "", **modules}.items():
        (package / name).write_text(source, encoding="utf-8")
    return package


def violations_of(tmp_path: Path, name: str, source: str) -> list[str]:
    """The violations of one module in a package that has the folders of ours."""
    package = planted(tmp_path, {name: source})
    return violations(package / name, package)


@pytest.mark.parametrize(("name", "source", "why"), PLANTED)
def test_a_planted_violation_is_found(tmp_path: Path, name: str, source: str, why: str) -> None:
    assert [why in found for found in violations_of(tmp_path, name, source)] == [True]


def test_a_violation_is_reported_with_file_and_line(tmp_path: Path) -> None:
    file = Path("otel_itl/core/timeline.py")
    expected = [f"{file}:2: imports rich, but core imports the standard library only"]
    assert expected == violations_of(tmp_path, "core/timeline.py", "import sys\nimport rich\n")


@pytest.mark.parametrize(
    ("name", "source"),
    [
        (
            "core/measures.py",
            "from __future__ import annotations\nfrom otel_itl.core.timeline import Timeline\nimport math",
        ),
        ("core/codec.py", "from otel_itl import conventions"),
        ("sdks/openai.py", "def f():\n    import openai"),
        ("sdks/openai.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import openai"),
        ("sdks/openai.py", "from wrapt import ObjectProxy\nfrom ..recording.recorder import StreamRecorder"),
        ("report/render/html.py", "import jinja2\nfrom otel_itl.report.summary import Report"),
        ("cli/demo.py", "from otel_itl.testing import ScriptedServer"),
        ("__main__.py", "from otel_itl.cli import main"),
    ],
)
def test_what_a_part_may_import_is_let_through(tmp_path: Path, name: str, source: str) -> None:
    assert violations_of(tmp_path, name, source) == []


# --- Cycles ----------------------------------------------------------------------------------------------------------


def import_graph(package: Path) -> dict[str, set[str]]:
    """Each module of a package → the modules of the package that it imports, at any depth of its code."""
    return {
        name_of(file, package): {
            found.module for found in imports_of(file, package) if found.module.partition(".")[0] == package.name
        }
        for file in package.rglob("*.py")
    }


def find_cycle(package: Path) -> list[str]:
    """The modules of one import cycle, the first one again at its end; empty: there is none."""
    try:
        TopologicalSorter(import_graph(package)).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        return cycle
    return []


def test_no_modules_import_one_another() -> None:
    assert find_cycle(PACKAGE) == []


IMPORT_B = "from otel_itl.core.b import B"


@pytest.mark.parametrize(
    "source",
    [
        IMPORT_B,
        "from .b import B",
        "from otel_itl.core import b",
        f"def f():\n    {IMPORT_B}",
        f"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    {IMPORT_B}",
        "from importlib import import_module\nimport_module('otel_itl.core.b')",
    ],
)
def test_a_planted_cycle_is_found(tmp_path: Path, source: str) -> None:
    package = planted(tmp_path, {"core/a.py": source, "core/b.py": "from otel_itl.core.a import A"})
    assert set(find_cycle(package)) == {"otel_itl.core.a", "otel_itl.core.b"}


def test_two_ways_to_one_module_are_no_cycle(tmp_path: Path) -> None:
    modules = {"core/a.py": f"{IMPORT_B}\nfrom .c import C", "core/b.py": "from .c import C", "core/c.py": ""}
    assert find_cycle(planted(tmp_path, modules)) == []
