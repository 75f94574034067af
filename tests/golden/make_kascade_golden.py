"""Writes tests/data/methods/kascade.json: Kascade's official code on synthetic layers, and its choice of anchor layers.

    git clone https://github.com/microsoft/kascade && git -C kascade checkout 76aea84d4216b538e001fab018cbc24894ce32c3
    pip install torch==2.9.1 numpy
    python tests/golden/make_kascade_golden.py kascade

"cases": the decode-only strategy; each layer has its own synthetic rows. "calibrations": anchors and head maps for
similarities of synthetic attention.
"""
import importlib
import pathlib
import sys
import types
from unittest.mock import MagicMock

import numpy
import torch

from made_layer import CheckedTopK, made_layer, sums_of, write_golden
from splitmix import Random

COMMIT = "76aea84d4216b538e001fab018cbc24894ce32c3"


def load(path, name):
    """A module of the official code, which needs Python 3.12 for one nested quote."""
    module = types.ModuleType(name)
    module.__package__ = name.rpartition(".")[0]
    sys.modules[name] = module
    source = path.read_text().replace('{"_".join(', "{'_'.join(")
    exec(compile(source, str(path), "exec"), module.__dict__)
    return module


def load_official(root):
    for name in ("transformers", "transformers.modeling_utils", "transformers.masking_utils", "matplotlib",
                 "matplotlib.pyplot", "accelerate", "accelerate.utils"):
        sys.modules[name] = MagicMock()
    for package in ("strategies", "runners"):
        sys.modules[package] = types.ModuleType(package)
        sys.modules[package].__path__ = [str(root / "src" / package)]
    load(root / "src" / "strategies" / "KascadeStrategy.py", "strategies.KascadeStrategy")
    strategy = importlib.import_module("strategies.DecodeOnlyKascadeStrategy")
    base = sys.modules["runners.base"] = types.ModuleType("runners.base")
    base.BaseGenerationRunner, base.GenerationStep = object, object
    return strategy, load(root / "src" / "runners" / "stats_runner.py", "runners.stats_runner")


def decode_case(strategy, case):
    heads, sets, layers = case["heads"], case["sets"], case["layers"]
    numpy.load = lambda path: numpy.array(case["map"])
    kascade = strategy.DecodeOnlyKascadeStrategy(case["anchors"], "model", k=case["percent"])
    rows = [made_layer(dict(case, seed=case["seed"] + layer)) for layer in range(layers)]
    for n in range(case["prompt"] + 1, case["prompt"] + case["steps"] + 1):
        tokens, sums = [], []
        for layer, (q, k, v) in enumerate(rows):
            module = types.SimpleNamespace(layer_idx=layer, num_key_value_groups=heads // sets, training=False)
            with CheckedTopK():
                out, _ = kascade.attention_forward(
                    module, q[None, :, n - 1:n], k[None, :, :n], v[None, :, :n], torch.zeros(1, 1, 1, n),
                    case["dim"] ** -0.5)
            sums.append(sums_of(out[0, 0]))
            if layer in case["anchors"]:
                tokens.append(kascade._topk_to_reuse[0, :, 0].tolist())
        case["tokens"].append(tokens)
        case["sums"].append(sums)
    return case


def calibration(runners, case):
    """Attention of each layer's KV heads to `tokens` keys by `rows` queries: multiples of 1/1024, whose sums are exact."""
    random, layers, heads = Random(case["seed"]), case["layers"], case["heads"]
    rows, tokens, k = case["rows"], case["tokens"], case["k"]
    runner = object.__new__(runners.StatsRunner)
    runner.config = types.SimpleNamespace(run_type="select_layers", num_queries=case["prompts"])
    runner._num_layers, total = layers, 0
    for _ in range(case["prompts"]):
        common = torch.tensor([[random.between(0, 1 << 20) for _ in range(tokens)] for _ in range(rows)])
        weights = []
        for _ in range(layers * heads):
            own = torch.tensor([[random.between(0, 1 << 20) for _ in range(tokens)] for _ in range(rows)])
            mix = random.between(0, 4)
            weights.append((common * mix + own * (4 - mix)).float() / 1024)
        weights = torch.stack(weights).view(layers, 1, heads, rows, tokens)
        runner._causal_attn_weights = list(weights)
        runner._top_k_per_layer = [w.topk(k, dim=-1).indices for w in weights]
        runner._last_tile_attn = [torch.zeros(1, heads, rows)] * layers
        total = total + torch.stack([
            torch.stack([runner._similarity_layer(a, b) if b >= a else torch.zeros(heads, heads)
                         for b in range(layers)]) for a in range(layers)])
    mean = total / case["prompts"]
    importance = torch.tensor(case["importance"])
    of_layers = (mean.amax(dim=-1).mean(dim=-1) * importance[None]).numpy()
    case["similarity"] = [[round(float(x), 5) for x in row] for row in of_layers]
    case["found"] = []
    for count in case["counts"]:
        anchors = runner._pick_k_layers(of_layers, count)
        heads_of = runner._find_head_mappings(mean, anchors + [layers])
        case["found"].append(dict(anchors=anchors, heads=heads_of))
    return case


def main():
    strategy, runners = load_official(pathlib.Path(sys.argv[1]))
    cases = [decode_case(strategy, dict(seed=seed, heads=heads, sets=sets, dim=16, layers=len(head_map), prompt=prompt,
                                        steps=steps, percent=percent, anchors=anchors, map=head_map, tokens=[], sums=[]))
             for seed, heads, sets, prompt, steps, percent, anchors, head_map in (
                 (11, 4, 2, 300, 6, 10, [0, 2], [[0, 1], [1, 1], [0, 1], [1, 0], [0, 0]]),
                 (31, 6, 3, 160, 4, 85, [0, 1, 3], [[0, 1, 2], [0, 1, 2], [2, 0, 1], [0, 1, 2], [1, 1, 0]]),
                 (51, 2, 1, 120, 3, 10, [0], [[0], [0]]))]
    calibrations = [calibration(runners, dict(seed=seed, layers=layers, heads=heads, rows=3, tokens=40, k=k, prompts=2,
                                              importance=importance, counts=counts))
                    for seed, layers, heads, k, importance, counts in (
                        (1, 6, 2, 8, [1, 1, 1, 1, 1, 1], [2, 3, 6]),
                        (2, 8, 3, 5, [0.5, 0.25, 1, 0.125, 0.75, 0.5, 0.25, 0.5], [3, 4]))]
    about = dict(repository="microsoft/kascade", commit=COMMIT, calibrations=calibrations)
    write_golden("kascade", about, cases)


if __name__ == "__main__":
    with torch.no_grad():
        main()
