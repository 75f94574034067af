"""Methods, written from what `turnbench describe method` prints.

An eviction, at the end of a prompt, returns the slots that each KV head keeps.  cache: of the
layer; weights: attention of the prompt's rows, for each query head [rows, cached tokens]; budget:
tokens per KV head.

A selection, in a decode step, returns the slots that each query head reads, or None for all.
query: [heads, head_dim].
"""

import numpy as np

from model import attention_weights


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


def tova(cache, weights, budget):
    """mode=prefill: attention of the last row, averaged over all query heads."""
    return [best(np.mean([w[-1] for w in weights], 0), budget)] * len(cache.keys)


def keydiff(cache, weights, budget, window=0):
    """Keeps the keys with the lowest cosine similarity to the mean direction of all keys."""
    out = []
    for keys in cache.keys:
        directions = keys / np.linalg.norm(keys, axis=1, keepdims=True)
        mean = directions.mean(0)
        out.append(
            _with_window(-(directions @ mean) / np.linalg.norm(mean), len(keys), budget, window))
    return out


def quest(layer, query, cache, budget, page=8, dense_layers=2):
    """The pages with the highest bounds of a score, and the last one."""
    tokens = len(cache.keys[0])
    pages, count = -(-tokens // page), max(3, budget // page)
    if layer < dense_layers or tokens <= budget or pages <= count:
        return None
    out = []
    for head, q in enumerate(query):
        keys = np.array_split(cache.keys[head // (len(query) // len(cache.keys))],
                              range(page, tokens, page))
        bounds = np.array([np.maximum(q * k.min(0), q * k.max(0)).sum() for k in keys])
        chosen = np.append(best(bounds[:-1], count - 1), pages - 1)
        out.append(np.concatenate(
            [np.arange(p * page, min(tokens, (p + 1) * page)) for p in chosen]))
    return out


def oracle(layer, query, cache, budget, sinks=4, local=0.5):
    """First and recent tokens, and those with the most attention of a group's query heads."""
    tokens, rest = len(cache.keys[0]), budget - sinks
    end, count = tokens - 1 - int(rest * local), int(rest * (1 - local))
    if end - sinks <= count:
        return None
    out = []
    for keys, heads in zip(cache.keys, np.split(query, len(cache.keys))):
        weights = attention_weights(heads @ keys.T / np.sqrt(keys.shape[1])).sum(0)
        slots = np.concatenate([np.arange(sinks), sinks + best(weights[sinks:end], count),
                                np.arange(end, tokens)])
        out += [slots] * len(heads)
    return out


EVICTIONS = {
    "streamingllm:budget={budget},rolling=false": streamingllm,
    "snapkv:budget={budget}": snapkv,
    "h2o:budget={budget},mode=prefill": h2o,
    "tova:budget={budget},mode=prefill": tova,
    "keydiff:budget={budget}": keydiff,
}
SELECTIONS = {
    "quest:budget={budget},page=8": quest,
    "oracle:budget={budget},sinks=4": oracle,
}
