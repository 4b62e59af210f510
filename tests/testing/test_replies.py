"""What the builders make is what the real clients, and their helpers, understand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import anthropic
import openai
import pytest

from otel_itl.testing import Script, ScriptedServer, chat, completions, messages, responses

ASKED = [{"role": "user", "content": "hello"}]
TOOL = ("weather", ['{"city": ', '"Paris"}'])

needs_responses = pytest.mark.skipif(
    not hasattr(openai.OpenAI, "responses"), reason=f"openai {openai.__version__} has no responses API"
)
Clients = dict[str, Callable[..., Any]]


def chat_chunks(server: ScriptedServer, clients: Clients, script: Script) -> list[Any]:
    server.play(script)
    with clients["openai"](server) as client:
        return list(client.chat.completions.create(model="m", messages=ASKED, stream=True))


def response_events(server: ScriptedServer, clients: Clients, script: Script) -> list[Any]:
    server.play(script)
    with clients["openai"](server) as client:
        return list(client.responses.create(model="m", input="hello", stream=True))


def final_completion(server: ScriptedServer, clients: Clients, script: Script) -> Any:
    server.play(script)
    with clients["openai"](server) as client:
        completions_with_stream = (
            client.chat.completions if hasattr(client.chat.completions, "stream") else (client.beta.chat.completions)
        )
        with completions_with_stream.stream(model="m", messages=ASKED) as stream:
            return stream.get_final_completion()


def final_response(server: ScriptedServer, clients: Clients, script: Script) -> Any:
    server.play(script)
    with clients["openai"](server) as client, client.responses.stream(model="m", input="hello") as stream:
        return stream.get_final_response()


def final_message(server: ScriptedServer, clients: Clients, script: Script) -> Any:
    server.play(script)
    with (
        clients["anthropic"](server) as client,
        client.messages.stream(model="m", max_tokens=9, messages=ASKED) as stream,
    ):
        return stream.get_final_message()


class TestEverySurface:
    def test_a_reply_is_read_to_its_end(self, server: ScriptedServer, surface: Any) -> None:
        script = surface.build.reply(3)
        server.play(script)
        unseen = {"chat": 1, "completions": 1, "responses": 0, "messages": 0}[surface.wire]  # `[DONE]`
        assert len(surface.read(server)) == len(script) - unseen

    def test_the_model_asked_for_is_the_model_that_answers(self, server: ScriptedServer, sync_surface: Any) -> None:
        first = sync_surface.read(server)[0]
        named = getattr(first, "model", None) or getattr(first, "response", getattr(first, "message", None)).model
        assert named == "m"

    def test_every_response_has_an_id_of_its_own(self, server: ScriptedServer, sync_surface: Any) -> None:
        def response_id() -> str:
            first = sync_surface.read(server)[0]
            holder = getattr(first, "response", None) or getattr(first, "message", None) or first
            return str(holder.id)

        assert response_id() != response_id()

    def test_a_server_without_a_script_replies_well_formed(self, server: ScriptedServer, surface: Any) -> None:
        surface.read(server)
        assert server.exchanges[0].sent[-1].kind in {"done", "finish"}

    def test_a_gzipped_reply_is_read_to_its_end(self, server: ScriptedServer, surface: Any) -> None:
        plain = surface.build.reply(3)
        server.play(plain, Script(plain, gzip=True))
        assert len(surface.read(server)) == len(surface.read(server))

    def test_a_ping_is_not_output(self, server: ScriptedServer, sync_surface: Any) -> None:
        server.play(sync_surface.build.reply(3).insert(1, sync_surface.build.ping()))
        sync_surface.read(server)
        assert [sent.output for sent in server.exchanges[0].sent if sent.kind == "ping"] == [False]


class TestChat:
    def test_text_is_the_content(self, server: ScriptedServer, clients: Clients) -> None:
        assert final_completion(server, clients, chat.reply(["a", "b"])).choices[0].message.content == "ab"

    def test_a_tool_call_is_put_together(self, server: ScriptedServer, clients: Clients) -> None:
        call = final_completion(server, clients, chat.reply(0, tools=[TOOL])).choices[0].message.tool_calls[0]
        assert (call.function.name, call.function.arguments) == ("weather", '{"city": "Paris"}')

    def test_tool_calls_finish_as_tool_calls(self, server: ScriptedServer, clients: Clients) -> None:
        assert final_completion(server, clients, chat.reply(0, tools=[TOOL])).choices[0].finish_reason == "tool_calls"

    def test_two_tool_calls_are_kept_apart(self, server: ScriptedServer, clients: Clients) -> None:
        calls = final_completion(server, clients, chat.reply(0, tools=[TOOL, ("time", ["{}"])])).choices[0].message
        assert [call.function.name for call in calls.tool_calls] == ["weather", "time"]

    def test_several_choices_answer_in_turns(self, server: ScriptedServer, clients: Clients) -> None:
        chunks = chat_chunks(server, clients, chat.reply(2, choices=2))
        assert [chunk.choices[0].index for chunk in chunks if chunk.choices] == [0, 1] * 4

    def test_each_choice_has_all_of_the_text(self, server: ScriptedServer, clients: Clients) -> None:
        choices = final_completion(server, clients, chat.reply(["a", "b"], choices=2)).choices
        assert [choice.message.content for choice in choices] == ["ab", "ab"]

    @pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
    def test_reasoning_comes_in_the_field_asked_for(self, server: ScriptedServer, clients: Clients, field: Any) -> None:
        chunks = chat_chunks(server, clients, chat.reply(1, reasoning=["why"], reasoning_field=field))
        assert getattr(chunks[1].choices[0].delta, field) == "why"

    def test_a_refusal_is_the_refusal(self, server: ScriptedServer, clients: Clients) -> None:
        assert final_completion(server, clients, chat.reply(["n", "o"], refuse=True)).choices[0].message.refusal == "no"

    def test_logprobs_name_the_token(self, server: ScriptedServer, clients: Clients) -> None:
        chunks = chat_chunks(server, clients, chat.reply(["a"], logprobs=True))
        assert [entry.token for entry in chunks[1].choices[0].logprobs.content] == ["a"]

    def test_a_chunk_of_several_tokens_counts_them_by_its_logprobs(self) -> None:
        assert chat.text("ab", logprobs=["a", "b"]).event.tokens == 2

    def test_usage_comes_last(self, server: ScriptedServer, clients: Clients) -> None:
        chunks = chat_chunks(server, clients, chat.reply(3, reasoning=2))
        assert (chunks[-1].choices, chunks[-1].usage.completion_tokens) == ([], 5)

    def test_no_usage_when_it_was_not_asked_for(self, server: ScriptedServer, clients: Clients) -> None:
        assert [chunk.usage for chunk in chat_chunks(server, clients, chat.reply(1, usage=False))] == [None] * 3

    def test_continuous_usage_counts_up(self, server: ScriptedServer, clients: Clients) -> None:
        chunks = chat_chunks(server, clients, chat.reply(2, continuous_usage=True, usage=False))
        assert [chunk.usage.completion_tokens for chunk in chunks] == [0, 1, 2, 2]

    def test_chunks_without_output_are_well_formed(self, server: ScriptedServer, clients: Clients) -> None:
        script = Script([chat.role(), chat.empty(), chat.no_choices(), chat.finish("length"), chat.done()])
        chunks = chat_chunks(server, clients, script)
        assert [len(chunk.choices) for chunk in chunks] == [1, 1, 0, 1]

    def test_the_async_helper_understands_it(self, server: ScriptedServer, clients: Clients) -> None:
        async def ask() -> Any:
            async with clients["async_openai"](server) as client:
                surface = (
                    client.chat.completions
                    if hasattr(client.chat.completions, "stream")
                    else (client.beta.chat.completions)
                )
                async with surface.stream(model="m", messages=ASKED) as stream:
                    return await stream.get_final_completion()

        server.play(chat.reply(["a", "b"]))
        assert asyncio.run(ask()).choices[0].message.content == "ab"


class TestCompletions:
    def test_text_is_the_text(self, server: ScriptedServer, clients: Clients) -> None:
        server.play(completions.reply(["a", "b"]))
        with clients["openai"](server) as client:
            chunks = list(client.completions.create(model="m", prompt="hello", stream=True))
        assert "".join(chunk.choices[0].text for chunk in chunks if chunk.choices) == "ab"

    def test_usage_comes_last(self, server: ScriptedServer, clients: Clients) -> None:
        server.play(completions.reply(4))
        with clients["openai"](server) as client:
            *_, last = client.completions.create(model="m", prompt="hello", stream=True)
        assert last.usage.completion_tokens == 4


@needs_responses
class TestResponses:
    def test_text_is_the_output_text(self, server: ScriptedServer, clients: Clients) -> None:
        assert final_response(server, clients, responses.reply(["a", "b"])).output_text == "ab"

    def test_the_items_of_a_response_are_put_together(self, server: ScriptedServer, clients: Clients) -> None:
        script = responses.reply(1, reasoning=2, reasoning_summary=2, tools=[TOOL])
        types = [item.type for item in final_response(server, clients, script).output]
        assert types == ["reasoning", "reasoning", "message", "function_call"]

    def test_a_tool_call_is_put_together(self, server: ScriptedServer, clients: Clients) -> None:
        call = final_response(server, clients, responses.reply(0, tools=[TOOL])).output[0]
        assert (call.name, call.arguments) == ("weather", '{"city": "Paris"}')

    def test_reasoning_comes_as_text_and_as_summary(self, server: ScriptedServer, clients: Clients) -> None:
        events = response_events(server, clients, responses.reply(1, reasoning=["r"], reasoning_summary=["s"]))
        assert [event.delta for event in events if event.type.endswith("delta")] == ["r", "s", "token0 "]

    def test_a_refusal_is_the_refusal(self, server: ScriptedServer, clients: Clients) -> None:
        message = final_response(server, clients, responses.reply(["n", "o"], refuse=True)).output[0]
        assert message.content[0].refusal == "no"

    def test_logprobs_name_the_token(self, server: ScriptedServer, clients: Clients) -> None:
        events = response_events(server, clients, responses.reply(["a"], logprobs=True))
        deltas = [event for event in events if event.type == "response.output_text.delta"]
        assert [entry.token for entry in deltas[0].logprobs] == ["a"]

    def test_usage_comes_with_the_completed_response(self, server: ScriptedServer, clients: Clients) -> None:
        usage = final_response(server, clients, responses.reply(3, reasoning=2)).usage
        assert (usage.output_tokens, usage.output_tokens_details.reasoning_tokens) == (5, 2)

    @pytest.mark.parametrize("end", ["completed", "incomplete", "failed"])
    def test_a_response_ends_as_asked(self, server: ScriptedServer, clients: Clients, end: Any) -> None:
        events = response_events(server, clients, responses.reply(1, end=end))
        assert (events[-1].type, events[-1].response.status) == (f"response.{end}", end)

    def test_events_are_numbered(self, server: ScriptedServer, clients: Clients) -> None:
        events = response_events(server, clients, responses.reply(1))
        assert [event.sequence_number for event in events] == list(range(len(events)))

    def test_a_response_is_retrieved_as_a_stream(self, server: ScriptedServer, clients: Clients) -> None:
        with clients["openai"](server) as client:
            if not hasattr(openai.resources.responses.responses, "ResponseStreamManager"):
                pytest.skip(f"openai {openai.__version__} does not stream stored responses")
            with client.responses.stream(response_id="resp_stored") as stream:
                assert stream.get_final_response().id == "resp_stored"

    def test_a_resumed_stream_is_numbered_from_where_it_broke(self, server: ScriptedServer, clients: Clients) -> None:
        server.play(responses.reply(3)[5:])
        with clients["openai"](server) as client:
            first = next(iter(client.responses.retrieve("resp_stored", stream=True, starting_after=4)))
        assert first.sequence_number == 5

    def test_the_async_helper_understands_it(self, server: ScriptedServer, clients: Clients) -> None:
        async def ask() -> Any:
            async with (
                clients["async_openai"](server) as client,
                client.responses.stream(model="m", input="hello") as stream,
            ):
                return await stream.get_final_response()

        server.play(responses.reply(["a", "b"]))
        assert asyncio.run(ask()).output_text == "ab"


class TestMessages:
    def test_text_is_the_text(self, server: ScriptedServer, clients: Clients) -> None:
        assert final_message(server, clients, messages.reply(["a", "b"])).content[0].text == "ab"

    def test_a_tool_call_is_put_together(self, server: ScriptedServer, clients: Clients) -> None:
        block = final_message(server, clients, messages.reply(0, tools=[TOOL])).content[0]
        assert (block.name, block.input) == ("weather", {"city": "Paris"})

    def test_tool_calls_stop_for_their_use(self, server: ScriptedServer, clients: Clients) -> None:
        assert final_message(server, clients, messages.reply(0, tools=[TOOL])).stop_reason == "tool_use"

    @pytest.mark.skipif(
        not hasattr(anthropic.types, "ThinkingBlock"), reason=f"anthropic {anthropic.__version__} has no thinking"
    )
    def test_thinking_comes_before_the_answer_and_is_signed(self, server: ScriptedServer, clients: Clients) -> None:
        thinking, text = final_message(server, clients, messages.reply(["yes"], thinking=["h", "m"])).content
        assert (thinking.thinking, bool(thinking.signature), text.text) == ("hm", True, "yes")

    def test_usage_comes_with_the_stop_reason(self, server: ScriptedServer, clients: Clients) -> None:
        message = final_message(server, clients, messages.reply(5, stop_reason="max_tokens"))
        assert (message.stop_reason, message.usage.output_tokens) == ("max_tokens", 5)

    def test_the_beta_surface_is_served(self, server: ScriptedServer, clients: Clients) -> None:
        with clients["anthropic"](server) as client:
            events = list(client.beta.messages.create(model="m", max_tokens=9, messages=ASKED, stream=True))
        assert events[-1].type == "message_stop"

    def test_a_query_does_not_change_the_wire_format(self, server: ScriptedServer, clients: Clients) -> None:
        with clients["anthropic"](server) as client:
            query = {"beta": "true"}
            list(client.messages.create(model="m", max_tokens=9, messages=ASKED, stream=True, extra_query=query))
        assert (server.exchanges[0].path, server.exchanges[0].wire) == ("/v1/messages?beta=true", "messages")

    def test_the_async_helper_understands_it(self, server: ScriptedServer, clients: Clients) -> None:
        async def ask() -> str:
            async with (
                clients["async_anthropic"](server) as client,
                client.messages.stream(model="m", max_tokens=9, messages=ASKED) as stream,
            ):
                return str(await stream.get_final_text())

        server.play(messages.reply(["a", "b"]))
        assert asyncio.run(ask()) == "ab"
