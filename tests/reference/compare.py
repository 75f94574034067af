"""Compares a build of turnbench with a second implementation of the model, its methods and probes.

    make reference

For dialogues of three turns with the question at the beginning, in the middle and at the end, it
computes in float64: the KL divergence from full attention along the reference answers, the numbers
of kept tokens and of tokens that a step reads, the share of the pairs that a prefill computes, and
the values of probes.  They must be those that turnbench has stored.  The attention of the embedded
model is so concentrated that most weights are 0 in float32, and ties decide; a copy of the model
whose queries are divided by 60 has no such ties.  Each turn is computed anew; with other histories,
some methods also keep their caches between the turns.
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
from histories import KeptTurn
from methods import METHODS
from model import Model
from probes import PROBES, Measured
from selections import ANCHORS
from turn import ANSWER_TOKENS, Turn

_TINY = pathlib.Path(__file__).resolve().parents[2] / "models" / "tiny"
_QUERY_SCALE = 1 / 60
_PROBE_TOKENS = 10    # of the answers that are probed; some end before
_TOLERANCE = 1e-3     # relative
_LEAST = {"kl": 1e-4, "probe": 1e-3}  # smaller values are compared as these


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


def dialogues(program, path, manifest):
    """Of each dialogue and position: its key, and prompt and reference of each turn as tokens."""
    for dataset in manifest["datasets"]:
        lines = program.run("dialogues", path, "--dataset", dataset["name"], "--template",
                            "auto", "--positions", ",".join(manifest["positions"])).splitlines()
        for dialogue in map(json.loads, lines):
            turns = dialogue["turns"]
            key = dialogue["id"].rsplit(":", 1)[0], turns[0]["position"]
            yield key, [(program.tokens(turn["prompt"]), program.tokens(" " + turn["gold"]))
                        for turn in turns]


def stored_values(path):
    """The stored KL divergences and counters, by method, dialogue, position, turn and name."""
    query = """SELECT iif(c.history = 'reprefill', e.method, e.method || ', ' || c.history),
                      v.dialogue, c.position, v.turn, v.name, v.value
               FROM experiment_cell e JOIN cell c ON c.key = e.cell
               JOIN (SELECT cell, dialogue, turn, metric AS name, value FROM score
                     UNION SELECT cell, dialogue, turn, name, value FROM counter) v
                 ON v.cell = c.key"""
    with sqlite3.connect(path) as store:
        return {tuple(row[:5]): row[5] for row in store.execute(query)}


def deviation(name, expected, found):
    """Of KL divergences and probes: relative.  Counters must agree; both can be missing."""
    if expected is None or found is None:
        return 0 if expected is found else np.inf
    if name in _LEAST:
        return abs(expected - found) / max(expected, _LEAST[name])
    return 0 if abs(expected - found) <= 1e-6 * expected else np.inf


class Report:
    """Largest deviations by name, and messages of failures."""

    def __init__(self):
        self.worst, self.failures = {}, []

    def add(self, text, where, name, expected, found):
        off = deviation(name, expected, found)
        self.worst[text] = max(self.worst.get(text, 0), off)
        if not off <= _TOLERANCE:
            self.failures.append(f"{text}, {where}: {name} {found}, expected {expected}")

    def print(self):
        for name, off in self.worst.items():
            print(f"{off:.1e}  {name}")
        for failure in self.failures:
            print(failure)


def stored_turns(program, name, manifest):
    """Runs a manifest; yields of each turn its key (dialogue, position, turn), the tokens of the
    prompt and of the answer, begin and end of each turn's text, and the stored values."""
    manifest = manifest | {"name": name, "models": [{"name": "soft", "path": "soft"}],
                           "answers": "gold"}
    (program.folder / f"{name}.json").write_text(json.dumps(manifest))
    program.run("run", f"{name}.json", "--db", f"{name}.db", "--quiet")
    stored = stored_values(program.folder / f"{name}.db")
    for (dialogue, position), texts in dialogues(program, f"{name}.json", manifest):
        tokens, turns = [], []
        for turn, (text, answer) in enumerate(texts):
            turns = [*turns, (len(tokens), len(tokens) + len(text))]
            tokens = tokens + text
            key = dialogue, position, turn
            yield key, tokens, answer, turns, {
                (entry[0], entry[4]): value for entry, value in stored.items() if entry[1:4] == key}
            tokens = tokens + answer


def compare_methods(program, model, stop, methods, report):
    """With kept caches four turns: the last one computes the answer to the first turn in which
    `round` has a choice."""
    histories = sorted({m.history or "reprefill" for m in methods})
    kept = histories != ["reprefill"]
    texts = dict.fromkeys(["full", *(m.text for m in methods)])
    names, size = (["tiny-fact"], 4) if kept else (["tiny-fact", "tiny-list"], 3)
    manifest = {"datasets": [{"name": name, "limit": 1, "turns": size, "length": 120 * size,
                              "seed": 11} for name in names],
                "positions": ["begin", "middle", "end"], "fidelity": "gold",
                "max_new_tokens": ANSWER_TOKENS, "methods": list(texts), "history": histories}
    turn = None
    for key, tokens, answer, turns, stored in stored_turns(program, histories[0], manifest):
        (label,) = program.tokens(f"<q{len(turns)}>")
        question = tokens.index(label, turns[-1][0]) - 1  # with the line break before it
        arguments = model, key[0], tokens, turns, question, answer, stop
        turn = KeptTurn(turn if key[-1] else None, *arguments) if kept else Turn(*arguments)
        for method in methods:
            for name, expected in turn.measure(method).items():
                report.add(method.label, key, name, expected, stored.get((method.label, name)))


def compare_probes(program, model, stop, probes, report):
    manifest = {"datasets": [{"name": "tiny-fact", "limit": 2, "turns": 2, "length": 360,
                              "seed": 11}],
                "positions": ["begin", "end"], "max_new_tokens": _PROBE_TOKENS,
                "probes": [probe.text for probe in probes]}
    measured, same = [], {}
    for key, tokens, _, turns, stored in stored_turns(program, "probes", manifest):
        turn = Measured(model, tokens, turns, _PROBE_TOKENS, stop)
        turn.others = same.setdefault(key[1:], [])
        turn.others.append(turn)
        measured.append((key, turn, stored))
    for key, turn, stored in measured:
        for probe in probes:
            values = [value for (text, _), value in stored.items() if text == probe.text]
            report.add(probe.text, key, "probe", probe.value(turn), values[0] if values else None)


def compare(path, folder, methods, probes):
    program, report = Program(path, folder), Report()
    soften(_TINY, folder / "soft")
    np.savetxt(folder / "gates.tsv", GATES, delimiter="\t")
    (folder / "anchors.json").write_text(json.dumps(ANCHORS))
    model = Model(folder / "soft", program.tokens)
    (stop,) = program.tokens("<eos>")
    for own in ([m for m in methods if not m.history], [m for m in methods if m.history]):
        if own:
            compare_methods(program, model, stop, own, report)
    compare_probes(program, model, stop, probes, report)
    return report


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: compare.py PROGRAM")
    with tempfile.TemporaryDirectory() as folder:
        report = compare(sys.argv[1], pathlib.Path(folder), METHODS, PROBES)
    report.print()
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
