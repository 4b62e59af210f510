"""Nothing is lost when a process ends, by a signal, in a server, in a pool, and its end stays what it was."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from processes import PATIENCE_SECONDS, needs
from servers_ending import FILE, Ended, Scenario, send

from otel_itl.testing import ScriptedServer

pytestmark = [
    pytest.mark.requirement("R28"),
    pytest.mark.skipif(os.name != "posix", reason="this system has no signals that ask a process to end"),
]

SIDE_BY_SIDE: Final = 4
"""Processes at the same time: two cores, and each of them also waits."""
MAX_SECONDS: Final = 2.0
"""How long the end may be delayed."""
SLACK_SECONDS: Final = 2.0
"""What a busy machine may add to it."""

INSTRUMENT: Final = "import os, sys, otel_itl\notel_itl.instrument()\nfrom streams_at_the_end import *\n"
BEGIN: Final = INSTRUMENT + "complete_one_and_leave_one_open()\n"
TO_A_FILE: Final = BEGIN.replace("instrument()", f"instrument(file={FILE!r})")
APPLICATION: Final = INSTRUMENT + "app, application = asgi, wsgi\n"
ZERO_CODE: Final = (str(Path(sys.executable).with_name("opentelemetry-instrument")), sys.executable, "-m")
UVICORN: Final = ("uvicorn", "program:app", "--uds", "{socket}", "--log-level", "error")
# A worker that takes long to start is killed otherwise.
UVICORN_WORKERS: Final = (*UVICORN, "--workers", "2", "--timeout-worker-healthcheck", "50")
GUNICORN: Final = ("gunicorn", "--bind", "unix:{socket}", "--log-level", "error")
GUNICORN_UVICORN: Final = (*GUNICORN, "program:app", "--worker-class", "uvicorn.workers.UvicornWorker")
HYPERCORN: Final = ("hypercorn", "program:app", "--bind", "unix:{socket}", "--log-level", "error")
CELERY: Final = """
from celery import Celery, signals

app = Celery(broker="memory://")

@app.task
def work():
    complete_one_and_leave_one_open()
    announce()

@signals.worker_ready.connect
def begin(**_):
    work.delay()
"""
CHILDREN: Final = """
import multiprocessing

def work():
    complete_one_and_leave_one_open()
    announce()

if __name__ == "__main__":
"""
IN_A_CHILD: Final = """
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join()
    sys.exit(child.exitcode)
"""
IN_A_POOL: Final = """
    with multiprocessing.get_context("fork").Pool(1) as pool:
        pool.apply(work)
"""
ASYNC: Final = """
import asyncio

async def main():
    stopped = asyncio.Event()
    # the handler
    announce()
    await stopped.wait()

asyncio.run(main())
"""
IN_A_THREAD: Final = """
import threading, otel_itl
from streams_at_the_end import *

thread = threading.Thread(target=otel_itl.instrument)
thread.start()
thread.join()
complete_one_and_leave_one_open()
be_stopped()
"""
IN_LOCKS: Final = """
import logging
from otel_itl.runtime import runtime

handler = logging.StreamHandler()
logging.getLogger().addHandler(handler)
with runtime.finalizer.thread.in_round, handler.lock:
    be_stopped()
"""
READING: Final = """
import openai

asked = [{"role": "user", "content": "hello"}]
client = openai.OpenAI(base_url=os.environ["SERVER"], api_key="none")
stream = client.chat.completions.create(model="endless", messages=asked, stream=True)
next(stream)
announce()
list(stream)
"""
AS_THE_FIRST_PROCESS: Final = """
announce()
sys.stdin.readline()
list(LEFT_OPEN[0])
sys.exit(4)
"""
BOTH: Final = {"complete": "completed", "open": "abandoned"}
SERVED: Final = {**BOTH, "slow": "completed"}

UNSHARE: Final = (shutil.which("unshare") or "", "--user", "--map-root-user", "--pid", "--fork")
CAN_UNSHARE: Final = bool(UNSHARE[0]) and subprocess.run([*UNSHARE, "true"], check=False).returncode == 0
"""Whether a test may start the first process of a namespace, as that of a container is; else it pretends to be one."""


def send_twice(process: subprocess.Popen[str], _: object) -> None:
    """Send SIGTERM, and a little later again."""
    process.terminate()
    time.sleep(0.3)
    process.terminate()


def freeze(process: subprocess.Popen[str], _: object) -> None:
    """Stop a process for good."""
    process.send_signal(signal.SIGSTOP)
    process.kill()


def stop_and_let_go_on(process: subprocess.Popen[str], receiver: Any) -> None:
    """Send SIGTERM to the first process of a namespace, and let it go on when what it flushes has arrived."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    os.kill(int(children.read_text()) if CAN_UNSHARE else process.pid, signal.SIGTERM)
    until = time.monotonic() + PATIENCE_SECONDS
    while not receiver.spans and time.monotonic() < until:
        time.sleep(0.01)
    assert process.stdin is not None
    process.stdin.write("go on\n")
    process.stdin.flush()


