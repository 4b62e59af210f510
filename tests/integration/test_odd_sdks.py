"""SDKs that are too old, half imported, or patched by others: one warning, and the application runs as without us."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import textwrap
from typing import Any

import pytest

import otel_itl
from otel_itl.sdks import installer
from otel_itl.sdks.registry import REGISTRY

INSTALLED = sorted(name for name, entry in REGISTRY.items() if installer._is_usable(entry, is_required=False))
WAITING = {"mistralai", "huggingface-hub"}
"""SDKs whose hooks wait for modules that a half-imported package never loads: they find nothing to warn of."""
HALF_IMPORTED = """
    import json, logging, sys
    from types import ModuleType

    class Kept(logging.Handler):
        def emit(self, record):
            messages.append(record.getMessage())

    import otel_itl
    from otel_itl.sdks.registry import REGISTRY
    logging.getLogger("otel_itl").addHandler(Kept())
    logging.getLogger("otel_itl").propagate = False
    found = {}
    for name in sys.argv[1:]:
        entry = REGISTRY[name]
        trigger = "botocore.client" if name == "bedrock" else entry.package
        parts = trigger.split(".")
        for end in range(1, len(parts) + 1):
            sys.modules[".".join(parts[:end])] = ModuleType(".".join(parts[:end]))
        messages = []
        otel_itl.instrument(sdks=[name])
        otel_itl.uninstrument()
        otel_itl.instrument(sdks=[name])
        otel_itl.uninstrument()
        found[name] = messages
    print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def half_imported() -> dict[str, list[str]]:
    """The warnings about each SDK, whose package is there and has none of its modules and functions."""
    program = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(HALF_IMPORTED), *INSTALLED]
    ran = subprocess.run(program, capture_output=True, text=True, timeout=50, check=False)
    assert ran.returncode == 0, ran.stderr
    warnings: dict[str, list[str]] = json.loads(ran.stdout)
    return warnings


@pytest.mark.requirement("R64")
@pytest.mark.parametrize("name", [name for name in INSTALLED if name not in WAITING])
def test_a_half_imported_sdk_is_one_warning_that_names_what_is_not_measured(
    name: str, half_imported: dict[str, list[str]]
) -> None:
    (warning,) = half_imported[name]
    assert warning.startswith("otel_itl does not find ")
    assert warning.endswith(": what passes there is not measured.")
    assert f" in {REGISTRY[name].package}" in warning


@pytest.mark.requirement("R64")
@pytest.mark.parametrize("name", INSTALLED)
def test_an_sdk_that_is_too_old_is_one_warning_and_is_left_alone(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    entry = REGISTRY[name]
    monkeypatch.setattr(installer, "version", lambda _: "0.0.1")
    otel_itl.instrument(sdks=[name])
    try:
        about_it = [message for message in caplog.messages if message.startswith(f"{entry.distribution} ")]
    finally:
        otel_itl.uninstrument()
    measured = f"otel_itl measures the streams of {entry.requirement}, and leaves this one alone"
    assert about_it == [f"{entry.distribution} 0.0.1 is too old: {measured}."]


def test_a_name_that_is_no_sdk_raises_an_error_that_lists_what_exists() -> None:
    with pytest.raises(ValueError, match="'gemini'") as raised:
        otel_itl.instrument(sdks=["gemini"])
    assert [name for name in REGISTRY if name not in str(raised.value)] == []


class Replacement:
    """What another library puts in the place of a function: callable, and nothing else."""

    def __init__(self, result: object) -> None:
        self.result = result

    def __get__(self, instance: object, owner: object) -> Any:
        return self

    def __call__(self, *_: object, **__: object) -> object:
        return self.result


@pytest.mark.parametrize(
    ("name", "module", "owner", "function"),
    [
        ("google-genai", "google.genai.models", "Models", "_generate_content_stream"),
        ("bedrock", "botocore.client", "BaseClient", "_make_api_call"),
        ("openai", "openai._base_client", "SyncAPIClient", "request"),
        ("anthropic", "anthropic._base_client", "SyncAPIClient", "request"),
    ],
)
def test_a_function_that_another_library_has_replaced_does_what_that_one_does(
    name: str, module: str, owner: str, function: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    patched = getattr(pytest.importorskip(module), owner)
    result = object()
    monkeypatch.setattr(patched, function, Replacement(result))
    otel_itl.instrument(sdks=[name])
    try:
        returned = getattr(object.__new__(patched), function)("anything")
    finally:
        otel_itl.uninstrument()
    assert (returned is result, [record for record in caplog.records if record.levelno >= logging.ERROR]) == (True, [])
