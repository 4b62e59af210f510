"""Models with random weights, in the format of llama.cpp: what they answer is nonsense, how fast they do is real."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

CONTEXT: Final = 2_048
HEAD_SIZE: Final = 64
WORDS: Final = 2_000
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6
"""Types of tokens in the format."""


class Size(NamedTuple):
    """How large a model is, which decides how fast it answers."""

    name: str
    width: int
    """Size of the embedding."""
    layers: int


SIZES: Final = (Size("fast", 256, 2), Size("medium", 512, 4), Size("slow", 768, 6))


def write_model(size: Size, path: Path) -> None:
    """Write a model of the architecture `llama`.

    Raises:
        ModuleNotFoundError: the package `gguf` is not installed.
    """
    import gguf  # noqa: PLC0415 - for this benchmark alone

    random = np.random.default_rng(0)
    writer: Any = gguf.GGUFWriter(str(path), "llama")
    hidden = 4 * size.width
    writer.add_name(size.name)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(size.width)
    writer.add_block_count(size.layers)
    writer.add_feed_forward_length(hidden)
    writer.add_head_count(size.width // HEAD_SIZE)
    writer.add_head_count_kv(size.width // HEAD_SIZE)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(HEAD_SIZE)
    writer.add_file_type(1)
    tokens = _add_tokenizer(writer)

    def add(name: str, *shape: int) -> None:
        """Add a matrix of random weights."""
        writer.add_tensor(name, (random.standard_normal(shape) * 0.05).astype(np.float16))

    ones = np.ones(size.width, dtype=np.float32)
    add("token_embd.weight", tokens, size.width)
    output = (random.standard_normal((tokens, size.width)) * 0.05).astype(np.float16)
    output[: tokens - WORDS] = 0  # no special token and no single byte is ever the likeliest
    writer.add_tensor("output.weight", output)
    writer.add_tensor("output_norm.weight", ones)
    for layer in range(size.layers):
        block = f"blk.{layer}"
        writer.add_tensor(f"{block}.attn_norm.weight", ones)
        writer.add_tensor(f"{block}.ffn_norm.weight", ones)
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"{block}.{part}.weight", size.width, size.width)
        add(f"{block}.ffn_gate.weight", hidden, size.width)
        add(f"{block}.ffn_up.weight", hidden, size.width)
        add(f"{block}.ffn_down.weight", size.width, hidden)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokenizer(writer: Any) -> int:
    """Add a vocabulary of special tokens, single bytes and words; returns how many tokens it has."""
    special = [(b"<unk>", UNKNOWN), (b"<s>", CONTROL), (b"</s>", CONTROL)]
    single = [(f"<0x{byte:02X}>".encode(), BYTE) for byte in range(256)]
    words = [(f"\u2581w{number}".encode(), NORMAL) for number in range(WORDS)]
    vocabulary = [*special, *single, *words]
    writer.add_tokenizer_model("llama")
    writer.add_token_list([text for text, _ in vocabulary])
    writer.add_token_scores([-float(index) for index in range(len(vocabulary))])
    writer.add_token_types([kind for _, kind in vocabulary])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    return len(vocabulary)
