"""What a sweep is given: its plan, its endpoint, prompts, recorded traffic."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from otel_itl.testing import Exchange, ScriptedServer, chat
from otel_itl.tools.command_error import CommandError
from otel_itl.tools.report.reading.skipped_input import SkippedInput
from otel_itl.tools.sweep.clients import Client
from otel_itl.tools.sweep.endpoint import Endpoint
from otel_itl.tools.sweep.prompts import Prompt, load_prompts, make_filler, read_prompts
from otel_itl.tools.sweep.traffic import read_traffic

FILLER = make_filler([(100, 20)])

# --- Endpoint --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base_url", "is_loopback"),
    [
        ("http://127.0.0.1:8000/v1", True),
        ("http://[::1]:8000/v1", True),
        ("http://localhost/v1", True),
        ("http://model.localhost/v1", True),
        ("http://localhost.example.com/v1", False),
        ("https://10.0.0.1/v1", False),
    ],
)
def test_only_this_machine_is_loopback(base_url: str, is_loopback: bool) -> None:
    assert Endpoint(sdk="openai", model="m", base_url=base_url).is_loopback is is_loopback


def test_a_base_url_without_host_is_refused() -> None:
    with pytest.raises(CommandError, match=r"^base URL 'localhost:8000' is not accepted"):
        _ = Endpoint(sdk="openai", model="m", base_url="localhost:8000").is_loopback


def test_no_secret_is_shown() -> None:
    endpoint = Endpoint(sdk="openai", model="m", base_url="https://u:secret@h.example/v1?k=secret")
    assert endpoint.address == "https://h.example/v1"


def test_a_remote_endpoint_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(CommandError, match=r"^https://h\.example needs an API key: set OPENAI_API_KEY\.$"):
        Endpoint(sdk="openai", model="m", base_url="https://h.example").find_key()


def asked(endpoint: Endpoint, prompt: Prompt) -> Exchange:
    """What a server gets of one request to an endpoint."""

    async def ask(url: str) -> None:
        client = Client(replace(endpoint, base_url=url))
        await client.ask(prompt, lambda: None)
        await client.close()

    with ScriptedServer(chat.reply(3)) as server:
        asyncio.run(ask(server.openai_url))
        (exchange,) = server.wait_for(1)
    return exchange


def test_an_extra_body_and_headers_are_sent_and_those_of_the_prompt_go_first() -> None:
    endpoint = Endpoint(sdk="openai", model="m", base_url="", headers={"x-tenant": "a"}, body={"top_k": 1, "seed": 2})
    exchange = asked(endpoint, Prompt([{"role": "user", "content": "x"}], 9, {"extra_body": {"seed": 3}}))
    body = exchange.json
    assert (exchange.headers["x-tenant"], body["top_k"], body["seed"]) == ("a", 1, 3)


def test_exact_lengths_are_asked_for_by_ignore_eos_and_min_tokens() -> None:
    endpoint = Endpoint(sdk="openai", model="m", base_url="", is_exact=True)
    body = asked(endpoint, Prompt([{"role": "user", "content": "x"}], 9)).json
    assert (body["ignore_eos"], body["min_tokens"], body["max_tokens"]) == (True, 9, 9)


# --- Prompts ---------------------------------------------------------------------------------------------------------


def test_filler_prompts_never_begin_alike() -> None:
    begins = {str(FILLER(number).messages[0]["content"])[:12] for number in range(200)}
    assert len(begins) == 200


def test_filler_prompts_have_the_length_that_is_asked_for() -> None:
    made = FILLER(7)
    assert (len(str(made.messages[0]["content"]).split()), made.max_tokens) == (95, 20)


def test_a_file_of_prompts_has_text_and_json(tmp_path: Path) -> None:
    file = tmp_path / "prompts"
    lines = ["Why?", '{"prompt": "How?", "max_tokens": 5, "temperature": 0}', '{"messages": [{"role": "user"}]}', ""]
    file.write_text("\n".join(lines))
    prompts = read_prompts(str(file), max_tokens=9)
    assert [prompts(number) for number in range(4)] == [
        Prompt([{"role": "user", "content": "Why?"}], 9),
        Prompt([{"role": "user", "content": "How?"}], 5, {"temperature": 0}),
        Prompt([{"role": "user"}], 9),
        Prompt([{"role": "user", "content": "Why?"}], 9),
    ]


@pytest.mark.parametrize("line", ['{"prompt": 1', '{"text": "x"}', '{"prompt": "x", "max_tokens": 0}'])
def test_a_line_that_is_no_prompt_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "prompts"
    file.write_text(f"good\n{line}\n")
    with pytest.raises(CommandError, match=f"^{file}:2 is no prompt"):
        read_prompts(str(file), 9)


def test_a_file_without_prompts_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "prompts"
    file.write_text("\n\n")
    with pytest.raises(CommandError, match=f"^{file} is not accepted: it has no prompt.$"):
        read_prompts(str(file), 9)


def test_a_function_gets_the_number_of_its_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_prompts.py").write_text("def make(number):\n    return f'number {number}'\n")
    monkeypatch.chdir(tmp_path)
    assert load_prompts("my_prompts:make", 9)(3).messages == [{"role": "user", "content": "number 3"}]


@pytest.mark.parametrize("name", ["no_such_module:make", "json:no_such_function", "json"])
def test_a_function_that_there_is_not_is_named(name: str) -> None:
    with pytest.raises(CommandError, match=f"^'{name}' cannot be loaded"):
        load_prompts(name, 9)


def test_a_function_that_fails_is_named() -> None:
    with pytest.raises(CommandError, match=r"^json:loads\(0\) raised TypeError"):
        load_prompts("json:loads", 9)(0)


# --- Recorded traffic ------------------------------------------------------------------------------------------------


def test_a_file_without_requests_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "empty.jsonl"
    file.write_text(json.dumps({"resourceSpans": []}) + "\n")
    with pytest.raises(CommandError, match=f"^no request is recorded in {file}.$"):
        read_traffic([str(file)], SkippedInput())
