"""Writes tests/data/methods/minference.json: the lines, keys and blocks that Microsoft's minference chooses for heads
of synthetic queries and keys, and the scores that its offline search gives its candidate patterns.

    MINFERENCE_SKIP_CUDA_BUILD=TRUE pip download --no-deps --no-binary minference --no-build-isolation \
        minference==0.1.6.0           # requires torch, psutil and packaging
    tar xzf minference-0.1.6.0.tar.gz
    pip install numpy torch           # any versions; a C++ compiler as `c++`
    python tests/golden/make_minference_golden.py minference-0.1.6.0

The package's Python code runs unchanged on the CPU.  Its attention kernels are replaced: only their arguments are
recorded.  The CUDA code that converts slash lines to runs of 64-key blocks is compiled for the CPU.

Queries and keys are multiples of 1/1024 from a seeded stream that common/random.h reproduces; seeds are chosen so that
no choice depends on rounding.
"""
import ctypes
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile
import types
from unittest.mock import MagicMock

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from runs import runs

VERSION = "0.1.6.0"
OUT = pathlib.Path(__file__).resolve().parent.parent / "data" / "methods" / "minference.json"

HOST = """
#include <algorithm>
using std::max;
#define __device__
#define __global__
static struct { int x, y, z; } blockIdx, blockDim{1, 1, 1}, threadIdx;
%s
extern "C" void convert(const int* seqlens, const int* v, const int* s, int* block_count, int* block_offset,
                        int* column_count, int* column_index, int rows, int nnz_v, int nnz_s) {
  for (blockIdx.z = 0; blockIdx.z < rows; ++blockIdx.z)
    convert_vertical_slash_indexes_kernel(seqlens, v, s, block_count, block_offset, column_count, column_index, 1,
                                          rows, 64, 64, nnz_v, nnz_s);
}
"""


