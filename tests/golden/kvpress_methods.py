"""The methods that turnbench and NVIDIA's kvpress 0.5.5 both have, with the same settings.

turnbench counts tokens, kvpress has a ratio: R = 3/4 keeps n // 4 of n tokens.  Presses are changed by subclasses only
where kvpress has no setting for turnbench's behavior:

- layer budgets: kvpress rounds those of PyramidKV and includes the window in them; sizes come from layer_sizes().
- h2o: ObservedAttentionPress keeps no recent tokens; RecentAttention does, with and without the division by rows.
- streamingllm and tova keep their budget while decoding: DecodingPress with an interval of one step.  topk returns
  tied scores in any order, and StreamingLLMPress depends on the order of the cache: InOrder restores it.

Omitted, because kvpress has no counterpart:

- keyformer, sentencekv, sablock, loopserve*, oracle, and all sparse prefills;
- h2o:mode=dynamic (DecodingPress scores by the last step only, not by sums over all steps);
- max pooling, gran=query_head and gqa_agg=max or sum (SnapKVPress pools by means, and averages a group);
- adakv:floor_alpha above 0 (kvpress reserves the best tokens of each head and distributes the rest; Ada-KV's code and
  turnbench mix the shares with equal ones), scorer=tova (TOVAPress gives all heads the same scores) and scorer=h2o
  (AdaKVPress refuses eager attention);
- chunkkv:reuse, and prompts whose window is not a whole chunk (in kvpress the window may be part of a chunk).

turnbench has keydiff, lagkv, criticalkv, expected attention, duo attention and kvzip, too (make_eviction_golden.py
compares them); only kvpress has knorm, finch and the others.
"""
from dataclasses import dataclass
from typing import Callable

import torch
from kvpress import (AdaKVPress, ChunkKVPress, DecodingPress, KeyRerotationPress, ObservedAttentionPress,
                     PerLayerCompressionPress, PrefillDecodingPress, ScorerPress, SnapKVPress, StreamingLLMPress,
                     TOVAPress)

R = 0.75
CHUNK = 20
SNAP = dict(window_size=16, kernel_size=5)
POOL = "window=16,kernel=5,pool=avg"
LAYERS = 30


@dataclass
class Case:
    spec: Callable      # of a prompt's length: turnbench's name of the method
    press: Callable     # of a prompt's length: the press, or None
    attention: str = "sdpa"
    shifts: bool = False  # positions are slots of the cache


class InOrder(ScorerPress):
    """Kept tokens keep their order."""

    def compress(self, module, hidden_states, keys, values, attentions, kwargs):
        if self.compression_ratio == 0:
            return keys, values
        scores = self.score(module, hidden_states, keys, values, attentions, kwargs)
        kept = scores.topk(kept_of(keys.shape[2], self.compression_ratio)).indices.sort().values
        at = kept.unsqueeze(-1).expand(-1, -1, -1, keys.shape[-1])
        return keys.gather(2, at), values.gather(2, at)


class OrderedStreaming(InOrder, StreamingLLMPress):
    pass


class ShiftedStreaming(KeyRerotationPress, ScorerPress):
    """A ScorerPress, as DecodingPress requires."""


@dataclass
class RecentAttention(ObservedAttentionPress):
    window: int = 8
    norm: bool = True

    def score(self, module, hidden_states, keys, values, attentions, kwargs):
        scores = super().score(module, hidden_states, keys, values, attentions, kwargs)
        if not self.norm:
            scores = scores * torch.arange(scores.shape[-1], 0, -1)
        scores[..., -self.window:] = scores.max() + 1
        return scores


class AdaInLayers(AdaKVPress):
    """AdaKV with a ratio for each layer."""
    ratios: list

    def compress(self, module, *args):
        self.compression_ratio = self.ratios[module.layer_idx]
        return super().compress(module, *args)


def kept_of(n, ratio):
    return int(n * (1 - ratio))


def ratio_of(n, kept):
    """A ratio with which kvpress keeps `kept` of n tokens."""
    return 1 - (kept + 0.5) / n


