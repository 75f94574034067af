"""Writes tests/data/methods/sparq.json: the tokens that SparQ's official code reads of synthetic layers, its attention.

    git clone https://github.com/graphcore-research/llm-inference-research SparQ
    git -C SparQ checkout ead9b6a70e3304e4666ae887cd2c6f506525fea2
    git clone https://github.com/HugoZHL/PQCache && git -C PQCache checkout 0b74e125207dc3f24da3bbaaf84e8a5f1d3b1828
    pip install torch==2.9.1 transformers==4.57.1
    python tests/golden/make_sparq_golden.py SparQ PQCache

Runs the attention of the first repository and, for the case with sinks, that of PQCache's modified copy, in which the
keys before the current one are in host memory.  The code that builds models from them is not used.
"""
import importlib.util
import pathlib
import sys
import types

import torch
from torch import nn
from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXAttention

from made_layer import CheckedTopK, made_layer, sums_of, write_golden

ABOUT = {"repository": "https://github.com/graphcore-research/llm-inference-research",
         "commit": "ead9b6a70e3304e4666ae887cd2c6f506525fea2",
         "with_sinks": {"repository": "https://github.com/HugoZHL/PQCache",
                        "commit": "0b74e125207dc3f24da3bbaaf84e8a5f1d3b1828"}}


def load(root, package):
    """The attention module, without the repository's model code."""
    for name in (package, package + ".methods", package + ".utility", package + ".models"):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = []
    sys.modules[package].utility = sys.modules[package + ".utility"]
    for model in ("Gemma", "Llama", "Mistral"):
        setattr(sys.modules[package + ".models"], model.lower() + "_attention",
                types.SimpleNamespace(**{model + "Attention": nn.Module}))
    GPTNeoXAttention._attn = None  # of older versions: imported by a class, never called here
    for name in ("sparse_attention", "ann_attention"):
        spec = importlib.util.spec_from_file_location(f"{package}.methods.{name}", root / "methods" / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        setattr(sys.modules[package + ".methods"], name, module)
        spec.loader.exec_module(module)
    return module


def main():
    official = load(pathlib.Path(sys.argv[1]) / "llminference", "llminference")
    changed = load(pathlib.Path(sys.argv[2]) / "vq_method" / "retrieval_based" / "sparq_official", "sparq_official")
    cases = []
    for seed, (heads, sets, r, budget, local, sinks, mean_v, prompt, steps) in enumerate((
            (4, 2, 4, 24, 6, 0, True, 120, 6), (2, 2, 3, 20, 5, 0, True, 90, 6), (4, 1, 16, 30, 7, 0, False, 100, 4),
            (3, 3, 1, 24, 6, 0, True, 22, 6), (4, 2, 2, 30, 15, 8, False, 150, 6))):
        case = dict(seed=seed + 1, heads=heads, sets=sets, dim=16, r=r, budget=budget, sinks=sinks, mean_v=mean_v,
                    prompt=prompt, steps=steps, tokens=[], sums=[])
        q, k, v = (x.unsqueeze(0) for x in made_layer(case))
        for n in range(prompt + 1, prompt + steps + 1):
            query, mask = q[:, :, n - 1:n], torch.zeros(1, heads, 1, n)
            with CheckedTopK():
                if sinks == 0:
                    ann = official.AnnAttention(official.Settings(budget, local, mean_v, "sparse_q", rank=r), sets, 16)
                    ann.debug_indices = []
                    out = ann(query, k[:, :, :n], v[:, :, :n], mask)[0]
                    current = []
                else:
                    cached = k[:, :, :n - 1], v[:, :, :n - 1], k[:, :, :n - 1].transpose(2, 3)
                    mean = cached[1].unsqueeze(2).mean(dim=-2, keepdim=True)
                    ann = changed.AnnAttention(changed.Settings(budget, local, sinks, mean_v, "sparse_q", rank=r), sets,
                                               16, mean)
                    ann.debug_indices = []
                    out = ann(query, k[:, :, n - 1:n], v[:, :, n - 1:n], mask, cached)
                    current = [n - 1]
            case["tokens"].append([sorted(row.flatten().tolist()) + current for row in ann.debug_indices[0][0]])
            case["sums"].append(sums_of(out[0, :, 0]))
        cases.append(case)
    write_golden("sparq", ABOUT, cases)


if __name__ == "__main__":
    main()
