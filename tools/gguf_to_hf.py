"""Converts a GGUF file to a Hugging Face directory.

    gguf_to_hf.py MODEL.gguf OUT [--dtype bf16|f32]

Architectures: llama (also Mistral), qwen2, qwen3.  Quantized weights are dequantized.  The tokenizer,
its special tokens and the chat template become tokenizer.json and tokenizer_config.json.  Properties
of the file that cannot be expressed there are refused.  Needs the packages numpy and gguf.
"""

import argparse
import json
import pathlib
import shutil

import gguf
import numpy as np

# The classes of each architecture in transformers.
CLASSES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}

# GGUF's names of tensors, and of the tensors of each layer, with their names in transformers.
MODEL_TENSORS = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
LAYER_TENSORS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
# One factor for each rotated pair of dimensions: the part of Llama 3's RoPE that is no metadata.
ROPE_FACTORS = "rope_freqs.weight"

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = f"{CONTRACTIONS}|{WORDS}|" + r"\p{N}{1,3}|" + REST
QWEN2 = f"{CONTRACTIONS}|{WORDS}|" + r"\p{N}|" + REST
# How texts are split before byte-level BPE, by tokenizer.ggml.pre: a regular expression, or the
# pre-tokenizers of transformers.
SPLITS = {
    "llama-bpe": LLAMA3,
    "llama-v3": LLAMA3,
    "llama3": LLAMA3,
    "qwen2": QWEN2,
    "deepseek-r1-qwen": QWEN2,
    "gpt-2": [],
    "smollm": [{"type": "Digits", "individual_digits": True}],
}


class Source:
    """A GGUF file's metadata and weights."""

    def __init__(self, path):
        self.path = path
        try:
            self.reader = gguf.GGUFReader(path)
        except (OSError, ValueError, IndexError) as error:  # missing, not GGUF, or truncated
            raise SystemExit(f"{path}: {error}, expected a complete GGUF file") from error
        self.architecture = self.get("general.architecture")
        if self.architecture not in CLASSES:
            self.refuse("the architecture", self.architecture, "one of " + ", ".join(CLASSES))
        if self.model("expert_count", 0) != 0:
            self.refuse("experts", self.model("expert_count"), "none")
        if self.get("split.count", 1) > 1:
            self.refuse("parts", self.get("split.count"), "one file: join them with gguf-split")
        self.tensors = {tensor.name: tensor for tensor in self.reader.tensors}
        self.check()

    def check(self):
        """Whether all tensors and tokens are there."""
        parts = set(LAYER_TENSORS) - {"attn_q_norm", "attn_k_norm"}
        if self.architecture == "qwen3":
            parts = set(LAYER_TENSORS)
        layers = self.model("block_count")
        needed = {f"blk.{i}.{part}.weight" for i in range(layers) for part in parts}
        needed |= {"token_embd.weight", "output_norm.weight"}
        if self.architecture == "qwen2":
            needed |= {f"blk.{i}.attn_{p}.bias" for i in range(layers) for p in "qkv"}
        for name in sorted(needed - set(self.tensors)):
            self.refuse("tensors", f"no {name}", "it")
        tokens = len(self["tokenizer.ggml.tokens"])
        types = len(self["tokenizer.ggml.token_type"])
        if types != tokens:
            self.refuse("tokenizer.ggml.token_type", f"{types} types", f"{tokens}, one of each token")
        for key in ("bos", "eos", "eot", "eom", "padding", "unknown"):
            number = self.get(f"tokenizer.ggml.{key}_token_id", 0)
            if not 0 <= number < tokens:
                self.refuse(f"tokenizer.ggml.{key}_token_id", number, f"0 to {tokens - 1}")

    def refuse(self, what, found, expected):
        raise SystemExit(f"{self.path}: {what}: found {found}, expected {expected}")

    def get(self, key, otherwise=None):
        field = self.reader.fields.get(key)
        return otherwise if field is None else field.contents()

    def __getitem__(self, key):
        if key not in self.reader.fields:
            self.refuse("metadata", "no " + key, "it")
        return self.get(key)

    def model(self, key, otherwise=None):
        """Metadata of the architecture; without `otherwise`, it must be there."""
        key = f"{self.architecture}.{key}"
        return self[key] if otherwise is None else self.get(key, otherwise)

    def shape(self, name):
        return [int(n) for n in reversed(self.tensors[name].shape)]

    def names(self):
        """Names in transformers -> names in the file."""
        out = {}
        for name in self.tensors:
            if name == ROPE_FACTORS:
                continue
            base, kind = name.rsplit(".", 1)
            layer, _, part = base.removeprefix("blk.").partition(".")
            known = LAYER_TENSORS.get(part) if base.startswith("blk.") else MODEL_TENSORS.get(base)
            if known is None:
                self.refuse("tensors", name, "those of " + CLASSES[self.architecture])
            out[f"model.layers.{layer}.{known}.{kind}" if part else f"{known}.{kind}"] = name
        return out

    def weight(self, name):
        """Float32, [out, in] or [out]."""
        tensor = self.tensors[name]
        weight = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        heads = {"attn_q": "attention.head_count", "attn_k": "attention.head_count_kv"}
        part = name.split(".")[-2]
        # Only the architecture llama rotates pairs (2 d, 2 d + 1).
        if self.architecture == "llama" and part in heads:
            weight = half_split(weight, self.model(heads[part]))
        return np.ascontiguousarray(weight)


