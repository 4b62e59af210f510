"""The scripted server's gRPC, seen by a client of gRPC and by the truth that the server keeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from otel_itl.testing import Script, ScriptedServer, faults, xai

grpc: Final = pytest.importorskip("grpc")
xai_sdk: Final = pytest.importorskip("xai_sdk")


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[ScriptedServer, Any]]:
    with ScriptedServer() as server, xai_sdk.Client(api_key="none", api_host=server.xai_host, timeout=5.0) as client:
        yield server, client


@pytest.fixture
def server(running: tuple[ScriptedServer, Any]) -> ScriptedServer:
    running[0].clear()
    return running[0]


def streamed(client: Any, **settings: Any) -> Iterator[Any]:
    chat = client.chat.create(model="m", messages=[xai_sdk.chat.user("hello")], **settings)
    return (chunk for _, chunk in chat.stream())


@pytest.fixture
def client(running: tuple[ScriptedServer, Any]) -> Any:
    return running[1]


def test_a_reply_is_what_the_sdk_reads(server: ScriptedServer, client: Any) -> None:
    server.play(xai.reply(["Hel", "lo"], reasoning=["Hm."], tools=[("search", ['{"q"', ":1}"])]))
    chunks = list(streamed(client))
    assert [chunk.content for chunk in chunks] == ["", "Hel", "lo", "", ""]
    assert chunks[0].reasoning_content == "Hm."
    assert chunks[3].tool_calls[0].function.arguments == '{"q":1}'


def test_an_exchange_has_the_request_and_the_moments_of_the_messages(server: ScriptedServer, client: Any) -> None:
    script = xai.reply(3, gaps=[0.01, 0.02])
    server.play(script)
    list(streamed(client, max_tokens=9))
    (exchange,) = server.wait_for(1)
    assert (exchange.wire, exchange.json["model"], exchange.json["max_tokens"]) == ("xai", "m", 9)
    due = [sent.due_ns for sent in exchange.sent if sent.output]
    assert [due[1] - due[0], due[2] - due[1]] == [10_000_000, 20_000_000]
    assert all(sent.at_ns >= sent.due_ns for sent in exchange.sent)


def test_scripts_are_chosen_by_model_and_calls_share_a_connection(server: ScriptedServer, client: Any) -> None:
    server.play(xai.reply(["mine"]), model="m")
    server.always(xai.reply(["another's"]))
    assert [next(streamed(client)).content for _ in range(2)] == ["mine", "another's"]
    assert server.exchanges[0].connection == server.exchanges[1].connection


def test_two_calls_are_answered_at_a_time(server: ScriptedServer, client: Any) -> None:
    server.play(xai.reply(2, gaps=0.05), xai.reply(["quick"]))
    slow, quick = streamed(client), streamed(client)
    read = [next(slow).content, next(quick).content, next(slow).content]
    assert read == ["token0 ", "quick", "token1 "]


@pytest.mark.parametrize(
    ("script", "status"),
    [
        (Script([xai.error("no", code=7)]), "PERMISSION_DENIED"),
        (xai.reply(2).cut(1) + xai.error(code=13), "INTERNAL"),
        (xai.reply(2).cut(1) + faults.close(), "UNAVAILABLE"),
        (faults.never(), "DEADLINE_EXCEEDED"),
    ],
)
def test_a_call_ends_with_the_status_of_the_script(script: Script, status: str, server: ScriptedServer) -> None:
    server.always(script)
    impatient = xai_sdk.Client(api_key="none", api_host=server.xai_host, timeout=0.5)
    with impatient as client, pytest.raises(grpc.RpcError) as raised:
        list(streamed(client))
    assert raised.value.code().name == status


def test_a_client_that_cancels_its_call_is_seen(server: ScriptedServer, client: Any) -> None:
    server.play(xai.reply(1).cut() + faults.hold())
    stream = streamed(client)
    next(stream)
    del stream
    (exchange,) = server.wait_for(1)
    assert exchange.closed_early
