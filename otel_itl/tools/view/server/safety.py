"""Who may talk to the server: the page itself, and senders of telemetry on this machine, or with the token."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from ipaddress import ip_address
from secrets import compare_digest
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request  # noqa: TC002 - annotations stay resolvable

MAX_BODY_BYTES: Final = 16 * 1024 * 1024
"""Of one request, as it is sent."""
MAX_DECOMPRESSED_BYTES: Final = 64 * 1024 * 1024
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Of every response that does not set them itself."""

_EITHER: Final = zlib.MAX_WBITS | 32
"""Of zlib: gzip or deflate, whichever the header names."""
_OWN_SITES: Final = frozenset({"", "same-origin", "none"})
_LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class RefusedError(Exception):
    """A request is refused.

    Args:
        status: of the response.
        sentence: names the reason.
    """

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


@dataclass(frozen=True)
class Guard:
    """Decides whether a request is answered.

    Args:
        address: that the server listens on.
        token: that each request has to hold where the server listens beyond loopback; None: none is needed.
    """

    address: str
    token: str | None

    def check(self, request: Request, *, needs_token: bool = True) -> None:
        """Check where a request comes from and which host it names.

        A page of another origin, and a name that resolves to this machine only now (DNS rebinding), are refused.

        Raises:
            RefusedError: it is not answered.
        """
        address = request.headers.get("host", "").lower()
        host = _parse_host(f"//{address}")
        if self.token is None and host not in _LOOPBACK_NAMES and host != self.address:
            raise RefusedError(403, "the Host header names another machine than this one.")
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site", "")
        is_own = origin is None or origin.lower().partition("://")[2] == address
        if not is_own or site not in _OWN_SITES:
            raise RefusedError(403, "a page of another origin may neither read nor send.")
        given = request.query_params.get("token") or request.headers.get("authorization", "")
        if needs_token and not self.has_token(given):
            raise RefusedError(401, "the token is missing: use the address that otel-itl view has printed.")

    def has_token(self, given: str) -> bool:
        """Return whether what is given, itself or as `Bearer TOKEN`, is the token, or none is needed."""
        return self.token is None or compare_digest(given.removeprefix("Bearer ").encode(), self.token.encode())


def _parse_host(url: str) -> str:
    """Return the host of a URL, without its port; empty where it has none, or is no URL."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def is_loopback(address: str) -> bool:
    """Return whether an address is reached from this machine alone."""
    if address == "localhost":
        return True
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


async def read_body(request: Request) -> bytes:
    """Read the body of a request, decompressed.

    Raises:
        RefusedError: it is too large, before or after decompression, or its encoding is not accepted.
    """
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY_BYTES:
            raise RefusedError(413, f"the body is larger than {MAX_BODY_BYTES >> 20} MiB.")
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    return decompress(bytes(body), encoding)


def decompress(body: bytes, encoding: str) -> bytes:
    """Return a body without its compression.

    Raises:
        RefusedError: it would become too large, it is damaged, or the encoding is not accepted.
    """
    if encoding == "identity":
        return body
    if encoding not in {"gzip", "deflate"}:
        raise RefusedError(
            415, f"Content-Encoding {encoding[:40]!r} is not accepted: it takes gzip, deflate or identity."
        )
    try:
        decompressor = zlib.decompressobj(_EITHER)
        plain = decompressor.decompress(body, MAX_DECOMPRESSED_BYTES + 1)
    except zlib.error as error:
        raise RefusedError(400, f"the body is no {encoding}.") from error
    if not decompressor.eof and len(plain) <= MAX_DECOMPRESSED_BYTES:
        raise RefusedError(400, f"the body is no {encoding}: it ends early.")
    if len(plain) > MAX_DECOMPRESSED_BYTES:
        raise RefusedError(413, f"the body is larger than {MAX_DECOMPRESSED_BYTES >> 20} MiB once decompressed.")
    return plain