def shared_out(weights, total):
    """Integers in proportion to the weights that sum to `total`: the largest remainders are rounded up."""
    targets = [total * w / sum(weights) for w in weights]
    out = [int(t + 1e-9) for t in targets]
    by_remainder = sorted(range(len(out)), key=lambda l: -round(targets[l] - out[l], 9))
    for l in by_remainder[:total - sum(out)]:
        out[l] += 1
    return out


def pyramid(base, beta=20):
    """Tokens that each layer chooses: linear from the first to the last layer, with the mean `base`."""
    last = base // beta
    first = 2 * base - last
    return shared_out([first - l * (first - last) / (LAYERS - 1) for l in range(LAYERS)], LAYERS * base)


def ratios(n, choices, window=16):
    return [ratio_of(n, c + window) for c in choices]


def holding(first, step, n):
    """Compresses the prompt, and the cache after each step, to the same number of tokens."""
    return PrefillDecodingPress(first, DecodingPress(step, compression_interval=1, target_size=n // 4))


def ada_pyramid(n):
    press = AdaInLayers(SnapKVPress(R, **SNAP), alpha_safeguard=0.0)
    press.ratios = ratios(n, pyramid(n // 4 - 16))
    return press


def shifted(ratio):
    return ShiftedStreaming(StreamingLLMPress(ratio, n_sink=4))


WEIGHTS = [1 + l % 3 for l in range(LAYERS)]

CASES = {
    "full": Case(lambda n: "full", lambda n: None),
    "streamingllm": Case(lambda n: f"streamingllm:budget={n // 4},sinks=4,rolling=false",
                         lambda n: StreamingLLMPress(R, n_sink=4)),
    "streamingllm, rolling": Case(lambda n: f"streamingllm:budget={n // 4},sinks=4",
                                  lambda n: holding(OrderedStreaming(R), OrderedStreaming(0), n)),
    "streamingllm, shifted": Case(lambda n: f"streamingllm:budget={n // 4},sinks=4,pos=shift,rolling=false",
                                  lambda n: shifted(R), shifts=True),
    "streamingllm, shifted and rolling": Case(lambda n: f"streamingllm:budget={n // 4},sinks=4,pos=shift",
                                              lambda n: holding(shifted(R), shifted(0), n), shifts=True),
    "snapkv": Case(lambda n: f"snapkv:budget={n // 4},{POOL}", lambda n: SnapKVPress(R, **SNAP)),
    "snapkv, no pooling": Case(lambda n: f"snapkv:budget={n // 4},window=32,pool=none",
                               lambda n: SnapKVPress(R, window_size=32, kernel_size=1)),
    "snapkv in layers": Case(
        lambda n: f"snapkv:budget={n // 4},{POOL},layers={'/'.join(map(str, WEIGHTS))}",
        lambda n: PerLayerCompressionPress(
            SnapKVPress(R, **SNAP), ratios(n, shared_out(WEIGHTS, LAYERS * (n // 4 - 16))))),
    "pyramidkv": Case(lambda n: f"pyramidkv:budget={n // 4},{POOL}",
                      lambda n: PerLayerCompressionPress(SnapKVPress(R, **SNAP), ratios(n, pyramid(n // 4 - 16)))),
    "adakv": Case(lambda n: f"adakv:budget={n // 4},{POOL},floor_alpha=0",
                  lambda n: AdaKVPress(SnapKVPress(R, **SNAP), alpha_safeguard=0.0)),
    "ada-pyramidkv": Case(lambda n: f"ada-pyramidkv:budget={n // 4},{POOL},floor_alpha=0", ada_pyramid),
    "chunkkv": Case(lambda n: f"chunkkv:budget={kept_of(n // CHUNK, R) * CHUNK},window={CHUNK},chunk={CHUNK}",
                    lambda n: ChunkKVPress(SnapKVPress(R, window_size=CHUNK, kernel_size=1), chunk_length=CHUNK)),
    "h2o": Case(lambda n: f"h2o:mode=prefill,budget={n // 4},window=8",
                lambda n: RecentAttention(R, norm=False), "eager"),
    "h2o, mean of rows": Case(lambda n: f"h2o:mode=prefill,budget={n // 4},window=8,norm=true",
                              lambda n: RecentAttention(R), "eager"),
    "tova": Case(lambda n: f"tova:budget={n // 4},protect_last=true",
                 lambda n: holding(TOVAPress(R), TOVAPress(0), n)),
}
