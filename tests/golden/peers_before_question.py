"""Compares greedy tokens under query-agnostic compression: turnbench (compress=before_question) and NVIDIA's kvpress.

    make smollm2
    pip install torch==2.9.1 transformers==5.2.0 kvpress==0.5.5
    python tests/golden/peers_before_question.py --turnbench build/turnbench [--model DIR] [--dataset NAME] [METHOD ...]

Both compress the prompt up to its question, then read the question and answer, in float32.  The prompts are those that
`turnbench dialogues` prints for the first --limit dialogues of the dataset.  A row of the table has, for one method: the
number of prompts whose tokens are all equal; the number of equal tokens before the first difference; the number of
prompts whose tokens the method changes; and the smallest lead of a chosen token over the next one (kvpress's logits).
For each prompt whose tokens differ, a line below the table gives the first difference and the peer's lead of its own
token.  The exit code is 1 if tokens differ.

Omitted: lagkv, whose partitions kvpress cuts by a ratio; chunkkv, whose chunks include the window in kvpress; and the
methods that kvpress_methods.py omits.
"""
import argparse
import contextlib
import json
import pathlib
import sqlite3
import subprocess
import sys
import tempfile

import torch
from kvpress import (AdaKVPress, CriticalAdaKVPress, CriticalKVPress, ExpectedAttentionPress, KeyDiffPress,
                     PerLayerCompressionPress, SnapKVPress, StreamingLLMPress, TOVAPress)
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

from kvpress_methods import RecentAttention, pyramid, ratio_of, ratios

PROJECT = pathlib.Path(__file__).resolve().parents[2]
SNAP = dict(window_size=16, kernel_size=5)
POOL = "window=16,kernel=5,pool=avg"


def of_snapkv(press, **settings):
    """A press that uses the scores of SnapKV, for n tokens of which b are kept."""
    return lambda n, b: press(SnapKVPress(ratio_of(n, b), **SNAP), **settings)


# turnbench's settings, except the budget; the press for n tokens of which b are kept; the attention that it needs.
CASES = {
    "streamingllm": ("sinks=4,rolling=false", lambda n, b: StreamingLLMPress(ratio_of(n, b), n_sink=4), "sdpa"),
    "snapkv": (POOL, lambda n, b: SnapKVPress(ratio_of(n, b), **SNAP), "sdpa"),
    "pyramidkv": (POOL, lambda n, b: PerLayerCompressionPress(SnapKVPress(ratio_of(n, b), **SNAP),
                                                              ratios(n, pyramid(b - 16))), "sdpa"),
    "adakv": (POOL + ",floor_alpha=0", of_snapkv(AdaKVPress, alpha_safeguard=0.0), "sdpa"),
    "criticalkv": (POOL, of_snapkv(CriticalKVPress), "sdpa"),
    "criticalkv, unequal heads": (POOL + ",floor_alpha=0", of_snapkv(CriticalAdaKVPress, alpha_safeguard=0.0), "sdpa"),
    "expected-attention": ("", lambda n, b: ExpectedAttentionPress(ratio_of(n, b)), "sdpa"),
    "keydiff": ("", lambda n, b: KeyDiffPress(ratio_of(n, b)), "sdpa"),
    "tova": ("mode=prefill,protect_last=true", lambda n, b: TOVAPress(ratio_of(n, b)), "sdpa"),
    "h2o": ("mode=prefill,window=8", lambda n, b: RecentAttention(ratio_of(n, b), norm=False), "eager"),
}


def spec_of(name, budget):
    settings = CASES[name][0]
    return f"{name.split(',')[0]}:budget={budget}{',' if settings else ''}{settings},compress=before_question"