def half_split(weight, heads):
    """Rows of each head from pairs (2 d, 2 d + 1), as GGUF rotates them, to (d, d + head_dim / 2)."""
    pairs = weight.reshape(heads, -1, 2, *weight.shape[1:])
    return pairs.swapaxes(1, 2).reshape(weight.shape)


def to_bfloat16(weight):
    """Rounded to the nearest, ties to even; the bits as uint16."""
    bits = weight.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def decimal(number):
    """The shortest decimal of a number that is stored as float32."""
    return float(str(np.float32(number)))


def llama3_factors(base, head_dim, scaling):
    """What Llama 3 divides the frequency of each pair of dimensions by."""
    frequencies = base ** (-np.arange(0, head_dim, 2) / head_dim)
    wavelengths = 2 * np.pi / frequencies
    factor, low, high = (scaling[k] for k in ("factor", "low_freq_factor", "high_freq_factor"))
    smooth = (scaling["original_max_position_embeddings"] / wavelengths - low) / (high - low)
    return 1 / np.clip((1 - smooth) / factor + smooth, 1 / factor, 1)


def rope_scaling(source, base, head_dim):
    if ROPE_FACTORS in source.tensors:
        found = source.weight(ROPE_FACTORS)
        for factor in (8.0, 32.0):  # Llama 3.1 and 3.2
            scaling = {"rope_type": "llama3", "factor": factor, "low_freq_factor": 1.0,
                       "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
            if np.allclose(found, llama3_factors(base, head_dim, scaling), rtol=1e-5):
                return scaling
        source.refuse(ROPE_FACTORS, "other factors", "those of Llama 3.1 or 3.2")
    kind = source.model("rope.scaling.type", "none")
    if kind == "none":
        return None
    if kind == "linear":
        return {"rope_type": "linear", "factor": decimal(source.model("rope.scaling.factor"))}
    if kind != "yarn":
        source.refuse("rope.scaling.type", kind, "none, linear or yarn")
    return {"rope_type": "yarn", "factor": decimal(source.model("rope.scaling.factor")),
            "original_max_position_embeddings":
                source.model("rope.scaling.original_context_length")}


def config(source, dtype):
    hidden, heads = source.model("embedding_length"), source.model("attention.head_count")
    head_dim = source.model("attention.key_length", hidden // heads)
    base = decimal(source.model("rope.freq_base", 10000.0))
    scaling = rope_scaling(source, base, head_dim)
    out = {
        "architectures": [CLASSES[source.architecture]],
        "model_type": source.architecture,
        "vocab_size": source.shape("token_embd.weight")[0],
        "hidden_size": hidden,
        "intermediate_size": source.model("feed_forward_length"),
        "num_hidden_layers": source.model("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": source.model("attention.head_count_kv", heads),
        "max_position_embeddings": source.model("context_length"),
        "rope_theta": base,
        "rms_norm_eps": decimal(source.model("attention.layer_norm_rms_epsilon")),
        "hidden_act": "silu",
        "attention_bias": source.architecture == "llama" and "blk.0.attn_q.bias" in source.tensors,
        "mlp_bias": False,
        "tie_word_embeddings": "output.weight" not in source.tensors,
        "bos_token_id": source.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": source["tokenizer.ggml.eos_token_id"],
        "torch_dtype": {"bf16": "bfloat16", "f32": "float32"}[dtype],
    }
    if head_dim * heads != hidden or source.architecture == "qwen3":
        out["head_dim"] = head_dim
    if scaling is not None:
        out["rope_scaling"] = scaling
    window = source.model("attention.sliding_window", 0)
    if window:
        if source.architecture != "llama":
            source.refuse("attention.sliding_window", window, "none")
        out |= {"architectures": ["MistralForCausalLM"], "model_type": "mistral",
                "sliding_window": window}
    return out


def merges_of(tokens, scores):
    """The merges of SentencePiece's BPE: every way to divide a piece into two, by its score."""
    ids = {token: i for i, token in enumerate(tokens)}
    merges = []
    for token, score in zip(tokens, scores):
        pairs = [(token[:i], token[i:]) for i in range(1, len(token))]
        known = [pair for pair in pairs if pair[0] in ids and pair[1] in ids]
        known.sort(key=lambda pair: (ids[pair[0]], ids[pair[1]]))
        merges += [(pair, score) for pair in known]
    merges.sort(key=lambda merge: (merge[1], len(merge[0][0]), len(merge[0][1])), reverse=True)
    return [f"{left} {right}" for (left, right), _ in merges]


def byte_level(source):
    """Byte-level BPE: normalizer, pre-tokenizer, decoder, model."""
    kind = source.get("tokenizer.ggml.pre", "default")
    if kind not in SPLITS:
        source.refuse("tokenizer.ggml.pre", kind, "one of " + ", ".join(SPLITS))
    split = SPLITS[kind]
    level = {"type": "ByteLevel", "trim_offsets": True, "use_regex": isinstance(split, list)}
    if isinstance(split, str):
        split = [{"type": "Split", "pattern": {"Regex": split}, "behavior": "Isolated",
                  "invert": False}]
    tokens = source["tokenizer.ggml.tokens"]
    return {
        "normalizer": {"type": "NFC"} if SPLITS[kind] == QWEN2 else None,
        "pre_tokenizer": {"type": "Sequence",
                          "pretokenizers": [*split, {**level, "add_prefix_space": False}]},
        "decoder": {**level, "add_prefix_space": True},
        "model": {
            "type": "BPE",
            "byte_fallback": False,
            "ignore_merges": SPLITS[kind] == LLAMA3,
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": source["tokenizer.ggml.merges"],
        },
    }


def sentence_piece(source):
    """BPE on characters, with bytes for unknown ones, and spaces as U+2581."""
    space, tokens = "\u2581", source["tokenizer.ggml.tokens"]
    prefix = source.get("tokenizer.ggml.add_space_prefix", True)
    prepend = [{"type": "Prepend", "prepend": space}] if prefix else []
    strip = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if prefix else []
    return {
        "normalizer": {"type": "Sequence", "normalizers": [
            *prepend, {"type": "Replace", "pattern": {"String": " "}, "content": space}]},
        "pre_tokenizer": None,
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": space}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"}, *strip]},
        "model": {
            "type": "BPE",
            "unk_token": tokens[source.get("tokenizer.ggml.unknown_token_id", 0)],
            "fuse_unk": True,
            "byte_fallback": True,
            "ignore_merges": False,
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": merges_of(tokens, source["tokenizer.ggml.scores"]),
        },
    }


