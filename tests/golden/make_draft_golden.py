"""Writes tests/data/methods/draft/: checkpoints of EAGLE-3 drafts with random weights, and their attention weights.

    pip install torch==2.9.1 transformers==5.2.0 safetensors
    python tests/golden/make_draft_golden.py

midlayer/ has the tensor names of the checkpoints of EAGLE-3's authors, and uses the model's embeddings.  layers/ has the
names of vLLM, its own embeddings, biases, norms of heads, and names the model's layers that it reads.
golden.safetensors has the model's embeddings and hidden states [features, tokens, hidden], and the softmax weights of
each head of the draft for the last token: over all tokens (none), or over all except the first (prev).  No code of
EAGLE-3 runs here: the reference consists of the formulas.
tiny.safetensors has a prompt, and the weights of the trained draft of models/tiny for its last token, computed from the
hidden states of Transformers.
"""
import json
import math
import pathlib

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, LlamaForCausalLM

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "data" / "methods" / "draft"
TINY = pathlib.Path(__file__).resolve().parents[2] / "models" / "tiny"
PROMPT = """<bos>
 the color of alice is red blue. the old river was very quiet. the friend of bob is alice. the city of carol is lemon
 anvil. quietly, the letter bought a curious train. the color of bob is milk panther lemon. the label of quiet child is
 delta. the stone of silvia is coconut purple. the early letter saw the street near the office. the animal of zoe is
 magnet donkey. the label of modern child is delta.
<q3> for the friend of bob, what is the color?
<a3> the friend of bob is alice, the color of alice is"""
VOCAB, TARGET, TOKENS, N_MAX, N_ORIG = 128, 64, 40, 128, 32
CASES = {
    "midlayer": {"hidden": 64, "heads": 4, "kv_heads": 2, "dim": 16, "theta": 10000.0, "prefix": "midlayer."},
    "layers": {"hidden": 32, "heads": 3, "kv_heads": 3, "dim": 8, "theta": 5000.0, "prefix": "model.layers.0."},
}


def rms_norm(x, weight, eps):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * weight


