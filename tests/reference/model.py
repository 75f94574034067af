"""A Llama model in float64, written from the definition of the architecture.

No code is shared with turnbench.  Keys are cached after RoPE, one array for each KV head.
"""

import json
import pathlib
import struct

import numpy as np

_LEAST_LOG_WEIGHT = -87.0  # turnbench's statistics set smaller attention weights to 0


def read_safetensors(path):
    """Tensors of a file, by name, in float64."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        dtype = {"F16": np.float16, "F32": np.float32}[entry["dtype"]]
        values = np.frombuffer(data[begin:end], dtype)
        tensors[name] = values.reshape(entry["shape"]).astype(np.float64)
    return tensors


def log_softmax(logits):
    """Of the last dimension."""
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def attention_weights(logits):
    """softmax over the last dimension; masked logits are -inf."""
    log_weights = log_softmax(logits)
    return np.where(log_weights < _LEAST_LOG_WEIGHT, 0.0, np.exp(log_weights))


class Cache:
    """Keys and values of one layer: for each KV head [tokens, head_dim], and the positions."""

    def __init__(self, kv_heads, head_dim):
        self.keys = [np.zeros((0, head_dim))] * kv_heads
        self.values = [np.zeros((0, head_dim))] * kv_heads
        self.positions = [np.zeros(0, int)] * kv_heads

    def append(self, head, keys, values, positions):
        self.keys[head] = np.concatenate([self.keys[head], keys])
        self.values[head] = np.concatenate([self.values[head], values])
        self.positions[head] = np.concatenate([self.positions[head], positions])

    def keep(self, head, slots):
        self.keys[head] = self.keys[head][slots]
        self.values[head] = self.values[head][slots]
        self.positions[head] = self.positions[head][slots]

    def copy(self):
        out = Cache(0, 0)
        out.keys, out.values = list(self.keys), list(self.values)
        out.positions = list(self.positions)
        return out


class Model:
    def __init__(self, directory):
        directory = pathlib.Path(directory)
        config = json.loads((directory / "config.json").read_text())
        self.layers = config["num_hidden_layers"]
        self.heads = config["num_attention_heads"]
        self.kv_heads = config["num_key_value_heads"]
        self.head_dim = config.get("head_dim") or config["hidden_size"] // self.heads
        self.epsilon = config["rms_norm_eps"]
        exponents = np.arange(0, self.head_dim, 2) / self.head_dim
        self.frequencies = config["rope_theta"] ** -exponents
        self.weights = read_safetensors(directory / "model.safetensors")

    @property
    def group(self):
        """Query heads of a KV head."""
        return self.heads // self.kv_heads

    def caches(self):
        return [Cache(self.kv_heads, self.head_dim) for _ in range(self.layers)]

    def _norm(self, x, name):
        scale = np.sqrt((x * x).mean(-1, keepdims=True) + self.epsilon)
        return x / scale * self.weights[name + ".weight"]

    def _linear(self, x, name):
        return x @ self.weights[name + ".weight"].T

    def _rotate(self, x, positions):
        """x: [rows, heads, head_dim]."""
        angles = positions[:, None, None] * self.frequencies
        first, second = np.split(x, 2, -1)
        return np.concatenate(
            [first * np.cos(angles) - second * np.sin(angles),
             second * np.cos(angles) + first * np.sin(angles)], -1)

    def forward(self, tokens, caches, begin, at_layer_end=None, select=None):
        """Log-probabilities [rows, vocabulary] after each token.

        begin: position of the first token.  at_layer_end(layer, cache, weights) is called after the
        attention of each layer; weights: for each query head [rows, cached tokens].  select(layer,
        query, cache), for one token, returns the slots that each query head reads, or None for all;
        query: [heads, head_dim], after RoPE.
        """
        rows = len(tokens)
        positions = begin + np.arange(rows)
        x = self.weights["model.embed_tokens.weight"][np.asarray(tokens)]
        for layer, cache in enumerate(caches):
            name = f"model.layers.{layer}"
            h = self._norm(x, name + ".input_layernorm")
            query, key, value = (
                self._linear(h, f"{name}.self_attn.{part}_proj").reshape(rows, -1, self.head_dim)
                for part in "qkv")
            query, key = self._rotate(query, positions), self._rotate(key, positions)
            for head in range(self.kv_heads):
                cache.append(head, key[:, head], value[:, head], positions)
            slots = select(layer, query[0], cache) if select else None
            weights, outputs = [], []
            for head in range(self.heads):
                own = head // self.group
                read = slice(None) if slots is None else slots[head]
                logits = query[:, head] @ cache.keys[own][read].T / np.sqrt(self.head_dim)
                visible = cache.positions[own][read] <= positions[:, None]
                weights.append(attention_weights(np.where(visible, logits, -np.inf)))
                outputs.append(weights[-1] @ cache.values[own][read])
            x = x + self._linear(np.concatenate(outputs, -1), f"{name}.self_attn.o_proj")
            if at_layer_end:
                at_layer_end(layer, cache, weights)
            h = self._norm(x, name + ".post_attention_layernorm")
            gate = self._linear(h, name + ".mlp.gate_proj")
            x = x + self._linear(
                gate / (1 + np.exp(-gate)) * self._linear(h, name + ".mlp.up_proj"),
                name + ".mlp.down_proj")
        x = self._norm(x, "model.norm")
        return log_softmax(x @ self.weights["model.embed_tokens.weight"].T)
