"""litellm: the routes that it asks through HTTP clients of its own, and through SDKs that are not measured.

A function of each route sends the request and returns the stream that litellm's own stream object reads from. What is
under that object is exchanged there, so that the caller keeps litellm's stream, and `from litellm import completion`
may have been bound before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from otel_itl.recording.chunk_log import Classify
from otel_itl.recording.stream_proxy import AsyncRecordedStream, RecordedStream
from otel_itl.sdks.driver import Call, Describe, HTTPAttempt, StreamingCall
from otel_itl.sdks.formats.litellm_chunks import classify_litellm_chunk, classify_response_data
from otel_itl.sdks.litellm_names import PROVIDERS, name_error
from otel_itl.sdks.litellm_streams import STREAM_HOOKS, bind, bind_events
from otel_itl.sdks.open_call import Description
from otel_itl.sdks.values import fields_of, make_request, short_str


def describe(call: Call) -> Description | None:
    """Describe a call of the function by which a route sends its request; None for one that does not stream.

    litellm keeps what was asked for in the object that it logs the call with.
    """
    arguments = call.arguments
    body = fields_of(arguments.get("data"))
    client = next((arguments[name] for name in _CLIENTS if arguments.get(name) is not None), None)
    if arguments.get("fake_stream") or (client is not None and body.get("stream") is not True):
        return None
    details: Mapping[str, Any] = getattr(arguments.get("logging_obj"), "model_call_details", None) or {
        "custom_llm_provider": "azure",  # whose functions alone are called without it
        "model": body.get("model"),
        "optional_params": body,
    }
    return _description(
        classify_litellm_chunk,
        arguments.get("api_base") or getattr(client, "base_url", None),
        details,
        fields_of(details.get("optional_params")),
        fields_of(arguments.get("headers")),
    )


def describe_response(call: Call) -> Description | None:
    """Describe a call of the handler of the Responses API; None for one that does not stream."""
    arguments = call.arguments
    options = fields_of(arguments["response_api_optional_request_params"])
    if arguments.get("fake_stream") or arguments.get("_is_async") or options.get("stream") is not True:
        return None
    own, configuration = arguments["litellm_params"], arguments["responses_api_provider_config"]
    details = {**fields_of(own), "model": arguments["model"], "custom_llm_provider": arguments["custom_llm_provider"]}
    address = configuration.get_complete_url(api_base=own.api_base, litellm_params=dict(own))
    return _description(classify_response_data, address, details, options, fields_of(arguments.get("extra_headers")))


def _description(
    classify: Classify, address: Any, details: Mapping[str, Any], options: Mapping[str, Any], headers: Mapping[str, Any]
) -> Description:
    """Make the description of a call to `address` with these options, from what litellm knows of it."""
    name = short_str(details.get("custom_llm_provider")) or "litellm"
    operation = "text_completion" if "text_completion" in str(details.get("call_type")) else "chat"
    request = make_request(operation, str(address or ""), PROVIDERS.get(name, name), details.get("model"), options)
    given = fields_of(details.get("litellm_params"))
    session = {"metadata": given.get("metadata"), "user": details.get("user"), **options}
    return Description(request, classify, session, lambda: headers, name_error=name_error)


_LLMS: Final = "litellm.llms"
_CLIENTS: Final = ("openai_client", "openai_aclient", "azure_client")
_BOTH: Final = ("make_call", "make_sync_call")
_OWN: Final = "custom_httpx.llm_http_handler"
_PROXIES: Final = (AsyncRecordedStream, RecordedStream)
_ROUTES: Final = {
    _OWN: (
        "BaseLLMHTTPHandler.make_async_call_stream_helper",
        "BaseLLMHTTPHandler.make_sync_call",
    ),
    "anthropic.chat.handler": _BOTH,
    "vertex_ai.gemini.vertex_and_google_ai_studio_gemini": _BOTH,
    "bedrock.chat.converse_handler": _BOTH,
    "bedrock.chat.invoke_transformations.base_invoke_transformation": _BOTH,
    "openai_like.chat.handler": _BOTH,
    "openai.openai": (
        "OpenAIChatCompletion.make_openai_chat_completion_request",
        "OpenAIChatCompletion.make_sync_openai_chat_completion_request",
    ),
    "azure.azure": (
        "AzureChatCompletion.make_azure_openai_chat_completion_request",
        "AzureChatCompletion.make_sync_azure_openai_chat_completion_request",
    ),
    "openai.completion.handler": ("OpenAITextCompletion.async_streaming", "OpenAITextCompletion.streaming"),
}
"""Module → the functions by which its routes send their requests, the asynchronous one and the other."""

_RESPONSES: Final = ("BaseLLMHTTPHandler.async_response_api_handler", "BaseLLMHTTPHandler.response_api_handler")


def _calls(
    module: str, paths: tuple[str, str], describe: Describe, bind: Callable[..., Any]
) -> Iterator[StreamingCall]:
    """Make the streaming calls of the asynchronous function of a route and of the other."""
    for path, proxy in zip(paths, _PROXIES, strict=True):
        tie = partial(bind, proxy)
        yield StreamingCall(f"{_LLMS}.{module}", path, describe, bind=tie, has_inner_layer=True, is_imported_late=True)


SDK = (
    *(call for module, paths in _ROUTES.items() for call in _calls(module, paths, describe, bind)),
    *_calls(_OWN, _RESPONSES, describe_response, bind_events),
    *(
        HTTPAttempt(f"{_LLMS}.custom_httpx.http_handler", f"{client}.post", lambda response: response)
        for client in ("HTTPHandler", "AsyncHTTPHandler")
    ),
    *STREAM_HOOKS,
)
