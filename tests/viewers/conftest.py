"""Both viewers, started once, after the same streams were sent to each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from urllib.request import urlopen

import pytest
from viewer_servers import MAX_START, Viewer, Viewers, free_port, running, stream_to, wait_for


@pytest.fixture(scope="session")
def viewers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewers]:
    """Start both viewers at once, and stream to each."""
    for package in ("phoenix", "mlflow"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    folders = [tmp_path_factory.mktemp(name) for name in ("phoenix", "mlflow")]
    ports = [free_port() for _ in range(3)]
    made = Viewers(Viewer(ports[0], 6006), Viewer(ports[1], 5000))
    with ExitStack() as stack:
        stack.enter_context(
            running(
                ["phoenix.server.main", "serve"],
                folders[0],
                PHOENIX_WORKING_DIR=str(folders[0]),
                PHOENIX_HOST="127.0.0.1",
                PHOENIX_PORT=str(ports[0]),
                PHOENIX_GRPC_PORT=str(ports[2]),
                PHOENIX_TELEMETRY_ENABLED="false",
            )
        )
        stack.enter_context(
            running(
                ["mlflow", "server", "--host", "127.0.0.1", "--port", str(ports[1]), "--workers", "1"],
                folders[1],
                MLFLOW_DISABLE_TELEMETRY="true",
                MLFLOW_BACKEND_STORE_URI=f"sqlite:///{folders[1]}/mlflow.db",
            )
        )
        wait_for(lambda: urlopen(f"{made.phoenix.url}/healthz", timeout=5).status == 200, MAX_START)  # noqa: S310
        wait_for(lambda: urlopen(f"{made.mlflow.url}/health", timeout=5).status == 200, MAX_START)  # noqa: S310
        stream_to(made.phoenix.variables("Phoenix"))
        stream_to(made.mlflow.variables("MLflow"))
        yield made
