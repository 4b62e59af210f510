"""The SDKs' own clients, pointed at a scripted server."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Coroutine
from contextlib import suppress
from importlib import import_module
from importlib.metadata import version
from types import ModuleType
from typing import Any, Final, TypeVar

import aws
import httpx
import hugging_face_clients
import mistral_clients
import pytest
from faces import Face, entered, run
from surfaces import (
    ANTHROPIC,
    AZURE,
    BEDROCK,
    CEREBRAS,
    COHERE,
    COHERE_V1,
    COMPATIBLE,
    FIREWORKS,
    GEMINI,
    GROQ,
    HUGGING_FACE,
    MISTRAL,
    OLLAMA,
    OPENAI,
    OWN_CLIENT,
    TOGETHER,
    VERTEX,
    XAI,
    Host,
    Surface,
)

from otel_itl.sdks.registry import REGISTRY
from otel_itl.testing import ScriptedServer

T = TypeVar("T")
NO_CERTIFICATES: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Loading certificates takes longer than most tests, for no TLS."""
OPTIONS: Final = {"api_key": "none", "max_retries": 0, "timeout": 5.0}


def _installed_sdks() -> dict[str, ModuleType]:
    sdks = {}
    for name, entry in REGISTRY.items():
        with suppress(ModuleNotFoundError):
            sdks[name] = import_module(entry.package)
    return sdks


SDKS: Final = _installed_sdks()
"""Name → module, of those that are installed."""
CLIENTS: Final[dict[Host, tuple[str, Callable[[str], dict[str, Any]]]]] = {
    OPENAI: ("OpenAI", lambda origin: {"base_url": f"{origin}/v1"}),
    AZURE: ("AzureOpenAI", lambda origin: {"azure_endpoint": origin, "api_version": "2024-06-01"}),
    COMPATIBLE: ("OpenAI", lambda origin: {"base_url": f"{origin}/openai/v1"}),
    ANTHROPIC: ("Anthropic", lambda origin: {"base_url": origin}),
    GROQ: ("Groq", lambda origin: {"base_url": origin}),
    TOGETHER: ("Together", lambda origin: {"base_url": origin}),
    FIREWORKS: ("Fireworks", lambda origin: {"base_url": origin}),
    # It would send a request of its own when it is made.
    CEREBRAS: ("Cerebras", lambda origin: {"base_url": origin, "warm_tcp_connection": False}),
    GEMINI: ("Client", lambda origin: {"base_url": origin}),
    VERTEX: ("Client", lambda origin: {"base_url": origin, "vertexai": True}),
    OLLAMA: ("Client", lambda origin: {"host": origin}),
    COHERE: ("ClientV2", lambda origin: {"base_url": origin, "api_key": "none"}),
    COHERE_V1: ("Client", lambda origin: {"base_url": origin, "api_key": "none"}),
    XAI: ("Client", lambda origin: {"api_host": origin.rpartition("/")[2], "use_insecure_channel": True}),
    **dict.fromkeys(mistral_clients.PACKAGES, ("Mistral", lambda origin: {"server_url": origin})),
    HUGGING_FACE: ("InferenceClient", lambda origin: {"base_url": origin}),
}
"""Name of a host's sync client, and the options that point it at an origin (scheme, host and port)."""


def sdk_of(host: Host) -> ModuleType:
    """The SDK whose client asks `host`; skips the test where it is not installed."""
    if host.sdk not in SDKS:
        pytest.skip(f"{host.sdk} is not installed")
    return SDKS[host.sdk]


def make_client(host: Host, face: Face, origin: str, **options: Any) -> Any:
    """A client that asks `host` at `origin`."""
    name, location = CLIENTS[host]
    if host.sdk == MISTRAL.sdk:
        sdk_of(host)
        return mistral_clients.make_client(host, face, origin, **options)
    if host is HUGGING_FACE:
        sdk_of(host)
        return hugging_face_clients.make_client(face, origin, **{**OPTIONS, **options})
    if host.sdk == GEMINI.sdk:
        return google_client(sdk_of(host), face, **{**location(origin), **OPTIONS, **options})
    if host is XAI:
        retries = {"channel_options": [("grpc.enable_retries", int(bool(options.pop("max_retries", 0))))]}
        options = {"api_key": "none", "timeout": OPTIONS["timeout"], **retries, **options}
        return getattr(sdk_of(host), f"Async{name}" if face == "async" else name)(**location(origin), **options)
    make = getattr(sdk_of(host), f"Async{name}" if face == "async" else name)
    if host.sdk in {OLLAMA.sdk, COHERE.sdk}:
        return lazy_client(host, face, make, {**location(origin), "timeout": OPTIONS["timeout"], **options})
    return make(**location(origin), **{**OPTIONS, **options})


def lazy_client(host: Host, face: Face, make: Callable[..., Any], options: dict[str, Any]) -> Any:
    """A client of ollama or of cohere, whose option for an HTTP client is its own."""
    http_client = options.pop("http_client", None)
    if host.sdk == OLLAMA.sdk:  # the options of its httpx client are its own
        transport = {} if http_client is None else {"transport": http_client._transport}
        return make(verify=NO_CERTIFICATES, **transport, **options)
    make_http_client = httpx.AsyncClient if face == "async" else httpx.Client
    http_client = http_client or make_http_client(verify=NO_CERTIFICATES, timeout=options["timeout"])
    return make(httpx_client=http_client, **options)


