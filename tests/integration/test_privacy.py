"""What was asked and what was answered stays in the process: no telemetry, no log line and no exception text has it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import anthropic
import openai
import pytest

import otel_itl
from otel_itl.testing import ScriptedServer, chat, completions, faults, messages, responses

if TYPE_CHECKING:
    from conftest import App, Clients, Exported, Receiver

pytestmark = pytest.mark.requirement("R68")

SAID = "canary"
"""Part of everything that must not leave: looked for as bytes, in whatever case."""
PROMPT = f"{SAID} prompt"
ASKED = [{"role": "system", "content": f"{SAID} system"}, {"role": "user", "content": PROMPT}]
TOOL = {"name": "look", "description": f"{SAID} tool", "parameters": {"type": "object", "properties": {}}}
QUOTED = f"Invalid prompt: {PROMPT!r}"
BROKEN = tuple(sys.modules[http].HTTPError for http in ("httpx", "httpx2") if http in sys.modules)
"""What the HTTP clients of the two SDKs raise, which may have one each."""
SECRETS: dict[str, Any] = {"api_key": f"sk-{SAID}", "default_headers": {"x-tenant": f"{SAID} header"}}

ANSWERS = {
    "well": lambda wire: wire.reply([f"{SAID} one", f"{SAID} two"]),
    "refused": lambda _: faults.status(400, QUOTED, kind="invalid_request_error"),
    "broken": lambda wire: wire.reply([f"{SAID} one", f"{SAID} two"]).cut(1) + wire.error(QUOTED),
    "cut": lambda wire: wire.reply([f"{SAID} one", f"{SAID} two"]).cut(1) + faults.reset(),
    "garbled": lambda wire: wire.reply([f"{SAID} one", f"{SAID} two"]).cut(1) + faults.invalid_json(),
}


def with_tools(wire: Any) -> Any:
    return wire.reply([f"{SAID} one"], tools=[("look", [f'{{"{SAID}"', ': "arguments"}'])])


def ask_chat(clients: Clients) -> None:
    tools = [{"type": "function", "function": TOOL}]
    clients.chat(clients.openai(**SECRETS), extra_body={"messages": ASKED, "tools": tools, "user": f"{SAID} user"})


def ask_completion(clients: Clients) -> None:
    list(clients.openai(**SECRETS).completions.create(model="m", prompt=PROMPT, stream=True))


def ask_responses(clients: Clients) -> None:
    client = clients.openai(**SECRETS)
    if not hasattr(client, "responses"):
        pytest.skip(f"openai {openai.__version__} has no responses API")
    list(client.responses.create(model="m", input=PROMPT, instructions=f"{SAID} system", stream=True))


def ask_messages(clients: Clients) -> None:
    client = clients.anthropic(**SECRETS)
    list(
        client.messages.create(
            model="m",
            max_tokens=9,
            system=f"{SAID} system",
            messages=ASKED[1:],
            stream=True,
            metadata={"user_id": SAID},
        )
    )


def ask_async_chat(clients: Clients) -> None:
    async def ask() -> None:
        async with clients.async_openai(**SECRETS) as client:
            async for _ in await client.chat.completions.create(model="m", messages=ASKED, stream=True):
                pass

    asyncio.run(ask())


def ask_async_messages(clients: Clients) -> None:
    async def ask() -> None:
        async with (
            clients.async_anthropic(**SECRETS) as client,
            client.messages.stream(model="m", max_tokens=9, system=f"{SAID} system", messages=ASKED[1:]) as stream,
        ):
            await stream.get_final_message()

    asyncio.run(ask())


def ask_for_raw_response(clients: Clients) -> None:
    client = clients.openai(**SECRETS)
    raw = client.chat.completions.with_raw_response.create(
        model="m", messages=ASKED, stream=True, extra_headers={"x-user": f"{SAID} user"}, extra_query={"user": SAID}
    )
    list(raw.parse())


WAYS: dict[str, tuple[Any, Callable[[Clients], None]]] = {
    "chat": (chat, ask_chat),
    "completions": (completions, ask_completion),
    "responses": (responses, ask_responses),
    "messages": (messages, ask_messages),
    "async chat": (chat, ask_async_chat),
    "async messages": (messages, ask_async_messages),
    "raw response": (chat, ask_for_raw_response),
}
EXPECTED = (openai.OpenAIError, anthropic.AnthropicError, ValueError, *BROKEN)


@pytest.fixture(params=["packed", "each", "log", "none"])
def leaked(
    request: pytest.FixtureRequest,
    exported: Exported,
    server: ScriptedServer,
    clients: Clients,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> Callable[[Any, Callable[[Clients], None]], tuple[bool, bool, bool, int]]:
    """Whether the canary is in the exported bytes, in our logs and on stderr, and how many spans there were."""

    def leaked(script: Any, ask: Callable[[Clients], None]) -> tuple[bool, bool, bool, int]:
        caplog.set_level(logging.DEBUG, logger="otel_itl")
        otel_itl.instrument(token_events=request.param, **exported.providers)
        server.play(script)
        with contextlib.suppress(*EXPECTED):
            ask(clients)
        received = exported.flush()
        ours = [record for record in caplog.records if record.name.startswith("otel_itl")]
        logged = "".join(f"{record.getMessage()}{record.exc_text}{record.__dict__}" for record in ours)
        spans = [span for span in received.spans if "itl.stream.outcome" in received.plain(span.attributes)]
        return (
            SAID.encode() in received.raw.lower(),
            SAID in logged.lower(),
            SAID in capfd.readouterr().err.lower(),
            len(spans),
        )

    return leaked


@pytest.mark.parametrize("answer", list(ANSWERS))
@pytest.mark.parametrize("way", list(WAYS))
def test_nothing_that_was_said_leaves_the_process(
    leaked: Callable[..., tuple[bool, bool, bool, int]], way: str, answer: str
) -> None:
    wire, ask = WAYS[way]
    assert leaked(ANSWERS[answer](wire), ask) == (False, False, False, 1)


@pytest.mark.parametrize("way", ["chat", "responses", "messages"])
def test_no_argument_of_a_tool_call_leaves_the_process(
    leaked: Callable[..., tuple[bool, bool, bool, int]], way: str
) -> None:
    wire, ask = WAYS[way]
    assert leaked(with_tools(wire), ask) == (False, False, False, 1)


def test_no_thought_leaves_the_process(leaked: Callable[..., tuple[bool, bool, bool, int]]) -> None:
    assert leaked(chat.reply(1, reasoning=[f"{SAID} thought"]), ask_chat) == (False, False, False, 1)


def test_a_failure_of_ours_says_nothing_of_what_was_said(
    leaked: Callable[..., tuple[bool, bool, bool, int]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    from otel_itl.recording import finished

    def fault(*_: object) -> None:
        raise ValueError(f"unexpected {PROMPT!r}")

    monkeypatch.setattr(finished, "build_timeline", fault)
    assert leaked(chat.reply([f"{SAID} one"]), ask_chat) == (False, False, False, 1)
    assert [record.levelname for record in caplog.records if record.name == "otel_itl"] == ["WARNING"]


def test_what_goes_over_the_wire_says_nothing_of_what_was_said_in_an_application_that_logs_everything(
    start_app: Callable[..., App], receiver: Receiver
) -> None:
    with ScriptedServer() as server:
        server.play(ANSWERS["well"](chat), ANSWERS["broken"](chat))
        app = start_app(
            f"""
            import logging
            logging.basicConfig(level="DEBUG")
            for noisy in ("openai", "httpx", "httpx2", "httpcore", "httpcore2"):
                logging.getLogger(noisy).setLevel("WARNING")
            import otel_itl
            otel_itl.instrument()
            import openai
            client = openai.OpenAI(api_key="sk-{SAID}")
            for model in ("well", "broken"):
                try:
                    list(client.chat.completions.create(model=model, messages={ASKED!r}, stream=True))
                except openai.APIError:
                    pass
            """,
            server,
            receiver,
        ).wait()
    assert (SAID.encode() in receiver.raw, SAID in app.stderr, len(receiver.spans)) == (False, False, 2)
