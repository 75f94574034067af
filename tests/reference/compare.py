"""Compares a build of turnbench with a second implementation of the model and of some methods.

    make reference

For dialogues of three turns with the question at the beginning, in the middle and at the end, it
computes the KL divergence from full attention along the reference answers and the number of kept
tokens in float64.  They must be those that turnbench has stored.  The attention of the embedded
model is so concentrated that most weights are 0 in float32, and ties decide; a copy of the model
whose queries are divided by 60 has no such ties.
"""

import json
import pathlib
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
import typing

import numpy as np

from methods import EVICTIONS, SELECTIONS
from model import Model

_TINY = pathlib.Path(__file__).resolve().parents[2] / "models" / "tiny"
_QUERY_SCALE = 1 / 60
_BUDGETS = (64, 96)
_KL_TOLERANCE = 1e-3  # relative
_LEAST_KL = 1e-4      # smaller divergences are compared as this one


def soften(source, target):
    """Copies a model whose tensors have 16 bits, with smaller queries."""
    shutil.copytree(source, target)
    path = target / "model.safetensors"
    data = bytearray(path.read_bytes())
    (length,) = struct.unpack("<Q", data[:8])
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if not name.endswith("q_proj.weight"):
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        scaled = np.frombuffer(bytes(data[begin:end]), np.float16).astype(np.float32) * _QUERY_SCALE
        data[begin:end] = scaled.astype(np.float16).tobytes()
    path.write_bytes(data)


class Program:
    def __init__(self, path, folder):
        self.path, self.folder = pathlib.Path(path).resolve(), folder

    def run(self, *arguments, text=None):
        return subprocess.run([self.path, *arguments], input=text, text=True, check=True,
                              stdout=subprocess.PIPE, cwd=self.folder).stdout

    def tokens(self, text):
        out = self.run("tokenize", "--model", "tiny", "--special", "--json", text=text)
        return json.loads(out)["ids"]


def dialogues(program, manifest):
    """Of each dialogue and position: its key, and prompt and reference of each turn as tokens."""
    for dataset in manifest["datasets"]:
        lines = program.run("dialogues", "m.json", "--dataset", dataset["name"], "--template",
                            "auto", "--positions", ",".join(manifest["positions"])).splitlines()
        for dialogue in map(json.loads, lines):
            turns = dialogue["turns"]
            key = dialogue["id"].rsplit(":", 1)[0], turns[0]["position"]
            yield key, [(program.tokens(turn["prompt"]), program.tokens(" " + turn["gold"]))
                        for turn in turns]


class Method(typing.NamedTuple):
    evict: typing.Callable = None
    select: typing.Callable = None
    budget: int = 0
    before_question: bool = False


def methods():
    """The methods by their text in a manifest."""
    out = {}
    for budget in _BUDGETS:
        for text, evict in EVICTIONS.items():
            text = text.format(budget=budget)
            out[text] = Method(evict=evict, budget=budget)
            out[text + ",compress=before_question"] = Method(evict, None, budget, True)
        for text, select in SELECTIONS.items():
            out[text.format(budget=budget)] = Method(select=select, budget=budget)
    return out


class Prefill:
    """The first pass over a prompt, from which methods continue with the tokens that they keep."""

    def __init__(self, model, tokens):
        self.model, self.caches, self.weights = model, model.caches(), []
        self.tokens = len(tokens)
        self.rows = model.forward(tokens, self.caches, 0,
                                  lambda layer, cache, weights: self.weights.append(weights))[-1:]

    def predict(self, method, prompt, answer):
        """Log-probabilities of each token of `answer`, and the mean number of tokens cached before
        it.  The prompt begins with the tokens of this pass."""
        caches, rows, tokens = [cache.copy() for cache in self.caches], self.rows, self.tokens
        for cache, weights in zip(caches, self.weights):
            if method.evict is None or tokens <= method.budget:
                continue
            for head, slots in enumerate(method.evict(cache, weights, method.budget)):
                cache.keep(head, slots)
        if tokens < len(prompt):
            rows = self.model.forward(prompt[tokens:], caches, tokens)[-1:]
        kept = np.mean([len(keys) for cache in caches for keys in cache.keys])
        if method.select is None:
            steps = [self.model.forward(answer[:-1], caches, len(prompt))]
        else:
            def select(layer, query, cache):
                return method.select(layer, query, cache, method.budget)
            steps = [self.model.forward([token], caches, len(prompt) + i, select=select)
                     for i, token in enumerate(answer[:-1])]
        return np.concatenate([rows, *steps]), kept


def stored_values(path):
    """The stored KL divergences and numbers of kept tokens, by method, dialogue, position, turn."""
    query = """SELECT e.method, s.dialogue, c.position, s.turn, s.value, k.value
               FROM experiment_cell e JOIN cell c ON c.key = e.cell
               JOIN score s ON s.cell = c.key AND s.metric = 'kl'
               JOIN counter k ON k.cell = c.key AND k.dialogue = s.dialogue AND k.turn = s.turn
                 AND k.name = 'kv_tokens'"""
    with sqlite3.connect(path) as store:
        return {tuple(row[:4]): row[4:] for row in store.execute(query)}


def compare(program_path, folder):
    program = Program(program_path, folder)
    soften(_TINY, folder / "soft")
    model = Model(folder / "soft")
    compared = methods()
    manifest = {
        "name": "m", "models": [{"name": "soft", "path": "soft"}],
        "datasets": [{"name": name, "limit": 1, "turns": 3, "length": 420, "seed": 11}
                     for name in ("tiny-fact", "tiny-list")],
        "positions": ["begin", "middle", "end"], "answers": "gold", "fidelity": "gold",
        "max_new_tokens": 4,
        "methods": [{"label": method, "method": method} for method in ("full", *compared)]}
    (folder / "m.json").write_text(json.dumps(manifest))
    program.run("run", "m.json", "--db", "m.db", "--quiet")
    stored = stored_values(folder / "m.db")
    worst, failures = {}, []
    for (dialogue, position), turns in dialogues(program, manifest):
        prompt = []
        for turn, (tokens, answer) in enumerate(turns):
            label = program.tokens(f"<q{turn + 1}>")[0]
            question = len(prompt) + tokens.index(label) - 1  # with the line break before it
            prompt = prompt + tokens
            whole, to_question = Prefill(model, prompt), Prefill(model, prompt[:question])
            full, _ = whole.predict(Method(), prompt, answer)
            for name, method in compared.items():
                prefill = to_question if method.before_question else whole
                own, kept = prefill.predict(method, prompt, answer)
                kl = (np.exp(full) * (full - own)).sum(-1).mean()
                found_kl, found_kept = stored[name, dialogue, position, turn]
                deviation = abs(kl - found_kl) / max(kl, _LEAST_KL)
                worst[name] = max(worst.get(name, 0), deviation)
                if not (deviation <= _KL_TOLERANCE and abs(kept - found_kept) <= 1e-9):
                    failures.append(f"{name}, {dialogue}, {position}, turn {turn + 1}: found KL "
                                    f"{found_kl:.8g} and {found_kept:g} tokens, expected {kl:.8g} "
                                    f"and {kept:g}")
            prompt = prompt + answer
    for name, deviation in worst.items():
        print(f"{name:60} {deviation:.1e}")
    for failure in failures:
        print(failure)
    return failures


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: compare.py PROGRAM")
    with tempfile.TemporaryDirectory() as folder:
        return 1 if compare(sys.argv[1], pathlib.Path(folder)) else 0


if __name__ == "__main__":
    sys.exit(main())
