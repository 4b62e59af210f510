"""Ctrl-C as a call on the event loop, for as long as a sweep runs."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Any


@contextmanager
def interrupts_handled(on_interrupt: Callable[[], None]) -> Iterator[None]:
    """Call a function on the running event loop for each SIGINT, until the end of the block.

    Outside of the main thread, where Python delivers no signal, it does nothing.
    """
    if current_thread() is not main_thread():
        yield
        return
    loop = asyncio.get_running_loop()

    def call(*_: Any) -> None:
        loop.call_soon_threadsafe(on_interrupt)

    before = signal.signal(signal.SIGINT, call)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
