"""Writes tests/data/methods/xattention.json: the key blocks that XAttention's official code computes of synthetic layers.

    git clone https://github.com/mit-han-lab/x-attention
    git -C x-attention checkout fb2ac200a23d20568f7d166ddb5ee247926d2b2b
    pip install torch==2.9.1
    python tests/golden/make_xattention_golden.py x-attention

Runs the estimate without its kernels (use_triton=False) on the CPU, with each prompt in one chunk.  (In later chunks,
the code chooses blocks by another rule.)  A prompt must not fill its chunk: without padding, this path of the code
masks keys.
"""
import sys
from unittest.mock import MagicMock

import torch

from made_layer import write_golden
from make_minference_golden import inputs

ABOUT = {"repository": "https://github.com/mit-han-lab/x-attention",
         "commit": "fb2ac200a23d20568f7d166ddb5ee247926d2b2b"}
CHUNK = 4096


def main():
    sys.path.insert(0, sys.argv[1])
    sys.modules["xattn.src.kernels"] = sys.modules["block_sparse_attn"] = MagicMock()
    from xattn.src import Xattention
    move = torch.Tensor.to
    torch.Tensor.to = lambda tensor, *to, **kwargs: tensor if to == ("cuda",) else move(tensor, *to, **kwargs)
    cases = []
    for seed, (n, heads, kv_heads, head_dim, stride, block, gamma) in enumerate((
            (700, 4, 2, 32, 8, 64, 0.6), (1000, 2, 1, 64, 16, 128, 0.7), (1005, 2, 2, 16, 4, 64, 0.5),
            (2500, 2, 1, 32, 16, 128, 0.8), (2700, 2, 1, 32, 8, 128, 0.3)), 1):
        q, k = (torch.from_numpy(x)[None] for x in inputs(seed, n, heads, kv_heads, head_dim))
        k = k.repeat_interleave(heads // kv_heads, 1)
        masks, precise = (Xattention.xattn_estimate(queries, keys, block, stride, threshold=gamma, chunk_size=CHUNK,
                                                    use_triton=False)[1]
                          for queries, keys in ((q, k), (q.double(), k.double())))
        assert torch.equal(masks, precise), "a choice hangs on rounding: take another seed"
        rows = -(-n // block)
        blocks = [[mask[r, :rows].nonzero().flatten().tolist() for r in range(rows)] for mask in masks[0]]
        cases.append({"seed": seed, "n": n, "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim,
                      "method": f"xattention:gamma={gamma},stride={stride},block={block}", "blocks": blocks})
    write_golden("xattention", ABOUT, cases)


if __name__ == "__main__":
    main()
