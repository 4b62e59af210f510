"""Writes docs/requirements.md from the marks of the tests: run it without arguments."""  # noqa: INP001 - a script, no package

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
PAGE: Final = HERE / "requirements.md"
TESTS: Final = HERE.parent / "tests"

HEAD: Final = """\
<!-- Made from the tests' marks by docs/generate_requirements.py. -->

# Requirements

Each requirement stands for a failure that users of similar libraries have reported. The tests that prove one carry its
number: `@pytest.mark.requirement("R12")`. Files are those of `tests/`.
"""

REQUIREMENTS: Final[dict[str, dict[str, str]]] = {
    "Transparency": {
        "R1": "`isinstance` and `type` against the SDK's stream class hold, sync and async.",
        "R2": "Every public attribute of the bare stream is there, of the same type; `.response` is the HTTP response.",
        "R3": "The object that a `with` block binds is timed.",
        "R4": "`close` and `aclose` exist where the bare object has them, and the connection returns to the pool.",
        "R5": "Raw responses keep headers, request id and `parse`, which is never called for the caller.",
        "R6": "`read`, `iter_lines`, `iter_bytes` and `parse` on streaming responses all end the recording.",
        "R7": "`.stream()` helpers, `parse`, `create` and a retrieved stream give one span for each HTTP call.",
        "R8": "Helper iterators give the timing of a for-loop.",
        "R9": "Chunks are the same objects, in the same order, as many.",
        "R10": "The request body is byte-identical.",
        "R11": "Nothing is read before the first pull.",
        "R12": "Clients that were made before `instrument()` are timed.",
        "R13": "Functions that were imported before it are timed, or produce one warning.",
        "R14": "Copying and pickling behave as on the bare object.",
        "R15": "Empty choices, a missing index or delta, and unknown chunks never raise.",
        "R16": "A fault in any function of ours leaves the caller's stream intact, and is counted.",
        "R17": "Exceptions of the SDK pass through as the same objects.",
        "R18": "What LangChain, LlamaIndex, pydantic-ai, instructor, OpenAI Agents and LiteLLM give back is unchanged.",
    },
    "Lifecycle": {
        "R19": "Every way in which a stream ends exports exactly one span.",
        "R20": "Breaking off, closing and cancelling are no errors; the outcome says which it was.",
        "R21": "An error of the provider is an ERROR with `error.type`.",
        "R22": "No context is detached in the wrong place: one task per pull, hops between threads, finalisers.",
        "R23": "The caller's current span is unchanged between chunks.",
        "R24": "The HTTP client's span is a child of the stream's.",
        "R25": "The garbage collector's path calls no OpenTelemetry and takes no lock; a minute of stress passes.",
        "R26": "100,000 abandoned streams return memory and registries to where they were.",
        "R27": "A stream ends once, whether by closing, exhaustion or the garbage collector.",
        "R28": "An interpreter that exits with open streams prints nothing, and exports them as abandoned.",
    },
    "Measurement": {
        "R29": "A step of the wall clock changes nothing.",
        "R30": "The clock starts with the call, not the first pull; a late first pull is visible as hold.",
        "R31": "Role, empty, usage, lifecycle and ping events are no first token.",
        "R32": "First chunk, first token and first answer token are separate figures.",
        "R33": "Deltas of tool arguments are tokens.",
        "R34": "A caller who sleeps on every chunk never appears in the inter-token latency.",
        "R35": "The caller's time is a figure of its own; gaps that it hides are flagged.",
        "R36": "Values per token exist only where the provider counts tokens.",
        "R37": "Arrival in bursts is flagged.",
        "R38": "Percentiles equal the documented method exactly, from 2 to 1,000,000 samples.",
        "R39": "Several choices in one stream are handled.",
        "R40": "The number of attempts is reported beside the time to first token.",
        "R41": "Without a token there is no sample of the time to first token.",
        "R42": "Streams that failed or were cancelled keep their timing so far.",
        "R43": "Metrics are recorded when the span is not sampled, or there is no tracer provider.",
    },
    "Stalls": {
        "R44": "A silent stream is reported while it is open, within the threshold and a quarter of a second.",
        "R45": "Only the caller's waiting counts.",
        "R46": "There is one watchdog in a process.",
        "R47": "Alive without progress differs from silent.",
        "R48": "The thresholds of first token, reasoning and mid-stream are apart.",
        "R49": "By default it only observes; an abort that was opted for frees the connection.",
        "R50": "What was received is delivered before an abort.",
        "R51": "Count, total and longest are exact.",
        "R52": "A stream that was cut short is noticed, and one that omits but one of its two signs is not.",
    },
    "Cost and payload": {
        "R53": "A chunk costs two clock readings, three appends and one `classify`; nothing is recorded inline.",
        "R54": "A recording stays under 40 bytes per chunk, and is capped.",
        "R55": "Ending a stream of 3,000 chunks costs less than the SDK took for 30 of them.",
        "R56": "What a span carries is bounded, and its bytes per token are in the benchmark.",
        "R57": "What a cap left out is stated.",
        "R58": "Buckets reach from 0.5 ms to 30 s; views override them.",
        "R59": "Labels are an allow-list without ids; names that others choose are capped.",
        "R60": "Exemplars carry trace and span ids.",
    },
    "Environment": {
        "R61": "Importing takes less than 50 ms and loads no SDK.",
        "R62": "The dependencies are the few that are documented.",
        "R63": "The oldest and the newest supported releases of each SDK and of OpenTelemetry are tested.",
        "R64": "Each function that an SDK lacks is skipped alone, with one warning.",
        "R65": "Beside other instrumentations, in either order, there is one record for each HTTP call.",
        "R66": "Uninstrumented in any order it is a pass-through; instrumented twice it is so once.",
        "R67": "A global provider that the application set is never replaced.",
        "R68": "No word of a prompt, answer, tool call, key, header or exception is in any output.",
        "R69": "Preforking servers, gevent, uvloop, trio, and streams that are made here and read there.",
        "R70": "A process that was frozen is no stall of the upstream; an explicit flush works.",
        "R71": "A session's id reaches streams that are read after its scope has closed.",
    },
}

