"""An agent's requests as one session, compared with an objective, and stalls reported while they last.

Each span carries the number of the request in its session and whether tokens come slower than before (`itl.session.*`),
whether it missed the objective (`itl.slo.*`), and how long it was silent (`itl.stall.*`).
"""

import sys

import openai

import otel_itl
from otel_itl import SLO, Stall, StallPolicy


def report_stall(stall: Stall) -> None:
    """Print a stall. Called on a thread of its own, while the stream is silent; `stall.abort()` would break it off."""
    print(f"[silent for {stall.duration:.1f} s: {stall.phase.value}, {stall.cause.value}]", file=sys.stderr)


otel_itl.instrument(
    slo={"gpt-4o*": SLO(ttft=2.0, itl=0.5), "*": "chat"},
    stall=StallPolicy(first_token=10, next_token=5),
    on_stall=report_stall,
)

client = openai.OpenAI()
with otel_itl.session("agent-7"):
    for question in ("Why is the sky blue?", "And the sunset red?", "In one word?"):
        stream = client.chat.completions.create(
            model="gpt-4o-mini", messages=[{"role": "user", "content": question}], stream=True
        )
        for chunk in stream:
            if chunk.choices:
                print(chunk.choices[0].delta.content or "", end="", flush=True)
        print()
