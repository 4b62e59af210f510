"""A streaming LLM server that plays scripts over real sockets, and keeps the truth about when it sent what."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from ._engine import HOST, Engine
from ._process import ChildEngine
from .exchange import Exchange, Record, wait_for
from .script import Script


class ScriptedServer:
    """A server on 127.0.0.1 that answers streaming requests by scripts.

    The path's end chooses the wire format: `/chat/completions`, `/completions`, `/responses` (and `/responses/{id}`),
    `/messages`, `/converse-stream`, `/invoke-with-response-stream`, `/api/chat`, `/api/generate`, `/v2/chat`,
    `/v1/chat`. Point a client at `openai_url`, `anthropic_url` or `bedrock_url`, and any other at `url`. It speaks
    HTTP/1.1, and on the same port HTTP/2 for the gRPC service of xAI (`xai_host`), and WebSockets on `/responses` where
    the websockets package is installed: each `response.create` is an exchange then.

    A request gets the first of these that there is: the next script queued for its model, the standing script of its
    model, the next one queued for all, the standing one of all, a short well-formed reply.

        with ScriptedServer() as server:
            server.play(chat.reply(5, first=0.05, gaps=0.01))
            client = openai.OpenAI(base_url=server.openai_url, api_key="none")
    """

    def __init__(self, script: Script | None = None, *, port: int = 0, process: bool = False) -> None:
        """Describe a server; `with` or `start()` runs it.

        Args:
            script: the standing script for all models, as by `always(script)`.
            port: 0 takes any free one.
            process: run it in a process of its own, so that it does not share the interpreter lock with the client.
                Its times compare with this process's `time.perf_counter_ns()` where that clock is the machine's
                (Linux, macOS).

        """
        self._script = script
        self._wanted_port = port
        self._process = process
        # What answers: the last engine that was started, and when it has stopped the record that it has left.
        self._engine: Engine | ChildEngine | Record | None = None
        self._running = False
        self._port = 0

    def __enter__(self) -> ScriptedServer:  # noqa: PYI034 - `Self` is in typing from 3.11 on
        """Start it."""
        return self.start()

    def __exit__(self, *error: object) -> None:
        """Stop it."""
        self.stop()

    def start(self) -> ScriptedServer:
        """Listen, and return the server itself.

        Raises:
            OSError: the port is in use.
            ValueError: it is not a port.
            RuntimeError: the server is running.

        """
        if self._running:
            raise RuntimeError("the scripted server is running already")
        engine = ChildEngine() if self._process else Engine()
        try:
            self._port = engine.ask("start", self._wanted_port)
        except BaseException:
            engine.stop()
            raise
        self._engine, self._running = engine, True
        if self._script is not None:
            engine.ask("always", self._script, None)
        return self

    def stop(self) -> None:
        """Drop open connections and end; `exchanges` stays readable. Stopping twice is stopping once."""
        if self._running and isinstance(self._engine, (Engine, ChildEngine)):
            self._running = False
            self._engine = self._engine.stop()

    @property
    def port(self) -> int:
        """The port it listens on (or listened on, when it is stopped)."""
        self._started()
        return self._port

    @property
    def url(self) -> str:
        """`http://127.0.0.1:<port>`."""
        return f"http://{HOST}:{self.port}"

    @property
    def openai_url(self) -> str:
        """What OpenAI's clients take as `base_url`."""
        return f"{self.url}/v1"

    @property
    def anthropic_url(self) -> str:
        """What Anthropic's clients take as `base_url`."""
        return self.url

    @property
    def bedrock_url(self) -> str:
        """What `boto3.client("bedrock-runtime")` takes as `endpoint_url`."""
        return self.url

    @property
    def xai_host(self) -> str:
        """What the clients of `xai_sdk` take as `api_host`.

        Raises:
            RuntimeError: gRPC cannot be spoken, as the h2 package is not installed.
        """
        if not find_spec("h2"):
            raise RuntimeError("the scripted server speaks gRPC by the h2 package: pip install h2")
        return f"localhost:{self.port}"

    def play(self, *scripts: Script, model: str | None = None) -> None:
        """Queue scripts: each answers one request, in the order of arrival (only requests for `model`, if given)."""
        self._steer("play", scripts, model)

    def always(self, script: Script, *, model: str | None = None) -> None:
        """Set the script that answers whenever none is queued (only requests for `model`, if given)."""
        self._steer("always", script, model)

    def clear(self) -> None:
        """Forget the scripts, queued and standing, and the exchanges."""
        self._steer("clear")

    @property
    def exchanges(self) -> list[Exchange]:
        """The exchanges so far, in order of arrival."""
        return [replace(exchange, ask=self._ask) for exchange in self._ask("exchanges")]

    def wait_for(self, count: int, timeout: float | None = 5.0) -> list[Exchange]:
        """Wait until `count` requests have arrived and their exchanges have ended, and return all.

        Raises:
            TimeoutError: after `timeout` seconds, for arriving and ending each.
        """
        if not wait_for(lambda: bool(self._ask("count") >= count), timeout):
            raise TimeoutError(f"{self._ask('count')} requests arrived within {timeout} s, not {count}")
        return [exchange.wait_done(timeout) for exchange in self.exchanges]

    def _steer(self, method: str, *arguments: object) -> None:
        """Call a method of the engine, which has to be running."""
        engine = self._started()
        if not self._running:
            raise RuntimeError("the scripted server is stopped")
        engine.ask(method, *arguments)

    def _ask(self, method: str, *arguments: object) -> Any:
        """Call a method of the record, that of the running engine or what it has left, and return what it returns."""
        return self._started().ask(method, *arguments)

    def _started(self) -> Engine | ChildEngine | Record:
        if self._engine is None:
            raise RuntimeError("the scripted server has not been started: use it in a `with` block, or call start()")
        return self._engine
