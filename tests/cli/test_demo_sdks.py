"""The SDKs of the demo: each with its real clients, and what happens without them."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from otel_itl.cli import main
from otel_itl.testing import Script, ScriptedServer, bedrock, chat, gemini, messages
from otel_itl.tools.demo.scenarios import SCENARIOS
from otel_itl.tools.demo.sdks import DEFAULT_SDKS, SDKS, DemoSDK, Wire


@pytest.fixture(params=SDKS)
def sdk(request: pytest.FixtureRequest) -> DemoSDK:
    """Each SDK that is installed."""
    found = SDKS[request.param]
    pytest.importorskip(found.module)
    return found


def reply(sdk: DemoSDK) -> Script:
    replies = {"chat": chat.reply, "messages": messages.reply, "gemini": gemini.reply, "converse": bedrock.reply}
    return replies[sdk.wire](5)


def test_a_sync_client_streams_from_the_scripted_server(sdk: DemoSDK) -> None:
    with ScriptedServer(reply(sdk)) as server:
        with sdk.make_client(server.url, is_async=False) as client, sdk.requester(client)("some-model") as stream:
            chunks = sum(1 for _ in stream)
        (exchange,) = server.exchanges
    assert (chunks >= 5, exchange.wire, exchange.model) == (True, sdk.wire, "some-model")


def test_an_async_client_streams_from_the_scripted_server(sdk: DemoSDK) -> None:
    if sdk.wire == "converse":
        pytest.importorskip("aiobotocore")

    async def count_chunks(url: str) -> int:
        async with sdk.make_client(url, is_async=True) as client, await sdk.requester(client)("some-model") as stream:
            return len([chunk async for chunk in stream])

    with ScriptedServer(reply(sdk)) as server:
        chunks = asyncio.run(count_chunks(server.url))
        (exchange,) = server.exchanges
    assert (chunks >= 5, exchange.wire, exchange.model) == (True, sdk.wire, "some-model")


def test_every_sdk_of_the_demo_is_a_supported_one() -> None:
    registry = pytest.importorskip("otel_itl.sdks.registry")
    assert set(SDKS) - set(registry.SDK_NAMES) == set()


def test_the_demo_runs_an_sdk_of_each_wire_format_by_default() -> None:
    assert [SDKS[name].wire for name in DEFAULT_SDKS] == list(get_args(Wire))


@pytest.mark.slow
def test_a_default_sdk_that_is_not_installed_is_left_out_with_one_line(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("google-genai", "bedrock"):
        monkeypatch.setitem(sys.modules, SDKS[name].module, None)
    monkeypatch.chdir(tmp_path)
    code = main(["demo", "--seconds", "0"])
    first, *rest = capfd.readouterr().out.splitlines()
    assert first == "left out: google-genai and bedrock are not installed: pip install google-genai boto3"
    assert (code, any(" smooth-2" in line for line in rest), any("smooth-3" in line for line in rest)) == (
        0,
        True,
        False,
    )


@pytest.mark.parametrize(
    ("sdks", "sentence"),
    [
        ("openai,groq", "groq is not installed: pip install groq"),
        ("cerebras,fireworks", "cerebras and fireworks are not installed: pip install cerebras-cloud-sdk fireworks-ai"),
    ],
)
def test_a_missing_sdk_is_exit_code_2_and_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, sdks: str, sentence: str
) -> None:
    pytest.importorskip("rich")
    for name in ("groq", "fireworks", "cerebras"):
        monkeypatch.setitem(sys.modules, SDKS[name].module, None)
    code = main(["demo", "--sdk", sdks])
    printed = capsys.readouterr()
    assert (code, printed.out, printed.err) == (2, "", f"otel-itl demo: {sentence}\n")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SDKS if name not in DEFAULT_SDKS])
def test_the_streams_of_a_chosen_sdk_are_measured(tmp_path: Path, name: str) -> None:
    pytest.importorskip(SDKS[name].module)
    pytest.importorskip("otel_itl.sdks.registry")
    demo = run("demo", "--sdk", name, "--seconds", "0", "--quiet", "--output", "demo.jsonl", cwd=tmp_path)
    assert (demo.returncode, demo.stderr) == (0, "")
    rows = json.loads(run("report", "--json", "demo.jsonl", cwd=tmp_path).stdout)["rows"]
    models = {scenario.model for scenario in SCENARIOS if scenario.wire == SDKS[name].wire}
    assert {row["model"] for row in rows} == models


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    command = [sys.executable, "-m", "otel_itl", *arguments]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=50, check=False)
