"""Random weights of the geometry that peers are compared on, and turnbench's own speed with them."""
import json
import pathlib
import subprocess

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
GEOMETRY = json.loads((HERE.parent / "qwen2.5-0.5b.json").read_text())


def tensors():
    """(Hugging Face name, GGUF name, array): small random weights, one at a time."""
    c, random = GEOMETRY, np.random.default_rng(0)
    kv = c["hidden_size"] // c["num_attention_heads"] * c["num_key_value_heads"]
    hidden, ffn = c["hidden_size"], c["intermediate_size"]

    def matrix(*shape):
        return random.standard_normal(shape, np.float32) * np.float32(0.02)

    yield "model.embed_tokens.weight", "token_embd.weight", matrix(c["vocab_size"], hidden)
    yield "model.norm.weight", "output_norm.weight", np.ones(hidden, np.float32)
    for i in range(c["num_hidden_layers"]):
        hf, ours = f"model.layers.{i}.", f"blk.{i}."
        yield hf + "input_layernorm.weight", ours + "attn_norm.weight", np.ones(hidden, np.float32)
        yield (hf + "post_attention_layernorm.weight", ours + "ffn_norm.weight",
               np.ones(hidden, np.float32))
        for name, rows in (("q", hidden), ("k", kv), ("v", kv)):
            yield hf + f"self_attn.{name}_proj.weight", ours + f"attn_{name}.weight", matrix(rows, hidden)
            yield hf + f"self_attn.{name}_proj.bias", ours + f"attn_{name}.bias", matrix(rows)
        yield hf + "self_attn.o_proj.weight", ours + "attn_output.weight", matrix(hidden, hidden)
        yield hf + "mlp.gate_proj.weight", ours + "ffn_gate.weight", matrix(ffn, hidden)
        yield hf + "mlp.up_proj.weight", ours + "ffn_up.weight", matrix(ffn, hidden)
        yield hf + "mlp.down_proj.weight", ours + "ffn_down.weight", matrix(hidden, ffn)


def bf16(array):
    """Round to nearest, as uint16."""
    bits = array.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def write_directory(folder, dtype):
    """A Hugging Face directory with these weights as "f32" or "bf16"."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(GEOMETRY))
    header, blobs, offset = {}, [], 0
    for name, _, array in tensors():
        data = bf16(array) if dtype == "bf16" else array
        header[name] = {"dtype": dtype.upper(), "shape": list(array.shape),
                        "data_offsets": [offset, offset + data.nbytes]}
        offset += data.nbytes
        blobs.append(data)
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(len(head).to_bytes(8, "little") + head)
        for data in blobs:
            file.write(data.tobytes())


def measure(program, hf, threads, kv, row, options=()):
    """turnbench's tokens per second of one (what, tokens), and its share of the machine's ceiling."""
    what, tokens = row
    out = subprocess.run([program, "bench", what, "--model", hf, "--threads", str(threads), "--kv-dtype", kv,
                          "--tokens" if what == "prefill" else "--depth", str(tokens), "--repeats", "1",
                          "--json", *options], capture_output=True, text=True, check=True)
    measured = json.loads(out.stdout)["rows"][0]
    return measured["tokens_per_s"]["median"], measured["of_ceiling"]
