"""A front that speaks TLS to clients and passes the bytes on as they are, over HTTP/1.1 or HTTP/2 as a client asks.

It runs in a process of its own, and adds some tenths of a millisecond to the way of a chunk.
"""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import IO, Final, cast

_HOST: Final = "127.0.0.1"
MISSING: Final = "" if shutil.which("openssl") else "openssl, which makes the certificate, is not on the PATH"
"""Why it cannot be used; '' where it can."""


class TLSFront:
    """Runs the front of a server as a child process, as a context manager."""

    def __init__(self, upstream_port: int) -> None:
        self._upstream_port = upstream_port
        self._folder = TemporaryDirectory()
        self.certificate = str(Path(self._folder.name) / "certificate.pem")
        """File of the certificate that a client has to trust."""

    def __enter__(self) -> TLSFront:  # noqa: PYI034 - `Self` is in typing from 3.11 on
        key = str(Path(self._folder.name) / "key.pem")
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
        name = ("-subj", "/CN=bench", "-addext", f"subjectAltName=IP:{_HOST}")
        made = ["openssl", "req", "-x509", *curve, *name, "-keyout", key, "-out", self.certificate]
        subprocess.run(made, check=True, capture_output=True)  # noqa: S603 - found on PATH, arguments of our own
        command = [sys.executable, "-m", __name__, str(self._upstream_port), self.certificate, key]
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 - ourselves
        port = int(cast("IO[bytes]", self._child.stdout).readline())
        self.url = f"https://{_HOST}:{port}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        cast("IO[bytes]", self._child.stdin).close()
        self._child.wait(timeout=5)
        cast("IO[bytes]", self._child.stdout).close()
        self._folder.cleanup()

    @property
    def pid(self) -> int:
        """Id of the process."""
        return self._child.pid


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Write what is read until the end, or until one side breaks off."""
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _serve(upstream_port: int, certificate: str, key: str) -> None:
    """Print the port, and serve until standard input ends."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["h2", "http/1.1"])

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection(_HOST, upstream_port)
        with suppress(asyncio.CancelledError):  # the end of the front, which asyncio would report as an error
            await asyncio.gather(_pass_on(reader, server_writer), _pass_on(server_reader, writer))

    server = await asyncio.start_server(connect, _HOST, 0, ssl=context, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), *sys.argv[2:]))
