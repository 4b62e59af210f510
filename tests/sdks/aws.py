"""Clients of Bedrock, which are made and looked into differently from those of the other SDKs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from faces import Face

KEYS: Final = {"aws_access_key_id": "none", "aws_secret_access_key": "none"}


@cache
def _session(face: Face) -> Any:
    """One session for all clients: it reads the descriptions of the services."""
    if face == "async":
        from aiobotocore.session import get_session

        return get_session()
    import botocore.session

    return botocore.session.get_session()


def make_client(face: Face, origin: str, *, timeout: float = 5.0, **options: Any) -> Any:
    """A context manager of a client that asks `origin`, without retries."""
    from botocore.config import Config

    if face == "async":
        from aiobotocore.config import AioConfig as Config

    config = Config(read_timeout=timeout, retries={"total_max_attempts": 1})
    made = _session(face).create_client(
        "bedrock-runtime", region_name="us-east-1", endpoint_url=origin, config=config, **KEYS, **options
    )
    return made if face == "async" else _closing(made)


def is_known(shape: str, member: str) -> bool:
    """Whether the installed release knows a member of a shape: it leaves out what it does not know."""
    return member in _session("sync").get_service_model("bedrock-runtime").shape_for(shape).members


@contextmanager
def _closing(client: Any) -> Iterator[Any]:
    yield client
    client.close()


def keep_what_is_parsed(client: Any) -> list[Any]:
    """Return a list to which every chunk object is appended when the SDK makes it."""
    made: list[Any] = []
    endpoint = client._endpoint
    endpoint._response_parser_factory = _KeepingFactory(endpoint._response_parser_factory, made)
    return made


class _KeepingFactory:
    """Makes parsers whose parsers of events keep what they make."""

    def __init__(self, factory: Any, made: list[Any]) -> None:
        self._factory = factory
        self._made = made

    def create_parser(self, protocol: str) -> Any:
        parser = self._factory.create_parser(protocol)
        events = parser._event_stream_parser
        parse, made = events.parse, self._made

        def keep(*args: Any) -> Any:
            event = parse(*args)
            made.append(event)
            return event

        async def keep_awaited(*args: Any) -> Any:
            event = await parse(*args)
            made.append(event)
            return event

        events.parse = keep_awaited if type(events).__name__.startswith("Aio") else keep
        return parser
