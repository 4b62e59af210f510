"""The connection under a response, and how to break it off from another thread."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any
from weakref import ref

TimeoutErrors = Callable[..., Exception]
"""The SDK's own error for a request that took too long, made from the `request`."""


class Connection:
    """The connection that a response comes over.

    Args:
        response: the HTTP response.
        timeout_error: what whoever waits gets in place of the broken connection.
    """

    __slots__ = ("_request", "_response", "_timeout_error")

    def __init__(self, response: Any, timeout_error: TimeoutErrors) -> None:
        self._response = ref(response)
        self._request = response.request
        self._timeout_error = timeout_error

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
        error: Any = self._timeout_error(request=self._request)
        error.message = message
        error.args = (message,)
        return error  # type: ignore[no-any-return]
