"""Writes tests/data/methods/ggml.json: rows as gguf, the Python package of llama.cpp, encodes and decodes them.

    pip install gguf==0.19.0 torch==2.9.1
    python tests/golden/make_ggml_golden.py

The rows of the cases with `rotate` are first multiplied by the matrices that llama.cpp uses (pull request 21038).  Their
elements are integers times 2^-4, so that the sums are exact in any order.
"""
import numpy as np
from gguf import GGMLQuantizationType, quants

from made_layer import write_golden

ABOUT = {"repository": "https://github.com/ggml-org/llama.cpp", "package": "gguf 0.19.0 (gguf-py)"}
VALUE_PART = 64  # elements of a value that are rotated together


def hadamard(n):
    """The normalised matrix of Sylvester's construction."""
    out = np.ones((1, 1), np.float32)
    while len(out) < n:
        out = np.block([[out, out], [out, -out]])
    return out


def rotated(row, part):
    rows = row.reshape(-1, part) @ hadamard(part)
    return (rows * (np.float32(1) / np.sqrt(np.float32(part)))).reshape(-1)


def main():
    random = np.random.default_rng(5)
    cases = []
    for name in ("Q8_0", "Q5_0", "Q4_0"):
        kind = GGMLQuantizationType[name]

        def add(row, rotate="", part=0):
            turned = rotated(row, part) if part else row
            data = quants.quantize(turned[None], kind)[0]
            back = quants.dequantize(data[None], kind)[0]
            cases.append({"type": name.lower(), "rotate": rotate, "row": row.tolist(), "bytes": data.tobytes().hex(),
                          "decoded": (rotated(back, part) if part else back).tolist()})
        for magnitude in (1e-3, 1, 300):
            for dims in (32, 64):
                row = random.normal(0, magnitude, dims).astype(np.float32)
                row[random.integers(dims)] *= 20  # an outlier
                add(row)
        add(np.zeros(32, np.float32))
        for dims in (64, 128):
            row = (random.integers(-64, 65, dims) / 16).astype(np.float32)
            row[3] = 60
            add(row, "key", dims)
            add(row, "value", VALUE_PART)
    write_golden("ggml", ABOUT, cases)


if __name__ == "__main__":
    main()
