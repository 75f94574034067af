"""Writes tests/data/methods/infllm.json: the reads and outputs of InfLLM's official code on synthetic tensors.

    git clone https://github.com/thunlp/InfLLM && git -C InfLLM checkout 12b70798f56e56ebb23c53c7018091a3f540a028
    pip install numpy torch           # any versions
    python -O tests/golden/make_infllm_golden.py InfLLM

The code runs on the CPU, without its assertions that tensors are on a GPU (-O).  While a block of queries is attended,
every query reads the tokens that leave the window, even if they are in the window of an early query and thus
already counted.  Cases with `once` use the intended distance instead; in the other cases blocks have one query,
for which the distance of the code is right.

Queries, keys and values are multiples of 1/256 from a seeded stream that common/random.h reproduces; seeds are chosen
so that no choice depends on rounding.
"""
import contextlib
import json
import pathlib
import sys
import types

import torch
from torch.overrides import TorchFunctionMode

from splitmix import Random

COMMIT = "12b70798f56e56ebb23c53c7018091a3f540a028"
OUT = pathlib.Path(__file__).resolve().parent.parent / "data" / "methods" / "infllm.json"


class OnCpu(TorchFunctionMode):
    """Creates tensors that are requested on "cuda" on the CPU."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if kwargs.get("device") == "cuda":
            kwargs["device"] = "cpu"
        return function(*args, **kwargs)


class Event:
    def record(self, stream):
        pass

    def wait(self):
        pass


def load_code(root):
    """The context manager and RoPE of the code, without other modules and their imports."""
    for name in ("inf_llm", "inf_llm.attention"):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [str(root / name.replace(".", "/"))]
    torch.cuda.stream = lambda stream: contextlib.nullcontext()
    torch.cuda.current_stream = lambda: None
    torch.cuda.Event = Event
    from inf_llm.attention.context_manager import ContextManager
    from inf_llm.attention.rope import RotaryEmbeddingESM
    return ContextManager, RotaryEmbeddingESM


def recording(ContextManager, once):
    class Recording(ContextManager):
        chosen = None

        def calc_block_topk(self, global_h_q):
            out = super().calc_block_topk(global_h_q)
            self.chosen.append([sorted(blocks) for blocks in out])
            return out

        def get_global_hidden_and_mask(self, len_q, block_topk):
            k, v, window, blocks, count = super().get_global_hidden_and_mask(len_q, block_topk)
            if once:
                before = self._global_remainder_ed - self._global_remainder_st
                window = (before + k.size(-2) - max(before + len_q - self.n_local, 0), window[1])
            return k, v, window, blocks, count

    return Recording


def rows_of(random, rows, width, scale):
    return [[random.between(-scale, scale) / 256 for _ in range(width)] for _ in range(rows)]


def heads_of(rows, heads):
    t = torch.tensor(rows, dtype=torch.float32)
    return t.view(1, len(rows), heads, -1).permute(0, 2, 1, 3).contiguous()


def run(code, case):
    ContextManager, RotaryEmbeddingESM = code
    heads, sets, dim = case["heads"], case["sets"], case["dim"]
    manager = recording(ContextManager, case["once"])(
        RotaryEmbeddingESM(dim, 10000.0), case["init"], case["local"], case["block"], 4 * case["topk"] + 4,
        case["topk"], case["exc"], repr_topk=case["repr"], perhead=case["perhead"])
    manager.chosen = []
    random = Random(case["seed"])
    sums = []
    for count in case["appends"]:
        q = heads_of(rows_of(random, count, heads * dim, 600), heads)
        k = heads_of(rows_of(random, count, sets * dim, 600), sets)
        v = heads_of(rows_of(random, count, sets * dim, 256), sets)
        out = manager.append(q, k, v, q, k, v)[0].permute(1, 0, 2)  # [rows, heads, dim]
        sums += (out.double() * torch.arange(1, dim + 1)).sum(dim=-1).flatten().tolist()
    return dict(case, blocks=manager.num_global_block, chosen=manager.chosen,
                sums=[round(x, 5) for x in sums])


def main():
    code = load_code(pathlib.Path(sys.argv[1]))
    cases = []
    for seed, case in enumerate((
            dict(init=3, block=4, local=10, topk=2, repr=2, exc=1, perhead=False, once=False, appends=[40, 1, 1, 20]),
            dict(init=3, block=4, local=10, topk=2, repr=1, exc=6, perhead=False, once=True, appends=[45] + [1] * 15),
            dict(init=0, block=3, local=7, topk=3, repr=3, exc=7, perhead=True, once=True, appends=[30, 1, 1, 1, 25]),
            dict(init=6, block=8, local=16, topk=1, repr=4, exc=16, perhead=False, once=True,
                 appends=[70] + [1] * 12))):
        with OnCpu(), torch.no_grad():
            cases.append(run(code, dict(case, seed=seed + 1, heads=4, sets=2, dim=8)))
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    OUT.write_text('{"repository":"https://github.com/thunlp/InfLLM","commit":"' + COMMIT + '","cases":[\n' + lines +
                   "\n]}\n")


if __name__ == "__main__":
    main()
