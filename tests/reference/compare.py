"""Compares a build of turnbench with a second implementation of the model and of its methods.

    make reference

For dialogues of three turns with the question at the beginning, in the middle and at the end, it
computes in float64: the KL divergence from full attention along the reference answers, the numbers
of kept tokens and of tokens that a step reads, and the share of the pairs that a prefill computes.
They must be those that turnbench has stored.  The attention of the embedded model is so
concentrated that most weights are 0 in float32, and ties decide; a copy of the model whose queries
are divided by 60 has no such ties.
"""

import json
import os
import pathlib
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")  # the matrices are small
import numpy as np

from evictions import GATES
from methods import METHODS
from model import Hooks, Model, Prompt
from ranking import groups

_TINY = pathlib.Path(__file__).resolve().parents[2] / "models" / "tiny"
_QUERY_SCALE = 1 / 60
_ANSWER_TOKENS = 4    # of the model's own answers
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


class Turn:
    """The last turn of a prompt.  turns: begin and end of the text of each turn, without the
    answer; question: the token at which the question begins."""

    def __init__(self, model, tokens, turns, question, answer, stop):
        self.model, self.tokens, self.turns, self.answer = model, tokens, turns, answer
        self.stop, self.cue = stop, tokens[-2:]
        self.whole = Prompt(model, tokens, self.cue)
        self.to_question = Prompt(model, tokens[:question], self.cue)
        self.full = self._answer(self.whole.copy(), Hooks())

    def measure(self, method):
        """KL divergence and counters by their names in the store."""
        prompt, hooks, pairs = self._prompt(method)
        out = {"kv_tokens": np.mean([len(keys) for c in prompt.caches for keys in c.keys])}
        own = self._answer(prompt, hooks)
        out["kl"] = (np.exp(self.full) * (self.full - own)).sum(-1).mean()
        if pairs:
            out["prefill_pairs_share"] = np.mean(pairs)
        if hooks.select or hooks.end:
            prompt, hooks, _ = self._prompt(method)
            out["attended_tokens"] = self._reads(prompt, hooks)
        return out

    def _prompt(self, method):
        """The prompt with the tokens that a method keeps, the hooks for its answer, and the shares
        of pairs that its layers compute."""
        if method.prefill:
            hooks, pairs = method.function(self.turns, **method.parameters), []
            first = self.turns[-2][1] if method.continues and len(self.turns) > 1 else 0

            def mask(rows):
                masks = hooks.mask(rows)
                causal = np.tri(len(rows.tokens), dtype=bool)[first:]
                computed = causal if masks is None else [m[first:] & causal for m in masks]
                pairs.append(np.mean(computed) / np.mean(causal))
                return masks
            prompt = Prompt(self.model, self.tokens, self.cue, Hooks(mask))
            return prompt, hooks._replace(mask=None), pairs
        prompt = (self.to_question if method.before_question else self.whole).copy()
        begin, hooks = len(prompt.tokens), Hooks()
        if begin > method.parameters.get("budget", 0):  # else all tokens are kept and read
            hooks = method.function(prompt, **method.parameters)
        if begin < len(self.tokens):
            prompt.last = self.model.forward(self.tokens[begin:], prompt.caches, begin)[-1:]
        return prompt, hooks, []

    def _answer(self, prompt, hooks):
        """Log-probabilities of each token of the reference answer."""
        tokens, begin = self.answer[:-1], len(self.tokens)
        passes = [[token] for token in tokens] if hooks != Hooks() else [tokens]
        out = [prompt.last]
        for tokens in passes:
            out.append(self.model.forward(tokens, prompt.caches, begin, hooks))
            begin += len(tokens)
        return np.concatenate(out)

    def _reads(self, prompt, hooks):
        """Tokens that a KV head reads, as a mean over the steps of the model's own answer; None
        without a step."""
        counts, last, begin = [], prompt.last, len(self.tokens)

        def select(rows):
            slots = hooks.select(rows) if hooks.select else None
            for head, keys in enumerate(rows.cache.keys):
                own = slots and groups(slots, rows)[head]
                counts.append(len(np.unique(np.concatenate(own))) if own else len(keys))
            return slots
        for position in range(begin, begin + _ANSWER_TOKENS - 1):
            token = int(last[-1].argmax())
            if token == self.stop:
                break
            last = self.model.forward([token], prompt.caches, position,
                                      hooks._replace(select=select))
        return np.mean(counts) if counts else None


def stored_values(path):
    """The stored KL divergences and counters, by method, dialogue, position, turn and name."""
    query = """SELECT e.method, v.dialogue, c.position, v.turn, v.name, v.value
               FROM experiment_cell e JOIN cell c ON c.key = e.cell
               JOIN (SELECT cell, dialogue, turn, metric AS name, value FROM score
                     UNION SELECT cell, dialogue, turn, name, value FROM counter) v
                 ON v.cell = c.key"""
    with sqlite3.connect(path) as store:
        return {tuple(row[:5]): row[5] for row in store.execute(query)}


def deviation(name, expected, found):
    """Of KL divergences: relative.  Counters must agree; both can be missing."""
    if expected is None or found is None:
        return 0 if expected is found else np.inf
    if name == "kl":
        return abs(expected - found) / max(expected, _LEAST_KL)
    return 0 if abs(expected - found) <= 1e-6 * expected else np.inf


def compare(program_path, folder, methods):
    program = Program(program_path, folder)
    soften(_TINY, folder / "soft")
    model = Model(folder / "soft", program.tokens)
    manifest = {
        "name": "m", "models": [{"name": "soft", "path": "soft"}],
        "datasets": [{"name": name, "limit": 1, "turns": 3, "length": 360, "seed": 11}
                     for name in ("tiny-fact", "tiny-list")],
        "positions": ["begin", "middle", "end"], "answers": "gold", "fidelity": "gold",
        "max_new_tokens": _ANSWER_TOKENS, "methods": ["full", *(m.text for m in methods)]}
    (folder / "m.json").write_text(json.dumps(manifest))
    np.savetxt(folder / "gates.tsv", GATES, delimiter="\t")
    program.run("run", "m.json", "--db", "m.db", "--quiet")
    stored = stored_values(folder / "m.db")
    (stop,) = program.tokens("<eos>")
    worst, failures = {}, []
    for (dialogue, position), texts in dialogues(program, manifest):
        tokens, turns = [], []
        for turn, (text, answer) in enumerate(texts):
            (label,) = program.tokens(f"<q{turn + 1}>")
            question = len(tokens) + text.index(label) - 1  # with the line break before it
            turns.append((len(tokens), len(tokens) + len(text)))
            tokens = tokens + text
            computed = Turn(model, tokens, turns, question, answer, stop)
            for method in methods:
                for name, expected in computed.measure(method).items():
                    found = stored.get((method.text, dialogue, position, turn, name))
                    off = deviation(name, expected, found)
                    worst[method.text] = max(worst.get(method.text, 0), off)
                    if not off <= _KL_TOLERANCE:
                        failures.append(f"{method.text}, {dialogue}, {position}, turn {turn + 1}: "
                                        f"{name} {found}, expected {expected}")
            tokens = tokens + answer
    for name, off in worst.items():
        print(f"{off:.1e}  {name}")
    for failure in failures:
        print(failure)
    return failures


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: compare.py PROGRAM")
    with tempfile.TemporaryDirectory() as folder:
        return 1 if compare(sys.argv[1], pathlib.Path(folder), METHODS) else 0


if __name__ == "__main__":
    sys.exit(main())
