"""Only `export/sdk_internals` touches private names of OpenTelemetry: what a release may break is in one place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import otel_itl

PACKAGE = Path(otel_itl.__file__).parent
ALLOWED = PACKAGE / "export" / "sdk_internals"
MODULES = [file for file in sorted(PACKAGE.rglob("*.py")) if ALLOWED not in file.parents]

DOCUMENTED = {"_logs", "_log_exporter"}
"""Parts of the addresses under which OpenTelemetry itself documents its API and its exporters for logs."""

OWN = {"self", "cls"}
BY_NAME = {"getattr", "hasattr", "setattr", "delattr", "attrgetter"}
NAMED_TUPLE = {"_replace", "_asdict", "_fields", "_make"}
"""Public methods of named tuples."""
OF_OTHERS = {"_exit", "_MESSAGE_HANDLER_CONTEXT"}
"""Of Python's `os`, and of AutoGen, whose public method raises where there is no message."""


def is_private(name: str) -> bool:
    """Whether a name is private: with one underscore before it, and not of Python's own."""
    return name.startswith("_") and not name.startswith("__") and name not in DOCUMENTED | NAMED_TUPLE | OF_OTHERS


def imports_opentelemetry(tree: ast.AST) -> bool:
    """Whether a module has objects of OpenTelemetry in its hands: it imports from there, at any depth of its code."""
    return any(module.partition(".")[0] == "opentelemetry" for module, _, _ in imported(tree))


def imported(tree: ast.AST) -> Iterator[tuple[str, list[str], int]]:
    """Every imported module, the names imported from it, and the line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, [], node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "", [alias.name for alias in node.names], node.lineno


def touched(source: str) -> list[tuple[int, str]]:
    """The private names that a module touches: line and name, in order of lines.

    Found are imports from OpenTelemetry, and attributes of anything but the module's own objects, also by `getattr()`
    and its like, in a module that imports from OpenTelemetry.
    """
    tree = ast.parse(source)
    if not imports_opentelemetry(tree):
        return []
    found = [
        (line, name)
        for module, names, line in imported(tree)
        if module.partition(".")[0] == "opentelemetry"
        for name in [*module.split("."), *names]
        if is_private(name)
    ]
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)} | OWN
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            if not (isinstance(node.value, ast.Name) and node.value.id in own):
                found.append((node.lineno, node.attr))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in BY_NAME:
            found.extend(
                (node.lineno, argument.value)
                for argument in node.args
                if isinstance(argument, ast.Constant)
                if isinstance(argument.value, str) and is_private(argument.value)
            )
    return sorted(found)


@pytest.mark.requirement("R62")
def test_a_module_touches_no_private_name_of_opentelemetry() -> None:
    found = {str(file.relative_to(PACKAGE)): touched(file.read_text(encoding="utf-8")) for file in MODULES}
    assert {file: names for file, names in found.items() if names} == {}


def test_what_may_touch_them_does() -> None:
    # Else there would be nothing to keep in one place, or the search would find nothing.
    assert [bool(touched(file.read_text(encoding="utf-8"))) for file in [ALLOWED / "bulk_batch.py"]] == [True]


TRACE = "from opentelemetry import trace\n"


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY", "_SUPPRESS_INSTRUMENTATION_KEY"),
        ("from opentelemetry.sdk.metrics._internal.point import Sum", "_internal"),
        ("import opentelemetry.sdk._configuration", "_configuration"),
        ("def f():\n    from opentelemetry.sdk.trace import _Span", "_Span"),
        (TRACE + "trace.get_current_span()._limits", "_limits"),
        (TRACE + "def f(span):\n    span._events = []", "_events"),
        (TRACE + "def f(span):\n    return getattr(span, '_limits', None)", "_limits"),
        (TRACE + "def f(span):\n    setattr(span, '_end', 1)", "_end"),
    ],
)
def test_a_private_name_is_found(source: str, name: str) -> None:
    assert [found for _, found in touched(source)] == [name]


@pytest.mark.parametrize(
    "source",
    [
        "from opentelemetry._logs import SeverityNumber",
        "from opentelemetry.exporter.otlp.json.file._log_exporter import FileLogExporter",
        TRACE + "class A:\n    def f(self):\n        return self._mine",
        TRACE + "class A:\n    _known = 1\nA._known",
        TRACE + "def f(point):\n    return point._replace(value=1)",
        TRACE + "def f(span):\n    return span.__dict__",
        "def f(client):\n    return client._client",
        "from mine import _private",
    ],
)
def test_what_is_documented_or_our_own_is_no_private_name(source: str) -> None:
    assert touched(source) == []
