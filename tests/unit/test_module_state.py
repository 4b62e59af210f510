"""No object at module level changes while the program runs, but the one `Runtime`."""

from __future__ import annotations

import ast
import enum
import functools
import logging
import pkgutil
import re
import subprocess
import sys
import textwrap
import typing
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, GenericAlias, ModuleType, UnionType
from typing import Any

import pytest

import otel_itl

PACKAGE = Path(otel_itl.__file__).parent
MODULES = sorted(
    found.name for found in pkgutil.walk_packages(otel_itl.__path__, "otel_itl.") if not found.name.endswith("__main__")
)
SOURCES = sorted(PACKAGE.rglob("*.py"))
THE_RUNTIME = "runtime"


# --- What stands at module level -----------------------------------------------------------------------------------

UNCHANGING = (
    bool,
    bytes,
    complex,
    enum.Enum,
    float,
    int,
    str,
    type,
    type(None),
    re.Pattern,
    ModuleType,
    FunctionType,
    BuiltinFunctionType,
    GenericAlias,
    UnionType,
)
ALLOWED = (
    ContextVar,
    logging.Logger,
    type(functools.lru_cache(maxsize=None)(lambda: None)),
)
"""Context variables, loggers, and caches of functions: what they keep is the interpreter's, or follows from it."""


def can_change(value: object) -> bool:
    """Whether a value is anything but a constant, or a table of constants."""
    if isinstance(value, (*UNCHANGING, *ALLOWED)) or type(value).__module__ in {"typing", "__future__", "abc"}:
        return False
    if isinstance(value, tuple | frozenset):
        return any(map(can_change, value))
    if isinstance(value, Mapping):  # a table; below is that no code of ours changes one
        return any(map(can_change, [*value, *value.values()]))
    if is_dataclass(value):
        is_frozen = type(value).__dataclass_params__.frozen  # type: ignore[attr-defined]
        return not is_frozen or any(can_change(getattr(value, field.name)) for field in fields(value))
    return hasattr(value, "__dict__") or type(value).__basicsize__ > object.__basicsize__  # it has attributes


@pytest.mark.parametrize("module", MODULES)
def test_what_stands_at_module_level_is_constant(module: str) -> None:
    namespace = vars(import_module(module))
    found = {name for name, value in namespace.items() if not name.startswith("__") and can_change(value)}
    assert found - {THE_RUNTIME, "captured_telemetry"} == set()  # the second is a fixture, as pytest keeps it


class _Changing:
    def __init__(self) -> None:
        self.count = 0


class _Slotted:
    __slots__ = ("count",)


@pytest.mark.parametrize(
    "value", [[], {1}, {"a": []}, ([],), _Changing(), _Slotted(), functools.partial(print), iter("")]
)
def test_what_can_change_is_found(value: object) -> None:
    assert can_change(value)


@pytest.mark.parametrize(
    "value", [1, "a", (1, "a"), frozenset("a"), {"a": ("b",)}, print, typing.Any, enum.Enum, re.compile("a")]
)
def test_a_constant_is_let_through(value: object) -> None:
    assert not can_change(value)


# --- What code does to it ------------------------------------------------------------------------------------------

CHANGES_IN_PLACE = {
    *("add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft", "remove"),
    *("setdefault", "sort", "update", "difference_update", "intersection_update"),
}


def changes(source: str) -> list[tuple[int, str]]:
    """What functions of a module do to names of its module level, imported ones included: line and name.

    They may do anything to the runtime, but assign to its name.
    """
    tree = ast.parse(source)
    at_module_level = set(_bound_by(tree.body))
    found: list[tuple[int, str]] = []
    for statement in tree.body:
        _search(statement, at_module_level, found)
    return sorted(found)


