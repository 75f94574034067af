"""Writes tests/data/methods/kivi.json: keys and values as the official code of KIVI quantises them.

    pip install torch==2.9.1
    git clone https://github.com/jy-yuan/KIVI  # commit 876b4d2
    python tests/golden/make_kivi_golden.py KIVI

The functions of quant/new_pack.py that need no GPU are used, with float16 tensors.
"""
import sys
import types

import torch

from made_layer import write_golden

ABOUT = {"repository": "https://github.com/jy-yuan/KIVI", "commit": "876b4d2", "file": "quant/new_pack.py"}


def official(folder):
    """The module, without Triton: only its kernels for GPUs need it."""
    triton = types.ModuleType("triton")
    triton.jit = lambda function: function
    triton.language = types.ModuleType("triton.language")
    triton.language.constexpr = object
    sys.modules.update({"triton": triton, "triton.language": triton.language})
    sys.path.insert(0, folder)
    from quant import new_pack
    return new_pack


def main():
    pack = official(sys.argv[1])
    random = torch.Generator().manual_seed(11)
    cases = []
    for bits in (2, 4, 8):
        for group in (16, 32, 64):
            for magnitude in (1e-3, 1.0, 60.0):
                for kind in ("key", "value"):
                    tokens, dims = (group, 8) if kind == "key" else (2, 64)
                    rows = torch.randn((1, 1, tokens, dims), generator=random) * magnitude
                    rows[0, 0, :, 5] *= 20  # a channel with outliers
                    rows = rows.to(torch.float16)
                    quantise = pack.quant_and_pack_kcache if kind == "key" else pack.quant_and_pack_vcache
                    code, scale, least = quantise(rows, group, bits)
                    integers = pack.unpack_tensor(code, bits, pack_dim=2 if kind == "key" else 3)
                    if bits == 8:
                        integers = integers & 0xFF
                    cases.append({"kind": kind, "bits": bits, "group": group,
                                  "rows": rows[0, 0].float().tolist(),
                                  "integers": integers[0, 0].int().tolist(),
                                  "scales": scale.flatten().float().tolist(),
                                  "least": least.flatten().float().tolist()})
    write_golden("kivi", ABOUT, cases)


if __name__ == "__main__":
    main()
