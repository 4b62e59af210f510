"""The connection under a response, and how to break it off from another thread."""

from __future__ import annotations

import socket
from importlib import import_module
from typing import Any
from weakref import ref


class Connection:
    """The connection that a response comes over.

    Args:
        response: the HTTP response.
        package: of the SDK, whose own timeout error whoever waits gets in place of the broken connection.
    """

    __slots__ = ("_package", "_request", "_response")

    def __init__(self, response: Any, package: str) -> None:
        self._response = ref(response)
        self._request = response.request
        self._package = package

    def cut(self) -> bool:
        """Shut the socket down: what it has received is still read, then its end. False where it serves others."""
        response: Any = self._response()
        stream = None if response is None else response.extensions.get("network_stream")
        if stream is None or not str(response.http_version).startswith("HTTP/1"):
            return False
        connected = stream.get_extra_info("socket")
        # Another name for it: shutting a TLS socket down by its own would take its decryption from who reads it now.
        with socket.fromfd(connected.fileno(), connected.family, connected.type) as same:
            same.shutdown(socket.SHUT_RDWR)
        return True

    def error(self, message: str) -> Exception:
        """The SDK's timeout error, saying why."""
        error: Any = import_module(self._package).APITimeoutError(request=self._request)
        error.message = message
        error.args = (message,)
        return error  # type: ignore[no-any-return]
