"""Writes tests/data/methods/turboquant.json: rows as turboquant_plus quantises them.

    pip install numpy==2.4.6 scipy==1.17.1
    git clone https://github.com/TheTom/turboquant_plus  # commit ba52ad1
    python tests/golden/make_turboquant_golden.py turboquant_plus

Its classes follow the paper's Algorithms 1 and 2.  They receive the random matrices of turnbench; the projection of
turboquant_plus is orthogonal, that of the paper is not, so its scale is adapted.  The norm correction, which the paper
lacks, is off.  Lloyd's algorithm runs until it has converged (there: 100 iterations).
"""
import sys

import numpy as np

from made_layer import write_golden
from splitmix import Random

ABOUT = {"repository": "https://github.com/TheTom/turboquant_plus", "commit": "ba52ad1"}
SEED = 1


def normal_samples(which, dims):
    """As in methods/parts/random_matrices.cpp."""
    random = Random(SEED, which, dims)
    out = np.empty(dims * dims)
    for i in range(out.size):
        radius = np.sqrt(-2 * np.log(1 - random.uniform()))
        out[i] = radius * np.cos(2 * np.pi * random.uniform())
    return out.reshape(dims, dims)


def rotation(dims):
    """The Q of a QR decomposition whose R has a positive diagonal: Gram and Schmidt."""
    q, r = np.linalg.qr(normal_samples(1, dims).T)
    return (q * np.sign(np.diag(r))).T


def main():
    sys.path.insert(0, sys.argv[1])
    from turboquant.codebook import _lloyds_gaussian
    from turboquant.turboquant import TurboQuant, TurboQuantMSE

    numbers = np.random.default_rng(3)
    cases = []
    for dims in (32, 64, 80):
        for bits in (2, 3, 4):
            for sketch in (False, True):
                kind = TurboQuant if sketch else TurboQuantMSE
                codec = kind(dims, bits, norm_correction=False)
                codec.polar_quant.rotation = rotation(dims)
                levels = codec.polar_quant.n_centroids
                if levels > 4:
                    codec.polar_quant.centroids = _lloyds_gaussian(levels, 1 / np.sqrt(dims), 1500)
                if sketch:
                    codec.qjl.S = normal_samples(2, dims) / np.sqrt(dims)
                for _ in range(4):
                    row = numbers.normal(size=dims)
                    row[numbers.integers(dims)] *= 10
                    row = (8 * row / np.linalg.norm(row)).astype(np.float32)  # its norm is a float16 number
                    data = codec.quantize(row.astype(float))
                    case = {"bits": bits, "sketch": sketch, "row": row.tolist()}
                    if sketch:
                        case |= {"levels": data.mse_indices.tolist(), "signs": (data.qjl_signs > 0).astype(int).tolist(),
                                 "error": float(data.residual_norms), "decoded": codec.dequantize(data).tolist()}
                    else:
                        case |= {"levels": data[0].tolist(), "decoded": codec.dequantize(*data).tolist()}
                    cases.append(case)
    write_golden("turboquant", ABOUT, cases)


if __name__ == "__main__":
    main()