def begin_token(source):
    """Adds the first token of texts, if there is one."""
    kind = source["tokenizer.ggml.model"]
    usual = kind == "llama" or SPLITS.get(source.get("tokenizer.ggml.pre")) == LLAMA3
    if not source.get("tokenizer.ggml.add_bos_token", usual):
        return None
    number = source["tokenizer.ggml.bos_token_id"]
    token = source["tokenizer.ggml.tokens"][number]
    first = {"SpecialToken": {"id": token, "type_id": 0}}
    text = {"A": {"Sequence": {"id": "A", "type_id": 0}},
            "B": {"Sequence": {"id": "B", "type_id": 1}}}
    return {"type": "TemplateProcessing", "single": [first, text["A"]],
            "pair": [first, text["A"], first, text["B"]],
            "special_tokens": {token: {"id": token, "ids": [number], "tokens": [token]}}}


def tokenizer(source):
    kinds = {"gpt2": byte_level, "llama": sentence_piece}
    kind = source["tokenizer.ggml.model"]
    if kind not in kinds:
        source.refuse("tokenizer.ggml.model", kind, "one of " + ", ".join(kinds))
    if source.get("tokenizer.ggml.add_eos_token", False):
        source.refuse("tokenizer.ggml.add_eos_token", "true", "false")
    parts = kinds[kind](source)
    tokens, types = source["tokenizer.ggml.tokens"], source["tokenizer.ggml.token_type"]
    special = {gguf.TokenType.CONTROL: True, gguf.TokenType.USER_DEFINED: False}
    if kind == "llama":
        special[gguf.TokenType.UNKNOWN] = True
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {
        "version": "1.0",
        "added_tokens": [{"id": i, "content": tokens[i], **flags, "special": special[t]}
                         for i, t in enumerate(types) if t in special],
        "normalizer": parts["normalizer"],
        "pre_tokenizer": parts["pre_tokenizer"],
        "post_processor": begin_token(source),
        "decoder": parts["decoder"],
        "model": parts["model"],
    }


