"""Clients of huggingface_hub, which share one HTTP client in a process."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pytest
from faces import settled

if TYPE_CHECKING:
    from faces import Face


def release() -> int:
    """The first number of the installed release."""
    return int(version("huggingface_hub").split(".")[0])


def http_package() -> Any:
    """The HTTP client's package: httpx2 from 2.0 on, httpx from 1.0 on."""
    if release() == 0:
        pytest.skip("huggingface_hub before 1.0 reads over requests and aiohttp, which have no transport in memory")
    return import_module("httpx" if release() == 1 else "httpx2")


def make_client(
    face: Face,
    origin: str,
    *,
    timeout: float = 5.0,
    max_retries: int = 0,
    http_client: Any = None,
    **options: Any,
) -> Any:
    """A client that asks `origin`: by `/v1` for chat completions, and by `/generate_stream` for generated text."""
    sdk = import_module("huggingface_hub")
    if http_client is not None:
        name = "set_async_client_factory" if face == "async" else "set_client_factory"
        getattr(sdk, name)(lambda: http_client)
    make = sdk.AsyncInferenceClient if face == "async" else sdk.InferenceClient
    client = make(base_url=f"{origin}/v1", timeout=timeout, **options)
    return (AsyncLasting if face == "async" else Lasting)(client, origin, is_shared=http_client is None)


class Client:
    """The SDK's client, and the address of the server.

    Args:
        client: the SDK's.
        origin: scheme, host and port of the server.
        is_shared: the HTTP client is the one that the SDK shares, rather than one of the test.
    """

    def __init__(self, client: Any, origin: str, *, is_shared: bool) -> None:
        self._client = client
        self._is_shared = is_shared
        self.origin = origin

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._client, name)

    async def _close(self) -> None:
        """Close what the SDK keeps open until its client is closed: the responses of streams."""
        if hasattr(self._client, "close"):
            await settled(self._client.close())
        if not self._is_shared:
            session = import_module("huggingface_hub")
            session.set_client_factory(import_module("huggingface_hub.utils._http").default_client_factory)
            session.set_async_client_factory(import_module("huggingface_hub.utils._http").default_async_client_factory)


class Lasting(Client):
    """A synchronous client, which older releases cannot close."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        with pytest.raises(StopIteration):
            self._close().send(None)


class AsyncLasting(Client):
    """An asynchronous client."""

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()
