"""The recipes of docs/recipes.md: each is started exactly as written there, and its spans arrive over OTLP.

Only ports and addresses are those of the test, given by the variables that each program reads.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from otel_itl.testing import ScriptedServer, chat
from tests.integration.conftest import HttpReceiver

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
TOKENS: Final = ["Ray", "leigh", " scattering."]
SECONDS: Final = 80
"""How long a recipe may take on a busy machine: some programs import for ten seconds."""

pytestmark = pytest.mark.timeout(150)


class Block(NamedTuple):
    """One fenced block of the page."""

    language: str
    code: str

    @property
    def file(self) -> str:
        """The name of the file that the block is, which its first line gives as a comment."""
        return self.code.partition("\n")[0].removeprefix("# ")


def blocks_of(heading: str) -> list[Block]:
    """The blocks of a section, in order."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [Block(*found) for found in re.findall(r"^```(\w+)\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


class Recipe:
    """One recipe while it runs: its folder with the files of the page, and the processes that its commands started.

    Args:
        heading: of the section.
        folder: where its files are.
        server: the scripted model.
    """

    def __init__(self, heading: str, folder: Path, server: ScriptedServer) -> None:
        self.folder = folder
        self.port = free_port()
        self.receiver = HttpReceiver()
        self._blocks = blocks_of(heading)
        self._log = (folder / "output.txt").open("w+b")
        self._started: list[subprocess.Popen[bytes]] = []
        foreign = ("OTEL_", "OPENAI_", "PYTHON", "CELERY_", "LITELLM_")
        self._environ = {name: value for name, value in os.environ.items() if not name.startswith(foreign)} | {
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
            "HOME": str(folder),
            "PYTHONPATH": str(ROOT),
            "OPENAI_BASE_URL": server.openai_url,
            "OPENAI_API_KEY": "none",
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.receiver.url,
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
            "NO_PROXY": "127.0.0.1,localhost",
        }
        for block in self._blocks:
            if block.language in {"python", "yaml"} and block.file != "cell":
                (folder / block.file).write_text(block.code, encoding="utf-8")

    @property
    def commands(self) -> list[str]:
        """The commands of the section, without the one that installs."""
        return [
            block.code.strip()
            for block in self._blocks
            if block.language == "bash" and not block.code.startswith(("pip ", "export "))
        ]

    @property
    def cells(self) -> list[str]:
        """The cells of a notebook."""
        return [block.code for block in self._blocks if block.file == "cell"]

    @property
    def output(self) -> str:
        """What all processes of the recipe have printed."""
        return (self.folder / "output.txt").read_text(encoding="utf-8", errors="replace")

    def start(self, command: str, **variables: str) -> subprocess.Popen[bytes]:
        """Start a command of the page, as a shell does."""
        running = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {command}" if "=" not in command.split(maxsplit=1)[0] else command],
            cwd=self.folder,
            env=self._environ | variables,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._started.append(running)
        return running

    def run(self, command: str, **variables: str) -> None:
        """Run a command of the page to its end, which is to be a good one."""
        assert self.start(command, **variables).wait(SECONDS) == 0, self.output

    def wait_until(self, is_so: Callable[[], object]) -> None:
        """Wait until something holds; an OSError counts as not yet."""
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                if is_so():
                    return
            except OSError:
                pass
            assert time.monotonic() < deadline, self.output
            assert not any(running.poll() for running in self._started), self.output
            time.sleep(0.1)

    def wait_for_port(self) -> None:
        """Wait until the recipe's server listens."""
        self.wait_until(lambda: socket.create_connection(("127.0.0.1", self.port), 1).close() is None)

    def wait_for_spans(self, count: int = 1) -> None:
        """Wait until this number of our spans have arrived."""
        self.wait_until(lambda: len(self.spans) >= count)

    @property
    def spans(self) -> list[tuple[str, dict[str, Any]]]:
        """Name and attributes of our spans that arrived."""
        return [
            (span.name, self.receiver.plain(span.attributes))
            for request in list(self.receiver.requests)
            for part in getattr(request, "resource_spans", ())
            for scope in part.scope_spans
            for span in scope.spans
            if scope.scope.name == "otel_itl"
        ]

    def stop(self) -> None:
        """End what runs, and what it has started."""
        for running in self._started:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGTERM)
        for running in self._started:
            try:
                running.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(running.pid, signal.SIGKILL)
                running.wait()
        self.receiver.stop()
        self._log.close()


def run_script(recipe: Recipe) -> None:
    (command,) = recipe.commands
    recipe.run(command)
    assert "".join(TOKENS) in recipe.output


def run_fastapi(recipe: Recipe) -> None:
    (command,) = recipe.commands
    (url,) = re.findall(r"`(http://127.0.0.1:8000/\S+)`", PAGE)
    recipe.start(command, UVICORN_PORT=str(recipe.port))
    recipe.wait_for_port()
    with urllib.request.urlopen(url.replace(":8000", f":{recipe.port}"), timeout=SECONDS) as answer:  # noqa: S310
        assert answer.read().decode() == "".join(TOKENS)


def run_gradio(recipe: Recipe) -> None:
    from gradio_client import Client

    (command,) = recipe.commands
    recipe.start(command, GRADIO_SERVER_PORT=str(recipe.port), GRADIO_ANALYTICS_ENABLED="False")
    recipe.wait_for_port()
    answer = Client(f"http://127.0.0.1:{recipe.port}", verbose=False).predict("Why?", api_name="/answer")
    assert answer == "".join(TOKENS)


def run_celery(recipe: Recipe) -> None:
    worker, call = recipe.commands
    # A broker of files: what is written to the one folder is read from the other, which is the same.
    (recipe.folder / "data_in").mkdir()
    (recipe.folder / "data_out").symlink_to("data_in")
    recipe.start(worker, CELERY_BROKER_URL="filesystem://")
    recipe.run(call, CELERY_BROKER_URL="filesystem://")


def run_llm(recipe: Recipe) -> None:
    (command,) = recipe.commands
    recipe.run(command, LLM_USER_PATH=str(recipe.folder))
    assert "".join(TOKENS) in recipe.output


def run_litellm(recipe: Recipe) -> None:
    serve, ask = recipe.commands
    script = next(block for block in blocks_of("A script") if block.file == "app.py")
    (recipe.folder / "app.py").write_text(script.code, encoding="utf-8")
    key = f"sk-{secrets.token_hex(32)}"
    recipe.start(serve, PORT=str(recipe.port), LITELLM_LOCAL_MODEL_COST_MAP="True", LITELLM_MASTER_KEY=key)
    recipe.wait_for_port()
    recipe.run(ask.replace(":4000", f":{recipe.port}"), LITELLM_MASTER_KEY=key)
    assert "".join(TOKENS) in recipe.output
    recipe.wait_for_spans(2)


def run_jupyter(recipe: Recipe) -> None:
    import nbformat

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in recipe.cells])
    nbformat.write(notebook, recipe.folder / "recipe.ipynb")
    recipe.run(shlex.join(["jupyter", "execute", "--output=done.ipynb", "recipe.ipynb"]))
    done = nbformat.read(recipe.folder / "done.ipynb", as_version=4)
    assert "".join(output["text"] for output in done.cells[1].outputs if output["name"] == "stdout") == "".join(TOKENS)


