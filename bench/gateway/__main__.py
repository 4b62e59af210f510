"""`python -m bench.gateway`: the CPU that is ours at 50 to 200 streams a second, of requests, and of open streams.

Each load runs in a process of its own, on one core, with stubs in place of HTTP and parsing, bare and measured.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from bench.overhead.subjects import OPENAI
from bench.overhead.variants import MAIN, Pipeline, Variant

CHUNKS = 300
SETTLING_SECONDS = 6.0
"""After these, every silent stream has been reported as stalled, once."""
CHUNKS_PER_TURN = 10
"""Chunks that a stream hands out before another one has its turn."""
WARM_STREAMS = 100
REQUESTS_PER_COLLECTION = 1_000
VARIANTS = ("uninstrumented", "otel_itl", "official")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the loads, and print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m bench.gateway", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10, help="of each load (default: 10)")
    parser.add_argument("--rates", type=int, nargs="*", default=[50, 100, 200], help="streams a second")
    parser.add_argument("--requests", type=int, default=10_000, help="streams of one chunk, one after the other")
    parser.add_argument("--open", type=int, default=10_000, help="streams that are open and silent")
    parser.add_argument("--child", nargs=2, metavar=("VARIANT", "LOAD"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        variant = next(each for each in MAIN if each.name == options.child[0])
        load = {"watched": _watched, "requests": _request_in_a_loop}.get(options.child[1])
        found = _paced(variant, int(options.child[1]), options) if load is None else load(variant, options)
        print(json.dumps(found))
        return 0
    print(f"{CHUNKS} chunks a stream, {options.seconds:g} s each, one core; CPU as a share of that core")
    titles = ("streams a second", "bare", "otel_itl", "ours", "µs each", "official", "memory, MB")
    print("{:>18}{:>9}{:>10}{:>8}{:>9}{:>10}{:>12}".format(*titles))
    for rate in options.rates:
        loads = {each: _run(each, rate, options) for each in VARIANTS}
        bare, ours, official = (load["share"] for load in loads.values())
        each = 1e6 * (ours - bare) / rate
        memory = "{first:.0f} → {last:.0f}".format(**loads["otel_itl"])
        print(f"{rate:18}{bare:9.1%}{ours:10.1%}{ours - bare:8.1%}{each:9.0f}{official:10.1%}{memory:>12}")
    bare, ours, official = (_run(each, "requests", options)["each"] for each in VARIANTS)
    added = f"bare {bare:.0f}, otel_itl +{ours - bare:.0f}, official +{official - bare:.0f}"
    print(f"{options.requests} streams of one chunk, µs of CPU each: {added}")
    watched, idle = (_run(each, "watched", options)["share"] for each in ("otel_itl", "uninstrumented"))
    print(f"{options.open} open streams, watched: {watched - idle:.2%} of the core")
    return 0


def _run(variant: str, load: int | str, options: argparse.Namespace) -> dict[str, float]:
    """Run one load in a process of its own."""
    command = [sys.executable, "-m", "bench.gateway", "--seconds", str(options.seconds), "--open", str(options.open)]
    command += ["--requests", str(options.requests)]
    done = subprocess.run(  # noqa: S603 - ourselves
        [*command, "--child", variant, str(load)], check=True, capture_output=True, text=True
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _on_one_core() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def _paced(variant: Variant, rate: int, options: argparse.Namespace) -> dict[str, float]:
    """Start that many streams a second; return the share of a core, and the memory at the first third and the end."""
    _on_one_core()
    pipeline = variant.pipeline()
    _, client = OPENAI.stubbed(CHUNKS)
    with variant.around(OPENAI, pipeline):
        return asyncio.run(_drive(client, pipeline, rate, options.seconds))


async def _drive(client: Any, pipeline: Pipeline, rate: int, seconds: float) -> dict[str, float]:
    for _ in range(WARM_STREAMS):
        await _read(client)
    gc.collect()
    cpu, began = time.process_time(), time.monotonic()
    running: set[asyncio.Task[None]] = set()
    memory = []
    for number in range(round(rate * seconds)):
        await asyncio.sleep(max(began + number / rate - time.monotonic(), 0))
        task = asyncio.create_task(_read(client))
        running.add(task)
        task.add_done_callback(running.discard)
        if number % rate == 0:
            pipeline._reader.get_metrics_data()  # noqa: SLF001 - as a periodic reader does
            memory.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    await asyncio.gather(*running)
    pipeline.collect()
    # Of the time that the load is meant to take: on a busy machine it takes longer.
    return {"share": (time.process_time() - cpu) / seconds, "first": memory[len(memory) // 3], "last": memory[-1]}


async def _read(client: Any) -> None:
    """Read a stream as a gateway does: in turns with the others."""
    count = 0
    async for _ in await OPENAI.request(client):
        count += 1
        if count % CHUNKS_PER_TURN == 0:
            await asyncio.sleep(0.001)


def _request_in_a_loop(variant: Variant, options: argparse.Namespace) -> dict[str, float]:
    """Read streams of one chunk one after the other; return the CPU time (µs) of the whole process for each."""
    _on_one_core()
    client, _ = OPENAI.stubbed(1)
    pipeline = variant.pipeline()
    with variant.around(OPENAI, pipeline):
        for _ in range(WARM_STREAMS):
            list(OPENAI.request(client))
        cpu = time.process_time()
        for number in range(1, options.requests + 1):
            list(OPENAI.request(client))
            if number % REQUESTS_PER_COLLECTION == 0:
                pipeline.collect()
        return {"each": 1e6 * (time.process_time() - cpu) / options.requests}


def _watched(variant: Variant, options: argparse.Namespace) -> dict[str, float]:
    """Open streams and read nothing of them; return the share of a core that passes while they are open."""
    _on_one_core()
    sync, _ = OPENAI.stubbed(CHUNKS)
    with variant.around(OPENAI, variant.pipeline()):
        streams = [OPENAI.request(sync) for _ in range(options.open)]
        for stream in streams:
            next(iter(stream))
        time.sleep(SETTLING_SECONDS)
        cpu, began = time.process_time(), time.monotonic()
        time.sleep(options.seconds)
        share = (time.process_time() - cpu) / (time.monotonic() - began)
        del streams
    return {"share": share}


if __name__ == "__main__":
    raise SystemExit(main())
