"""turnbench against NVIDIA's kvpress: the time of a sweep over methods and budgets on the same prompts.

    make smollm2
    pip install torch==2.9.1 transformers==4.57.1 kvpress==0.5.5
    python kvpress_sweep.py --turnbench ../../../build/turnbench [--dtype f32] [--rounds 3]

Full attention, and eight methods with three budgets each: 25 cells.  Both programs compress the prompt up to its
question, then read the question and answer (`compress=before_question`); peers_before_question.py has the settings, and
compares the tokens.  Each round runs turnbench with `full` alone, turnbench with all cells, kvpress with `full` alone
and kvpress with all cells, one after the other.  The times of turnbench are those of the process, with loading the
model and storing all results; those of kvpress are those of prefills and answers only.
"""
import argparse
import pathlib
import statistics
import sys
import time

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

PROJECT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(PROJECT / "tests" / "golden"))
from peers_before_question import (CASES, compressed, forget_masks, prompts, run_manifest,  # noqa: E402
                                   spec_of, stop_tokens)

METHODS = ["streamingllm", "snapkv", "adakv", "criticalkv", "expected-attention", "keydiff", "tova", "h2o"]
BUDGETS = [128, 256, 512]
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def our_sweep(args, methods):
    """Seconds, and the tokens of the answers by method and dialogue."""
    dataset = {"name": args.dataset, "limit": args.limit, "length": args.length}
    name = pathlib.Path(args.model).name
    model = {"name": name, "dtype": args.dtype, "kv_dtype": args.dtype} | ({"math": args.math} if args.math else {})
    manifest = {"name": "sweep", "models": [model], "datasets": [dataset], "positions": ["end"],
                "methods": methods, "max_new_tokens": args.tokens}
    start = time.perf_counter()
    rows = run_manifest(args, manifest, "--threads", args.threads)
    seconds = time.perf_counter() - start
    return seconds, {(method, dialogue): tokens for method, dialogue, tokens, _ in rows}


@torch.inference_mode()
def peer_answer(model, press, context, question, stops, count):
    """Greedy tokens after compression of the context."""
    cache = compressed(model, press, context)
    tokens, position, out = torch.tensor([question]), len(context), []
    while len(out) < count:
        at = torch.arange(position, position + tokens.shape[1])[None]
        logits = model(tokens, past_key_values=cache, position_ids=at, logits_to_keep=1).logits[0, -1]
        position += tokens.shape[1]
        token = int(logits.argmax())
        if token in stops:
            break
        out.append(token)
        tokens = torch.tensor([[token]])
    forget_masks(model)
    return out


def peer_sweep(args, models, tokenizer, texts, cells):
    """Seconds, and the tokens of the answers by method and dialogue."""
    stops, out, seconds = stop_tokens(models["sdpa"], tokenizer), {}, 0
    for spec, name, budget in cells:
        _, press, attention = CASES.get(name, (None, lambda n, b: None, "sdpa"))
        start = time.perf_counter()
        for dialogue, (context, question) in texts.items():
            out[spec, dialogue] = peer_answer(models[attention], press(len(context), budget), context, question, stops,
                                              args.tokens)
        seconds += time.perf_counter() - start
    return seconds, out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--turnbench", default=PROJECT / "build" / "turnbench")
    parser.add_argument("--model", default=PROJECT / "models" / "smollm2")
    parser.add_argument("--dataset", default="multi-key-needle")
    parser.add_argument("--source")
    parser.add_argument("--length", type=int, default=1500, help="words of a prompt")
    parser.add_argument("--limit", type=int, default=2, help="dialogues")
    parser.add_argument("--tokens", type=int, default=32, help="largest number of answer tokens")
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    parser.add_argument("--math", help="turnbench's arithmetic; default: f32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    texts = prompts(args, tokenizer)
    models = {attention: AutoModelForCausalLM.from_pretrained(args.model, dtype=DTYPES[args.dtype],
                                                              attn_implementation=attention).eval()
              for attention in ["sdpa", "eager"]}
    cells = [("full", "full", 0)] + [(spec_of(name, b), name, b) for name in METHODS for b in BUDGETS]
    rounds = []
    for _ in range(args.rounds):
        our_one, _ = our_sweep(args, ["full"])
        ours, our_answers = our_sweep(args, [spec for spec, _, _ in cells])
        their_one, _ = peer_sweep(args, models, tokenizer, texts, cells[:1])
        theirs, their_answers = peer_sweep(args, models, tokenizer, texts, cells)
        rounds.append((our_one, ours, their_one, theirs))
        print(f"turnbench: {our_one:.1f} s, {ours:.1f} s; kvpress: {their_one:.1f} s, {theirs:.1f} s", flush=True)
    lengths = [len(context) + len(question) for context, question in texts.values()]
    equal = sum(our_answers[key] == tokens for key, tokens in their_answers.items())
    print(f"{len(texts)} prompts of {min(lengths)} to {max(lengths)} tokens; {equal} of {len(their_answers)} answers "
          f"are equal")
    print(f"| weights | program | full | {len(cells)} cells | {len(cells)} cells / full |")
    print("| --- | --- | ---: | ---: | ---: |")
    for program, one, all_cells in (("turnbench", 0, 1), ("kvpress", 2, 3)):
        print(f"| {args.dtype} | {program} | {statistics.median(r[one] for r in rounds):.1f} s | "
              f"{statistics.median(r[all_cells] for r in rounds):.1f} s | "
              f"{statistics.median(r[all_cells] / r[one] for r in rounds):.2f} |")
    print(f"kvpress / turnbench: {statistics.median(r[2] / r[0] for r in rounds):.2f} with full alone, "
          f"{statistics.median(r[3] / r[1] for r in rounds):.1f} with all cells")


if __name__ == "__main__":
    main()
