"""Writes tests/data/methods/quest.json: pages that Quest's official code reads of synthetic layers, and its attention.

    git clone https://github.com/mit-han-lab/Quest && git -C Quest checkout 01c1623bf9395009520874e989e29f683203b357
    pip install torch==2.9.1 transformers==4.57.1
    python tests/golden/make_quest_golden.py Quest

last=compete: the attention of its evaluation; projections return the synthetic rows, and RoPE does not rotate them.
last=always: the reference of its kernel tests, with a row of keys for each query head; the kernels themselves need a
GPU.
"""
import importlib.util
import pathlib
import sys
import types
from unittest.mock import MagicMock

import torch

from made_layer import CheckedTopK, made_layer, sums_of, write_golden

COMMIT = "01c1623bf9395009520874e989e29f683203b357"


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def competing(evaluation, case, q, k, v):
    """The pages of each head, and the output [heads, dim], of the last token's step."""
    heads, sets, dim = case["heads"], case["sets"], case["dim"]
    n = k.shape[1]
    masks = []

    def recorded(*args):
        masks.append(mask_of(*args))
        return masks[-1]

    mask_of = evaluation.local_heavy_hitter_mask
    evaluation.local_heavy_hitter_mask = recorded
    layer = types.SimpleNamespace(
        layer_id=2, num_heads=heads, num_key_value_heads=sets, num_key_value_groups=heads // sets, head_dim=dim,
        hidden_size=heads * dim, token_budget=case["budget"], chunk_size=case["page"],
        q_proj=lambda x: q[:, -1], k_proj=lambda x: k[:, -1], v_proj=lambda x: v[:, -1], o_proj=lambda x: x,
        rotary_emb=lambda x, positions: (torch.ones(1, 1, dim), torch.zeros(1, 1, dim)))
    out = evaluation.forward(layer, torch.zeros(1, 1, heads * dim), torch.zeros(1, 1, 1, n), torch.tensor([[n - 1]]),
                             (k[None, :, :-1], v[None, :, :-1]))[0]
    evaluation.local_heavy_hitter_mask = mask_of
    return [sorted({t // case["page"] for t in row.nonzero().flatten().tolist()}) for row in masks[0][0, :, 0]], \
        out.view(heads, dim)


def always(kernels, case, q, k, v):
    group, page, budget = case["heads"] // case["sets"], case["page"], case["budget"] // case["page"]
    rows = [x.transpose(0, 1) for x in (q[:, -1:], k.repeat_interleave(group, 0), v.repeat_interleave(group, 0))]
    pages = -(-k.shape[1] // page)
    out, best = kernels._ref_self_approx_attention(*rows, page, budget)
    if best is None:
        return [list(range(pages))] * case["heads"], out[0]
    return [sorted(row) + [pages - 1] for row in best.tolist()], out[0]


def main():
    root = pathlib.Path(sys.argv[1])
    evaluation = load(root / "evaluation" / "quest_attention.py")
    for name in ("pytest", "quest", "quest.utils"):
        sys.modules[name] = MagicMock()
    kernels = load(root / "quest" / "tests" / "test_approx_attention.py")
    cases = []
    for seed, (last, heads, sets, dim, page, budget, prompt, steps) in enumerate((
            ("compete", 4, 2, 16, 16, 64, 150, 12), ("compete", 2, 2, 8, 5, 7, 61, 6),
            ("compete", 2, 1, 8, 16, 100, 69, 2), ("always", 4, 2, 16, 16, 64, 150, 12),
            ("always", 3, 3, 8, 7, 30, 90, 8), ("always", 2, 1, 8, 16, 80, 79, 2))):
        case = dict(seed=seed + 1, last=last, heads=heads, sets=sets, dim=dim, page=page, budget=budget, prompt=prompt,
                    steps=steps, pages=[], sums=[])
        run, code = (competing, evaluation) if last == "compete" else (always, kernels)
        q, k, v = made_layer(case)
        for n in range(prompt + 1, prompt + steps + 1):
            with CheckedTopK():
                pages, out = run(code, case, q[:, :n], k[:, :n], v[:, :n])
            case["pages"].append(pages)
            case["sums"].append(sums_of(out))
        cases.append(case)
    write_golden("quest", {"repository": "https://github.com/mit-han-lab/Quest", "commit": COMMIT}, cases)


if __name__ == "__main__":
    main()
