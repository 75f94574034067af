"""Writes tests/data/methods/shadowkv.json: the results of the official ShadowKV for one synthetic layer.

    pip install torch==2.9.1
    git clone https://github.com/bytedance/ShadowKV && git -C ShadowKV checkout a21f5a9
    python tests/golden/make_shadowkv_golden.py ShadowKV

Runs its cache for accuracy (ShadowKVCache) in float32 on the CPU: the rank of the keys, outliers, the chunks that three
steps choose, and attention over the tokens that they read.  Its CUDA kernels, which this class does not call, and its
copy stream are omitted; RoPE is that of Llama with theta 10000.  Keys, values and queries are multiples of 1/64 from a
seeded stream that the test reproduces.
"""
import importlib.util
import json
import math
import pathlib
import sys
import types

import torch

from splitmix import Random

OUT = pathlib.Path(__file__).resolve().parent.parent / "data" / "methods" / "shadowkv.json"
COMMIT = "a21f5a9ebd7956fe3510b0f29cf13c4fe07ca3b1"
SEED, TOKENS, HEADS, KV_HEADS, DIM, RANK, BUDGET, STEPS, BLOB = 1, 750, 4, 2, 128, 24, 64, 3, 20
SHOWN = 16  # every 16th dimension of an output is written


def load_cache_class(checkout):
    for name in ("models", "models.tensor_op", "kernels"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["models.tensor_op"].batch_gather_gemm_rotary_pos_emb_cuda = None
    sys.modules["kernels"].shadowkv = None
    spec = importlib.util.spec_from_file_location("kv_cache", pathlib.Path(checkout) / "models" / "kv_cache.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.cuda.Stream = lambda: None
    return module.ShadowKVCache


def draw(random, count, spread):
    return [random.between(-spread, spread) / 64 for _ in range(count)]


def made_keys(random, tokens):
    """Runs of neighbouring tokens with a common centre: [tokens][DIM]."""
    out = []
    for t in range(tokens):
        if t % BLOB == 0:
            centre = draw(random, DIM, 100)
        out.append([c + x for c, x in zip(centre, draw(random, DIM, 40))])
    return out


def rope(x, positions):
    """x: [..., tokens, DIM]; positions: [..., tokens]."""
    frequencies = 10000.0 ** (-torch.arange(0, DIM, 2, dtype=torch.float64) / DIM)
    angles = positions.unsqueeze(-1).double() * frequencies
    cos, sin = angles.cos().float(), angles.sin().float()
    low, high = x[..., :DIM // 2], x[..., DIM // 2:]
    return torch.cat((low * cos - high * sin, high * cos + low * sin), dim=-1)


def check_gap(scores, count, what):
    """Checks that rounding does not decide choices: the last chosen score and the next one differ."""
    ordered = scores.sort(descending=True).values
    gap = ordered[..., count - 1] - ordered[..., count]
    assert (gap > 1e-5 * ordered.abs()[..., count - 1]).all(), what


def main():
    random = Random(SEED)
    raw = torch.tensor([[made_keys(random, TOKENS) for _ in range(KV_HEADS)]])
    values = torch.tensor([[[draw(random, DIM, 64) for _ in range(TOKENS)] for _ in range(KV_HEADS)]])
    steps = [{name: torch.tensor([[[draw(random, DIM, spread)] for _ in range(heads)]])
              for name, heads, spread in (("q", HEADS, 100), ("k", KV_HEADS, 100), ("v", KV_HEADS, 64))}
             for _ in range(STEPS)]
    config = types.SimpleNamespace(num_hidden_layers=1, num_attention_heads=HEADS, num_key_value_heads=KV_HEADS,
                                   hidden_size=HEADS * DIM)
    cache = load_cache_class(sys.argv[1])(config, max_length=1024, device="cpu", dtype=torch.float32,
                                          sparse_budget=BUDGET, chunk_size=8, rank=RANK)
    roped = rope(raw, torch.arange(TOKENS))
    cache.get_svd(raw, 0)
    cache.prefill_kv_cache(values, 0, roped)
    chunks = roped[:, :, :cache.chunks * 8].view(1, KV_HEADS, cache.chunks, 8, DIM)
    cosines = torch.nn.functional.cosine_similarity(chunks.mean(-2, keepdim=True).expand_as(chunks), chunks, dim=-1)
    check_gap(-cosines.min(-1).values, cache.outlier_chunk, "outliers")
    with_landmark = cache.k_landmark_idx[0, 0].tolist()
    out = {"chunks": cache.chunks, "tail": cache.prefill_local,
           "outliers": [sorted(set(range(cache.chunks)) - set(head)) for head in with_landmark], "steps": []}
    for s, step in enumerate(steps):
        position = torch.tensor([TOKENS + s])
        query = rope(step["q"], position)
        cache.update_kv_cache(rope(step["k"], position), step["v"], 0)
        ids = cache.get_retrieval_position_ids(0, query)
        groups = query.view(1, KV_HEADS, HEADS // KV_HEADS, DIM)
        probability = torch.softmax(groups @ cache.k_landmark[0].transpose(2, 3) / math.sqrt(DIM), -1)
        check_gap(probability.max(-2).values, BUDGET // 8, "chosen")
        v = cache.get_value_cache(0, ids)
        k = cache.get_key_cache(0, ids, rope, None)
        attended = torch.softmax(groups @ k.transpose(2, 3) / math.sqrt(DIM), -1) @ v
        out["steps"].append({"chosen": [sorted(head) for head in cache.selected_chunk_idx[0, 0].tolist()],
                             "tokens": k.shape[2],
                             "output": [[round(x, 6) for x in head] for head in
                                        attended.reshape(HEADS, DIM)[:, ::SHOWN].tolist()]})
    about = {"repository": "https://github.com/bytedance/ShadowKV", "commit": COMMIT, "torch": torch.__version__,
             "seed": SEED, "tokens": TOKENS, "rank": RANK, "budget": BUDGET}
    OUT.write_text(json.dumps(about | out, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
