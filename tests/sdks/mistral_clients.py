"""Clients of the mistralai SDK, by the options of other SDKs' clients."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import pytest
from surfaces import MISTRAL, MISTRAL_AZURE, MISTRAL_GCP, Host

if TYPE_CHECKING:
    from faces import Face


def release() -> tuple[int, ...]:
    """The numbers of the installed release; those of none where it is not installed."""
    try:
        return tuple(map(int, version("mistralai").split(".")[:2]))
    except PackageNotFoundError:
        return ()


IS_OLD: Final = release() < (2, 0)
"""Whether the release is older than 2.0."""
PACKAGES: Final = {
    MISTRAL: "mistralai" if IS_OLD else "mistralai.client",
    MISTRAL_AZURE: "mistralai_azure" if IS_OLD else "mistralai.azure.client",
    MISTRAL_GCP: "mistralai_gcp" if IS_OLD else "mistralai.gcp.client",
}
MORE_OPTIONS: Final[dict[Host, dict[str, Any]]] = {
    MISTRAL: {"api_key": "none"},
    MISTRAL_AZURE: {"azure_api_key" if IS_OLD else "api_key": "none"},
    MISTRAL_GCP: {"access_token": "none", "project_id": "p", "region": "europe-west4"},
}


def http_package(host: Host = MISTRAL) -> ModuleType:
    """The HTTP client's package: httpx2, or httpx before 3.0."""
    module: ModuleType = import_module(f"{PACKAGES[host]}.sdk").httpx
    return module


def make_client(
    host: Host,
    face: Face,
    origin: str,
    *,
    timeout: float = 5.0,
    max_retries: int = 0,
    http_client: Any = None,
    **options: Any,
) -> Any:
    """A client that asks `origin`; the asynchronous one calls what the SDK names `…_async` by its plain name."""
    if host is MISTRAL_GCP:
        pytest.importorskip("google.auth")
        if IS_OLD:
            pytest.skip("the client for Google Cloud asks for credentials before mistralai 2.0")
    package = PACKAGES[host]
    http = http_package(host)
    is_async = face == "async"
    client = http_client or (http.AsyncClient if is_async else http.Client)(verify=False)
    utils = import_module(f"{package}.utils")
    backoff = utils.BackoffStrategy(1, 2, 1.0, 1000)
    made = getattr(import_module(package), host.client)(
        **({"azure_endpoint": origin} if IS_OLD and host is MISTRAL_AZURE else {"server_url": origin}),
        **MORE_OPTIONS[host],
        **options,
        **({"timeout_ms": int(timeout * 1000)} if host is MISTRAL else {}),
        **{"async_client" if is_async else "client": client},
        **({"retry_config": utils.RetryConfig("backoff", backoff, True)} if max_retries else {}),
    )
    return AsyncFace(made, client) if is_async else SyncFace(made, client)


class SyncFace:
    """The synchronous half of the SDK's client, which leaves an HTTP client that it was given open."""

    def __init__(self, client: Any, http_client: Any) -> None:
        self._client = client
        self._http_client = http_client

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._client, name)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self._http_client.close()


class AsyncFace:
    """The asynchronous half of the SDK's client, or of one of its resources."""

    def __init__(self, part: Any, http_client: Any = None) -> None:
        self._part = part
        self._http_client = http_client

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self._part, f"{name}_async", None)
        return AsyncFace(getattr(self._part, name)) if found is None else found

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http_client.aclose()
