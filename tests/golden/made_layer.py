"""The synthetic layer of the golden files of selection methods; selection_golden_test.cpp draws the same one."""
import json
import pathlib

import torch
from torch.overrides import TorchFunctionMode

from splitmix import Random


def made_layer(case):
    """Queries, keys and values after RoPE, [heads or sets, tokens, dim]: multiples of 1/256, token by token."""
    random = Random(case["seed"])
    heads, sets, dim = case["heads"], case["sets"], case["dim"]
    tokens = case["prompt"] + case["steps"]
    q, k, v = torch.empty(heads, tokens, dim), torch.empty(sets, tokens, dim), torch.empty(sets, tokens, dim)
    for t in range(tokens):
        for rows, scale in ((q, 600), (k, 600), (v, 256)):
            for row in rows:
                row[t] = torch.tensor([random.between(-scale, scale) / 256 for _ in range(dim)])
    return q, k, v


def sums_of(outputs):
    """Weighted sums of attention outputs [heads, dim], by head: element i has the weight i + 1."""
    weights = torch.arange(1, outputs.shape[-1] + 1)
    return [round(x, 5) for x in (outputs.double() * weights).sum(dim=-1).tolist()]


class CheckedTopK(TorchFunctionMode):
    """Refuses choices that rounding decides: in each row, the last chosen score and the next one must differ."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function in (torch.Tensor.topk, torch.topk):
            scores = args[0]
            count = kwargs.get("k", args[1] if len(args) > 1 else None)
            if count < scores.shape[-1]:
                ordered = scores.sort(descending=True).values
                last = ordered[..., count - 1]
                if not (last - ordered[..., count] > 1e-5 * last.abs()).all():
                    raise ValueError("a choice hangs on rounding: take another seed")
        return function(*args, **kwargs)


def write_golden(method, about, cases):
    """about: repositories and commits of the reference code."""
    path = pathlib.Path(__file__).resolve().parent.parent / "data" / "methods" / f"{method}.json"
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    path.write_text(json.dumps(about, separators=(",", ":"))[:-1] + ',"cases":[\n' + lines + "\n]}\n")
