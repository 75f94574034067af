"""The tiny decoder: a Llama (RMSNorm, half-split RoPE, GQA, SwiGLU, tied embeddings) in PyTorch."""
import dataclasses
import json
import math
import pathlib
import struct

import torch
from torch import nn
from torch.nn import functional as F


@dataclasses.dataclass
class Config:
    vocab: int
    width: int = 192
    layers: int = 4
    heads: int = 6
    kv_heads: int = 2
    head_dim: int = 32
    ffn: int = 384
    theta: float = 1e7
    eps: float = 1e-5
    max_positions: int = 8192


def rms_norm(x, weight, eps):
    return F.rms_norm(x, (x.shape[-1],), weight, eps)


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.attention_norm = nn.Parameter(torch.ones(c.width))
        self.ffn_norm = nn.Parameter(torch.ones(c.width))
        self.q = nn.Linear(c.width, c.heads * c.head_dim, bias=False)
        self.k = nn.Linear(c.width, c.kv_heads * c.head_dim, bias=False)
        self.v = nn.Linear(c.width, c.kv_heads * c.head_dim, bias=False)
        self.o = nn.Linear(c.heads * c.head_dim, c.width, bias=False)
        self.gate = nn.Linear(c.width, c.ffn, bias=False)
        self.up = nn.Linear(c.width, c.ffn, bias=False)
        self.down = nn.Linear(c.ffn, c.width, bias=False)


class Decoder(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.embedding = nn.Embedding(c.vocab, c.width)
        self.layers = nn.ModuleList([Layer(c) for _ in range(c.layers)])
        self.norm = nn.Parameter(torch.ones(c.width))
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=p.shape[1] ** -.5)
        for layer in self.layers:
            layer.o.weight.data.mul_((2 * c.layers) ** -.5)
            layer.down.weight.data.mul_((2 * c.layers) ** -.5)
        half = c.head_dim // 2
        self.register_buffer("freq", c.theta ** (-torch.arange(half).float() / half), persistent=False)

    def forward(self, x, pos, wanted):
        """Logits [sum(wanted), vocab] of the positions in the boolean mask `wanted` [B, T]."""
        c, (batch, length) = self.c, x.shape
        angle = pos[:, None, :, None].float() * self.freq
        cos, sin = angle.cos(), angle.sin()
        h = self.embedding(x)
        for i, layer in enumerate(self.layers):
            y = rms_norm(h, layer.attention_norm, c.eps)
            q, k, v = (f(y).view(batch, length, -1, c.head_dim).transpose(1, 2)
                       for f in (layer.q, layer.k, layer.v))
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
            group = c.heads // c.kv_heads
            k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
            o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            o = o.transpose(1, 2).reshape(batch, length, -1)
            if i + 1 == c.layers:  # only these rows reach the loss
                o, h = o[wanted], h[wanted]
            h = h + layer.o(o)
            y = rms_norm(h, layer.ffn_norm, c.eps)
            h = h + layer.down(F.silu(layer.gate(y)) * layer.up(y))
        return F.linear(rms_norm(h, self.norm, c.eps), self.embedding.weight)


@torch.no_grad()
def start_as_previous_token_heads(model, constant=.5, sharpness=8., pairs=4):
    """Structured start of layer 0: one embedding channel is constant, and Q and K of each head get
    a large component on it in the fastest rotary frequencies, Q turned by a fixed offset, so that
    each head starts by looking at the token 1, 2, 3, ... back.  Everything is trained afterwards."""
    c, layer = model.c, model.layers[0]
    model.embedding.weight[:, 0] = constant
    channel = constant / math.sqrt((1 + constant * constant) / c.width)  # after RMSNorm
    scale = math.sqrt(sharpness * c.head_dim ** .5) / channel
    half = c.head_dim // 2
    layer.q.weight.mul_(.3)
    layer.k.weight.mul_(.3)
    for kv in range(c.kv_heads):
        row = kv * c.head_dim
        layer.k.weight[row:row + pairs, 0] = scale
        layer.k.weight[row + half:row + half + pairs, 0] = 0
    offsets = [1, 3, 5, 2, 4, 1, 6, 7]
    for head in range(c.heads):
        row = head * c.head_dim
        for i in range(pairs):
            turn = float(model.freq[i]) * offsets[head % len(offsets)]
            layer.q.weight[row + i, 0] = scale * math.cos(turn)
            layer.q.weight[row + half + i, 0] = -scale * math.sin(turn)


def export(model, directory):
    """Writes config.json, generation_config.json and model.safetensors (float16), HF layout."""
    from data import BOS, EOS
    c, directory = model.c, pathlib.Path(directory)
    names = {"attention_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
             "q.weight": "self_attn.q_proj", "k.weight": "self_attn.k_proj",
             "v.weight": "self_attn.v_proj", "o.weight": "self_attn.o_proj",
             "gate.weight": "mlp.gate_proj", "up.weight": "mlp.up_proj",
             "down.weight": "mlp.down_proj"}
    tensors = {"model.embed_tokens.weight": model.embedding.weight, "model.norm.weight": model.norm}
    for i, layer in enumerate(model.layers):
        for ours, theirs in names.items():
            tensors[f"model.layers.{i}.{theirs}.weight"] = layer.get_parameter(ours)
    header, blobs, offset = {}, [], 0
    for name in sorted(tensors):
        blob = tensors[name].detach().numpy().astype("float16").tobytes()
        header[name] = {"dtype": "F16", "shape": list(tensors[name].shape),
                        "data_offsets": [offset, offset + len(blob)]}
        offset += len(blob)
        blobs.append(blob)
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    (directory / "model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + b"".join(blobs))
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama",
              "hidden_size": c.width, "intermediate_size": c.ffn, "num_hidden_layers": c.layers,
              "num_attention_heads": c.heads, "num_key_value_heads": c.kv_heads,
              "head_dim": c.head_dim, "vocab_size": c.vocab, "rope_theta": c.theta,
              "rms_norm_eps": c.eps, "max_position_embeddings": c.max_positions,
              "hidden_act": "silu", "tie_word_embeddings": True, "attention_bias": False,
              "mlp_bias": False, "bos_token_id": BOS, "eos_token_id": EOS, "torch_dtype": "float16"}
    (directory / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    (directory / "generation_config.json").write_text(
        json.dumps({"bos_token_id": BOS, "eos_token_id": EOS, "do_sample": False}, indent=1) + "\n")
