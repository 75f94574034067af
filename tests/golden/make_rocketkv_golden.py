"""Writes tests/data/methods/rocketkv.json: tokens that RocketKV's official code keeps and reads of synthetic layers.

    git clone https://github.com/NVlabs/RocketKV && git -C RocketKV checkout 63637c8eb4b06b5eb83cd687723b0eeb19f48f65
    pip install torch
    python tests/golden/make_rocketkv_golden.py RocketKV

Projections return the synthetic rows, and RoPE does not rotate them.  The attention of the prompt, which needs a GPU,
returns zeros.  Steps are recorded whose tokens fill whole pages: otherwise the official code, which ranks tokens, reads
parts of pages.
"""
import importlib.util
import math
import pathlib
import re
import sys
import types

import torch

from made_layer import CheckedTopK, made_layer, write_golden

COMMIT = "63637c8eb4b06b5eb83cd687723b0eeb19f48f65"


def load_forward(root):
    """rocket_forward of the official code."""
    attention = root / "pipeline" / "inf_stream_llm" / "inf_llm" / "attention"
    package = types.ModuleType("attention")
    package.__path__ = [str(attention)]
    utils = types.ModuleType("attention.utils")
    utils.repeat_kv = lambda x, n: x.repeat_interleave(n, dim=1)
    flash = types.ModuleType("flash_attn.flash_attn_interface")
    flash.flash_attn_func = lambda q, k, v, causal: torch.zeros_like(q)
    sys.modules.update({"attention": package, "attention.utils": utils, "flash_attn": types.ModuleType("flash_attn"),
                        "flash_attn.flash_attn_interface": flash})
    spec = importlib.util.spec_from_file_location("attention.rocket", attention / "rocket.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.rocket_forward


def load_rule(root):
    """The function `compress`, which divides a budget."""
    text = (root / "pipeline" / "inf_stream_llm" / "infllm_utils.py").read_text()
    source = re.search(r"^def compress\(.*?(?=^def )", text, re.M | re.S).group()
    names = {"math": math, "patch_hf": lambda *_, **settings: settings}
    exec(source, names)  # pylint: disable=exec-used
    return names["compress"]


class Recorder(CheckedTopK):
    """Keeps the tokens that the code chooses last."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        out = super().__torch_function__(function, types, args, kwargs)
        if function in (torch.topk, torch.Tensor.topk):
            self.chosen = out.indices
        return out


def run(forward, case, q, k, v, past):
    """One pass over rows q, k, v: [heads or sets, rows, dim]."""
    sets, dim = k.shape[0], k.shape[2]
    layer = types.SimpleNamespace(layer_idx=0, config=types.SimpleNamespace(num_hidden_layers=1))
    x = torch.zeros(1, q.shape[1], 1)

    def rows(of):
        return lambda _: of.transpose(0, 1).reshape(1, of.shape[1], -1)

    recorder = Recorder()
    recorder.chosen = None
    with recorder:
        _, cache = forward(layer, x, x, lambda a, b, seq_len=None: (a, b), True, past, rows(q), rows(k), rows(v),
                           lambda o: o, dim, case["heads"], sets)
    return recorder.chosen, cache


def eviction(forward, case):
    """Slots that each set keeps of a prompt."""
    q, k, v = made_layer(case)
    _, (keys, _) = run(forward(True, 1, 1.0, case["kept"], case["window"], case["kernel"]), case, q, k, v, None)
    return [[(k[s] == row).all(dim=-1).nonzero().item() for row in keys[0, s]] for s in range(case["sets"])]


def selection(forward, case):
    """Slots that each set reads in some steps: [steps, sets]."""
    q, k, v = made_layer(case)
    out = []
    for n in range(case["prompt"] + 1, case["prompt"] + case["steps"] + 1):
        if n % case["page"] != 0:
            continue
        chosen, _ = run(forward(True, case["read"], case["ratio"], 10**6), case, q[:, n - 1:n], k[:, n - 1:n],
                        v[:, n - 1:n], (k[None, :, :n - 1], v[None, :, :n - 1]))
        out.append([n, [sorted(row) for row in chosen[0, :, 0, 0].tolist()]])
    return out


def main():
    root = pathlib.Path(sys.argv[1])
    forward, compress = load_forward(root), load_rule(root)
    cases = []
    for seed, (heads, sets, dim, prompt, kept, window, kernel) in enumerate((
            (4, 2, 16, 200, 90, 32, 63), (4, 1, 16, 150, 70, 8, 7), (2, 2, 8, 120, 40, 16, 1))):
        case = dict(kind="eviction", seed=seed + 1, heads=heads, sets=sets, dim=dim, prompt=prompt, steps=0, kept=kept,
                    window=window, kernel=kernel)
        while "slots" not in case:  # pooled scores are equal over long ranges, of which a part must not be chosen
            try:
                case["slots"] = eviction(forward, case)
            except ValueError:
                case["kept"] += 1
        cases.append(case)
    for seed, (heads, sets, dim, prompt, ratio, page, read) in enumerate((
            (4, 2, 16, 150, 4.0, 2, 40), (4, 1, 32, 161, 9.0, 3, 30), (6, 2, 16, 144, 14.0, 4, 48),
            (2, 2, 16, 90, 1.5, 1, 25), (3, 1, 16, 100, 1.0, 1, 20))):
        case = dict(kind="selection", seed=seed + 11, heads=heads, sets=sets, dim=dim, prompt=prompt, steps=13,
                    ratio=ratio, page=page, r=int(dim * page / ratio), read=read)
        case["slots"] = selection(forward, case)
        cases.append(case)
    config = types.SimpleNamespace(config=types.SimpleNamespace(num_attention_heads=4, num_key_value_heads=2))
    for prompt, answer, budget in ((4000, 128, 256), (4000, 128, 1024), (120000, 64, 256), (8000, 512, 512),
                                   (900, 32, 500), (1000, 10, 600), (700, 300, 64)):
        settings = compress({}, {"method": "rocket", "token_budget": budget}, prompt + answer, answer, config)
        ratio = settings["compression_ratio"]
        page = math.ceil(math.sqrt(ratio))
        cases.append(dict(kind="rule", prompt=prompt, answer=answer, budget=budget, kept=settings["prompt_budget"],
                          page=page if page <= ratio else 1, ratio=ratio, read=settings["topk"]))
    write_golden("rocketkv", {"repository": "https://github.com/NVlabs/RocketKV", "commit": COMMIT}, cases)


if __name__ == "__main__":
    main()