WITHOUT_A_TEST: Final = {
    "R63": "it is where all of them run, the matrix of `.ci/run`",
}
"""Requirement → why no test carries its number."""


def page() -> str:
    """Return the page as it is to be."""
    proofs = _proofs()
    lines = [HEAD]
    for chapter, requirements in REQUIREMENTS.items():
        lines += [f"## {chapter}\n", "| | requirement | proved by |", "|---|---|---|"]
        lines += [f"| {number} | {text} | {_proof(number, proofs)} |" for number, text in requirements.items()]
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def _proof(number: str, proofs: dict[str, set[str]]) -> str:
    found = [f"`{file}`" for file in sorted(proofs.get(number, ()))]
    return "<br>".join(found) or f"*no test:* {WITHOUT_A_TEST.get(number, '')}"


def _proofs() -> dict[str, set[str]]:
    """Return, for each requirement, the files whose tests have its number."""
    proofs: dict[str, set[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        everywhere = {number for node in module.body if _is_module_mark(node) for number in _numbers(node)}
        for node in ast.walk(module):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for number in everywhere.union(*(set(_numbers(mark)) for mark in node.decorator_list)):
                    proofs.setdefault(number, set()).add(path.relative_to(TESTS).as_posix())
    return proofs


def _is_module_mark(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets
    )


def _numbers(node: ast.AST) -> Iterator[str]:
    """Return the numbers in every `….requirement("R1", …)` within a node."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "requirement":
            yield from (str(given.value) for given in call.args if isinstance(given, ast.Constant))


def unproved() -> set[str]:
    """Return the requirements whose number no test has."""
    return {number for chapter in REQUIREMENTS.values() for number in chapter} - _proofs().keys()


def unknown() -> set[str]:
    """Numbers that tests carry and that are no requirement's."""
    return _proofs().keys() - {number for chapter in REQUIREMENTS.values() for number in chapter}


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