def frequencies(dim, theta):
    """YaRN's frequencies and the factor of queries and keys (Peng et al., 2023)."""
    s = max(1.0, N_MAX / N_ORIG)

    def pair(turns):
        return dim * math.log(N_ORIG / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low, high = max(math.floor(pair(32)), 0), min(math.ceil(pair(1)), dim - 1)
    high += 0.001 if low == high else 0
    out = []
    for i in range(dim // 2):
        plain, u = theta ** (-2 * i / dim), min(max((i - low) / (high - low), 0), 1)
        out.append(plain * ((1 - u) + u / s))
    return torch.tensor(out, dtype=torch.float64), 0.1 * math.log(s) + 1


def rotate(x, theta):
    """x: [rows, heads, dim] at positions 0, 1, ..."""
    rows, _, dim = x.shape
    f, factor = frequencies(dim, theta)
    angles = (torch.arange(rows, dtype=torch.float64)[:, None] * f)[:, None, :]
    cos, sin = angles.cos() * factor, angles.sin() * factor
    a, b = x[..., : dim // 2], x[..., dim // 2:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def weights_of(case, t, table, tokens, states):
    """Weights [heads, rows]; states: None, or [features, tokens, hidden] of the model."""
    eps = 1e-5
    x = rms_norm(table[tokens], t["input_layernorm.weight"], eps)
    if states is None:
        rows = torch.cat([x, torch.zeros_like(x)], -1)
    else:  # row j: the embedding of token j + 1 and the feature of token j
        feature = torch.cat(list(states), -1) @ t["fc.weight"].T
        rows = torch.cat([x[1:], rms_norm(feature[:-1], t["hidden_norm.weight"], eps)], -1)
    out = {}
    for name, heads in (("q", case["heads"]), ("k", case["kv_heads"])):
        y = rows @ t[f"self_attn.{name}_proj.weight"].T + t.get(f"self_attn.{name}_proj.bias", 0)
        y = y.view(len(rows), heads, case["dim"])
        if f"self_attn.{name}_norm.weight" in t:
            y = rms_norm(y, t[f"self_attn.{name}_norm.weight"], eps)
        out[name] = rotate(y, case["theta"])
    k = out["k"].repeat_interleave(case["heads"] // case["kv_heads"], 1)
    return (torch.einsum("hd,nhd->hn", out["q"][-1], k) / math.sqrt(case["dim"])).softmax(-1)


@torch.no_grad()
def trained():
    """Of the draft of tiny: the prompt's tokens, and the weights of each head."""
    model = LlamaForCausalLM.from_pretrained(TINY, dtype=torch.float64)
    tokens = AutoTokenizer.from_pretrained(TINY)(PROMPT, add_special_tokens=False, return_tensors="pt").input_ids
    states = model(tokens, output_hidden_states=True).hidden_states  # entry i enters layer i
    config = json.loads((TINY / "retrieval_head" / "config.json").read_text())
    case = {"heads": config["num_attention_heads"], "kv_heads": config["num_key_value_heads"],
            "dim": config["head_dim"], "theta": config["rope_theta"]}
    t = {name.removeprefix("midlayer."): x.double()
         for name, x in load_file(TINY / "retrieval_head" / "model.safetensors").items()}
    layers = config["eagle_config"]["eagle_aux_hidden_state_layer_ids"]
    weights = weights_of(case, t, model.model.embed_tokens.weight, tokens[0], [states[i][0] for i in layers])
    return {"tokens": tokens[0].float(), "weights": weights.float().contiguous()}


def main():
    generator = torch.Generator().manual_seed(19)

    def draw(*shape, scale=1.0, mean=0.0):
        return (torch.randn(*shape, generator=generator) * scale + mean).to(torch.bfloat16)

    embedding, states = draw(VOCAB, TARGET), draw(3, TOKENS, TARGET)
    tokens = torch.randint(3, VOCAB, (TOKENS,), generator=generator)
    golden = {"embedding": embedding, "states": states, "tokens": tokens.float()}
    for folder, case in CASES.items():
        hidden, dim = case["hidden"], case["dim"]
        q, k = case["heads"] * dim, case["kv_heads"] * dim
        own = folder == "layers"
        layer = {
            "input_layernorm.weight": draw(hidden, scale=0.1, mean=1),
            "hidden_norm.weight": draw(hidden, scale=0.1, mean=1),
            "post_attention_layernorm.weight": draw(hidden),
            "self_attn.q_proj.weight": draw(q, 2 * hidden, scale=1.5 / math.sqrt(hidden)),
            "self_attn.k_proj.weight": draw(k, 2 * hidden, scale=1.5 / math.sqrt(hidden)),
            "self_attn.v_proj.weight": draw(k, 2 * hidden),
            "mlp.up_proj.weight": draw(4, hidden),
        }
        if own:
            layer |= {"self_attn.q_proj.bias": draw(q), "self_attn.k_proj.bias": draw(k),
                      "self_attn.q_norm.weight": draw(dim, scale=0.3, mean=1.5),
                      "self_attn.k_norm.weight": draw(dim, scale=0.3, mean=1.5)}
        beside = {"fc.weight": draw(hidden, 3 * TARGET, scale=1 / math.sqrt(TARGET))}
        if own:
            beside["embed_tokens.weight"] = draw(VOCAB, hidden)
        tensors = {case["prefix"] + name: x for name, x in layer.items()}
        tensors |= {("model." if own else "") + name: x for name, x in beside.items()}
        tensors |= {"norm.weight": draw(hidden), "lm_head.weight": draw(8, hidden),
                    "d2t": torch.arange(8), "t2d": torch.zeros(VOCAB, dtype=torch.bool)}
        config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden,
                  "num_attention_heads": case["heads"], "num_key_value_heads": case["kv_heads"],
                  "rms_norm_eps": 1e-5, "num_hidden_layers": 1, "vocab_size": VOCAB, "draft_vocab_size": 8}
        if own:
            config |= {"head_dim": dim, "rope_theta": case["theta"], "target_hidden_size": TARGET,
                       "norm_before_residual": True, "eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 1, 2]}}
        (FOLDER / folder).mkdir(parents=True, exist_ok=True)
        save_file(tensors, FOLDER / folder / "model.safetensors")
        (FOLDER / folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        t = {name: x.double() for name, x in (layer | beside).items()}
        table = (beside["embed_tokens.weight"] if own else embedding).double()
        golden[f"{folder}.none"] = weights_of(case, t, table, tokens, None).float()
        golden[f"{folder}.prev"] = weights_of(case, t, table, tokens, states.double()).float()
    save_file({name: x.contiguous() for name, x in golden.items()}, FOLDER / "golden.safetensors")
    save_file(trained(), FOLDER / "tiny.safetensors")


if __name__ == "__main__":
    main()
