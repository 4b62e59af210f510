"""What a scripted server sends, and when: plain, immutable, picklable data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, overload

Wire = Literal[
    "chat",
    "completions",
    "responses",
    "messages",
    "gemini",
    "interactions",
    "converse",
    "invoke_model",
    "ollama_chat",
    "ollama_generate",
    "cohere",
    "cohere_v1",
    "xai",
    "conversations",
    "text_generation",
]
"""A wire format: OpenAI chat completions, legacy completions, OpenAI responses, Anthropic messages, Google's
`streamGenerateContent` and interactions, Bedrock's `converse_stream` and `invoke_model_with_response_stream`, Ollama's
`/api/chat` and `/api/generate`, Cohere's `/v2/chat` and `/v1/chat`, xAI's gRPC service, Mistral's conversations, and
the text generation of Hugging Face's TGI."""

Kind = Literal[
    "role",
    "answer",
    "reasoning",
    "tool",
    "empty",
    "lifecycle",
    "ping",
    "finish",
    "usage",
    "done",
    "error",
    "raw",
    "close",
    "reset",
    "hold",
]
"""What an event is. `answer`, `reasoning` and `tool` carry output; `done` is the terminator of the wire format;
`raw` is bytes of your own; `close`, `reset` and `hold` are done to the connection instead of being sent."""

# Values that only the exchange knows. A whole JSON string that equals one of these is replaced when the event is
# sent. They begin with a private-use character, which no model output contains.
ID = "\ue000id"
"""Becomes the response's id: unique in a server, or the one that the request's path names."""
MODEL = "\ue000model"
"""Becomes the model that the request asked for."""
CREATED = "\ue000created"
"""Becomes the Unix time of the request, a number."""
SEQUENCE = "\ue000sequence"
"""Becomes the event's number in its stream, from 0 (or from the request's `starting_after` + 1), a number."""

_CONTROL: frozenset[Kind] = frozenset({"close", "reset", "hold"})


@dataclass(frozen=True, slots=True)
class Event:
    """One event: server-sent, unless it has a `frame` of its own.

    The builders (`chat`, `messages`, `gemini`, `bedrock`, …, and `faults`) make these; make your own where they end.
    """

    kind: Kind
    data: str = ""
    """The text of the `data:` field, usually JSON."""
    name: str | None = None
    """The `event:` field, if any."""
    tokens: int = 0
    """How many output tokens it carries. An event without any is not an output event."""
    raw: bytes | None = None
    """Bytes that go on the wire as they are, instead of `data` and `name`."""
    wire: Wire | None = None
    """The format it belongs to; None fits all. A server refuses to play one format to a client of another."""
    frame: Callable[[str, bytes], bytes] | None = None
    """Encodes `name` and `data` for a wire that is no SSE, as AWS's binary event stream or lines of JSON; None: SSE."""
    trailers: tuple[tuple[str, str], ...] = ()
    """Header fields that end the response after this event, as gRPC's status. Over HTTP/2 only."""

    @property
    def output(self) -> bool:
        """Whether the event carries output of the model: answer, reasoning or tool call."""
        return self.tokens > 0

    @property
    def control(self) -> bool:
        """Whether the event is done to the connection rather than sent."""
        return self.kind in _CONTROL

    def encode(self, values: Mapping[str, str] | None = None) -> bytes:
        """Encode the event for the wire, with the JSON texts of `values` in place of their keys (`ID`, `MODEL`)."""
        if self.raw is not None:
            return self.raw
        data = self.data
        if values and "\ue000" in data:
            for place, value in values.items():
                data = data.replace(f'"{place}"', value)
        if self.frame is not None:
            return self.frame(self.name or "", data.encode())
        name = f"event: {self.name}\n" if self.name is not None else ""
        return f"{name}data: {data}\n\n".encode()


@dataclass(frozen=True, slots=True)
class Step:
    """An event and its time: `delay` seconds after the time of the step before (the first: after the headers' time).

    Times are absolute: a step that is sent late does not make the next one late.
    """

    delay: float
    event: Event
    joined: bool = False
    """Sent in the same write as the step before, whatever its delay."""
    piece_bytes: int = 0
    """Above 0, the write is made in pieces of this many bytes, …"""
    piece_delay: float = 0.0
    """… this many seconds apart. The next step's delay counts from the last piece."""

    def __post_init__(self) -> None:
        """Refuse times and sizes that mean nothing."""
        for name in ("delay", "piece_delay", "piece_bytes"):
            value = getattr(self, name)
            if math.isnan(value) or value < 0:
                raise ValueError(f"{name} is a number from 0 up, not {value!r}")

    @property
    def output(self) -> bool:
        """Whether its event carries output of the model."""
        return self.event.output


