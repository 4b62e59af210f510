"""Every signal ends a program as it ends the same program without otel_itl: same signal, exit code and output."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from processes import PATIENCE_SECONDS, needs
from servers_ending import OTHERS, ROOT

pytestmark = [
    pytest.mark.requirement("R28"),
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="this system has no signals that end a process"),
]

SIDE_BY_SIDE: Final = 4
SECONDS: Final = 3
"""After so long a program goes on that no signal has ended."""
SETTLING_SECONDS: Final = 0.2
"""From the announcement to the signal: the program is to sleep by then, so that each run has the same traceback."""
BIN: Final = Path(sys.executable).parent

WITHOUT: Final = """
def observe(pieces, **_):
    return pieces
"""
WITH: Final = """
import otel_itl
from otel_itl import observe

otel_itl.instrument(file="telemetry.jsonl")
"""
BEGIN: Final = f"""
import os, signal, sys, threading, time
from measured import observe

def announce():
    os.write(1, b"ready %d\\n" % os.getpid())

def pieces():
    yield "a"
    announce()
    time.sleep({SECONDS})
    yield "b"

def read():
    for _ in observe(pieces(), provider="p", model="m"):
        pass

def handle(*signals, by):
    for name in signals:
        signal.signal(getattr(signal, name), by)
"""
ASYNC: Final = f"""
import asyncio

async def pieces():
    yield "a"
    announce()
    await asyncio.sleep({SECONDS})
    yield "b"

async def read():
    async for _ in observe(pieces(), provider="p", model="m"):
        pass
"""
CHAINED: Final = """
before = signal.getsignal(signal.SIGTERM)

def stop(number, frame):
    if callable(before):
        before(number, frame)
    sys.exit(7)

handle("SIGTERM", by=stop)
read()
"""
RAISED_AGAIN: Final = """
def stop(number, frame):
    print("cleaned up", file=sys.stderr, flush=True)
    signal.signal(number, before)
    if before is signal.SIG_DFL:
        os.kill(os.getpid(), number)

before = signal.signal(signal.SIGTERM, stop)
read()
"""
CHILD: Final = """
import multiprocessing

if __name__ == "__main__":
    child = multiprocessing.get_context("METHOD").Process(target=read)
    child.start()
    child.join()
    print("child", child.exitcode, file=sys.stderr)
"""
FAMILY: Final = "a sub-process"
APPLICATION: Final = "a web application"
TASKS: Final = "tasks"
DEFAULT_CTRL_C: Final = "the default for Ctrl-C"
PROGRAMS: Final = {
    "a stream": "read()\nsys.exit(5)",
    "after a stream": """
list(observe(iter("ab"), provider="p", model="m"))
announce()
for _ in range(1_200):
    time.sleep(0.05)
""",
    "a stream in a thread": "thread = threading.Thread(target=read, daemon=True)\nthread.start()\nthread.join()",
    "asyncio": ASYNC + "asyncio.run(read())",
    "asyncio, a handler of the loop": ASYNC
    + """
async def main():
    task = asyncio.ensure_future(read())
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        sys.exit(8)

asyncio.run(main())
""",
    "handlers that exit": "handle('SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR1', by=lambda *_: sys.exit(3))\nread()",
    "handlers that go on": "handle('SIGINT', 'SIGTERM', 'SIGHUP', by=lambda *_: print('got it'))\nread()",
    "ignored": "handle('SIGINT', 'SIGTERM', 'SIGHUP', by=signal.SIG_IGN)\nread()\nsys.exit(6)",
    DEFAULT_CTRL_C: "handle('SIGINT', by=signal.SIG_DFL)\nread()",
    "KeyboardInterrupt is caught": "try:\n    read()\nexcept KeyboardInterrupt:\n    sys.exit(4)",
    "a console in the program, interrupted before": """
import code

try:
    code.InteractiveInterpreter().runcode(compile("raise KeyboardInterrupt", "console", "exec"))
    read()
finally:
    sys.exit(9)
