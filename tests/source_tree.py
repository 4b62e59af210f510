"""Reads the modules of the package without importing them: their names, their imports, their top-level names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import otel_itl

PACKAGE = Path(otel_itl.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))


class Import(NamedTuple):
    """One imported module: of an import statement, or of an `import_module()` with a literal name."""

    line: int
    module: str
    is_deferred: bool
    """Inside a function, or for the type checker alone: it does not run when the importing module is loaded."""


def name_of(file: Path, package: Path = PACKAGE) -> str:
    """Return the dotted name of a module."""
    parts = file.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def parse(file: Path) -> ast.Module:
    """Return the syntax tree of a module."""
    return ast.parse(file.read_text(encoding="utf-8"))


def imports_of(file: Path, package: Path = PACKAGE) -> Iterator[Import]:
    """Yield every import of a module, at any depth of its code."""
    yield from _imports_in(parse(file), file, package, is_deferred=False)


def _imports_in(node: ast.AST, file: Path, package: Path, *, is_deferred: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Import(names=names):
                yield from (Import(child.lineno, alias.name, is_deferred) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = absolute(module, level, file, package)
                for alias in names:
                    inner = f"{base}.{alias.name}"
                    yield Import(child.lineno, inner if _is_module(inner, package) else base, is_deferred)
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield Import(child.lineno, name, is_deferred)
            case ast.If(
                test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"), body=body, orelse=rest
            ):
                yield from _imports_in(ast.Module(body, []), file, package, is_deferred=True)
                yield from _imports_in(ast.Module(rest, []), file, package, is_deferred=is_deferred)
                continue
        is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from _imports_in(child, file, package, is_deferred=is_deferred or is_function)


def absolute(module: str | None, level: int, file: Path, package: Path = PACKAGE) -> str:
    """Return the dotted name that `from <level dots><module>` in a file stands for."""
    if not level:
        return module or ""
    folder = file.parent if level == 1 else file.parents[level - 1]
    return ".".join(filter(None, [*folder.relative_to(package.parent).parts, module]))


def _is_module(dotted: str, package: Path) -> bool:
    path = package.parent.joinpath(*dotted.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()