def tokenizer_config(source):
    tokens = source["tokenizer.ggml.tokens"]
    byte_level_classes = {"llama": "GPT2Tokenizer", "qwen2": "Qwen2Tokenizer",
                          "qwen3": "Qwen2Tokenizer"}
    out = {
        "tokenizer_class": byte_level_classes[source.architecture]
                           if source["tokenizer.ggml.model"] == "gpt2" else "LlamaTokenizer",
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
    }
    for role, key in (("bos", "bos"), ("eos", "eos"), ("pad", "padding"), ("unk", "unknown")):
        number = source.get(f"tokenizer.ggml.{key}_token_id")
        if number is not None:
            out[f"{role}_token"] = tokens[number]
    out["model_max_length"] = source.model("context_length")
    template = source.get("tokenizer.chat_template")
    if template is not None:
        out["chat_template"] = template
    return out


def generation_config(source):
    """The tokens that end an answer, if there are others than the end-of-sequence token."""
    ids = [source.get(f"tokenizer.ggml.{key}_token_id") for key in ("eos", "eot", "eom")]
    ids = list(dict.fromkeys(i for i in ids if i is not None))
    return {"eos_token_id": ids} if len(ids) > 1 else None


def write_safetensors(path, source, names, dtype):
    size = {"bf16": 2, "f32": 4}[dtype]
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, own in names:
        end = offset + size * int(np.prod(source.shape(own)))
        header[name] = {"dtype": dtype.upper(), "shape": source.shape(own),
                        "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(len(text).to_bytes(8, "little"))
        out.write(text)
        for _, own in names:  # one at a time, so that the model need not fit in memory
            weight = source.weight(own)
            out.write((to_bfloat16(weight) if dtype == "bf16" else weight).tobytes())
    return len(names), offset


def convert(model, out, dtype):
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise SystemExit(f"{out}: found a file or a directory with files, expected a new directory")
    source = Source(model)
    files = {
        "config.json": config(source, dtype),
        "generation_config.json": generation_config(source),
        "tokenizer.json": tokenizer(source),
        "tokenizer_config.json": tokenizer_config(source),
    }
    names = sorted(source.names().items())
    # The directory appears when it is complete.
    partial = out.with_name(out.name + ".partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        for name, value in files.items():
            if value is not None:
                text = json.dumps(value, ensure_ascii=False, indent=1) + "\n"
                (partial / name).write_text(text, encoding="utf-8")
        count, size = write_safetensors(partial / "model.safetensors", source, names, dtype)
        partial.rename(out)
    except OSError as error:
        raise SystemExit(f"{out}: {error.strerror}") from error
    print(f"{out}: {count} tensors, {size / 2**20:.0f} MiB")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--dtype", choices=["bf16", "f32"], default="bf16")
    arguments = parser.parse_args()
    convert(arguments.model, arguments.out, arguments.dtype)


if __name__ == "__main__":
    main()
