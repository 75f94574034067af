"""Eviction methods at the end of a prompt, written from what `turnbench describe method` prints.

Each function returns the slots that each KV head keeps.  cache: of the layer; weights: attention of
the prompt's rows, for each query head [rows, cached tokens]; budget: tokens per KV head.
"""

import numpy as np


def best(scores, count):
    """The slots of the largest scores, ascending; of equal scores the earlier ones."""
    order = np.lexsort((np.arange(len(scores)), -scores))
    return np.sort(order[: max(0, count)])


def _with_window(scores, tokens, budget, window):
    """The best slots before the last `window` ones, and these."""
    before = tokens - window
    return np.concatenate([best(scores[:before], budget - window), np.arange(before, tokens)])


def _groups(weights, kv_heads):
    group = len(weights) // kv_heads
    return [weights[h * group : (h + 1) * group] for h in range(kv_heads)]


def streamingllm(cache, weights, budget, sinks=4):
    """rolling=false"""
    tokens = len(cache.keys[0])
    kept = np.concatenate([np.arange(sinks), np.arange(tokens - budget + sinks, tokens)])
    return [kept] * len(cache.keys)


def snapkv(cache, weights, budget, window=32, kernel=7):
    """Attention of the window's rows, averaged over the query heads, pooled by maximum."""
    out = []
    for heads in _groups(weights, len(cache.keys)):
        tokens = heads[0].shape[1]
        scores = np.mean([w[-window:, : tokens - window].sum(0) for w in heads], 0)
        padded = np.pad(scores, kernel // 2, constant_values=-np.inf)
        pooled = np.max([padded[i : i + len(scores)] for i in range(kernel)], 0)
        out.append(_with_window(pooled, tokens, budget, window))
    return out


def h2o(cache, weights, budget, window=8):
    """mode=prefill: attention of all rows, summed over the query heads."""
    return [
        _with_window(sum(w.sum(0) for w in heads), heads[0].shape[1], budget, window)
        for heads in _groups(weights, len(cache.keys))
    ]


def keydiff(cache, weights, budget, window=0):
    """Keeps the keys with the lowest cosine similarity to the mean direction of all keys."""
    out = []
    for keys in cache.keys:
        directions = keys / np.linalg.norm(keys, axis=1, keepdims=True)
        mean = directions.mean(0)
        out.append(
            _with_window(-(directions @ mean) / np.linalg.norm(mean), len(keys), budget, window))
    return out


METHODS = {
    "streamingllm:budget={budget},rolling=false": streamingllm,
    "snapkv:budget={budget}": snapkv,
    "h2o:budget={budget},mode=prefill": h2o,
    "keydiff:budget={budget}": keydiff,
}
