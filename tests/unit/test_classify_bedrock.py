"""What the events of Bedrock carry: of `converse_stream`, and of each family of models behind a model invocation."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from otel_itl.core.chunk_code import unpack_codes
from otel_itl.core.stream import ResponseInfo
from otel_itl.core.timeline import Kind
from otel_itl.sdks.bedrock import MAX_BODY_BYTES, describe, name_error
from otel_itl.sdks.driver import Call
from otel_itl.sdks.formats.bedrock_converse import classify_converse_event
from otel_itl.sdks.formats.bedrock_invoke import METRICS, classify_invocation_chunk
from otel_itl.sdks.open_call import Description

REASONING, ANSWER, TOOL, ROLE = Kind.REASONING, Kind.ANSWER, Kind.TOOL, Kind.ROLE
EMPTY, LIFECYCLE, FINISH, USAGE = Kind.EMPTY, Kind.LIFECYCLE, Kind.FINISH, Kind.USAGE


def delta(content: Any) -> dict[str, Any]:
    return {"contentBlockDelta": {"delta": content, "contentBlockIndex": 0}}


SPACED: Final = (", ", ": ")
COMPACT: Final = (",", ":")


def chunk(body: Any, separators: tuple[str, str] = SPACED) -> dict[str, Any]:
    return {"chunk": {"bytes": json.dumps(body, separators=separators).encode()}}


def metadata(**usage: Any) -> dict[str, Any]:
    return {"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}}


CONVERSE_EVENTS: Final = [
    ({"messageStart": {"role": "assistant"}}, ROLE),
    (delta({"text": "a"}), ANSWER),
    (delta({"text": ""}), EMPTY),
    (delta({"reasoningContent": {"text": "a"}}), REASONING),
    (delta({"reasoningContent": {"redactedContent": b"a"}}), REASONING),
    (delta({"reasoningContent": {"signature": "a"}}), LIFECYCLE),
    (delta({"toolUse": {"input": "{"}}), TOOL),
    (delta({"toolUse": {"input": ""}}), EMPTY),
    (delta({"image": {"source": {"bytes": b"a"}}}), ANSWER),
    (delta({"citation": {"title": "a"}}), LIFECYCLE),
    (delta({"toolResult": [{"text": "a"}]}), LIFECYCLE),
    ({"contentBlockStart": {"start": {"toolUse": {"toolUseId": "1", "name": "f"}}}}, TOOL),
    ({"contentBlockStart": {"start": {}}}, LIFECYCLE),
    ({"contentBlockStop": {"contentBlockIndex": 0}}, LIFECYCLE),
    ({"messageStop": {"stopReason": "end_turn"}}, FINISH),
    (metadata(inputTokens=1, outputTokens=1, totalTokens=2), USAGE),
    ({"SDK_UNKNOWN_MEMBER": {"name": "later"}}, LIFECYCLE),
]
ODD_EVENTS: Final = [
    (None, LIFECYCLE),
    ([], LIFECYCLE),
    ({}, LIFECYCLE),
    ({"contentBlockDelta": None}, EMPTY),
    (delta(None), EMPTY),
    (delta("text"), EMPTY),
    (delta({"text": None}), EMPTY),
    (delta({"reasoningContent": "a"}), LIFECYCLE),
    (delta({"toolUse": ["a"]}), EMPTY),
    ({"contentBlockStart": {"start": {"toolUse": "f"}}}, LIFECYCLE),
    ({"messageStop": None}, FINISH),
    ({"metadata": {"usage": "many"}}, USAGE),
]


@pytest.mark.parametrize(("event", "kind"), [*CONVERSE_EVENTS, *ODD_EVENTS])
def test_an_event_of_converse_stream_carries(event: Any, kind: Kind) -> None:
    assert Kind(classify_converse_event(event, ResponseInfo())) == kind


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"inputTokens": 6, "outputTokens": 5, "totalTokens": 11}, (6, 5, None, None)),
        (
            # Input from the cache is not among `inputTokens`; the total is of all of it.
            {
                "inputTokens": 6,
                "outputTokens": 5,
                "totalTokens": 16,
                "cacheReadInputTokens": 4,
                "cacheWriteInputTokens": 1,
            },
            (11, 5, 4, 1),
        ),
        (
            {"inputTokens": 11, "outputTokens": 5, "totalTokens": 16, "cacheReadInputTokens": 4},
            (11, 5, 4, None),
        ),
        ({"inputTokens": 6, "outputTokens": 5, "cacheReadInputTokenCount": 4}, (10, 5, 4, None)),
        ({"inputTokens": "6", "outputTokens": -5, "totalTokens": 1 << 70}, (None, None, None, None)),
        ({"inputTokens": 6, "outputTokens": 5, "totalTokens": 1}, (6, 5, None, None)),
    ],
)
def test_the_usage_counts_cached_input_once(usage: dict[str, Any], counts: tuple[int | None, ...]) -> None:
    info = ResponseInfo()
    classify_converse_event(metadata(**usage), info)
    found = (info.input_tokens, info.output_tokens, info.cache_read_tokens, info.cache_creation_tokens)
    assert found == counts


def test_a_stop_reason_of_another_type_is_unknown() -> None:
    info = ResponseInfo()
    classify_converse_event({"messageStop": {"stopReason": 5}}, info)
    assert info.finish_reasons == ["unknown"]


def test_metadata_ends_a_stream_without_a_stop_reason() -> None:
    info = ResponseInfo()
    classify_converse_event(metadata(), info)
    assert info.is_finished


BODIES: Final = [
    # Anthropic
    ({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "a"}}, ANSWER),
    ({"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "a"}}, REASONING),
    ({"type": "content_block_start", "content_block": {"type": "tool_use", "name": "f"}}, TOOL),
    ({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}, FINISH | USAGE),
    ({"type": "completion", "completion": " a", "stop_reason": None}, ANSWER),
    ({"completion": "", "stop_reason": "stop_sequence"}, FINISH),
    # Nova
    (delta({"text": "a"}), ANSWER),
    ({"messageStop": {"stopReason": "end_turn"}}, FINISH),
    # Llama, Titan
    ({"generation": "a", "stop_reason": None}, ANSWER),
    ({"generation": "", "stop_reason": "length"}, FINISH),
    ({"outputText": "a", "index": 0, "completionReason": None}, ANSWER),
    ({"outputText": "a", "index": 0, "completionReason": "FINISH"}, ANSWER | FINISH),
    # Mistral, which completes text, or chats with a message where others have a delta
    ({"outputs": [{"text": "a", "stop_reason": None}]}, ANSWER),
    ({"outputs": [{"text": "", "stop_reason": "stop"}]}, FINISH),
    ({"choices": [{"index": 0, "message": {"role": "assistant", "content": "a"}, "stop_reason": None}]}, ANSWER),
    ({"choices": [{"index": 0, "message": {"tool_calls": [{"function": {"name": "f"}}]}}]}, TOOL),
    ({"choices": [{"index": 0, "message": {"content": ""}, "stop_reason": "stop"}]}, FINISH),
    # DeepSeek, gpt-oss, Command
    ({"choices": [{"text": "a", "stop_reason": None}]}, ANSWER),
    ({"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": "a"}}]}, ANSWER),
    ({"text": "a", "is_finished": False}, ANSWER),
    ({"text": "", "is_finished": True, "finish_reason": "COMPLETE"}, FINISH),
    # Bedrock's own addition, and whatever comes later
    ({METRICS: {"inputTokenCount": 1, "outputTokenCount": 2}}, LIFECYCLE | USAGE),
    ({"later": 1}, LIFECYCLE),
    ({}, LIFECYCLE),
]
ODD_BODIES: Final = [
    ([], EMPTY),
    (None, EMPTY),
    ("text", EMPTY),
    ({"type": None}, LIFECYCLE),
    ({"generation": None, "generation_token_count": "many"}, EMPTY),
    ({"outputs": "a"}, EMPTY),
    ({"outputs": [None, 1]}, EMPTY),
    ({"choices": None}, EMPTY),
    ({"choices": ["a", None]}, EMPTY),
    ({"outputText": 0, "totalOutputTextTokenCount": -1}, EMPTY),
    ({METRICS: None, "generation": "a"}, ANSWER | USAGE),
]


@pytest.mark.parametrize(("body", "kind"), [*BODIES, *ODD_BODIES])
@pytest.mark.parametrize("separators", [SPACED, COMPACT])
def test_a_chunk_of_an_invocation_carries(body: Any, kind: Kind, separators: tuple[str, str]) -> None:
    code = classify_invocation_chunk(chunk(body, separators), ResponseInfo())
    assert Kind(unpack_codes([code]).kinds[0]) == kind


@pytest.mark.parametrize(
    "event",
    [
        None,
        {},
        {"chunk": None},
        {"chunk": {}},
        {"chunk": {"bytes": None}},
        {"chunk": {"bytes": b"\xff{"}},
        {"chunk": {"bytes": b'{"cut'}},
        {"chunk": {"bytes": b"[" * 100_000}},
    ],
)
def test_a_chunk_that_is_no_json_is_empty(event: Any) -> None:
    assert classify_invocation_chunk(event, ResponseInfo()) == EMPTY


@pytest.mark.parametrize(
    ("delta", "kind"),
    [
        ({"type": "text_delta", "text": '"'}, ANSWER),
        ({"type": "text_delta", "text": ""}, EMPTY),
        ({"type": "input_json_delta", "partial_json": ',"delta":{"type":"text_delta","text":"a"}}'}, TOOL),
        ({"type": "thinking_delta", "thinking": '"text":"a"}}'}, REASONING),
        ({"type": "signature_delta", "signature": "a"}, LIFECYCLE),
    ],
)
def test_text_that_is_found_without_decoding_is_that_of_the_field(delta: dict[str, Any], kind: Kind) -> None:
    event = chunk({"type": "content_block_delta", "index": 0, "delta": delta}, COMPACT)
    assert classify_invocation_chunk(event, ResponseInfo()) == kind


def test_llama_counts_the_tokens_of_each_chunk() -> None:
    info = ResponseInfo()
    counts = [(("a", 1), 1), (("bc", 3), 2), (("", 4), 0), (("d", 5), 2), (("e", 6), 1)]
    codes = [
        classify_invocation_chunk(chunk({"generation": text, "generation_token_count": total}), info)
        for (text, total), _ in counts
    ]
    assert list(unpack_codes(codes).tokens) == [tokens for _, tokens in counts]


def test_after_a_chunk_without_a_count_the_tokens_of_none_are_known() -> None:
    info = ResponseInfo()
    codes = [
        classify_invocation_chunk(chunk({"generation": text, "generation_token_count": total}), info)
        for text, total in (("a", 1), ("b", None), ("c", 9))
    ]
    assert list(unpack_codes(codes).tokens) == [1, 0, 0]


def test_the_counts_of_bedrock_stand_where_the_model_has_none() -> None:
    info = ResponseInfo()
    metrics = {
        "inputTokenCount": 6,
        "outputTokenCount": 5,
        "cacheReadInputTokenCount": 4,
        "cacheWriteInputTokenCount": 1,
    }
    classify_invocation_chunk(chunk({"outputs": [], METRICS: metrics}), info)
    found = (info.input_tokens, info.output_tokens, info.cache_read_tokens, info.cache_creation_tokens)
    assert (found, info.is_terminated) == ((11, 5, 4, 1), True)


def test_the_counts_of_the_model_come_first() -> None:
    info = ResponseInfo()
    body = {"outputText": "a", "totalOutputTextTokenCount": 7, METRICS: {"inputTokenCount": 6, "outputTokenCount": 5}}
    classify_invocation_chunk(chunk(body), info)
    assert (info.input_tokens, info.output_tokens) == (6, 7)


# --- requests --------------------------------------------------------------------------------------------------------


class Client:
    """As much of a client as is looked at."""

    def __init__(self, service: str = "bedrock-runtime", endpoint: str = "https://bedrock.example:8443/proxy") -> None:
        self.service_name, self.endpoint_url = service, endpoint

    @property
    def meta(self) -> Client:
        return self

    service_model = meta


def described(operation: str, parameters: Any, **client: str) -> Description | None:
    return describe(Call(None, Client(**client), (operation, parameters), {}))


def parameters_of(operation: str, parameters: Any) -> dict[str, Any]:
    found = described(operation, parameters)
    assert found is not None
    return {name.removeprefix("gen_ai.request."): value for name, value in found.request.parameters.items()}


@pytest.mark.parametrize(
    ("operation", "service"),
    [
        ("GetObject", "s3"),
        ("Converse", "bedrock-runtime"),
        ("InvokeModel", "bedrock-runtime"),
        ("ConverseStream", "somebody-elses"),
    ],
)
def test_another_call_is_not_measured(operation: str, service: str) -> None:
    assert described(operation, {}, service=service) is None


def test_the_operation_may_be_given_by_name() -> None:
    keywords = {"operation_name": "ConverseStream", "api_params": {"modelId": "m"}}
    found = describe(Call(None, Client(), (), keywords))
    assert found is not None
    assert found.request.model == "m"


@pytest.mark.parametrize(
    ("endpoint", "server"),
    [
        ("https://bedrock-runtime.us-east-1.amazonaws.com", ("bedrock-runtime.us-east-1.amazonaws.com", 443)),
        ("http://localhost", ("localhost", 80)),
        ("https://bedrock.example:8443/proxy", ("bedrock.example", 8443)),
    ],
)
def test_the_request_names_the_server(endpoint: str, server: tuple[str, int]) -> None:
    found = described("ConverseStream", {}, endpoint=endpoint)
    assert found is not None
    assert (found.request.server_address, found.request.server_port, found.request.provider) == (
        *server,
        "aws.bedrock",
    )


def test_the_parameters_of_converse_stream() -> None:
    parameters = {
        "modelId": "m",
        "inferenceConfig": {"maxTokens": 9, "temperature": 0.5, "topP": 0.9, "stopSequences": ["END"]},
        "additionalModelRequestFields": {"top_k": 3},
    }
    assert parameters_of("ConverseStream", parameters) == {
        "max_tokens": 9,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 3,
        "stop_sequences": ("END",),
    }


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"max_tokens": 9, "top_k": 3}, {"max_tokens": 9, "top_k": 3}),
        ({"inferenceConfig": {"maxTokens": 9, "topK": 3}}, {"max_tokens": 9, "top_k": 3}),
        ({"inferenceConfig": {"max_new_tokens": 9}}, {"max_tokens": 9}),
        ({"max_gen_len": 9, "prompt": "hello"}, {"max_tokens": 9}),
        (
            {"inputText": "hello", "textGenerationConfig": {"maxTokenCount": 9, "stopSequences": ["END"]}},
            {"max_tokens": 9, "stop_sequences": ("END",)},
        ),
        ({"max_tokens": 9, "stop": ["END"]}, {"max_tokens": 9, "stop_sequences": ("END",)}),
        ({"max_tokens_to_sample": 9}, {"max_tokens": 9}),
        ([1], {}),
    ],
)
def test_the_parameters_of_an_invocation_of_each_family(body: Any, expected: dict[str, Any]) -> None:
    parameters = {"modelId": "m", "body": json.dumps(body)}
    assert parameters_of("InvokeModelWithResponseStream", parameters) == expected


@pytest.mark.parametrize("body", [b'{"max_tokens": 9}', bytearray(b'{"max_tokens": 9}')])
def test_the_body_of_an_invocation_may_be_bytes(body: Any) -> None:
    assert parameters_of("InvokeModelWithResponseStream", {"body": body}) == {"max_tokens": 9}


@pytest.mark.parametrize(
    "body",
    [None, 5, object(), "{", b"\xff", "[" * 100_000, json.dumps({"max_tokens": 9, "prompt": "a" * MAX_BODY_BYTES})],
    ids=["none", "number", "file", "cut", "no text", "deep", "large"],
)
def test_a_body_that_cannot_be_read_has_no_parameters(body: Any) -> None:
    assert parameters_of("InvokeModelWithResponseStream", {"body": body}) == {}


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ({"Error": {"Code": "throttlingException"}}, "throttlingException"),
        ({"Error": {"Code": 5}}, None),
        ({"Error": None}, None),
        ("no", None),
    ],
)
def test_an_error_of_the_service_is_named_by_its_code(response: Any, expected: str | None) -> None:
    error = Exception()
    error.response = response  # type: ignore[attr-defined]
    assert name_error(error) == expected


def test_an_error_of_another_kind_is_named_by_its_class() -> None:
    assert name_error(TimeoutError()) is None