""",
    "a handler that calls the one from before": CHAINED,
    "a handler that restores the default": RAISED_AGAIN,
    "a forked child": CHILD.replace("METHOD", "fork"),
    "a spawned child": CHILD.replace("METHOD", "spawn"),
    FAMILY: """
import subprocess
list(observe(iter("ab"), provider="p", model="m"))
child = subprocess.Popen(["sleep", "60"])
announce()
child.wait()
print("child", child.returncode, file=sys.stderr)
""",
    APPLICATION: """
list(observe(iter("ab"), provider="p", model="m"))

async def app(scope, receive, send):
    while scope["type"] == "lifespan":
        event = (await receive())["type"]
        if event == "lifespan.startup":
            announce()
        await send({"type": f"{event}.complete"})
        if event == "lifespan.shutdown":
            return

def application(environ, start_response):
    return []

if "gunicorn" in sys.modules:
    announce()
""",
    TASKS: """
from celery import Celery, signals

app = Celery(broker="memory://")

@signals.worker_process_init.connect
def begin(**_):
    list(observe(iter("ab"), provider="p", model="m"))

@signals.worker_ready.connect
def be_ready(**_):
    announce()
""",
}
"""Programs that announce that they are ready for a signal."""

QUIET_CELERY: Final = ("--without-gossip", "--without-mingle", "--without-heartbeat")
SCRIPT: Final = (sys.executable, "program.py")
WAYS: Final = {
    "python program.py": SCRIPT,
    "python -m": (sys.executable, "-m", "program"),
    "python -c": (sys.executable, "-c", "from program import *"),
    "python FOLDER": (sys.executable, "."),
    "otel-itl run": (sys.executable, "-m", "otel_itl", "run", "--quiet", "program.py"),
    "otel-itl run -m": (sys.executable, "-m", "otel_itl", "run", "--quiet", "-m", "program"),
    "uvicorn": (str(BIN / "uvicorn"), "program:app", "--uds", "socket", "--log-level", "error"),
    "gunicorn": (str(BIN / "gunicorn"), "program:application", "-b", "unix:socket", "--log-level", "critical"),
    "celery": (str(BIN / "celery"), "-A", "program", "worker", "-c", "1", "-l", "critical", *QUIET_CELERY),
    "opentelemetry-instrument": (str(BIN / "opentelemetry-instrument"), *SCRIPT),
}
"""How a program is started with otel_itl. Without it, `otel-itl run` is left out."""

SERVERS: Final = {"uvicorn": APPLICATION, "gunicorn": APPLICATION, "celery": TASKS}
"""What each server runs."""
OTHERWISE: Final = (FAMILY, APPLICATION, TASKS)
"""Programs that are not started as scripts."""

LAUNCHED, ITSELF, GROUP = "the process", "the one that streams", "the process group"
ENDING: Final = ("SIGINT", "SIGTERM", "SIGHUP")
SIGNALS: Final = (*ENDING, "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGPIPE", "SIGVTALRM", "SIGCHLD", "SIGWINCH")


class Case(NamedTuple):
    """A program, how it is started, and the signal that it gets."""

    program: str
    way: str
    signal: str
    target: str = LAUNCHED


class End(NamedTuple):
    """How a process ended."""

    returncode: int
    """-n for signal n."""
    stdout: str
    stderr: str
    """Without our frames of a traceback. Of several processes at once, the lines are sorted."""


CASES: Final = tuple(
    dict.fromkeys(
        [
            *(Case("a stream", "python program.py", name) for name in SIGNALS),
            *(Case("a stream", "otel-itl run", name) for name in SIGNALS),
            *(Case("a stream", way, name) for way in WAYS if way not in SERVERS for name in ENDING[:2]),
            *(Case(SERVERS[way], way, name) for way in SERVERS for name in (*ENDING[:2], "SIGQUIT")),
            *(
                Case(name, "python program.py", each)
                for name in PROGRAMS
                if name not in OTHERWISE
                for each in ENDING[:2]
            ),
            *(
                Case(name, "otel-itl run", each)
                for name in (
                    "asyncio",
                    "handlers that exit",
                    "handlers that go on",
                    "ignored",
                    "the default for Ctrl-C",
                )
                for each in ENDING[:2]
            ),
            *(
                Case(name, "otel-itl run", each, GROUP)
                for name in ("a stream", "handlers that go on", "a forked child")
                for each in ENDING
            ),
            *(Case(FAMILY, way, each, GROUP) for way in ("python program.py", "otel-itl run") for each in ENDING),
            *(
                Case(name, "python program.py", each, ITSELF)
                for name in ("a forked child", "a spawned child")
                for each in (*ENDING, "SIGUSR1")
            ),
        ]
    )
)


def start(case: Case, folder: Path, *, is_measured: bool) -> End:
    """Run a program until the signal has ended it, or it has ended by itself."""
    program = BEGIN + PROGRAMS[case.program]
    (folder / "program.py").write_text(program)
    (folder / "__main__.py").write_text("from program import *")
    (folder / "measured.py").write_text(WITH if is_measured else WITHOUT)
    command = WAYS[case.way]
    if not is_measured and "otel_itl" in command:
        command = SCRIPT if "-m" not in command[4:] else WAYS["python -m"]
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "PYTHON"))}
    environ |= {"PYTHONPATH": f"{ROOT}{os.pathsep}{folder}", "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": OTHERS}
    environ |= {f"OTEL_{name}_EXPORTER": "none" for name in ("TRACES", "METRICS", "LOGS")}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        announced = next((line.split() for line in process.stdout if line.startswith("ready ")), [])
        assert announced, process.communicate()
        time.sleep(SETTLING_SECONDS)
        number = getattr(signal, case.signal)
        if case.target == GROUP:
            os.killpg(process.pid, number)
        else:
            os.kill(process.pid if case.target == LAUNCHED else int(announced[1]), number)
        stdout, stderr = process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    printed = without_our_frames(stderr, folder)
    if case.target == GROUP:
        printed = "\n".join(sorted(printed.splitlines()))
    return End(process.returncode, stdout, printed)


def without_our_frames(stderr: str, folder: Path) -> str:
    """Return what was printed without the frames of otel_itl, and without what differs from one run to the next."""
    frames = rf'  File "(?:{re.escape(str(ROOT / "otel_itl"))}|[^"]*/measured\.py)[^\n]*\n(?:    [^\n]*\n)*'
    text = re.sub(frames, "", stderr.replace(str(folder), "FOLDER"))
    return re.sub(r"0x[0-9a-f]+|-\d+(?=:\n)", "", text)


@pytest.fixture(scope="module")
def no_core_files() -> Iterator[None]:
    """Have no program that a signal ends leave a core file."""
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_CORE, before)


@pytest.fixture(scope="module")
def ends(no_core_files: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Case], tuple[End, End]]]:
    """Return how a case ended with and without otel_itl. All are started when the first is asked for."""
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        running: dict[Case, list[Future[End]]] = {
            case: [
                pool.submit(start, case, tmp_path_factory.mktemp("signalled"), is_measured=is_measured)
                for is_measured in (True, False)
            ]
            for case in CASES
            if case.way not in SERVERS or find_spec(case.way)
        }

        def wait(case: Case) -> tuple[End, End]:
            with_us, without = (each.result() for each in running[case])
            return with_us, without

        yield wait


def named(case: Case) -> Any:
    """A case by its name; skipped where its server is missing."""
    return pytest.param(
        case,
        marks=[needs(case.way)] if case.way in SERVERS else [],
        id=f"{case.signal} to {case.target}, {case.program}, {case.way}",
    )


@pytest.mark.parametrize("case", map(named, CASES))
def test_a_signal_ends_a_program_as_it_does_without_us(case: Case, ends: Callable[[Case], tuple[End, End]]) -> None:
    with_us, without = ends(case)
    assert with_us == without