def output_of(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return done.stdout


def prompts(args, tokenizer):
    """By dialogue: (ids before the question, ids from the question on)."""
    source = ["--source", args.source] if args.source else []
    length = ["--length", args.length] if args.length else []
    lines = output_of(args.turnbench, "dialogues", "--dataset", args.dataset, *source, *length, "--positions", "end",
                      "--limit", args.limit, "--template", "auto", "--model", args.model).splitlines()
    out = {}
    for line in lines:
        dialogue = json.loads(line)
        turn = dialogue["turns"][0]
        begin = len(turn["prompt"][:turn["prompt"].rindex(turn["question"])].rstrip())  # the separator belongs to it
        tokens = tokenizer(turn["prompt"], add_special_tokens=False, return_offsets_mapping=True)
        first = next(i for i, (b, e) in enumerate(tokens["offset_mapping"]) if e > begin)
        out[dialogue["id"].rsplit(":", 1)[0]] = tokens["input_ids"][:first], tokens["input_ids"][first:]
    return out


def run_manifest(args, manifest, *options):
    """The records: (method, dialogue without position, answer's tokens, tokens kept before the answer)."""
    with tempfile.TemporaryDirectory() as folder:
        file, store = pathlib.Path(folder, "peers.json"), pathlib.Path(folder, "peers.db")
        file.write_text(json.dumps(manifest))
        model = pathlib.Path(args.model).name
        source = ["--data", f"{args.dataset.split('-')[0]}={args.source}"] if args.source else []
        output_of(args.turnbench, "run", file, "--db", store, "--model", f"{model}={args.model}", "--quiet", *source,
                  *options)
        rows = sqlite3.connect(store).execute(
            "SELECT e.method, r.dialogue, r.status, r.error, r.answer_tokens, c.value FROM record r "
            "JOIN experiment_cell e USING (cell) LEFT JOIN counter c ON (c.cell, c.dialogue, c.turn, c.name) = "
            "(r.cell, r.dialogue, r.turn, 'kv_tokens')").fetchall()
    for method, dialogue, status, error, *_ in rows:
        if status != "ok":
            sys.exit(f"{method}, {dialogue}: {error}")
    return [(method, dialogue.rsplit(":", 1)[0], json.loads(tokens), kept)
            for method, dialogue, _, _, tokens, kept in rows]


def our_tokens(args, budget, names):
    """By method and dialogue: the answer's tokens, and the tokens kept before the answer."""
    dataset = {"name": args.dataset, "limit": args.limit} | ({"length": args.length} if args.length else {})
    specs = {name: spec_of(name, budget) for name in names if name != "full"} | {"full": "full"}
    model = pathlib.Path(args.model).name
    manifest = {"name": "peers", "models": [{"name": model, "dtype": "f32"}], "datasets": [dataset], "positions": ["end"],
                "methods": list(specs.values()), "max_new_tokens": args.tokens}
    rows = run_manifest(args, manifest)
    return {name: {dialogue: (tokens, kept) for method, dialogue, tokens, kept in rows if method == spec}
            for name, spec in specs.items()}


def compressed(model, press, context):
    """The cache of the context under the press; None: all tokens."""
    cache = DynamicCache()
    with press(model) if press else contextlib.nullcontext():
        model.model(torch.tensor([context]), past_key_values=cache)
    return cache


def forget_masks(model):
    """Removes the masks of AdaKVPress, which outlive its answer."""
    for layer in model.model.layers:
        layer.self_attn.masked_key_indices = None


@torch.no_grad()
def peer_tokens(model, press, context, question, stops, count):
    """Greedy tokens after compression of the context, and the smallest lead of one over the next best."""
    cache = compressed(model, press, context)
    position, out, leads = len(context), [], []

    def next_logits(token):  # one at a time: layers may have caches of unequal lengths
        nonlocal position
        at, position = torch.tensor([[position]]), position + 1
        return model(torch.tensor([[token]]), past_key_values=cache, position_ids=at).logits[0, -1]

    for token in question:
        logits = next_logits(token)
    while len(out) < count:
        best = logits.topk(2)
        leads.append(float(best.values[0] - best.values[1]))
        if int(best.indices[0]) in stops:
            break
        out.append(int(best.indices[0]))
        logits = next_logits(out[-1])
    forget_masks(model)
    return out, leads


def stop_tokens(model, tokenizer):
    end = model.generation_config.eos_token_id
    return {tokenizer.eos_token_id, *(end if isinstance(end, list) else [end])}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--turnbench", default=PROJECT / "build" / "turnbench")
    parser.add_argument("--model", default=PROJECT / "models" / "smollm2")
    parser.add_argument("--dataset", default="multi-key-needle")
    parser.add_argument("--source")
    parser.add_argument("--length", type=int, default=0)
    parser.add_argument("--limit", type=int, default=20)
    parser.add_argument("--budget", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("methods", nargs="*", default=list(CASES))
    args = parser.parse_args()
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    texts = prompts(args, tokenizer)
    ours = our_tokens(args, args.budget, args.methods)
    models, full, different = {}, {}, []
    print("| method | prompts | tokens | changed | smallest lead |")
    print("| --- | ---: | ---: | ---: | ---: |", flush=True)
    for name in ["full", *args.methods]:
        _, press, attention = CASES.get(name, (None, lambda n, b: None, "sdpa"))
        if attention not in models:
            models[attention] = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32,
                                                                     attn_implementation=attention).eval()
        model, equal, same_tokens, all_tokens, changed, lead = models[attention], 0, 0, 0, 0, float("inf")
        for dialogue, (context, question) in texts.items():
            theirs, leads = peer_tokens(model, press(len(context), args.budget), context, question,
                                        stop_tokens(model, tokenizer), args.tokens)
            mine, kept = ours[name][dialogue]
            if kept != len(question) + (len(context) if name == "full" else args.budget):
                sys.exit(f"{name}, {dialogue}: found {kept} tokens kept by turnbench, expected the budget and the "
                         f"{len(question)} tokens from the question on")
            full.setdefault(dialogue, theirs)
            changed += theirs != full[dialogue]
            all_tokens += len(theirs)
            lead = min(lead, *leads)
            if mine == theirs:
                equal += 1
                same_tokens += len(theirs)
                continue
            first = next((i for i, (a, b) in enumerate(zip(mine, theirs)) if a != b), min(len(mine), len(theirs)))
            same_tokens += first
            different.append(f"{name}, {dialogue}: from token {first} of {len(theirs)} on; kvpress's lead there is "
                             f"{leads[min(first, len(leads) - 1)]:.1e}")
        label = "full" if name == "full" else spec_of(name, args.budget)
        print(f"| `{label}` | {equal} of {len(texts)} | {same_tokens} of {all_tokens} | {changed} | {lead:.1e} |",
              flush=True)
    print(*different, sep="\n")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