def client_of(host: Host, face: Face, server: ScriptedServer, **options: Any) -> Any:
    """A client of the SDK that asks `host`, whose name leads to the scripted server.

    `request_hooks` are called with each HTTP request; every other option is the client's own.
    """
    if host is OWN_CLIENT:
        options.pop("max_retries", None)
        httpx: Any = pytest.importorskip("httpx")
        make = httpx.AsyncClient if face == "async" else httpx.Client
        return make(base_url=server.url, verify=NO_CERTIFICATES, **{"timeout": OPTIONS["timeout"], **options})
    if host.sdk in {GEMINI.sdk, OLLAMA.sdk, COHERE.sdk, XAI.sdk, MISTRAL.sdk, HUGGING_FACE.sdk}:
        return make_client(host, face, server.url, **options)
    if host is BEDROCK:
        sdk_of(host)
        return aws.make_client(face, server.url, **options)
    hooks = [_to_loopback, *options.pop("request_hooks", ())]
    event_hooks = {"request": [_as_face(hook, face) for hook in hooks]}
    http_client = _http_client(sdk_of(host), face, event_hooks)
    return make_client(host, face, f"http://{host.name}:{server.port}", http_client=http_client, **options)


def google_client(
    sdk: ModuleType,
    face: Face,
    *,
    base_url: str,
    timeout: float,
    max_retries: int,
    http_client: Any = None,
    **options: Any,
) -> Any:
    """A client of the google-genai SDK, by the options of other SDKs' clients.

    Its default transports are httpx2 (before 3.0: httpx) and, for the asynchronous client, aiohttp; the transport of
    `http_client` takes their place.
    """
    transport = {} if http_client is None else {"transport": http_client._transport}
    client = sdk.Client(
        http_options={
            "base_url": base_url,
            "timeout": int(timeout * 1000),
            "client_args": {"verify": NO_CERTIFICATES, **transport},
            "async_client_args": {"verify": NO_CERTIFICATES, "ssl": NO_CERTIFICATES, **transport},
            "retry_options": {"attempts": max_retries + 1, "initial_delay": 0.001, "jitter": 0.001},
        },
        **options,
    )
    if face == "sync":
        return client
    client.aio.kept = client  # which closes what it shares when it is dropped
    return client.aio


def play(
    scenario: Callable[[Surface, Any], Coroutine[Any, Any, T]],
    surface: Surface,
    face: Face,
    server: ScriptedServer,
    **options: Any,
) -> T:
    """Run a scenario with the surface and a client of its own; skip the test where the SDK has no such surface."""

    async def played(surface: Surface, client: Any) -> T:
        skip_what_is_missing(surface, client)
        return await scenario(surface, client)

    return run_with_client(played, surface, face, server, **options)


DISTURBED_SECONDS: Final = 0.005
"""What is less certain than this is so as the machine had other work."""


def disturbed(attributes: dict[str, Any]) -> bool:
    """Whether a reader that did nothing else was late: the machine had other work."""
    first_is_hidden = attributes["itl.chunk.count"] > 0 and "gen_ai.response.time_to_first_chunk" not in attributes
    late = ("itl.consumer.bound", "itl.latency.imputed", "itl.latency.excluded")
    errors = (error for name, error in attributes.items() if name.endswith(".uncertainty"))
    return first_is_hidden or any(attributes[name] for name in late) or max(errors, default=0.0) > DISTURBED_SECONDS


def run_with_client(
    scenario: Callable[[Surface, Any], Coroutine[Any, Any, T]],
    surface: Surface,
    face: Face,
    server: ScriptedServer,
    **options: Any,
) -> T:
    """Run a scenario as `play` does, whether or not the SDK has the surface."""

    async def ran() -> T:
        async with entered(client_of(surface.host, face, server, **options)) as client:
            return await scenario(surface, client)

    return run(face, ran())


def keep_what_is_made(client: Any) -> list[Any]:
    """Return a list to which every chunk object is appended when the SDK makes it."""
    made: list[Any] = []
    # Their streams yield all that is made.
    yields_all = type(client).__module__.startswith(("ollama", "cohere"))
    if yields_all or hasattr(client, "_api_channel") or isinstance(client, (httpx.Client, httpx.AsyncClient)):
        return made
    if isinstance(client, (mistral_clients.SyncFace, mistral_clients.AsyncFace, hugging_face_clients.Client)):
        return made  # which is counted by what the SDK yields: all that it makes
    if hasattr(client, "_api_client"):
        client._api_client._verify_response = made.append
        return made
    if not hasattr(client, "_process_response_data"):
        return aws.keep_what_is_parsed(client)
    process = client._process_response_data

    def kept(**data: Any) -> Any:
        chunk = process(**data)
        made.append(chunk)
        return chunk

    client._process_response_data = kept
    return made


def skip_what_is_missing(surface: Surface, client: Any) -> None:
    """Skip a test of a surface that the installed SDK does not have."""
    missing = surface.missing(client)
    if missing is not None:
        release = ".".join(version(REGISTRY[surface.sdk].distribution).split(".")[:2])
        pytest.skip(f"{surface.sdk} {release} has no {missing}")


def _http_client(sdk: ModuleType, face: Face, hooks: dict[str, Any]) -> Any:
    make = sdk.DefaultAsyncHttpxClient if face == "async" else sdk.DefaultHttpxClient
    # No certificates: loading them takes longer than most tests, for no TLS.
    return make(verify=False, event_hooks=hooks)


def _as_face(hook: Any, face: Face) -> Any:
    async def awaited(request: Any) -> None:
        hook(request)

    return awaited if face == "async" else hook


def _to_loopback(request: Any) -> None:
    request.url = request.url.copy_with(host="127.0.0.1")