def _search(node: ast.AST, names: set[str], found: list[tuple[int, str]]) -> None:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        names = names - {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
        body = [node.body] if isinstance(node, ast.Lambda) else node.body
        found += [(one.lineno, name) for one in ast.walk(node) if isinstance(one, ast.Global) for name in one.names]
        names = names - set(_bound_by(body))
        for statement in body:
            found += [(line, name) for line, name in _changed_by(statement) if name in names - {THE_RUNTIME}]
    for child in ast.iter_child_nodes(node):
        _search(child, names, found)


def _bound_by(body: list[Any]) -> Iterator[str]:
    """The names that statements bind in their own scope."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs) and node.name:
            yield node.name
            yield from _bound_by(list(ast.iter_child_nodes(node)))
        elif not isinstance(node, ast.Lambda):
            yield from _bound_by(list(ast.iter_child_nodes(node)))


def _changed_by(statement: ast.AST) -> Iterator[tuple[int, str]]:
    """The names at the root of what a statement assigns to, deletes, or calls a changing method of."""
    for node in ast.walk(statement):
        changed = None
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            changed = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            changed = node.func.value if node.func.attr in CHANGES_IN_PLACE else None
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"setattr", "delattr"}:
            changed = node.args[0]
        while isinstance(changed, ast.Attribute | ast.Subscript):
            changed = changed.value
        if isinstance(changed, ast.Name):
            yield changed.lineno, changed.id


@pytest.mark.parametrize("file", [pytest.param(file, id=str(file.relative_to(PACKAGE))) for file in SOURCES])
def test_no_function_changes_what_stands_at_module_level(file: Path) -> None:
    assert changes(file.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("COUNT = 0\ndef f():\n    global COUNT\n    COUNT += 1", 3),
        ("SEEN = {}\ndef f(key):\n    SEEN[key] = 1", 3),
        ("SEEN = {}\ndef f(key):\n    SEEN[key] += 1", 3),
        ("SEEN = {}\ndef f(key):\n    del SEEN[key]", 3),
        ("SEEN = {}\ndef f(key):\n    if key:\n        SEEN.setdefault(key, []).append(1)", 4),
        ("SEEN = {}\ndef f(keys):\n    return [SEEN.pop(key) for key in keys]", 3),
        ("import os\ndef f():\n    os.environ['A'] = '1'", 3),
        ("class A: pass\ndef f():\n    A.count = 1", 3),
        ("class A:\n    def f(self):\n        setattr(A, 'count', 1)", 3),
        ("from .b import table\ndef f():\n    def g():\n        table.update(a=1)\n    g()", 4),
    ],
)
def test_a_planted_change_is_found(source: str, line: int) -> None:
    assert {line} == {found for found, _ in changes(source)}


@pytest.mark.parametrize(
    "source",
    [
        "from .runtime import runtime\ndef f():\n    runtime.errors.counts.clear()",
        "SEEN = {}\ndef f(SEEN):\n    SEEN[1] = 1",
        "seen = {}\ndef f():\n    seen = []\n    seen.append(1)",
        "def f():\n    seen = []\n    def g():\n        seen.append(1)\n    return g",
        "class A:\n    def f(self):\n        self.count = 1",
        "TABLE = {}\nTABLE['a'] = 1",
    ],
)
def test_what_a_function_owns_it_may_change(source: str) -> None:
    assert changes(source) == []


# --- While streams are measured ------------------------------------------------------------------------------------


def test_measuring_changes_nothing_at_module_level() -> None:
    program = """
        import pkgutil
        from importlib import import_module

        import otel_itl
        from otel_itl.testing import CapturedTelemetry

        names = [found.name for found in pkgutil.walk_packages(otel_itl.__path__, "otel_itl.")]
        modules = [otel_itl, *(import_module(name) for name in names if not name.endswith("__main__"))]

        def content(value):
            if isinstance(value, (dict, list, set)):
                return repr(value)
            if isinstance(value, type) and value.__module__.startswith("otel_itl"):
                return {
                    name: id(one)
                    for name, one in vars(value).items()
                    # The second is the singleton of BaseInstrumentor.
                    if not name.startswith("__") and name not in {"_instance", "_is_instrumented_by_opentelemetry"}
                }
            return id(value)

        def snapshot():
            return {
                f"{module.__name__}.{name}": content(value)
                for module in modules
                for name, value in vars(module).items()
                if not name.startswith("__")
            }

        before = snapshot()
        telemetry = CapturedTelemetry()
        otel_itl.instrument(
            tracer_provider=telemetry.tracer_provider,
            meter_provider=telemetry.meter_provider,
            logger_provider=telemetry.logger_provider,
            slo="chat",
        )
        with otel_itl.session("s"):
            for _ in range(2):
                assert len(list(otel_itl.observe(["a", "b", "c"], provider="p", model="m"))) == 3
        next(iter(otel_itl.observe(iter("abc"), provider="p", model="m")))
        assert len(telemetry.spans) == 3 and telemetry.metrics
        otel_itl.uninstrument()
        telemetry.shutdown()
        after = snapshot()
        print(*sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name)))
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], check=True, capture_output=True, text=True, timeout=50
    )
    assert run.stdout.split() == []
