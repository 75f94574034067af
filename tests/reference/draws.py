"""Random draws, as docs/methods.md defines them."""

import pathlib
import sys

import numpy as np

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "golden"))
from splitmix import Random, fnv1a  # noqa: E402

_MANIFEST_SEED = 0  # its default


def of_dialogue(dialogue, name, *more):
    """The generator of a method in a dialogue."""
    seed = Random(_MANIFEST_SEED, fnv1a(dialogue.encode())).next()
    return Random(seed, fnv1a(name.encode()), *more)


def of_seed(seed):
    out = Random()
    out.state = seed
    return out


def different(random, count, number):
    """`number` different numbers below `count`: the beginning of a shuffle."""
    out = np.arange(count)
    for i in range(number):
        j = i + random.below(count - i)
        out[[i, j]] = out[[j, i]]
    return out[:number]