def web_server(*command: str, returncode: int = 0, packages: tuple[str, ...], **fields: Any) -> Scenario:
    """A server that loads the application of `streams_at_the_end`."""
    fields = {"program": APPLICATION, "outcomes": SERVED, "max_seconds": 5.0, **fields}
    return Scenario(command=command, returncode=returncode, packages=packages, **fields)


SCRIPTS: Final = {
    "SIGTERM": Scenario(BEGIN + "be_stopped()"),
    "SIGTERM, the application owns the SDK": Scenario(
        "import streams_at_the_end as s\ns.own_the_sdk()\n" + BEGIN + "be_stopped()"
    ),
    "SIGTERM, instrumented in another thread": Scenario(IN_A_THREAD),
    "SIGTERM, inside locks of logging and of ours": Scenario(BEGIN + IN_LOCKS),
    "SIGTERM, while a stream of openai is read": Scenario(
        INSTRUMENT + "complete()" + READING,
        packages=("openai",),
        outcomes={"complete": "completed", "endless": "abandoned"},
    ),
    "SIGTERM, asyncio": Scenario(BEGIN + ASYNC),
    "SIGTERM, asyncio handles it": Scenario(
        BEGIN + ASYNC.replace("# the handler", "asyncio.get_running_loop().add_signal_handler(15, stopped.set)"),
        returncode=0,
    ),
    "SIGTERM, gevent": Scenario(
        "from gevent import monkey\nmonkey.patch_all()\n" + BEGIN + "be_stopped()", packages=("gevent",)
    ),
    "SIGTERM, a handler from before": Scenario(
        "import streams_at_the_end as s, sys\ns.handle_sigterm(lambda *_: sys.exit(3))\n" + BEGIN + "be_stopped()",
        returncode=3,
    ),
    "SIGTERM, a handler from after": Scenario(
        INSTRUMENT + "handle_sigterm(lambda *_: sys.exit(3))\ncomplete_one_and_leave_one_open()\nbe_stopped()",
        returncode=3,
    ),
    "SIGTERM to the first process of a container": Scenario(
        ("" if CAN_UNSHARE else "import os\nos.getpid = lambda: 1\n") + BEGIN + AS_THE_FIRST_PROCESS,
        launcher=(
            *(("unshare", "--user", "--map-root-user", "--pid", "--fork") if CAN_UNSHARE else ()),
            sys.executable,
            "-m",
        ),
        end=stop_and_let_go_on,
        returncode=4,
        outcomes={"complete": "completed", "open": "completed"},
    ),
    "SIGHUP": Scenario(BEGIN + "be_stopped()", end=send(signal.SIGHUP), returncode=-signal.SIGHUP),
    "SIGINT": Scenario(BEGIN + "be_stopped()", end=send(signal.SIGINT), returncode=-signal.SIGINT),
    "sys.exit": Scenario(BEGIN + "announce()\nsys.exit(7)", end=None, returncode=7),
    "os._exit after a flush": Scenario(
        BEGIN + "otel_itl.flush()\nannounce()\nos._exit(5)", end=None, returncode=5, outcomes={"complete": "completed"}
    ),
    "frozen after a flush": Scenario(
        BEGIN + "otel_itl.flush()\nbe_stopped()",
        end=freeze,
        returncode=-signal.SIGKILL,
        outcomes={"complete": "completed"},
    ),
    "the end of a child of multiprocessing": Scenario(INSTRUMENT + CHILDREN + IN_A_CHILD, end=None, returncode=0),
    "the end of a pool of multiprocessing": Scenario(INSTRUMENT + CHILDREN + IN_A_POOL, end=None, returncode=0),
}
SERVERS: Final = {
    "uvicorn": web_server(*UVICORN, packages=("uvicorn",), returncode=-signal.SIGTERM),
    "uvicorn, no line of code": web_server(
        *UVICORN,
        packages=("uvicorn",),
        launcher=ZERO_CODE,
        program="from streams_at_the_end import asgi as app",
        returncode=-signal.SIGTERM,
    ),
    "uvicorn with workers": web_server(*UVICORN_WORKERS, packages=("uvicorn",)),
    "uvicorn with workers, no line of code": web_server(
        *UVICORN_WORKERS,
        packages=("uvicorn",),
        launcher=ZERO_CODE,
        program="from streams_at_the_end import asgi as app",
    ),
    "gunicorn": web_server(*GUNICORN, "program:application", packages=("gunicorn",)),
    "gunicorn --preload": web_server(*GUNICORN, "program:application", "--preload", packages=("gunicorn",)),
    "gunicorn with uvicorn's workers": web_server(*GUNICORN_UVICORN, packages=("gunicorn", "uvicorn")),
    "gunicorn --preload with uvicorn's workers": web_server(
        *GUNICORN_UVICORN, "--preload", packages=("gunicorn", "uvicorn")
    ),
    "hypercorn": web_server(*HYPERCORN, packages=("hypercorn",)),
    # When the first worker has ended, hypercorn sends SIGTERM to the others, and cuts their responses short.
    "hypercorn with workers": web_server(
        *HYPERCORN, "--workers", "2", packages=("hypercorn",), asks_slowly=False, outcomes=BOTH
    ),
    "celery": Scenario(
        INSTRUMENT + CELERY,
        ("celery", "-A", "program", "worker", "-c", "1", "--without-gossip", "--without-mingle", "-l", "error"),
        packages=("celery",),
        returncode=0,
        max_seconds=10.0,  # as without otel_itl
    ),
}
SCENARIOS: Final = SCRIPTS | SERVERS
Run = Callable[[str], Ended]


