"""Runs the real clients: each scenario sends its model one request after the other, all scenarios at once."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext, suppress
from typing import Any

from opentelemetry.instrumentation.utils import suppress_instrumentation

import otel_itl
from otel_itl.testing import ScriptedServer
from otel_itl.tools.demo.scenarios import Plan
from otel_itl.tools.demo.sdks import SDKS

_STOP_TIMEOUT = 3.0


class Lane:
    """One plan while it runs: what a display reads."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.provider = plan.sdk
        self.model = plan.model
        self.total = len(plan.scripts)
        self.done = 0
        self.chunks = 0


class Workload:
    """Runs all plans: those with sync clients in threads, those with async clients on one event loop.

    Args:
        plans: the requests.
        server: answers them; the scripts are queued here.
    """

    def __init__(self, plans: Sequence[Plan], server: ScriptedServer) -> None:
        self.lanes = [Lane(plan) for plan in plans]
        self._server_url = server.url
        self._stopping = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._all_async: asyncio.Task[None] | None = None
        for plan in plans:
            server.play(*plan.scripts, model=plan.model)
        self._threads = [threading.Thread(target=self._run_event_loop, daemon=True)]
        self._threads += [
            threading.Thread(target=self._run_sync, args=(lane,), daemon=True)
            for lane in self.lanes
            if not lane.plan.scenario.is_async
        ]
        self._ready = threading.Barrier(len(self._threads), action=self._begin)
        self.is_ready = threading.Event()
        """All clients are warm, and the first requests are sent."""

    def start(self) -> None:
        """Start; clients are made and warmed up first, so that the loading of libraries is not measured."""
        for thread in self._threads:
            thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait up to these seconds; return whether all is done."""
        for thread in self._threads:
            thread.join(seconds)
            if thread.is_alive():
                return False
        return True

    def stop(self) -> None:
        """Leave the open streams, and send no more requests."""
        self._stopping.set()
        self._ready.abort()
        if self._loop is not None and self._all_async is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._all_async.cancel)
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(_STOP_TIMEOUT)

    def _begin(self) -> None:
        """Note that all clients are warm. Called once, before their threads go on."""
        gc.collect()
        gc.freeze()  # what is loaded is left out of collections, which would stop all threads for 0.2 s
        self.is_ready.set()

    def _run_sync(self, lane: Lane) -> None:
        """Send the requests of one lane, in a thread of its own."""
        sdk, leaves_after = SDKS[lane.plan.sdk], lane.plan.scenario.leaves_after
        with sdk.make_client(self._server_url, is_async=False) as client, _session_scope(lane):
            request = sdk.requester(client)
            with suppress_instrumentation(), request("warm-up") as stream:
                for _ in stream:
                    pass
            with suppress(threading.BrokenBarrierError):
                self._ready.wait()
            while lane.done < lane.total and not self._stopping.is_set():
                # A stream that breaks is part of the demo: its telemetry shows it.
                with suppress(Exception), request(lane.model) as stream:
                    for chunks, _ in enumerate(stream, start=1):
                        lane.chunks += 1
                        if chunks == leaves_after or self._stopping.is_set():
                            break
                lane.done += 1

    def _run_event_loop(self) -> None:
        with suppress(asyncio.CancelledError):
            asyncio.run(self._run_all_async())

    async def _run_all_async(self) -> None:
        """Send the requests of all async lanes, after a warm-up of their clients."""
        self._loop, self._all_async = asyncio.get_running_loop(), asyncio.current_task()
        lanes = [lane for lane in self.lanes if lane.plan.scenario.is_async]
        async with AsyncExitStack() as clients:
            requesters: dict[str, Callable[[str], Coroutine[Any, Any, Any]]] = {}
            for name in dict.fromkeys(lane.plan.sdk for lane in lanes):
                client = await clients.enter_async_context(SDKS[name].make_client(self._server_url, is_async=True))
                requesters[name] = SDKS[name].requester(client)
            await asyncio.gather(*(_warm_up(requesters[lane.plan.sdk]) for lane in lanes))
            # Nothing else runs on this loop yet that the wait could delay.
            with suppress(threading.BrokenBarrierError):
                self._ready.wait()
            if not self._stopping.is_set():
                running = (self._run_async(lane, requesters[lane.plan.sdk]) for lane in lanes)
                await asyncio.gather(*running, return_exceptions=True)

    async def _run_async(self, lane: Lane, request: Callable[[str], Coroutine[Any, Any, Any]]) -> None:
        """Send the requests of one async lane."""
        while lane.done < lane.total and not self._stopping.is_set():
            with suppress(Exception), _session_scope(lane):
                async with await request(lane.model) as stream:
                    chunks = 0
                    async for _ in stream:
                        chunks += 1
                        lane.chunks += 1
                        if chunks == lane.plan.scenario.leaves_after:
                            break
            lane.done += 1


def _session_scope(lane: Lane) -> AbstractContextManager[None]:
    """Return the session of a lane, if it has one."""
    return nullcontext() if lane.plan.session is None else otel_itl.session(lane.plan.session)


async def _warm_up(request: Callable[[str], Coroutine[Any, Any, Any]]) -> None:
    with suppress_instrumentation():
        async with await request("warm-up") as stream:
            async for _ in stream:
                pass
