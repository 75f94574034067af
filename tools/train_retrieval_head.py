"""Trains an EAGLE-3 draft of a model, and writes the part of it that `specontext:head=OUT,feat=prev` reads.

    train_retrieval_head.py --model models/tiny --data dialogues.jsonl --out OUT

Each line of the data is a dialogue, as `turnbench method specontext dialogues` writes it: {"ids": [...], "spans":
[{"kind": "answer", "begin": 20, "end": 27}, ...]}.  The model (Llama, Mistral, Qwen2 or Qwen3 family, default RoPE)
computes it once; its hidden states stay in memory, 2 bytes an element.  The draft is one decoder layer: row j reads the
embedding of token j + 1 and a linear map of the model's hidden states of token j, and predicts the model's distribution
after token j + 1 (Li et al., EAGLE-3, 2025).  The loss is the cross-entropy with this distribution, on answer tokens
and the tokens that end answers (--rows adds others); --attention adds a second loss.  Embedding and output matrix are
the model's and stay fixed.  Training-time test, the part of EAGLE-3 that prepares a draft for its own features, is left
out: a retrieval head always reads the model's.

What is written has the names and the format of EAGLE-3's checkpoints, but only the tensors that determine queries and
keys (Xu et al., SpeContext, 2025, section 4.3).
"""
import argparse
import json
import math
import pathlib
import random
import time

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F


HELD_OUT = 100  # every 100th dialogue


def rms_norm(x, weight, eps):
    return F.rms_norm(x, (x.shape[-1],), weight, eps)