class OnCpu(TorchFunctionMode):
    """Creates tensors that are requested on "cuda" on the CPU."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if kwargs.get("device") == "cuda":
            kwargs["device"] = "cpu"
        return function(*args, **kwargs)


def module(name, **members):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__dict__.update(members)
    return sys.modules[name]


def load_package(root):
    """The modules of the package that choose patterns, without other modules and their imports."""
    import math
    assert f"Version: {VERSION}" in (root / "PKG-INFO").read_text(), f"expected minference {VERSION}"
    for name in ("vllm", "vllm_flash_attn", "sgl_kernel", "flash_attn"):
        sys.modules[name] = None  # hidden, even if it is installed
    sys.modules["triton"] = sys.modules["triton.language"] = MagicMock()
    module("transformers")
    module("transformers.models")
    module("transformers.models.llama")
    module("transformers.models.llama.modeling_llama", rotate_half=None)
    module("transformers.utils", is_flash_attn_2_available=lambda: False)
    module("transformers.utils.import_utils", _is_package_available=lambda name: False)
    module("minference").__path__ = [str(root / "minference")]
    module("minference.cuda", convert_vertical_slash_indexes=None)
    module("minference.modules.flexprefill", flexprefill_forward=None)
    module("minference.modules.kvcompression", math=math, torch=torch)
    module("minference.modules.quest", quest_forward=None)
    module("minference.modules.snapkv")
    from minference.modules import minference_forward as forward
    from minference.ops import block_sparse_flash_attention as blocks
    from minference.ops import pit_sparse_flash_attention_v2 as lines
    return forward, lines, blocks


def load_index_kernel(root, folder):
    """convert_vertical_slash_indexes for one head, from the package's CUDA source."""
    source = (root / "csrc" / "vertical_slash_index.cu").read_text()
    begin = source.index("__device__ void save_blocks")
    kernel = source[begin:source.index("void convert_vertical_slash_indexes_64x64")]
    path = pathlib.Path(folder, "index.cpp")
    path.write_text(HOST % kernel)
    subprocess.run(["c++", "-O1", "-shared", "-fPIC", str(path), "-o", str(path.with_suffix(".so"))], check=True)
    library = ctypes.CDLL(str(path.with_suffix(".so")))

    def convert(seqlens, v_idx, s_idx, context_size, block_size_m, block_size_n):
        rows = -(-context_size // 64)
        out = [torch.zeros(shape, dtype=torch.int32)
               for shape in (rows, (rows, s_idx.numel()), rows, (rows, v_idx.numel()))]
        tensors = [t.contiguous() for t in (seqlens, v_idx, s_idx)] + out
        assert all(t.dtype == torch.int32 for t in tensors)
        library.convert(*(ctypes.c_void_p(t.data_ptr()) for t in tensors), rows, v_idx.numel(), s_idx.numel())
        return out

    return convert


def locals_at_return(name, call):
    """The local variables of the function `name` when it returns during `call`."""
    found = []

    def watch(frame, event, _):
        if event == "return" and frame.f_code.co_name == name:
            found.append(dict(frame.f_locals))

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    assert len(found) == 1
    return found[0]


def draw(seed, *shape):
    """Multiples of 1/1024 in [-2, 2): the top 12 bits of common/random.h's stream."""
    z = np.uint64(seed) + np.arange(1, np.prod(shape) + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return ((z >> np.uint64(52)).astype(np.float32).reshape(shape) - 2048) / 1024


def inputs(seed, n, heads, kv_heads, head_dim):
    """Queries [heads][n][head_dim] and keys [kv_heads][n][head_dim], drawn token by token for all heads."""
    x = draw(seed, n, heads + kv_heads, head_dim).transpose(1, 0, 2)
    return x[:heads].copy(), x[heads:].copy()


def as_head(x):
    return torch.from_numpy(x)[None, None]


def distinct(scores, k):
    """Whether the k-th highest score clearly differs from the next one."""
    scores = scores.flatten().double().sort(descending=True).values
    return k >= len(scores) or bool(scores[k - 1] - scores[k] > 1e-4 * scores[k].abs())


class Package:
    def __init__(self, root, folder):
        self.forward, self.lines, self.blocks = load_package(root)
        self.convert = load_index_kernel(root, folder)

    def prefill(self, q, k, pattern, ratio):
        config = {"best_pattern": [{"0": [*pattern, 1]}], "minference_ratio": ratio}
        self.forward.minference_prefill_kernel(q, k, torch.zeros_like(k), 0, 0, config)

    def lines_of(self, q, k, vertical, slash, ratio):
        """Columns, diagonals and each row block's keys; None if rounding could change the choice."""
        n, seen = q.shape[2], {}

        def convert(seqlens, v_idx, s_idx, *sizes):
            seen["out"] = self.convert(seqlens, v_idx, s_idx, *sizes)
            seen["lines"] = v_idx.flatten(), s_idx.flatten()
            return seen["out"]

        self.lines.convert_vertical_slash_indexes = convert
        self.lines._triton_mixed_sparse_attention = lambda q, *_: torch.zeros_like(q)
        at = locals_at_return("vertical_and_slash_kernel", lambda: self.prefill(
            q, k, ("vertical_and_slash", vertical, slash), ratio))
        columns, offsets = seen["lines"]
        if not (distinct(at["vertical"], len(columns)) and distinct(at["slash_topk"], len(offsets))):
            return None
        keys = []
        for row, (blocks, starts, count, single) in enumerate(zip(*(t.tolist() for t in seen["out"]))):
            read = set(single[:count])
            for start in starts[:blocks]:
                read.update(range(start, start + 64))
            keys.append(runs(j for j in read if j < min(n, 64 * row + 64)))
        return {"columns": runs(columns), "offsets": runs(offsets), "keys": keys}

    def blocks_left_out(self, q, k):
        """For each row block, the key blocks up to its end that it does not read."""
        n, seen = q.shape[2], {}

        def attention(q, k, v, seqlens, block_index, *_):
            seen["index"] = block_index[0, 0].tolist()
            return torch.zeros_like(q)

        self.blocks._triton_block_sparse_attention = attention
        at = locals_at_return("_build_block_index", lambda: self.prefill(q, k, ("block_sparse", 1, 1), 1))
        out = []
        for row in range(-(-n // 64)):
            index = seen["index"][row]
            if not distinct(at["p_pool"][0, 0, row, :row + 1], len(index)):
                return None
            read = index[:row + 1]  # as many as the kernel's loop reads
            out.append(sorted(set(range(row + 1)) - set(read)))
        return out

    def search(self, q, k):
        """The score of each candidate of the offline search, and the entry of the file."""
        found = []
        at = locals_at_return("search_pattern", lambda: found.append(self.forward.search_pattern(q, k, 0)))
        return {"candidates": at["all_info"], "entry": found[0]}


def plant(kind, q, k):
    """Replaces the first 48 of 64 dimensions so that the head attends to the structure that `kind` names."""
    q[:, :48] = k[:, :48] = 0
    i = np.arange(len(q))
    hot = {"window_and_sinks": i < 100, "window_and_columns": i % 13 == 3,
           "diagonals_and_columns": i % 86 == 7}.get(kind, i < 0)
    if kind.startswith("window"):  # decreases by a factor of e in 256 tokens
        q[:, 0], k[:, 0] = 16, np.where(hot, 0, i / 512)
        q[:, 1], k[:, 1] = i / 32, hot
    if kind.startswith("diagonals"):
        q[i, i % 8], k[i, i % 8] = 48, ~hot
        q[:, 8], k[:, 8] = 56, hot
    if kind == "blocks":
        b = i // 32
        for wanted in (7 * b, 11 * b + 5, b * b):
            q[i, wanted % 40] = 56
        k[i, b % 40] = 1


def first(begin, make):
    """The first seed from `begin` on for which no part of make(seed) is None, and these parts."""
    for seed in itertools.count(begin):
        made = make(seed)
        if all(part is not None for part in made):
            return seed, made


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    golden = {"lines": [], "blocks": []}
    with tempfile.TemporaryDirectory() as folder, OnCpu(), torch.no_grad():
        package = Package(root, folder)
        for n, head_dim, heads, kv_heads, vertical, slash, ratio in (
                (40, 64, 1, 1, 30, 100, 1), (130, 64, 1, 1, 60, 2048, 1), (200, 64, 2, 1, 40, 110, 1),
                (333, 128, 2, 2, 10, 100, 1), (641, 128, 2, 1, 100, 300, 1), (1000, 64, 1, 1, 512, 200, 1),
                (1000, 128, 2, 2, 125, 301, 0.5)):
            def lines(seed):
                q, k = inputs(seed, n, heads, kv_heads, head_dim)
                return [package.lines_of(as_head(q[h]), as_head(k[h * kv_heads // heads]), vertical, slash, ratio)
                        for h in range(heads)]
            seed, made = first(n, lines)
            golden["lines"].append({"method": f"minference:vertical={vertical},slash={slash},ratio={ratio}", "n": n,
                                    "head_dim": head_dim, "kv_heads": kv_heads, "seed": seed, "heads": made})
        for n in (7000, 8000):
            seed, made = first(n, lambda seed: [package.blocks_left_out(*map(as_head, np.concatenate(
                inputs(seed, n, 1, 1, 64))))])
            golden["blocks"].append({"n": n, "head_dim": 64, "seed": seed, "left_out": made[0]})
        kinds = ["noise", "window_and_sinks", "window_and_columns", "diagonals", "diagonals_and_columns", "blocks"]
        q, k = inputs(1, 6000, len(kinds), len(kinds), 64)
        golden["search"] = {"n": 6000, "head_dim": 64, "seed": 1, "heads": []}
        for h, kind in enumerate(kinds):
            plant(kind, q[h], k[h])
            golden["search"]["heads"].append({"kind": kind, **package.search(as_head(q[h]), as_head(k[h]))})
    OUT.write_text(json.dumps(golden, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