RECIPES: Final[dict[str, tuple[str, Callable[[Recipe], None]]]] = {
    "A LiteLLM proxy": ("litellm", run_litellm),  # the slowest to start comes first
    "Gradio": ("gradio", run_gradio),
    "FastAPI and uvicorn": ("fastapi", run_fastapi),
    "Celery": ("celery", run_celery),
    "Jupyter": ("nbclient", run_jupyter),
    "The command-line tool `llm`": ("llm", run_llm),
    "A script": ("openai", run_script),
}
"""Heading → the module that it needs, and how the recipe is run."""
MODELS: Final = {"The command-line tool `llm`": "gpt-4o-mini"}


class Ran(NamedTuple):
    """How a recipe went."""

    error: BaseException | None
    spans: list[tuple[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Ran]]:
    """Every recipe, three at a time: most of what they do is importing, the rest is waiting."""
    missing = [module for module, _ in RECIPES.values() if find_spec(module) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: it is in the environment `recipes` of .ci/run")

    def run(heading: str) -> Ran:
        recipe = Recipe(heading, folders[heading], server)
        error: BaseException | None = None
        try:
            RECIPES[heading][1](recipe)
            recipe.wait_for_spans()
        except BaseException as raised:
            error = raised
        finally:
            recipe.stop()
        return Ran(error, recipe.spans)

    folders = {heading: tmp_path_factory.mktemp("recipe") for heading in RECIPES}  # which is not for threads
    with ScriptedServer() as server, ThreadPoolExecutor(3) as pool:
        server.always(chat.reply(TOKENS, first=0.2, gaps=0.1))
        yield dict(zip(RECIPES, pool.map(run, RECIPES), strict=True))


def test_every_section_of_the_page_is_a_recipe_that_runs() -> None:
    assert sorted(re.findall(r"^## (.*)$", PAGE, re.MULTILINE)) == sorted(RECIPES)


@pytest.mark.parametrize("heading", list(RECIPES))
def test_a_recipe_runs_as_it_is_written(heading: str, ran: dict[str, Ran]) -> None:
    if (error := ran[heading].error) is not None:
        raise error


@pytest.mark.parametrize("heading", list(RECIPES))
def test_the_stream_of_a_recipe_arrives_with_its_tokens(heading: str, ran: dict[str, Ran]) -> None:
    model = MODELS.get(heading, "gpt-5-mini")
    found = [(name, facts["itl.output_chunk.count"], facts["itl.stream.outcome"]) for name, facts in ran[heading].spans]
    assert found == [(f"chat {model}", len(TOKENS), "completed")] * (2 if heading == "A LiteLLM proxy" else 1)


@pytest.mark.parametrize("heading", list(RECIPES))
def test_what_a_recipe_installs_is_in_its_environment(heading: str) -> None:
    (install,) = [block.code for block in blocks_of(heading) if block.code.startswith("pip install ")]
    packages = [package for package in shlex.split(install)[2:] if not package.startswith("otel-itl[")]
    listed = (Path(__file__).parent / "requirements.txt").read_text(encoding="utf-8")
    stands_for = {"notebook": "ipykernel"}  # its pages need a browser; its kernel is what runs the cells
    missing = [name for name in packages if f"\n{stands_for.get(name, name)}==" not in listed]
    assert missing == []
