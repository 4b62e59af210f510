"""The real clients at work: each scenario asks its model, one request after the other, all of them at once."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

from opentelemetry.instrumentation.utils import suppress_instrumentation

import otel_itl
from otel_itl.cli.demo.scenarios import Plan, Provider, Scenario
from otel_itl.testing import ScriptedServer

_QUESTION = [{"role": "user", "content": "Tell me something about latency."}]
_CLIENT = {"api_key": "none", "max_retries": 0, "timeout": 30.0}
_STOP_SECONDS = 3.0


class Lane:
    """One scenario while it runs: what a display reads."""

    def __init__(self, plan: Plan) -> None:
        self.scenario: Scenario = plan.scenario
        self.provider: str = plan.scenario.provider
        self.model: str = plan.scenario.model
        self.total = len(plan.scripts)
        self.done = 0
        self.chunks = 0


class Workload:
    """All scenarios, half of them in threads, half of them on one event loop.

    Args:
        plans: what is asked of whom.
        server: answers; the scripts are queued here.
        opened: called whenever a stream has been opened, before its first chunk is asked for.
    """

    def __init__(self, plans: Sequence[Plan], server: ScriptedServer, opened: Callable[[], None]) -> None:
        self.lanes = [Lane(plan) for plan in plans]
        self._opened = opened
        self._server = server
        self._stopping = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: list[asyncio.Task[None]] = []
        for plan in plans:
            server.play(*plan.scripts, model=plan.scenario.model)
        self._threads = [threading.Thread(target=self._run_async, daemon=True)]
        self._threads += [
            threading.Thread(target=self._run_sync, args=(lane,), daemon=True)
            for lane in self.lanes
            if not lane.scenario.is_async
        ]
        self._ready = threading.Barrier(len(self._threads), action=_settle)

    def start(self) -> None:
        """Begin; the clients are made and warmed up first, so that what is measured is not their start."""
        import anthropic  # noqa: F401, PLC0415 - loaded here, where it can be interrupted, and once
        import openai  # noqa: F401, PLC0415 - likewise

        for thread in self._threads:
            thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait so long, or until all is done; whether it is."""
        for thread in self._threads:
            thread.join(seconds)
            if thread.is_alive():
                return False
        return True

    def stop(self) -> None:
        """Leave the open streams, and ask for no more."""
        self._stopping.set()
        self._ready.abort()
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._cancel)
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(_STOP_SECONDS)

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _run_sync(self, lane: Lane) -> None:
        with _sync_client(lane.scenario.provider, self._server) as client, _scope(lane):
            ask = _asking(lane.scenario.provider, client)
            with suppress_instrumentation(), ask("warm-up") as stream:
                for _ in stream:
                    pass
            with suppress(threading.BrokenBarrierError):
                self._ready.wait()
            while lane.done < lane.total and not self._stopping.is_set():
                # A stream that breaks is part of the show: its telemetry says so.
                with suppress(Exception), ask(lane.model) as stream:
                    self._opened()
                    for chunks, _ in enumerate(stream, start=1):
                        lane.chunks += 1
                        if chunks == lane.scenario.leaves_after or self._stopping.is_set():
                            break
                lane.done += 1

    def _run_async(self) -> None:
        with suppress(asyncio.CancelledError):
            asyncio.run(self._all_async())

    async def _all_async(self) -> None:
        self._loop = asyncio.get_running_loop()
        lanes = [lane for lane in self.lanes if lane.scenario.is_async]
        async with _async_client("openai", self._server) as openai, _async_client("anthropic", self._server) as claude:
            asking = {"openai": _asking("openai", openai), "anthropic": _asking("anthropic", claude)}
            await asyncio.gather(*(_drained(asking[lane.provider]) for lane in lanes))
            # Nothing else runs on this loop yet that the wait could hold up.
            with suppress(threading.BrokenBarrierError):
                self._ready.wait()
            if not self._stopping.is_set():
                self._tasks = [asyncio.create_task(self._one_async(lane, asking[lane.provider])) for lane in lanes]
                await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _one_async(self, lane: Lane, ask: Callable[[str], Coroutine[Any, Any, Any]]) -> None:
        while lane.done < lane.total and not self._stopping.is_set():
            with suppress(Exception), _scope(lane):
                async with await ask(lane.model) as stream:
                    self._opened()
                    chunks = 0
                    async for _ in stream:
                        chunks += 1
                        lane.chunks += 1
                        if chunks == lane.scenario.leaves_after:
                            break
            lane.done += 1


def _scope(lane: Lane) -> AbstractContextManager[None]:
    """The session of a lane, if it has one."""
    return nullcontext() if lane.scenario.session is None else otel_itl.session(lane.scenario.session)


def _settle() -> None:
    """Keep the collector off all that is loaded: looking through it takes 0.2 s, in which nothing else runs."""
    gc.collect()
    gc.freeze()


async def _drained(ask: Callable[[str], Coroutine[Any, Any, Any]]) -> None:
    with suppress_instrumentation():
        async with await ask("warm-up") as stream:
            async for _ in stream:
                pass


def _sync_client(provider: Provider, server: ScriptedServer) -> Any:
    sdk, address = _sdk(provider, server)
    http_client = sdk.DefaultHttpxClient(verify=False, trust_env=False)  # no TLS here, and no proxy
    client = sdk.OpenAI if provider == "openai" else sdk.Anthropic
    return client(base_url=address, http_client=http_client, **_CLIENT)


def _async_client(provider: Provider, server: ScriptedServer) -> Any:
    sdk, address = _sdk(provider, server)
    http_client = sdk.DefaultAsyncHttpxClient(verify=False, trust_env=False)
    client = sdk.AsyncOpenAI if provider == "openai" else sdk.AsyncAnthropic
    return client(base_url=address, http_client=http_client, **_CLIENT)


def _sdk(provider: Provider, server: ScriptedServer) -> tuple[Any, str]:
    if provider == "openai":
        import openai  # noqa: PLC0415 - an LLM SDK

        return openai, server.openai_url
    import anthropic  # noqa: PLC0415 - an LLM SDK

    return anthropic, server.anthropic_url


def _asking(provider: Provider, client: Any) -> Callable[[str], Any]:
    """What asks a model and gives a stream (of an async client: something to await for one)."""
    if provider == "openai":
        options = {"include_usage": True}
        return lambda model: client.chat.completions.create(
            model=model, messages=_QUESTION, stream=True, stream_options=options
        )
    return lambda model: client.messages.create(model=model, max_tokens=1_024, messages=_QUESTION, stream=True)
