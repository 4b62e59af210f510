"""Amazon Bedrock by botocore (boto3) and by aiobotocore (aioboto3): `converse_stream` and streamed model invocations.

aiobotocore is botocore with asynchronous transports, pinned to a range of its releases: both are one SDK here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from otel_itl.recording.chunk_log import Classify
from otel_itl.sdks.aws_event_stream import bind_response, record_loop
from otel_itl.sdks.driver import Call, ResultHook, StreamingCall
from otel_itl.sdks.formats.bedrock_converse import classify_converse_event
from otel_itl.sdks.formats.bedrock_invoke import classify_invocation_chunk
from otel_itl.sdks.open_call import Description
from otel_itl.sdks.values import fields_of, make_request, short_str

MAX_BODY_BYTES: Final = 1 << 20
"""A larger request body is not decoded for its parameters: that would hold up the caller for milliseconds."""

PARAMETERS: Final = {
    "maxTokens": "max_tokens",
    "maxTokenCount": "max_tokens",
    "max_new_tokens": "max_tokens",
    "max_gen_len": "max_tokens",
    "max_tokens_to_sample": "max_tokens",
    "topP": "top_p",
    "topK": "top_k",
    "stopSequences": "stop_sequences",
}
"""Name of a parameter in Bedrock's requests → its usual name."""
PARAMETER_GROUPS: Final = ("additionalModelRequestFields", "inferenceConfig", "textGenerationConfig")
"""Fields of a request that hold parameters."""


def describe(call: Call) -> Description | None:
    """Describe a call of `_make_api_call(operation_name, api_params)`; None for every other operation and service.

    Runs for every call of every AWS service: the operation is looked at first.
    """
    operation = call.args[0] if call.args else call.kwargs.get("operation_name")
    if operation not in OPERATIONS:
        return None
    meta = call.instance.meta
    if meta.service_model.service_name != "bedrock-runtime":
        return None
    classify, read_body = OPERATIONS[operation]
    parameters: Mapping[str, Any] = call.args[1] if len(call.args) > 1 else call.kwargs["api_params"]
    body = read_body(parameters)
    merged = dict(body)
    for group in PARAMETER_GROUPS:
        merged.update(fields_of(body.get(group)))
    named = {PARAMETERS.get(name, name): value for name, value in merged.items()}
    request = make_request("chat", meta.endpoint_url, "aws.bedrock", parameters.get("modelId"), named)
    return Description(request, classify, body, name_error=name_error)


def name_error(error: BaseException) -> str | None:
    """Return the code of an error that the service reported, such as `throttlingException`; None for any other."""
    return short_str(fields_of(fields_of(getattr(error, "response", None)).get("Error")).get("Code"))


def _read_invocation(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the decoded body of a model invocation; empty where it is no JSON object, too large, or a file."""
    body = parameters.get("body")
    if not isinstance(body, (str, bytes, bytearray)) or len(body) > MAX_BODY_BYTES:
        return {}
    try:
        return fields_of(json.loads(body))
    except (ValueError, RecursionError):
        return {}


OPERATIONS: Final[dict[str, tuple[Classify, Callable[[Mapping[str, Any]], Mapping[str, Any]]]]] = {
    "ConverseStream": (classify_converse_event, dict),
    "InvokeModelWithResponseStream": (classify_invocation_chunk, _read_invocation),
}
"""Streaming operation → how to classify its chunks, and to read the body of its request."""

SDK = (
    *(
        StreamingCall(module, f"{client}._make_api_call", describe, bind=bind_response, is_imported_late=True)
        for module, client in (("botocore.client", "BaseClient"), ("aiobotocore.client", "AioBaseClient"))
    ),
    *(
        ResultHook(f"{package}.eventstream", path, record_loop, is_imported_late=True)
        for package, path in (("botocore", "EventStream.__iter__"), ("aiobotocore", "AioEventStream.__aiter__"))
    ),
)
