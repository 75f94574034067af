"""Writes tests/data/methods/omnikv.json: tokens that OmniKV's official code selects in synthetic layers.

    git clone https://github.com/antgroup/OmniKV && git -C OmniKV checkout 5c33cb5617c01d9e7f5261dc47861b8d4aecaa15
    pip install torch==2.9.1
    python tests/golden/make_omnikv_golden.py OmniKV

Projections return the synthetic rows, and RoPE does not rotate them. "reads_all": the layers whose cache the official
code does not cut.
"""
import math
import pathlib
import sys
import types
from unittest.mock import MagicMock

import torch

from made_layer import CheckedTopK, made_layer, write_golden

COMMIT = "5c33cb5617c01d9e7f5261dc47861b8d4aecaa15"


def load(root):
    """The two files of the method, without transformers."""
    stub = types.ModuleType("modeling.offload_select_once")
    stub.__dict__.update(
        torch=torch, math=math, logger=MagicMock(), LlamaDecoderLayer=object, LlamaModel=object, LlamaForCausalLM=object,
        Optional=object, LlamaConfig=object,
        apply_rotary_pos_emb=lambda q, k, cos, sin: (q, k),
        repeat_kv=lambda x, count: x.repeat_interleave(count, dim=1))
    transformers = MagicMock()
    transformers.cache_utils.DynamicCache = object
    sys.modules.update({
        "transformers": transformers, "modeling": types.ModuleType("modeling"), "tiny_tools": types.ModuleType("tiny_tools"),
        "tiny_tools.log": MagicMock(), "modeling.offload_select_once": stub})
    modules = []
    for name in ("spec_cache", "omnikv"):
        module = sys.modules[f"modeling.{name}"] = types.ModuleType(f"modeling.{name}")
        source = (root / "modeling" / f"{name}.py").read_text()
        if name == "omnikv":  # the selection only: the rest are classes of a model
            source = source[:source.index("class OmniKVMulLayer")]
        exec(compile(source, name, "exec"), module.__dict__)
        modules.append(module)
    return modules


def select(omnikv, case, q, k, n):
    heads, sets, dim = case["heads"], case["sets"], case["dim"]
    attention = types.SimpleNamespace(
        config=dict(pretraining_tp=1), num_heads=heads, num_key_value_heads=sets, num_key_value_groups=heads // sets,
        head_dim=dim, layer_idx=0, q_proj=lambda x: q[:, n - 1].reshape(1, 1, -1),
        k_proj=lambda x: k[:, n - 1].reshape(1, 1, -1), rotary_emb=lambda x, positions: (None, None))
    cache = types.SimpleNamespace(key_cache=[k[None, :, :n]])
    selector = {"logit": "last", "softmax": "softmax_before_last"}[case["score"]]
    with CheckedTopK():
        return omnikv.select_tokens_by_attn_universal(
            attention, torch.zeros(1, 1, heads * dim), None, cache, case["budget"], case["prompt"],
            selector_cls=selector)[0].tolist()


def layers_of(cache, layers, filters, wait):
    """The layers that read all tokens, and the source of each other one."""
    full = list(range(filters[0])) + filters + [layers]  # as OmniKVMulLM.forward
    state = cache.OmniKVMultiStageCache(full, layers, wait, False).layer_state
    return [layer for layer in range(layers) if not state[layer][0]], \
        [[layer, state[layer][1]] for layer in range(layers) if state[layer][0]]


def main():
    cache, omnikv = load(pathlib.Path(sys.argv[1]))
    cases = []
    for seed, heads, sets, budget, score, prompt, steps in (
            (3, 4, 2, 20, "logit", 150, 5), (4, 4, 2, 20, "softmax", 150, 5), (5, 3, 3, 31, "logit", 90, 4),
            (6, 4, 1, 7, "softmax", 80, 4)):
        case = dict(seed=seed, heads=heads, sets=sets, dim=16, budget=budget, score=score, prompt=prompt, steps=steps)
        q, k, _ = made_layer(case)
        case["tokens"] = [select(omnikv, case, q, k, n) for n in range(prompt + 1, prompt + steps + 1)]
        cases.append(case)
    roles = []
    for layers, filters, wait in ((32, [2, 8, 18], 1), (32, [2, 8, 18], 2), (12, [0, 4, 6], 1), (6, [1], 0), (6, [1, 4], 3)):
        reads_all, sources = layers_of(cache, layers, filters, wait)
        roles.append(dict(layers=layers, filters=filters, wait=wait, reads_all=reads_all, sources=sources))
    write_golden("omnikv", dict(repository="antgroup/OmniKV", commit=COMMIT, roles=roles), cases)


if __name__ == "__main__":
    with torch.no_grad():
        main()
