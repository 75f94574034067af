"""A codec of the cache, written from the paper and from `turnbench describe method`."""

import typing

import numpy as np


def _half(x):
    """Rounded to float16."""
    return np.asarray(x).astype(np.float16).astype(np.float64)


def _rounded(elements, bits):
    """What integers of groups are decoded to; a group is a row of the last dimension."""
    elements, most = _half(elements), 2**bits - 1
    least = elements.min(-1, keepdims=True)
    scale = _half(_half(elements.max(-1, keepdims=True) - least) / most)
    steps = _half(_half(elements - least) / np.where(scale > 0, scale, 1))
    return least + np.clip(np.round(steps), 0, most) * scale


class Kivi(typing.NamedTuple):
    """Keys per channel, values per token; the caches have the decoded copies of encoded rows."""
    bits: int = 2
    group: int = 32
    residual: int = 128

    @property
    def text(self):
        return f"kivi:bits={self.bits},group={self.group},residual={self.residual}"

    def _keys(self, rows):
        """Groups of tokens in one channel."""
        groups = rows.reshape(-1, self.group, rows.shape[1]).transpose(0, 2, 1)
        return _rounded(groups, self.bits).transpose(0, 2, 1).reshape(rows.shape)

    def _values(self, rows):
        """Groups of channels in one token."""
        parts = range(self.group, rows.shape[1], self.group)
        return np.concatenate([_rounded(part, self.bits) for part in np.split(rows, parts, 1)], 1)

    def _ends(self, tokens):
        """Of a set of tokens: how many keys and how many values are encoded."""
        return tokens - tokens % self.residual, max(0, tokens - self.residual)

    def _encode(self, rows):
        """At the end of a prompt or of a step: the rows that have become old enough."""
        cache = rows.cache
        for head, (keys, values) in enumerate(zip(cache.keys, cache.values)):
            ends = self._ends(len(keys))
            new_keys, new_values = map(slice, cache.encoded[head], ends)
            cache.keys[head], cache.values[head] = keys.copy(), values.copy()
            cache.keys[head][new_keys] = self._keys(keys[new_keys])
            cache.values[head][new_values] = self._values(values[new_values])
            cache.encoded[head] = ends

    def apply(self, prompt, hooks):
        """Encodes a prompt's caches; returns the hooks of its answer."""
        assert not hooks.end  # no evictions in decode steps
        for rows in prompt.layers:
            self._encode(rows)
        return hooks._replace(end=self._encode)

    def bytes(self, prompt):
        """Of the caches; elements that are not encoded are float32."""
        total = 0
        for cache in prompt.caches:
            for keys, (old_keys, old_values) in zip(cache.keys, cache.encoded):
                tokens, channels = keys.shape
                integers = channels * self.bits / 8
                total += old_keys * (integers + channels * 4 / self.group)
                total += old_values * (integers + -(-channels // self.group) * 4)
                total += (2 * tokens - old_keys - old_values) * channels * 4
        return total
