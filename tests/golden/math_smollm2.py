"""Compares logits on SmolLM2-135M-Instruct: turnbench with each `math`, transformers in float32 and bfloat16.

    make smollm2
    pip install torch==2.9.1 transformers==5.2.0
    python tests/golden/math_smollm2.py --turnbench build/turnbench [--tokens 128]

The texts are the six prompts of smollm2_prompts.py and 14 files of docs/, each cut to --tokens tokens.  The reference is
transformers in float32 (the weights of the file are bfloat16, so all rows have the same weights).  A row of the table
has, over all positions: the mean and the largest KL divergence of the reference from the row, in nats; the share of
positions at which the most likely tokens agree; and the perplexity of the texts.
"""
import argparse
import json
import pathlib
import subprocess

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from smollm2_prompts import KINDS, prompt

PROJECT = pathlib.Path(__file__).resolve().parents[2]
MODEL = PROJECT / "models" / "smollm2"
DOCUMENTS = ("architecture cluster cookbook glossary gpu judges limitations manifest methods offload results "
             "smollm2 statistics store").split()


def texts(tokenizer, tokens):
    """Token ids."""
    for kind in KINDS:
        yield prompt(tokenizer, kind, tokens)
    for name in DOCUMENTS:
        file = PROJECT / "docs" / f"{name}.md"
        ids = tokenizer(file.read_text())["input_ids"][:tokens]
        if len(ids) == tokens:
            yield ids


def log_probabilities(logits):
    logits = np.asarray(logits, dtype=np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def of_transformers(dtype, ids):
    model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=dtype).eval()
    with torch.no_grad():
        return [log_probabilities(model(torch.tensor([i])).logits[0].float().numpy()) for i in ids]


def of_turnbench(program, math, cache, ids):
    out = []
    for i in ids:
        run = subprocess.run([program, "logits", "--model", MODEL, "--dtype", "bf16", "--math", math,
                              "--kv-dtype", cache, "--ids", ",".join(map(str, i))], check=True, capture_output=True)
        out.append(log_probabilities(json.loads(run.stdout)["logits"]))
    return out


def row(name, found, reference, ids):
    kl = np.concatenate([(np.exp(r) * (r - f)).sum(axis=1) for f, r in zip(found, reference)])
    agree = np.concatenate([f.argmax(1) == r.argmax(1) for f, r in zip(found, reference)])
    nll = np.concatenate([-f[np.arange(len(i) - 1), i[1:]] for f, i in zip(found, ids)])
    print(f"| {name} | {kl.mean():.2g} | {kl.max():.2g} | {100 * agree.mean():.2f}% | {np.exp(nll.mean()):.4f} |")


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--turnbench", default=PROJECT / "build" / "turnbench")
    options.add_argument("--tokens", type=int, default=128)
    args = options.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    ids = list(texts(tokenizer, args.tokens))
    print(f"{len(ids)} texts of {args.tokens} tokens\n")
    print("| program, arithmetic | keys and values | mean KL | largest KL | same best token | perplexity |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    reference = of_transformers(torch.float32, ids)
    row("transformers, float32 | float32", reference, reference, ids)
    row("transformers, bfloat16 | bfloat16", of_transformers(torch.bfloat16, ids), reference, ids)
    for math, cache in (("f32", "f32"), ("f32", "bf16"), ("bf16-linear", "f32"), ("bf16-linear", "bf16"),
                        ("bf16", "bf16")):
        name = f"turnbench, `{math}` | `{cache}`"
        row(name, of_turnbench(args.turnbench, math, cache, ids), reference, ids)


if __name__ == "__main__":
    main()
