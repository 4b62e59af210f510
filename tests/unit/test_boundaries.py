"""Which part of the package may import which: the tree shows the flow of data, and imports follow it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import otel_itl

PACKAGE = Path(otel_itl.__file__).parent

CENTRE = {
    "timeline",
    "measures",
    "codec",
    "conventions",
    "definitions",
    "exchange",
    "fence",
    "stalls",
    "slo",
    "sessions",
}
"""Modules of the pure centre. Every other module beside them wires the parts together, but for `config`."""

MAY_IMPORT = {
    "centre": {"centre"},
    "config": {"centre", "config"},
    "record": {"centre", "config", "record"},
    "sdks": {"centre", "config", "record", "sdks"},
    "export": {"centre", "config", "record", "export"},
    "offline": {"centre", "config", "offline"},
    "view": {"centre", "config", "offline", "view"},
    "testing": {"centre", "testing"},
    "wiring": {"centre", "config", "record", "sdks", "export", "wiring"},
    "cli": {"centre", "config", "record", "sdks", "export", "offline", "view", "testing", "wiring", "cli"},
}
"""Part → the parts it may import, at any depth of its code. Nothing but `cli` has `cli`, or `testing` from outside."""

STANDARD_LIBRARY_ONLY = {"centre", "config"}
"""Parts that import nothing of anybody else."""

SDK_WHEN_ASKED = {"sdks", "wiring", "cli"}
"""Parts that may import an LLM SDK inside a function or for the type checker; the others never do."""

LLM_SDKS = {"openai", "anthropic", "groq", "together", "cerebras", "httpx", "httpx2"}


class Import(NamedTuple):
    """One import statement, or one `import_module()` of a literal name."""

    line: int
    module: str
    deferred: bool
    """Inside a function, or for the type checker alone: not run when the importing module is loaded."""


def part_of(module: str) -> str:
    """The part of the package that a dotted name inside it belongs to."""
    name = module.split(".")[1] if "." in module else "wiring"
    if name in CENTRE:
        return "centre"
    if name == "__main__":
        return "cli"
    return name if name in MAY_IMPORT else "wiring"


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
        return None if part in MAY_IMPORT[importer] else f"{importer} may not import {part}"
    if importer in STANDARD_LIBRARY_ONLY and top not in sys.stdlib_module_names:
        return f"{importer} imports the standard library alone"
    if top in LLM_SDKS and importer not in SDK_WHEN_ASKED:
        return f"{importer} imports no LLM SDK"
    if top in LLM_SDKS and not imported.deferred:
        return f"{importer} imports an LLM SDK only when it is asked for"
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
    ("timeline.py", "import opentelemetry.trace", "the standard library alone"),
    ("timeline.py", "def f():\n    import numpy", "the standard library alone"),
    ("measures.py", "from otel_itl.recording import probe", "centre may not import record"),
    ("codec.py", "from . import config", "centre may not import config"),
    ("codec.py", "from otel_itl import instrument", "centre may not import wiring"),
    ("config.py", "import rich", "the standard library alone"),
    ("config.py", "from .export.metrics import labels", "config may not import export"),
    ("record/probe.py", "def f():\n    import httpx", "record imports no LLM SDK"),
    ("record/probe.py", "from ..export import metrics", "record may not import export"),
    ("record/probe.py", "from otel_itl.sdks import openai", "record may not import sdks"),
    ("sdks/openai.py", "import openai", "only when it is asked for"),
    ("sdks/openai.py", "from openai import Stream", "only when it is asked for"),
    ("sdks/openai.py", "try:\n    import openai\nexcept ImportError:\n    pass", "only when it is asked for"),
    ("sdks/openai.py", "class A:\n    import openai", "only when it is asked for"),
    ("sdks/openai.py", "from importlib import import_module\nimport_module('openai')", "only when it is asked for"),
    ("sdks/openai.py", "from otel_itl.export import metrics", "sdks may not import export"),
    ("export/metrics.py", "import otel_itl.report.render.console", "export may not import view"),
    ("offline/report.py", "from otel_itl.recording.recorder import Probe", "offline may not import record"),
    ("view/html.py", "from otel_itl.sdks import openai", "view may not import sdks"),
    ("testing/server.py", "import openai", "testing imports no LLM SDK"),
    ("instrumentor.py", "def f():\n    from otel_itl.cli import main", "wiring may not import cli"),
    ("__init__.py", "import openai", "only when it is asked for"),
    ("runtime.py", "import otel_itl.testing", "wiring may not import testing"),
]


def planted(tmp_path: Path, name: str, source: str) -> list[str]:
    """The violations of one module in a package that has the folders of ours."""
    package = tmp_path / "otel_itl"
    for part in MAY_IMPORT:
        (package / part).mkdir(parents=True)
    for module in ("__init__", "config"):
        (package / f"{module}.py").touch()
    file = package / name
    file.write_text(source, encoding="utf-8")
    return violations(file, package)


@pytest.mark.parametrize(("name", "source", "why"), PLANTED)
def test_a_planted_violation_is_found(tmp_path: Path, name: str, source: str, why: str) -> None:
    assert [why in found for found in planted(tmp_path, name, source)] == [True]


def test_a_violation_is_reported_with_file_and_line(tmp_path: Path) -> None:
    expected = [f"{Path('otel_itl/timeline.py')}:2: imports rich, but centre imports the standard library alone"]
    assert expected == planted(tmp_path, "timeline.py", "import sys\nimport rich\n")


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("measures.py", "from __future__ import annotations\nfrom otel_itl.core.timeline import Timeline\nimport math"),
        ("sdks/openai.py", "def f():\n    import openai"),
        ("sdks/openai.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import openai"),
        ("sdks/openai.py", "from wrapt import ObjectProxy\nfrom ..record.probe import Probe"),
        ("view/html.py", "import jinja2\nfrom otel_itl.report.summary import Report"),
        ("cli/demo.py", "from otel_itl.testing import ScriptedServer"),
        ("__main__.py", "from otel_itl.cli import main"),
    ],
)
def test_what_a_part_may_import_is_let_through(tmp_path: Path, name: str, source: str) -> None:
    assert planted(tmp_path, name, source) == []
