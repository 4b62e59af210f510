"""Asks the endpoint from this process, and notes when a request was sent, got its first token and ended."""

from __future__ import annotations

import time
from collections.abc import Callable

from otel_itl.tools.sweep.clients import Client
from otel_itl.tools.sweep.failures import WITHOUT_TOKEN, Failure, describe_failure
from otel_itl.tools.sweep.measurement import current_request, read_usage, wait_for_span
from otel_itl.tools.sweep.prompts import Prompt
from otel_itl.tools.sweep.records import DueRequest


class LocalAsker:
    """Asks the endpoint from this process.

    Args:
        client: client of the endpoint.
        on_token: called with a request that has got its first token.
    """

    def __init__(self, client: Client, on_token: Callable[[DueRequest], None] = lambda _: None) -> None:
        self._client, self._on_token = client, on_token

    async def ask(self, request: DueRequest, prompt: Prompt) -> Failure | None:
        """Send a request in the task that it has for itself; see `Asker`. Moments are of `time.monotonic()`."""

        def note_token() -> None:
            request.first_token = time.monotonic()
            self._on_token(request)

        current_request.set(request)
        failure: Failure | None = None
        try:
            try:
                await self._client.ask(prompt, note_token)
            except Exception as error:  # noqa: BLE001 - whatever an SDK raises is a failure of the request
                failure = describe_failure(error)
            else:
                failure = WITHOUT_TOKEN if request.first_token is None else None
            request.ended = time.monotonic()
            await wait_for_span(request)
        finally:
            request.usage = read_usage(request)
        return failure
