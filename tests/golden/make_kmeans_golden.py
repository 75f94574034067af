"""Writes tests/data/methods/kmeans.json: results of scikit-learn's KMeans on synthetic rows.

    pip install scikit-learn==1.9.1
    python tests/golden/make_kmeans_golden.py

Rows are multiples of 1/64 from a seeded stream that common/random.h reproduces, so that both programs have the same
bits.  They are grouped in blobs far from the origin.  The first centroids are rows drawn without replacement from the
same stream, or the given rows (a row given several times makes clusters that are empty at first).
"""
import json
import pathlib

import numpy as np
import sklearn
from sklearn.cluster import KMeans

from splitmix import Random

OUT = pathlib.Path(__file__).resolve().parent.parent / "data" / "methods" / "kmeans.json"


def rows_of(random, rows, dim, blobs):
    offsets = [random.between(-2000, 2000) for _ in range(dim)]
    centres = [[random.between(-300, 300) for _ in range(dim)] for _ in range(blobs)]
    out = []
    for _ in range(rows):
        centre = centres[random.below(blobs)]
        out.append([(offset + at + random.between(-100, 100) + random.between(-100, 100)) / 64
                    for offset, at in zip(offsets, centre)])
    return out


def draw_rows(random, rows, count):
    out = list(range(rows))
    for i in range(count):
        j = i + random.below(rows - i)
        out[i], out[j] = out[j], out[i]
    return out[:count]


def main():
    assert sklearn.__version__ == "1.9.1"
    cases = []
    for seed, rows, dim, blobs, clusters, max_iterations, first in (
            (1, 500, 8, 12, 12, 300, None), (2, 1003, 16, 40, 64, 300, None), (3, 700, 5, 3, 33, 4, None),
            (4, 400, 3, 6, 6, 300, [7, 7, 7, 7, 7, 9]), (5, 257, 64, 9, 16, 300, None),
            (6, 300, 1, 5, 20, 300, None)):
        random = Random(seed)
        x = np.array(rows_of(random, rows, dim, blobs))
        if first is None:
            first = draw_rows(random, rows, clusters)
        found = KMeans(clusters, init=x[first], n_init=1, max_iter=max_iterations, tol=1e-4,
                       algorithm="lloyd").fit(x)
        cases.append({"seed": seed, "rows": rows, "dim": dim, "blobs": blobs, "first": first,
                      "max_iterations": max_iterations, "iterations": int(found.n_iter_),
                      "inertia": float(found.inertia_),
                      "sizes": np.bincount(found.labels_, minlength=clusters).tolist()})
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    OUT.write_text('{"package":"scikit-learn==1.9.1","cases":[\n' + lines + "\n]}\n")


if __name__ == "__main__":
    main()