@pytest.fixture(scope="module")
def unanswered() -> Iterator[str]:
    """An endpoint that takes what is sent, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture(scope="module")
def ended(unanswered: str, server: ScriptedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Return a scenario's process after its end. All of them are started when the first is asked for."""
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        scenarios = {
            name: scenario
            for name, scenario in SCENARIOS.items()
            if not any(importlib.util.find_spec(package) is None for package in scenario.packages)
        }
        scenarios["unanswered"] = Scenario(TO_A_FILE + "be_stopped()", endpoint=unanswered)
        scenarios["unanswered, a second signal"] = replace(scenarios["unanswered"], end=send_twice)
        running: dict[str, Future[Ended]] = {
            name: pool.submit(scenario.run, tmp_path_factory.mktemp("ending"), server.openai_url)
            for name, scenario in scenarios.items()
        }
        yield lambda name: running[name].result()


def case(name: str) -> Any:
    """A scenario by name, skipped where a package is missing."""
    packages = SCENARIOS[name].packages
    return pytest.param(name, marks=[needs(*packages)] if packages else [])


each = pytest.mark.parametrize("name", [case(name) for name in SCENARIOS])


@each
def test_streams_are_exported_before_the_process_ends(name: str, ended: Run) -> None:
    assert ended(name).outcomes == SCENARIOS[name].outcomes


@each
def test_the_exit_code_is_that_of_the_application(name: str, ended: Run) -> None:
    assert ended(name).returncode == SCENARIOS[name].returncode


@each
def test_the_process_ends_in_time(name: str, ended: Run) -> None:
    assert ended(name).seconds < SCENARIOS[name].max_seconds + SLACK_SECONDS


@each
def test_nothing_is_printed_of_the_end(name: str, ended: Run) -> None:
    lines = ended(name).stderr.splitlines()
    assert [line for line in lines if "otel_itl" in line or "opentelemetry" in line or "xception" in line] == []


@pytest.mark.parametrize("name", [case(name) for name, scenario in SERVERS.items() if "slow" in scenario.outcomes])
def test_a_graceful_shutdown_is_not_cut_short(name: str, ended: Run) -> None:
    assert ended(name).response == b"abc"


def test_an_endpoint_that_does_not_answer_delays_the_end_by_two_seconds(ended: Run) -> None:
    process = ended("unanswered")
    assert (process.returncode, MAX_SECONDS <= process.seconds < MAX_SECONDS + SLACK_SECONDS) == (-signal.SIGTERM, True)


def test_an_endpoint_that_does_not_answer_keeps_nothing_out_of_the_file(ended: Run) -> None:
    documents = [json.loads(line) for line in ended("unanswered").file.splitlines()]
    spans = [
        span["name"]
        for document in documents
        for resource in document.get("resourceSpans", ())
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]
    assert sorted(spans) == ["chat complete", "chat open"]


def test_a_second_signal_ends_the_process_at_once(ended: Run) -> None:
    process = ended("unanswered, a second signal")
    assert (process.returncode, process.seconds < MAX_SECONDS) == (-signal.SIGTERM, True)
