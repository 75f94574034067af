"""Writes tests/data/methods/rkv.json: tokens that R-KV's official code keeps of synthetic layers.

    git clone https://github.com/Zefan-Cai/R-KV && git -C R-KV checkout d15c9767e67c2bd9807128fecc35223fa2484a69
    pip install torch
    python tests/golden/make_rkv_golden.py R-KV

The cache of a layer is compressed after the prompt and in the first step after every `interval` tokens, as
rkv/modeling.py does it.
"""
import importlib.util
import pathlib
import sys
import types

import torch

from made_layer import CheckedTopK, made_layer, write_golden

COMMIT = "d15c9767e67c2bd9807128fecc35223fa2484a69"


def load(root):
    """The official class, without its package, which needs other versions of transformers."""
    def module_at(path, name):
        spec = importlib.util.spec_from_file_location(name, root / "rkv" / path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    package = types.ModuleType("compression")
    package.__path__ = []
    utils = module_at("utils.py", "utils")
    package.cal_similarity, package.compute_attention_scores = utils.cal_similarity, utils.compute_attention_scores
    sys.modules["compression"] = package
    return module_at("compression/r1_kv.py", "compression.r1_kv").R1KV


def kept_tokens(r1_kv, case):
    """After the prompt and each compression: tokens so far, and the positions that each set keeps."""
    q, k, v = made_layer(case)
    method = r1_kv(budget=case["budget"], window_size=case["window"], kernel_size=case["kernel"],
                   mix_lambda=case["mix"])
    prompt = case["prompt"]
    kept = [list(range(prompt)) for _ in range(case["sets"])]
    out = []
    for n in range(prompt, prompt + case["steps"] + 1):
        if n > prompt:
            kept = [positions + [n - 1] for positions in kept]
            if (n - 1) % case["interval"] != 0:
                continue
        keys = torch.stack([k[s, kept[s]] for s in range(case["sets"])])
        with CheckedTopK():
            left, _ = method.update_kv(keys[None], q[None, :, n - case["window"]:n], keys[None])
        kept = [sorted((k[s, :n] == row).all(dim=-1).nonzero().item() for row in left[0, s])
                for s in range(case["sets"])]
        out.append([n, kept])
    return out


def main():
    r1_kv = load(pathlib.Path(sys.argv[1]))
    cases = []
    for seed, (heads, sets, dim, prompt, steps, budget, window, kernel, mix, interval) in enumerate((
            (4, 2, 8, 200, 40, 90, 8, 7, 0.07, 16), (4, 1, 16, 150, 30, 70, 8, 7, 0.5, 128),
            (6, 2, 4, 120, 50, 40, 16, 1, 0.1, 7), (2, 2, 8, 60, 60, 80, 4, 5, 0.9, 10),
            (3, 1, 8, 100, 20, 50, 8, 1, 1, 1), (4, 2, 8, 100, 20, 50, 1, 3, 0, 8))):
        case = dict(seed=100 * seed + 1, heads=heads, sets=sets, dim=dim, prompt=prompt, steps=steps, budget=budget,
                    window=window, kernel=kernel, mix=mix, interval=interval)
        while "kept" not in case:
            try:
                case["kept"] = kept_tokens(r1_kv, case)
            except ValueError:  # a choice hangs on rounding
                case["seed"] += 1
        cases.append(case)
    write_golden("rkv", {"repository": "https://github.com/Zefan-Cai/R-KV", "commit": COMMIT}, cases)


if __name__ == "__main__":
    main()
