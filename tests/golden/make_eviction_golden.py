"""Writes tests/data/methods/kvpress.json: the tokens of a prompt that NVIDIA's kvpress keeps on the small model
tests/data/models/llama3, for settings that turnbench has too.

    pip install kvpress==0.5.5        # installs its version of transformers
    python tests/golden/make_eviction_golden.py

Each case names turnbench's method and lists, per layer and KV head, the kept positions as runs [first, length].
PyramidKV's budgets include the window in kvpress: only their sizes are written.
"""
import json
import pathlib
import types

import numpy
import torch
from kvpress import (AdaKVPress, ChunkKVPress, CriticalAdaKVPress, CriticalKVPress, DuoAttentionPress,
                     ExpectedAttentionPress, KeyDiffPress, KVzipPress, LagKVPress, ObservedAttentionPress,
                     PyramidKVPress, SnapKVPress, StreamingLLMPress, TOVAPress)
from kvpress.presses import kvzip_press
from kvpress.utils import compute_n_kept
from transformers import DynamicCache, LlamaForCausalLM

from runs import runs

TESTS = pathlib.Path(__file__).resolve().parent.parent
MODEL = TESTS / "data" / "models" / "llama3"
METHODS = TESTS / "data" / "methods"


@torch.no_grad()
def kept_positions(model, press, ids):
    """The positions whose keys remain, per layer and KV head."""
    full, cut = DynamicCache(), DynamicCache()
    model(torch.tensor([ids]), past_key_values=full)
    with press(model):
        model(torch.tensor([ids]), past_key_values=cut)
    out = []
    for l, layer in enumerate(model.model.layers):
        heads = []
        masked = getattr(layer.self_attn, "masked_key_indices", None)
        for h in range(model.config.num_key_value_heads):
            if masked is not None:  # AdaKV masks keys instead of dropping them
                gone = {int(p) for _, head, p in zip(*masked) if int(head) == h}
                heads.append([p for p in range(len(ids)) if p not in gone])
                continue
            known = {tuple(k.tolist()): p for p, k in enumerate(full.layers[l].keys[0, h])}
            assert len(known) == len(ids)
            heads.append([known[tuple(k.tolist())] for k in cut.layers[l].keys[0, h]])
        layer.self_attn.masked_key_indices = None
        out.append(heads)
    return out


def duo_attention(sparsity, sinks, recent):
    """DuoAttentionPress with the gates of a file instead of those of a known model."""
    press = DuoAttentionPress(sparsity)
    gates = numpy.clip(numpy.loadtxt(METHODS / "duoattention.tsv", delimiter="\t"), 0, 1)
    press.load_attention_pattern = lambda model: (sinks, recent, gates)
    return press


class BytesTokenizer:
    """The tokenizer of the scoring passes: a token per byte.  kvpress_test.cpp has the same."""
    chat_template = None

    def encode(self, text, **options):
        return torch.tensor([[3 + byte % 125 for byte in text.encode()]])