def rotate(x, positions, theta):
    """x: [heads, rows, head_dim]."""
    half = x.shape[-1] // 2
    angle = positions[:, None].float() * theta ** (-torch.arange(half).float() / half)
    cos, sin, a, b = angle.cos(), angle.sin(), x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def attend(q, k, v, rows):
    """Causal attention of the queries of `rows`: [rows, heads * head_dim]."""
    everything = len(rows) == k.shape[1]
    mask = None if everything else torch.arange(k.shape[1]) <= rows[:, None]
    k, v = (x.repeat_interleave(len(q) // len(x), 0) for x in (k, v))
    out = F.scaled_dot_product_attention(q[None], k[None], v[None], mask, is_causal=everything)[0]
    return out.transpose(0, 1).flatten(1)


def weights(q, k, rows, kv_heads):
    """Attention of the queries of `rows`, the mean over the heads of each KV head: [kv_heads, rows, keys]."""
    mask = torch.arange(k.shape[1]) > rows[:, None]
    scores = q @ k.repeat_interleave(len(q) // len(k), 0).transpose(1, 2) / math.sqrt(q.shape[-1])
    return scores.masked_fill(mask, -math.inf).softmax(-1).unflatten(0, (kv_heads, -1)).mean(1)


class Target:
    """The model: hidden states of all tokens, and its distribution at some of them."""

    def __init__(self, directory, dtype):
        self.config = c = json.loads((directory / "config.json").read_text())
        rope = c.get("rope_parameters") or c
        if c.get("rope_scaling") or rope.get("rope_type", "default") != "default":
            raise SystemExit(f"{directory}/config.json: found a scaled RoPE, expected the default one")
        self.heads, self.eps, self.theta = c["num_attention_heads"], c["rms_norm_eps"], rope["rope_theta"]
        self.layers, self.weights, self.dtype = c["num_hidden_layers"], {}, dtype
        for path in sorted(directory.glob("*.safetensors")):
            with safe_open(path, "pt") as file:
                self.weights.update({name: file.get_tensor(name).float() for name in file.keys()})
        self.embedding = self.weights["model.embed_tokens.weight"]
        self.output = self.weights.get("lm_head.weight", self.embedding)
        self.factors = {name: x.to(dtype) for name, x in self.weights.items() if name.endswith("_proj.weight")}

    def linear(self, x, name):
        y = F.linear(x.to(self.dtype), self.factors[name + ".weight"]).float()
        bias = self.weights.get(name + ".bias")
        return y if bias is None else y + bias

    @torch.no_grad()
    def __call__(self, ids, rows, taps, attention=False):
        """In bfloat16: concatenated inputs of the layers `taps`, [tokens, taps * hidden]; the last hidden states of
        `rows`; with `attention`, the mean of all layers' weights of these rows."""
        everything, h, tapped, seen = torch.arange(len(ids)), self.embedding[ids], {}, 0
        for i in range(self.layers):
            tapped[i] = h
            at = f"model.layers.{i}."
            x = rms_norm(h, self.weights[at + "input_layernorm.weight"], self.eps)
            chosen = rows if i + 1 == self.layers else everything  # of the last layer, the result at `rows` is used
            parts = {}
            for part, y in (("q", x[chosen]), ("k", x), ("v", x)):
                y = self.linear(y, f"{at}self_attn.{part}_proj")
                dim = self.config.get("head_dim") or self.embedding.shape[1] // self.heads
                y = y.view(len(y), -1, dim)
                norm = self.weights.get(f"{at}self_attn.{part}_norm.weight")
                parts[part] = (y if norm is None else rms_norm(y, norm, self.eps)).transpose(0, 1)
            q, k = rotate(parts["q"], chosen, self.theta), rotate(parts["k"], everything, self.theta)
            if attention:
                at_rows = q if i + 1 == self.layers else q[:, rows]
                seen = seen + weights(at_rows, k, rows, len(k)).to(torch.bfloat16) / self.layers
            h = h[chosen] + self.linear(attend(q, k, parts["v"], chosen), at + "self_attn.o_proj")
            x = rms_norm(h, self.weights[at + "post_attention_layernorm.weight"], self.eps)
            x = F.silu(self.linear(x, at + "mlp.gate_proj")) * self.linear(x, at + "mlp.up_proj")
            h = h + self.linear(x, at + "mlp.down_proj")
        h = rms_norm(h, self.weights["model.norm.weight"], self.eps)
        return torch.cat([tapped[i] for i in taps], -1).to(torch.bfloat16), h.to(torch.bfloat16), seen

    def probabilities(self, h):
        return F.linear(h.float(), self.output).softmax(-1)


class Draft(nn.Module):
    """EAGLE-3's decoder layer with the model's sizes, embedding and output matrix."""

    def __init__(self, target, taps):
        super().__init__()
        c, hidden = target.config, target.embedding.shape[1]
        self.target, self.eps, self.theta = target, target.eps, target.theta
        self.dim = c.get("head_dim") or hidden // target.heads
        q, k = target.heads * self.dim, c.get("num_key_value_heads", target.heads) * self.dim

        def linear(inputs, outputs):
            return nn.Linear(inputs, outputs, bias=False)

        self.fc = linear(len(taps) * hidden, hidden)
        self.input_layernorm, self.hidden_norm, self.post_attention_layernorm, self.norm = (
            nn.Parameter(torch.ones(hidden)) for _ in range(4))
        self.q_proj, self.k_proj, self.v_proj = linear(2 * hidden, q), linear(2 * hidden, k), linear(2 * hidden, k)
        self.o_proj = linear(q, hidden)
        self.gate_proj, self.up_proj = (linear(hidden, c["intermediate_size"]) for _ in range(2))
        self.down_proj = linear(c["intermediate_size"], hidden)

    def forward(self, ids, states, rows, attention=False):
        """Log-probabilities [rows, vocabulary], and with `attention` the weights; states: of all tokens except the
        last."""
        feature = self.fc(states)
        x = torch.cat((rms_norm(self.target.embedding[ids[1:]], self.input_layernorm, self.eps),
                       rms_norm(feature, self.hidden_norm, self.eps)), -1)
        q, k, v = (f(y).view(len(y), -1, self.dim).transpose(0, 1)
                   for f, y in ((self.q_proj, x[rows]), (self.k_proj, x), (self.v_proj, x)))
        q, k = rotate(q, rows, self.theta), rotate(k, torch.arange(len(x)), self.theta)
        h = feature[rows] + self.o_proj(attend(q, k, v, rows))
        x = rms_norm(h, self.post_attention_layernorm, self.eps)
        h = h + self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return (F.linear(rms_norm(h, self.norm, self.eps), self.target.output).log_softmax(-1),
                weights(q, k, rows, len(k)) if attention else None)

    def export(self, directory, taps):
        layer = {"input_layernorm": self.input_layernorm, "hidden_norm": self.hidden_norm,
                 "self_attn.q_proj": self.q_proj.weight, "self_attn.k_proj": self.k_proj.weight}
        tensors = {f"midlayer.{name}.weight": x for name, x in layer.items()} | {"fc.weight": self.fc.weight}
        directory.mkdir(parents=True, exist_ok=True)
        save_file({name: x.detach().to(torch.bfloat16) for name, x in tensors.items()}, directory / "model.safetensors")
        config = {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "num_hidden_layers": 1,
                  "hidden_size": self.target.embedding.shape[1], "num_attention_heads": self.target.heads,
                  "num_key_value_heads": self.k_proj.out_features // self.dim, "head_dim": self.dim,
                  "rms_norm_eps": self.eps, "rope_theta": self.theta, "torch_dtype": "bfloat16",
                  "eagle_config": {"eagle_aux_hidden_state_layer_ids": taps}}
        (directory / "config.json").write_text(json.dumps(config, indent=1) + "\n")


def read_dialogues(path, longest, others, seed):
    """(ids, rows): the rows of the draft that predict answer tokens and ends of answers, and as many as `others` random
    ones, except in dialogues that are held out."""
    out, chosen = [], random.Random(seed)
    for line in path.read_text().splitlines():
        dialogue = json.loads(line)
        ids = dialogue["ids"][:longest]
        rows = [at - 2 for span in dialogue["spans"] if span["kind"] == "answer"
                for at in range(max(2, span["begin"]), span["end"] + 1) if at < len(ids)]
        if rows and len(out) % HELD_OUT > 0:
            free = sorted(set(range(len(ids) - 2)) - set(rows))
            rows = sorted(rows + chosen.sample(free, min(others, len(free))))
        if rows:
            out.append((torch.tensor(ids), torch.tensor(rows)))
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=pathlib.Path, required=True, help="Hugging Face directory")
    parser.add_argument("--data", type=pathlib.Path, required=True, help="dialogues; every 100th is held out")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--layers", type=int, nargs="+",
                        help="layers whose inputs the draft reads; default: 2, the middle one and the last but two, of "
                        "a model with fewer than seven the last three")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=8, help="dialogues in a step")
    parser.add_argument("--lr", type=float, default=.02)
    parser.add_argument("--attention", type=float, default=0,
                        help="weight of a second loss, with which the draft's attention imitates the mean attention of "
                        "the model's layers; not part of EAGLE-3")
    parser.add_argument("--rows", type=int, default=0,
                        help="random tokens of a dialogue, besides its answers, on which the losses are also computed")
    parser.add_argument("--bf16", action="store_true", help="the model multiplies bfloat16; faster on new processors")
    parser.add_argument("--longest", type=int, default=2048, help="tokens of a dialogue that are used")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="more are slower on a machine with other work")
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(arguments.threads)
    target = Target(arguments.model, torch.bfloat16 if arguments.bf16 else torch.float32)
    n = target.layers
    taps = arguments.layers or ([2, n // 2, n - 3] if n > 6 else list(range(max(0, n - 3), n)))
    draft = Draft(target, taps)
    dialogues = read_dialogues(arguments.data, arguments.longest, arguments.rows, arguments.seed)
    held_out, dialogues = dialogues[::HELD_OUT], [d for i, d in enumerate(dialogues) if i % HELD_OUT > 0]
    # As in the training of tiny; AdamW on the matrices learns more slowly.
    optimizers = [torch.optim.Muon([p for p in draft.parameters() if p.dim() == 2], lr=arguments.lr, weight_decay=0),
                  torch.optim.AdamW([p for p in draft.parameters() if p.dim() == 1], lr=arguments.lr / 10,
                                    weight_decay=0)]
    base = [optimizer.param_groups[0]["lr"] for optimizer in optimizers]
    print(f"# {sum(p.numel() for p in draft.parameters())} parameters, layers {taps}, {len(dialogues)} dialogues, "
          f"torch {torch.__version__}", flush=True)

    computed = {}

    def losses(dialogue):
        """By row: the loss, the divergence from the model, the agreement of the most probable tokens, and the
        divergence of the attention."""
        ids, rows = dialogue
        if id(dialogue) not in computed:
            computed[id(dialogue)] = target(ids, rows + 1, taps, arguments.attention > 0)
        states, h, seen = computed[id(dialogue)]
        wanted = target.probabilities(h)
        got, own = draft(ids, states[:-1].float(), rows, arguments.attention > 0)
        loss = -(wanted * got).sum(-1)
        divergence, apart = loss.detach() + torch.xlogy(wanted, wanted).sum(-1), torch.zeros(len(rows))
        if arguments.attention > 0:  # row j of the draft votes for token j + 1; no row votes for the first token
            seen = F.normalize(seen[..., 1:].float(), p=1, dim=-1)
            apart = (torch.xlogy(seen, seen) - torch.xlogy(seen, own.clamp_min(1e-9))).sum(-1).mean(0)
            loss = loss + arguments.attention * apart
        return loss, divergence, (got.argmax(-1) == wanted.argmax(-1)).float(), apart

    shuffle, order, start, tokens = random.Random(arguments.seed), [], time.time(), 0
    recent = []
    for step in range(1, arguments.steps + 1):
        factor = min(1, step / 30) * (.02 + .98 * (1 + math.cos(math.pi * step / arguments.steps)) / 2)
        for optimizer, lr in zip(optimizers, base):
            optimizer.param_groups[0]["lr"] = lr * factor
        for _ in range(arguments.batch):
            if not order:
                order = shuffle.sample(dialogues, len(dialogues))
            dialogue = order.pop()
            loss = losses(dialogue)[0].mean() / arguments.batch
            loss.backward()
            recent.append(loss.item() * arguments.batch)
            tokens += len(dialogue[0])
        nn.utils.clip_grad_norm_(draft.parameters(), 1.)
        for optimizer in optimizers:
            optimizer.step()
        draft.zero_grad()
        if step % 50 == 0 or step == arguments.steps:
            with torch.no_grad():
                held = torch.stack([torch.cat(x).mean() for x in zip(*map(losses, held_out))])
            print(f"step {step} loss {sum(recent) / len(recent):.4f} held-out loss {held[0]:.4f} "
                  f"divergence {held[1]:.4f} agreement {100 * held[2]:.1f} "
                  + (f"attention {held[3]:.4f} " if arguments.attention > 0 else "") +
                  f"tokens {tokens / 1e6:.2f}M "
                  f"seconds {time.time() - start:.0f}", flush=True)
            draft.export(arguments.out, taps)
            recent = []


if __name__ == "__main__":
    main()