@dataclass(frozen=True, slots=True, init=False)
class Script:
    """One response: its status, its headers and the steps of its body.

    Scripts are sequences of steps. `script[:4]`, `script + [step]`, `script + script` and `script.cut(n)` give new
    scripts with the options of the (left) script; `dataclasses.replace(script, headers_delay=0.2)` changes an option.
    A script that just stops, ends the HTTP response properly: without a terminator event it is a truncated stream.
    """

    steps: tuple[Step, ...]
    status: int
    headers: tuple[tuple[str, str], ...]
    headers_delay: float
    body: bytes | None
    gzip: bool

    def __init__(
        self,
        steps: Iterable[Step] = (),
        *,
        status: int = 200,
        headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        headers_delay: float = 0.0,
        body: bytes | None = None,
        gzip: bool = False,
    ) -> None:
        """Take the steps and, by name, the options.

        Args:
            steps: what is sent, in order.
            status: the HTTP status.
            headers: headers beside, or in place of, the server's own.
            headers_delay: seconds from the arrival of the request to the response headers; `math.inf` means never.
            body: a whole body sent at once in place of an event stream, as JSON unless `headers` say otherwise.
            gzip: compress the body, flushed at every write.

        Raises:
            ValueError: `body` and `steps` together, or a negative delay.

        """
        if math.isnan(headers_delay) or headers_delay < 0:
            raise ValueError(f"headers_delay is a number of seconds from 0 up, not {headers_delay!r}")
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        assign = object.__setattr__
        assign(self, "steps", tuple(steps))
        assign(self, "status", status)
        assign(self, "headers", tuple((str(name), str(value)) for name, value in pairs))
        assign(self, "headers_delay", headers_delay)
        assign(self, "body", body)
        assign(self, "gzip", gzip)
        if self.steps and body is not None:
            raise ValueError("a script has steps or a body, not both")

    def __iter__(self) -> Iterator[Step]:
        """Iterate over the steps."""
        return iter(self.steps)

    def __len__(self) -> int:
        """Count the steps."""
        return len(self.steps)

    @overload
    def __getitem__(self, index: int) -> Step: ...
    @overload
    def __getitem__(self, index: slice) -> Script: ...
    def __getitem__(self, index: int | slice) -> Step | Script:
        """Return a step, or a script of some of the steps."""
        if isinstance(index, slice):
            return replace(self, steps=self.steps[index])
        return self.steps[index]

    def __add__(self, more: Step | Iterable[Step]) -> Script:
        """Add steps at the end."""
        return replace(self, steps=(*self.steps, *([more] if isinstance(more, Step) else more)))

    @property
    def wire(self) -> Wire | None:
        """The wire format of the steps; None when they fit any."""
        return next((step.event.wire for step in self.steps if step.event.wire), None)

    @property
    def tokens(self) -> int:
        """How many output tokens the steps carry."""
        return sum(step.event.tokens for step in self.steps)

    def cut(self, outputs: int | None = None) -> Script:
        """Keep everything up to and including the n-th output step (None: the last one): what a broken stream sent.

        Raises:
            ValueError: there are fewer output steps.
        """
        places = [place for place, step in enumerate(self.steps) if step.output]
        wanted = len(places) if outputs is None else outputs
        if not 0 <= wanted <= len(places):
            raise ValueError(f"the script has {len(places)} output steps, it cannot be cut after {outputs}")
        # Cut after none of them: everything before the first.
        return self[: places[wanted - 1] + 1] if wanted else self[: places[0] if places else len(self.steps)]

    def insert(self, outputs: int, *steps: Step) -> Script:
        """Put steps after the n-th output step. What follows keeps its time, unless the inserted steps take longer.

        Raises:
            ValueError: there are fewer output steps.

        """
        head = self.cut(outputs)
        rest = list(self.steps[len(head) :])
        if rest:
            spent = sum(step.delay for step in steps)
            rest[0] = replace(rest[0], delay=max(0.0, rest[0].delay - spent))
        return replace(head, steps=(*head.steps, *steps, *rest))