def main():
    kvzip_press.AutoTokenizer = types.SimpleNamespace(from_pretrained=lambda name: BytesTokenizer())
    ids = json.loads((MODEL / "golden.json").read_text())["ids"]
    n = len(ids)
    assert n == 260
    models = {name: LlamaForCausalLM.from_pretrained(MODEL, dtype=torch.float32,
                                                     attn_implementation=name).eval()
              for name in ("sdpa", "eager")}
    snap = dict(window_size=16, kernel_size=5)
    cases = []
    for ratio in (0.25, 0.6, 0.8):
        b = compute_n_kept(n, ratio)
        cases += [
            (f"snapkv:budget={b},window=16,kernel=5,pool=avg", SnapKVPress(ratio, **snap), "sdpa"),
            (f"adakv:budget={b},window=16,kernel=5,pool=avg,floor_alpha=0",
             AdaKVPress(SnapKVPress(ratio, **snap), alpha_safeguard=0.0), "sdpa"),
            (f"criticalkv:budget={b},window=16,kernel=5,pool=avg",
             CriticalKVPress(SnapKVPress(ratio, **snap)), "sdpa"),
            (f"criticalkv:budget={b},window=16,kernel=5,pool=avg,floor_alpha=0",
             CriticalAdaKVPress(SnapKVPress(ratio, **snap), alpha_safeguard=0.0), "sdpa"),
            (f"streamingllm:budget={b},sinks=4", StreamingLLMPress(ratio, n_sink=4), "sdpa"),
            (f"tova:budget={b},protect_last=true", TOVAPress(ratio), "sdpa"),
            (f"keydiff:budget={b}", KeyDiffPress(ratio), "sdpa"),
            (f"expected-attention:budget={b}", ExpectedAttentionPress(ratio), "sdpa"),
            (f"expected-attention:budget={b},covariance=false,value_norms=false,future=64,sinks=8",
             ExpectedAttentionPress(ratio, n_future_positions=64, n_sink=8, use_covariance=False,
                                    use_vnorm=False), "sdpa"),
            (f"expected-attention:budget={b},epsilon=0.01",
             ExpectedAttentionPress(ratio, epsilon=0.01), "sdpa"),
            # kvpress keeps no window; turnbench's has one token in addition to the kept ones.
            (f"h2o:mode=prefill,budget={b + 1},window=1,norm=true", ObservedAttentionPress(ratio),
             "eager"),
            # The window is the last of 13 chunks, so that both count the same tokens.
            (f"chunkkv:budget={int(13 * (1 - ratio)) * 20},window=20,chunk=20",
             ChunkKVPress(SnapKVPress(ratio, window_size=20, kernel_size=1), chunk_length=20),
             "sdpa")]
    # Equally many of each of the seven partitions, so that no tie decides.
    for each in (6, 16, 24):
        b = 4 + 32 + 7 * each
        cases.append((f"lagkv:budget={b},sinks=4,lag=32",
                      LagKVPress(1 - (b + 0.5) / n, n_sink=4, lag_size=32), "sdpa"))
    # 0.25 of six heads are 2, 0.75 are 4: halves are rounded to even.
    for sparsity, sinks, recent in ((0.25, 8, 32), (0.5, 4, 100), (0.75, 0, 1), (1, 128, 131), (1, 128, 132)):
        cases.append((f"duoattention:gates=duoattention.tsv,sparsity={sparsity},sinks={sinks},recent={recent}",
                      duo_attention(sparsity, sinks, recent), "sdpa"))
    for ratio, chunk in ((0.25, 2048), (0.6, 2048), (0.8, 2048), (0.6, 100), (0.8, 100)):
        b = compute_n_kept(n, ratio)
        # The ratio of exactly n - b tokens per head.
        cases.append((f"kvzip:budget={b},chunk={chunk}",
                      KVzipPress((n - b) / n + 1e-9, chunk_size=chunk), "sdpa"))
    pyramid = []
    for ratio in (0.6, 0.8):
        sizes = [len(heads[0]) for heads in
                 kept_positions(models["sdpa"], PyramidKVPress(ratio, window_size=4, beta=3), ids)]
        pyramid.append({"base": round(n * (1 - ratio)), "window": 4, "beta": 3, "sizes": sizes})
    out = {"cases": [], "pyramid": pyramid}
    for spec, press, attention in cases:
        kept = kept_positions(models[attention], press, ids)
        if spec.startswith("h2o"):
            assert not any(n - 1 in head for layer in kept for head in layer)
            kept = [[head + [n - 1] for head in layer] for layer in kept]
        out["cases"].append({"method": spec,
                             "kept": [[runs(head) for head in layer] for layer in kept]})
    METHODS.mkdir(exist_ok=True)
    (METHODS / "kvpress.json").write_text(json.dumps(out, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
