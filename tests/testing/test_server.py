"""Which script is played to whom, what is kept of an exchange, and how a server starts and stops."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest

from otel_itl.testing import Script, ScriptedServer, chat, faults, messages

ASKED = [{"role": "user", "content": "hello"}]
Clients = dict[str, Callable[..., Any]]


def content(client: openai.OpenAI, model: str = "m", **options: Any) -> str:
    chunks = client.chat.completions.create(model=model, messages=ASKED, stream=True, **options)  # type: ignore[call-overload]
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


@pytest.fixture
def client(server: ScriptedServer, clients: Clients) -> Any:
    with clients["openai"](server) as made:
        yield made


class TestChoice:
    def test_queued_scripts_are_played_in_their_order(self, server: ScriptedServer, client: openai.OpenAI) -> None:
        server.play(chat.reply(["a"]), chat.reply(["b"]))
        assert [content(client), content(client)] == ["a", "b"]

    def test_a_queued_script_is_played_once(self, server: ScriptedServer, client: openai.OpenAI) -> None:
        server.play(chat.reply(["a"]))
        assert [content(client), content(client)] == ["a", "token0 token1 token2 "]

    def test_a_standing_script_is_played_again_and_again(self, server: ScriptedServer, client: openai.OpenAI) -> None:
        server.always(chat.reply(["a"]))
        assert [content(client), content(client)] == ["a", "a"]

    def test_the_script_of_the_constructor_is_the_standing_one(self, clients: Clients) -> None:
        with ScriptedServer(chat.reply(["a"])) as server, clients["openai"](server) as client:
            assert content(client) == "a"

    def test_the_queue_comes_before_the_standing_script(self, server: ScriptedServer, client: openai.OpenAI) -> None:
        server.always(chat.reply(["a"]))
        server.play(chat.reply(["b"]))
        assert [content(client), content(client)] == ["b", "a"]

    def test_a_model_has_a_queue_of_its_own(self, server: ScriptedServer, client: openai.OpenAI) -> None:
        server.play(chat.reply(["a"]), model="one")
        server.play(chat.reply(["b"]), model="two")
        assert [content(client, "two"), content(client, "one")] == ["b", "a"]

    def test_the_script_of_a_model_comes_before_those_of_all(
        self, server: ScriptedServer, client: openai.OpenAI
    ) -> None:
        server.play(chat.reply(["b"]))
        server.always(chat.reply(["a"]), model="one")
        assert [content(client, "one"), content(client, "other")] == ["a", "b"]

    def test_concurrent_clients_get_the_scripts_of_their_models(
        self, server: ScriptedServer, client: openai.OpenAI
    ) -> None:
        models = [f"model-{n}" for n in range(8)]
        for model in models:
            server.play(chat.reply([model] * 3, gaps=0.01), model=model)
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(lambda model: content(client, model), models)) == [model * 3 for model in models]

    def test_an_empty_script_is_an_empty_response(self, server: ScriptedServer, client: openai.OpenAI) -> None:
        server.play(Script())
        assert content(client) == ""

    def test_a_script_in_another_format_is_refused_in_a_sentence(
        self, server: ScriptedServer, client: openai.OpenAI
    ) -> None:
        server.play(messages.reply())
        with pytest.raises(openai.BadRequestError, match=r"speaks messages, but /v1/chat/completions was asked"):
            content(client)

    def test_a_path_that_does_not_stream_is_not_found(self, server: ScriptedServer, client: openai.OpenAI) -> None:
        with pytest.raises(openai.NotFoundError, match="/v1/models is not a path that streams"):
            client.models.list()

    def test_a_whole_body_answers_a_request_that_does_not_stream(
        self, server: ScriptedServer, client: openai.OpenAI
    ) -> None:
        message = {"role": "assistant", "content": "whole"}
        body = {"id": "x", "object": "chat.completion", "choices": [{"index": 0, "message": message}]}
        server.play(Script(body=json.dumps(body).encode()))
        completion = client.chat.completions.create(model="m", messages=ASKED)  # type: ignore[arg-type]
        assert completion.choices[0].message.content == "whole"

    def test_a_script_that_cannot_be_sent_says_why(self, server: ScriptedServer, raw: Any) -> None:
        server.play(Script(headers={"x-mine": "\u2713"}))
        raw.ask()
        raw.read_until(b"never")
        assert "UnicodeEncodeError" in str(server.exchanges[0].error)

    def test_azure_deployments_are_served(self, server: ScriptedServer) -> None:
        server.play(chat.reply(["a"]), model="m")
        with openai.AzureOpenAI(azure_endpoint=server.url, api_key="none", api_version="2024-06-01") as client:
            assert content(client) == "a"

    def test_a_deployment_names_the_model_when_the_body_does_not(self, server: ScriptedServer, raw: Any) -> None:
        server.play(chat.reply(["of the deployment"]), model="one")
        raw.ask("/openai/deployments/one/chat/completions?api-version=1", body=b"{}")
        assert b"of the deployment" in b"".join(raw.read_until(b"\r\n0\r\n\r\n"))

    def test_a_failed_request_is_retried_with_the_next_script(self, server: ScriptedServer, clients: Clients) -> None:
        server.play(
            faults.status(429, headers={"retry-after-ms": "1"}),
            faults.status(500, headers={"retry-after-ms": "1"}),
            chat.reply(["a"]),
        )
        with clients["openai"](server, max_retries=2) as client:
            content(client)
        assert [exchange.status for exchange in server.exchanges] == [429, 500, 200]

    def test_cleared_scripts_are_not_played(self, server: ScriptedServer, client: openai.OpenAI) -> None:
        server.always(chat.reply(["a"]))
        server.play(chat.reply(["b"]))
        server.clear()
        assert content(client) == "token0 token1 token2 "


class TestExchange:
    def test_the_request_is_kept_as_it_was_sent(self, server: ScriptedServer, raw: Any) -> None:
        body = b'{ "model":"m",  "messages": [] }'
        raw.ask("/v1/chat/completions?x=1", body=body)
        raw.read_until(b"\r\n0\r\n\r\n")
        exchange = server.exchanges[0]
        assert (exchange.method, exchange.path, exchange.body) == ("POST", "/v1/chat/completions?x=1", body)

    def test_a_request_in_chunks_is_put_together(self, server: ScriptedServer, raw: Any) -> None:
        head = b"POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        raw.socket.sendall(head + b'6\r\n{"mode\r\n6\r\nl": 1}\r\n0\r\n\r\n')
        raw.read_until(b"\r\n0\r\n\r\n")
        assert server.exchanges[0].json == {"model": 1}

    def test_header_names_are_in_lower_case(self, server: ScriptedServer, client: openai.OpenAI) -> None:
        content(client, extra_headers={"X-Mine": "Yes"})
        assert server.exchanges[0].headers["x-mine"] == "Yes"

    def test_a_kept_connection_is_known_as_reused(self, server: ScriptedServer, clients: Clients) -> None:
        with clients["anthropic"](server) as client:
            for _ in range(2):
                list(client.messages.create(model="m", max_tokens=9, messages=ASKED, stream=True))
        assert [(exchange.connection, exchange.reused) for exchange in server.exchanges] == [(0, False), (0, True)]

    def test_async_clients_reuse_their_connection(self, server: ScriptedServer, clients: Clients) -> None:
        async def ask_twice() -> None:
            async with clients["async_anthropic"](server) as client:
                for _ in range(2):
                    stream = await client.messages.create(model="m", max_tokens=9, messages=ASKED, stream=True)
                    async for _ in stream:
                        pass

        asyncio.run(ask_twice())
        assert [exchange.reused for exchange in server.exchanges] == [False, True]

    def test_a_request_after_a_request_is_answered_after_its_answer(self, server: ScriptedServer, raw: Any) -> None:
        server.play(chat.reply(["first"], first=0.03), chat.reply(["second"]))
        raw.ask()
        raw.ask()
        answers = b"".join(raw.read_until(b"\r\n0\r\n\r\n"))
        while b"second" not in answers:
            answers += b"".join(raw.read_until(b"\r\n0\r\n\r\n"))
        assert answers.index(b"first") < answers.index(b"second")

    def test_output_is_distinguished_from_other_events(self, server: ScriptedServer, client: openai.OpenAI) -> None:
        server.play(chat.reply(1, reasoning=1, tools=[("f", ["{}"])]))
        content(client)
        kinds = [sent.kind for sent in server.exchanges[0].sent if sent.output]
        assert kinds == ["reasoning", "answer", "tool", "tool"]

    def test_the_first_output_is_not_the_role(self, server: ScriptedServer, client: openai.OpenAI) -> None:
        server.play(chat.reply(2, first=0.03))
        content(client)
        exchange = server.exchanges[0]
        assert exchange.first_output_ns == exchange.output_times_ns[0] == exchange.sent[1].at_ns

    def test_a_response_without_output_has_no_first_output(self, server: ScriptedServer, client: openai.OpenAI) -> None:
        server.play(chat.reply(0))
        content(client)
        assert server.exchanges[0].first_output_ns is None

    def test_an_event_is_listed_before_the_client_has_it(self, server: ScriptedServer, raw: Any) -> None:
        server.play(Script([chat.text("a"), faults.hold()]))
        raw.ask()
        raw.read_until(b"}\n\n\r\n")
        assert [sent.kind for sent in server.exchanges[0].sent] == ["answer"]

    def test_a_client_that_leaves_is_noticed_while_nothing_is_sent(self, server: ScriptedServer, raw: Any) -> None:
        server.play(Script([chat.text("a"), chat.text("b", after=60)]))
        raw.ask()
        raw.read_until(b"}\n\n\r\n")
        raw.socket.close()
        assert server.exchanges[0].wait_done(2).closed_early

    def test_a_client_that_leaves_at_the_end_has_not_left_early(
        self, server: ScriptedServer, client: openai.OpenAI
    ) -> None:
        content(client)
        assert not server.exchanges[0].wait_done().closed_early

    def test_waiting_for_an_exchange_that_lasts_times_out(self, server: ScriptedServer, raw: Any) -> None:
        server.play(faults.never())
        raw.ask()
        with pytest.raises(TimeoutError, match=r"<Exchange 0 POST .* was not done after 0.05 s"):
            server.wait_for(1, timeout=0.05)

    def test_waiting_for_requests_that_do_not_come_times_out(self, server: ScriptedServer) -> None:
        with pytest.raises(TimeoutError, match=r"0 requests arrived within 0\.05 s, not 1"):
            server.wait_for(1, timeout=0.05)

    def test_exchanges_are_numbered_on_after_a_clear(self, server: ScriptedServer, client: openai.OpenAI) -> None:
        content(client)
        server.clear()
        content(client)
        assert [exchange.number for exchange in server.exchanges] == [1]


class TestLife:
    def test_stopping_ends_all_threads_in_spite_of_open_connections(self, clients: Clients) -> None:
        others = set(threading.enumerate())
        with ScriptedServer(Script([chat.role(), faults.hold()])) as server:
            with clients["openai"](server) as client:
                streams = [client.chat.completions.create(model="m", messages=ASKED, stream=True) for _ in range(3)]
                for stream in streams:
                    next(iter(stream))
                server.stop()
            started = set(threading.enumerate()) - others
            assert [thread.name for thread in started if "scripted-server" in thread.name] == []

    def test_stopping_takes_no_time_in_spite_of_long_delays(self, clients: Clients) -> None:
        with ScriptedServer(chat.reply(1, first=60)) as server, clients["openai"](server) as client:
            next(iter(client.chat.completions.create(model="m", messages=ASKED, stream=True)))
            before = time.monotonic()
            server.stop()
            assert time.monotonic() - before < 2

    def test_a_stopped_exchange_says_so(self, server: ScriptedServer, raw: Any) -> None:
        server.play(faults.never())
        raw.ask()
        while not server.exchanges:
            time.sleep(0.001)
        server.stop()
        exchange = server.exchanges[0]
        assert (exchange.error, exchange.closed_early) == ("the server was stopped", False)

    def test_exchanges_stay_readable_after_the_end(self, clients: Clients) -> None:
        with ScriptedServer() as server, clients["openai"](server) as client:
            content(client)
        assert server.exchanges[0].status == 200

    def test_a_stopped_server_takes_no_scripts(self, server: ScriptedServer) -> None:
        server.stop()
        with pytest.raises(RuntimeError, match="is stopped"):
            server.play(chat.reply())

    def test_a_server_that_was_not_started_has_no_address(self) -> None:
        with pytest.raises(RuntimeError, match="has not been started"):
            _ = ScriptedServer().url

    def test_a_running_server_is_not_started_again(self, server: ScriptedServer) -> None:
        with pytest.raises(RuntimeError, match="running already"):
            server.start()

    def test_a_stopped_server_can_be_started_on_its_port(self, clients: Clients) -> None:
        server = ScriptedServer().start()
        port = server.port
        with clients["openai"](server) as client:
            content(client)
        server.stop()
        with ScriptedServer(port=port) as again:
            assert again.port == port

    @pytest.mark.parametrize("process", [False, True])
    def test_a_port_in_use_is_named(self, server: ScriptedServer, process: Any) -> None:
        with pytest.raises(OSError, match=rf"port {server.port} on 127\.0\.0\.1 is in use already"):
            ScriptedServer(port=server.port, process=process).start()

    def test_a_number_that_is_no_port_is_named(self) -> None:
        with pytest.raises(ValueError, match="not 70000"):
            ScriptedServer(port=70000).start()

    def test_only_loopback_is_listened_on(self, server: ScriptedServer) -> None:
        # On Linux all of 127.x.x.x is this machine, so a server on all addresses would answer here.
        with pytest.raises(OSError):  # noqa: PT011 - refused, or no such address, by the system
            socket.create_connection(("127.0.0.2", server.port), timeout=1)

    def test_what_is_not_http_is_hung_up_on(self, raw: Any) -> None:
        raw.socket.sendall(b"hello\r\n\r\n")
        assert raw.read_until(b"never") == []

    @pytest.mark.parametrize("process", [False, True])
    def test_an_interpreter_with_a_running_server_exits(self, process: Any) -> None:
        code = (
            "import socket; from otel_itl.testing import ScriptedServer, faults\n"
            f"server = ScriptedServer(faults.never(), process={process}).start()\n"
            "client = socket.create_connection(('127.0.0.1', server.port))\n"
            "client.sendall(b'GET /v1/responses/x HTTP/1.1\\r\\n\\r\\n')\n"
            "assert server.url; print('end')"
        )
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=20, check=False)
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"end\n", b"")
