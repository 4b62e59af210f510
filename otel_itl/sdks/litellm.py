"""litellm: the routes that it asks through HTTP clients of its own, and through SDKs that are not measured.

A function of each route sends the request and returns the stream that litellm's own stream object reads from. What is
under that object is exchanged there, so that the caller keeps litellm's stream, and `from litellm import completion`
may have been bound before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, Final
from urllib.parse import urlsplit

from otel_itl.conventions import Where, provider_of
from otel_itl.core.request import Request
from otel_itl.recording.recorder import StreamRecorder
from otel_itl.recording.stream_proxy import AsyncRecordedStream, RecordedStream, recorder_of
from otel_itl.sdks import driver
from otel_itl.sdks.driver import Call, Description, Driver, HTTPAttempt, StreamingCall
from otel_itl.sdks.formats.litellm_chunks import classify_litellm_chunk
from otel_itl.sdks.patching import Target
from otel_itl.sdks.values import fields_of, request_parameters, short_str

PROVIDERS: Final = {
    "azure": "azure.ai.openai",
    "azure_text": "azure.ai.openai",
    "azure_ai": "azure.ai.inference",
    "bedrock": "aws.bedrock",
    "bedrock_converse": "aws.bedrock",
    "codestral": "mistral_ai",
    "cohere_chat": "cohere",
    "custom_openai": "openai",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "ollama_chat": "ollama",
    "text-completion-codestral": "mistral_ai",
    "text-completion-openai": "openai",
    "vertex_ai": "gcp.vertex_ai",
    "vertex_ai_beta": "gcp.vertex_ai",
    "watsonx": "ibm.watsonx.ai",
    "watsonx_text": "ibm.watsonx.ai",
    "xai": "x_ai",
}
"""litellm's name of a provider → `gen_ai.provider.name`, where the two differ."""
ERRORS: Final = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    408: "Timeout",
    422: "UnprocessableEntityError",
    429: "RateLimitError",
    500: "InternalServerError",
    503: "ServiceUnavailableError",
}
"""Status → the class of litellm's exception that the caller gets, for the one that a route raises."""


def describe(call: Call) -> Description | None:
    """Describe a call of the function by which a route sends its request; None for one that does not stream.

    litellm keeps what was asked for in the object that it logs the call with.
    """
    arguments = call.arguments
    body = fields_of(arguments.get("data"))
    if arguments.get("fake_stream") or body.get("stream", True) is not True:
        return None
    details: Mapping[str, Any] = getattr(arguments.get("logging_obj"), "model_call_details", None) or {
        "custom_llm_provider": "azure",  # whose functions alone are called without it
        "model": body.get("model"),
        "optional_params": body,
    }
    client = next((arguments[name] for name in _CLIENTS if arguments.get(name) is not None), None)
    host, port = _split_base(str(arguments.get("api_base") or getattr(client, "base_url", None) or ""))
    name = short_str(details.get("custom_llm_provider")) or "litellm"
    options = fields_of(details.get("optional_params"))
    request = Request(
        operation="text_completion" if "text_completion" in str(details.get("call_type")) else "chat",
        provider=provider_of(host, PROVIDERS.get(name, name)),
        model=short_str(details.get("model")),
        server_address=host,
        server_port=port,
        parameters=request_parameters(options),
    )
    own = fields_of(details.get("litellm_params"))
    session = {"metadata": own.get("metadata"), "user": details.get("user"), **options}
    return Description(
        request, classify_litellm_chunk, session, fields_of(arguments.get("headers")), name_error=name_error
    )


@lru_cache(maxsize=64)
def _split_base(address: str) -> tuple[str | None, int | None]:
    """Return the host and the port of an address; None for what it lacks."""
    try:
        url = urlsplit(address)
        return url.hostname, url.port or {"http": 80, "https": 443}.get(url.scheme)
    except ValueError:  # the caller's, which litellm refuses as well
        return None, None


def name_error(error: BaseException) -> str | None:
    """Return the name of litellm's exception for the status of an error; None for an error without one."""
    status = getattr(error, "status_code", None)
    return ERRORS.get(status) if isinstance(status, int) else None


def bind(proxy: Callable[[Any, StreamRecorder], Any], result: Any, recorder: StreamRecorder) -> Any:
    """Record the stream that a route returned, alone or beside the headers of its response.

    Args:
        proxy: which proxy the stream gets: most of litellm's streams can be read either way.
        result: what the route returned.
        recorder: records the stream.
    """
    if recorder.headers is None:
        recorder.record_headers(None)
    if not isinstance(result, tuple):
        return proxy(result, recorder)
    return tuple(
        proxy(part, recorder) if hasattr(part, "__next__") or hasattr(part, "__anext__") else part for part in result
    )


def _end_target(driver: Driver) -> tuple[Target, ...]:
    """Make the patch target of the function by which litellm's stream object handles each chunk that it reads.

    With a chunk without content behind a finish reason it stops reading: the end of what it reads from is not reached.
    """
    errors = driver.errors

    def handle(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        """Have litellm handle a chunk, and end the recording where litellm has done with the stream."""
        try:
            return wrapped(*args, **kwargs)
        except StopIteration:
            try:
                recorder = recorder_of(instance.completion_stream)
                if recorder is not None:
                    recorder.end_exhausted()
            except Exception as error:  # noqa: BLE001 - the guard
                errors.report(Where.STREAM_END, error)
            raise

    return (Target("litellm.litellm_core_utils.streaming_handler", "CustomStreamWrapper.chunk_creator", handle),)


_LLMS: Final = "litellm.llms"
_HANDLER: Final = f"{_LLMS}.custom_httpx.http_handler"
_CLIENTS: Final = ("openai_client", "openai_aclient", "azure_client")
_ROUTES: Final = {
    "custom_httpx.llm_http_handler": (
        "BaseLLMHTTPHandler.make_async_call_stream_helper",
        "BaseLLMHTTPHandler.make_sync_call",
    ),
    "anthropic.chat.handler": ("make_call", "make_sync_call"),
    "vertex_ai.gemini.vertex_and_google_ai_studio_gemini": ("make_call", "make_sync_call"),
    "bedrock.chat.converse_handler": ("make_call", "make_sync_call"),
    "bedrock.chat.invoke_transformations.base_invoke_transformation": ("make_call", "make_sync_call"),
    "openai_like.chat.handler": ("make_call", "make_sync_call"),
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

SDK = driver.SDK(
    name="litellm",
    calls=tuple(
        StreamingCall(
            f"{_LLMS}.{module}",
            path,
            describe,
            bind=partial(bind, proxy),
            has_inner_layer=True,
            is_imported_late=True,
        )
        for module, paths in _ROUTES.items()
        for path, proxy in zip(paths, (AsyncRecordedStream, RecordedStream), strict=True)
    ),
    attempts=tuple(
        HTTPAttempt(_HANDLER, f"{client}.post", lambda response: response)
        for client in ("HTTPHandler", "AsyncHTTPHandler")
    ),
    more_targets=_end_target,
)
