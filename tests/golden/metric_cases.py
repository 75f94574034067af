"""The texts of the golden scores: the same generator as in tests/metrics/golden_cases.cpp."""

import json
import pathlib

from splitmix import Random, fnv1a

DATA = pathlib.Path(__file__).resolve().parents[1] / "data" / "metrics"
VOCABULARY = json.loads((DATA / "vocabulary.json").read_text(encoding="utf-8"))


def seed_of(name):
    return fnv1a(name.encode())


class Case:
    def __init__(self, kind, index):
        spec = VOCABULARY[kind]
        rng = Random(seed_of(kind), index)
        labels = spec.get("labels")
        self.references = list(labels[rng.below(len(labels))]) if labels else []
        self.classes = spec.get("classes", [])
        if self.classes:
            turn = rng.below(len(self.classes))
            self.classes = self.classes[turn:] + self.classes[:turn]
        tokens = self._tokens(rng, spec, index)
        self.prediction = self._text(tokens, spec)
        if not labels:
            fresh = rng.below(4) == 0
            other = self._tokens(rng, spec, index) if fresh else self._mutated(rng, spec, tokens)
            self.references = [self._text(other, spec)]

    @staticmethod
    def _token(rng, spec):
        fragment = rng.below(len(spec["fragments"]))
        return fragment, rng.below(len(spec["separators"]))

    def _tokens(self, rng, spec, index):
        roll = rng.below(100)
        typical = spec["typical"]
        if roll < 3:
            length = 0
        elif roll < 10:
            length = 1
        elif roll < 97:
            length = rng.between(2, 2 * typical)
        else:
            length = rng.between(2 * typical, 8 * typical)
        if index % 1000 == 7:
            length = 20 * typical
        if index % 1000 == 8:
            length = 45 * typical
        if index == 4008:
            length = spec.get("longest", length)
        return [self._token(rng, spec) for _ in range(length)]

    def _mutated(self, rng, spec, tokens):
        out = []
        for token in tokens:
            roll = rng.below(12)
            if roll == 0:
                continue
            if roll == 1:
                token = self._token(rng, spec)
            if roll == 2:
                out.append(self._token(rng, spec))
            out.append(token)
        if rng.below(8) == 0:
            half = len(out) // 2
            out = out[half:] + out[:half]
        return out

    def _text(self, tokens, spec):
        out = []
        for fragment, separator in tokens:
            text = spec["fragments"][fragment]
            if text in ("{0}", "{1}", "{1}.", "{1}:"):
                which = min(int(text[1]), len(self.references) - 1)
                text = self.references[which] + text[3:]
            out.append(text + spec["separators"][separator])
        return "".join(out)
