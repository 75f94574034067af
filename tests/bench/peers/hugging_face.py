"""turnbench against Hugging Face transformers (PyTorch on the CPU, sdpa): the same weights, threads and
type of weights, keys and values, run in turns.

    pip install numpy torch transformers
    python hugging_face.py --turnbench ../../../build/turnbench [--threads 2] [--tokens 8192] [--model DIR]

Random weights of the geometry in weights.py, or those of a directory (`make smollm2` makes models/smollm2).
Prefill of a prompt, and decoding after it.  Each is measured `--rounds` times, turnbench and
transformers one after the other, each after a prefill that is not measured; what is printed is the median
of the ratios.
"""
import argparse
import pathlib
import statistics
import time

import torch
import transformers

from weights import measure, write_directory

STEPS = 8  # decoding steps of which the median counts
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def hugging_face(model, tokens):
    """Tokens per second of the prefill and of decoding after it."""
    vocab = model.config.vocab_size
    prompt = torch.arange(tokens)[None] * 37 % vocab
    with torch.inference_mode():
        model(prompt, use_cache=True, logits_to_keep=1)  # touches all memory once
        start = time.perf_counter()
        out = model(prompt, use_cache=True, logits_to_keep=1)
        prefill = tokens / (time.perf_counter() - start)
        steps = []
        for _ in range(STEPS):
            start = time.perf_counter()
            token = out.logits[:, -1].argmax(-1, keepdim=True)
            out = model(token, past_key_values=out.past_key_values, use_cache=True)
            steps.append(time.perf_counter() - start)
    return prefill, 1 / statistics.median(steps)


def compare(model, folder, args, tokens):
    """A row of the table for prefill and for decoding."""
    rows = ["prefill", "decode"]
    ours, theirs = {row: [] for row in rows}, {row: [] for row in rows}
    for _ in range(args.rounds):
        for row in rows:
            ours[row].append(measure(args.turnbench, folder, args.threads, args.dtype, (row, tokens),
                                     ["--dtype", args.dtype, "--math", args.math])[0])
        for row, speed in zip(rows, hugging_face(model, tokens)):
            theirs[row].append(speed)
    for row in rows:
        ratio = statistics.median(a / b for a, b in zip(ours[row], theirs[row]))
        print(f"| {args.dtype} | {row} | {tokens} | {statistics.median(ours[row]):.1f} | "
              f"{statistics.median(theirs[row]):.1f} | {ratio:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--turnbench", default="build/turnbench")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, nargs="+", default=[8192])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    parser.add_argument("--math", choices=["f32", "bf16-linear", "bf16"], default="f32", help="of turnbench's products")
    parser.add_argument("--model", type=pathlib.Path, help="a Hugging Face directory")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("peers-work"))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    folder = args.model or args.folder / "hf-f32"
    if not (folder / "model.safetensors").exists():
        if args.model:
            raise SystemExit(f"{folder}: found no model.safetensors, expected a Hugging Face directory")
        write_directory(folder, "f32")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=DTYPES[args.dtype],
                                                              attn_implementation="sdpa")
    model.eval()
    print("| weights, KV | what | tokens | turnbench tok/s | transformers tok/s | ratio |")
    print("| --- | --- | ---: | ---: | ---: | ---: |", flush=True)
    for tokens in args.tokens:
        compare(model, folder, args, tokens)


if __name__ == "__main__":
    main()
