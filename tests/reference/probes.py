"""Probes of attention, written from the papers and from `turnbench describe probe`.

Each function gets a Measured turn and returns a value, or None without one.
"""

import math
import typing

import numpy as np

import cache_codec as k
import evictions as e
import histories as h
import methods as m
import prefills as p
import selections as s
from model import Hooks, Prompt, attend
from ranking import best, line_sums


class Measured:
    """A prompt with full attention's own answer: of each layer, `prompt` has the attention weights
    [heads, tokens, tokens], and `answer` those of the answer's tokens [heads, answer tokens, prompt
    tokens].  steps: how many answer tokens generate a further one; others: the measured prompts of
    all dialogues at this turn, itself among them."""

    def __init__(self, model, tokens, turns, limit, stop):
        self.model, self.tokens, self.turns = model, tokens, turns
        self.others, self._beside = [], {}
        self.whole = Prompt(model, tokens, tokens[-2:])
        self.prompt = [np.array(rows.weights) for rows in self.whole.layers]
        self.output, self.answer = [], [[] for _ in self.prompt]
        prompt, last = self.whole.copy(), self.whole.last

        def collect(rows):
            self.answer[rows.layer].append([w[0, : len(tokens)] for w in rows.weights])
        while len(self.output) < limit and last[-1].argmax() != stop:
            self.output.append(int(last[-1].argmax()))
            position = len(tokens) + len(self.output) - 1
            last = model.forward(self.output[-1:], prompt.caches, position, Hooks(end=collect))
        self.answer = [np.array(own).transpose(1, 0, 2) for own in self.answer]
        self.steps = min(len(self.output), limit - 1)

    def beside(self, method, phase):
        """A method that runs next to full attention on the prompt ("prefill") or on the answer
        ("decode")."""
        key = method.text, phase
        if key not in self._beside:
            self._beside[key] = _Beside(self, method, phase)
        return self._beside[key]

    def received(self, rows):
        """Attention of some rows of the prompt: sums over layers, heads and rows."""
        return sum(w[:, rows].sum((0, 1)) for w in self.prompt)

    def received_from_answer(self, rows=slice(None)):
        return sum(w[:, rows].sum((0, 1)) for w in self.answer)


def _tokens(budget, count):
    """A share of `count` is rounded down."""
    return budget if isinstance(budget, int) else math.floor(budget * count + 1e-9)


def _heads(measured, layer=-1, head=-1):
    chosen = measured.prompt if layer < 0 else measured.prompt[layer : layer + 1]
    return [w for own in chosen for w in (own if head < 0 else own[head : head + 1])]


def _over(values, over):
    """The mean, or of the values nearest to a percentile the lower one."""
    if over == "mean":
        return np.mean(values)
    return np.sort(values)[math.ceil((len(values) - 1) * float(over[1:]) / 100 - 0.5)]


def _lines(weights, share):
    """The heaviest columns and diagonals of some last rows, as a share of both kinds together."""
    tokens = weights.shape[1]
    chosen = best(np.concatenate(line_sums(weights)), _tokens(share, 2 * tokens))
    return chosen[chosen < tokens], chosen[chosen >= tokens] - tokens


def _set(lines):
    return {(kind, line) for kind, own in enumerate(lines) for line in own}


def _common(first, second, count):
    """Of the best tokens by two lists of scores: the share that both have."""
    return len(np.intersect1d(best(first, count), best(second, count))) / count


def coverage(measured, eta=0.1, layer=-1, head=-1, over="mean"):
    """Share of the attention in the cells of the heaviest lines; a crossing counts once."""
    def covered(weights):
        columns, diagonals = _lines(weights, eta)
        row, column = np.indices(weights.shape)
        chosen = np.isin(column, columns) | np.isin(row - column, diagonals)
        return weights[chosen].sum() / len(weights)
    return _over([covered(w) for w in _heads(measured, layer, head)], over)


def line_overlap(measured, eta=0.1, layer=-1, head=-1, over="mean", self_=True):
    """Common lines of two prompts as a share of the lines of either; a mean over the prompts."""
    lines = [[_set(_lines(w, eta)) for w in _heads(other, layer, head)]
             for other in measured.others]
    own = measured.others.index(measured)
    others = [i for i in range(len(lines)) if self_ or i != own]
    return _over([np.mean([len(same[own] & same[i]) / len(same[own] | same[i]) for i in others])
                  for same in zip(*lines)], over)


def segment_overlap(measured, eta=0.1, layer=-1, head=-1, over="mean", split=0.5, of="all"):
    """Share of the lines of the second part that are also lines of the first."""
    first, values = _tokens(split, len(measured.tokens)), []
    for weights in _heads(measured, layer, head):
        earlier = _set(_lines(weights[:first, :first], eta))
        later = {line for line in _set(_lines(weights[first:], eta))
                 if of == "all" or line[1] < first}
        if later:
            values.append(len(earlier & later) / len(later))
    return _over(values, over)


def token_overlap(measured, budget=0.1, window=32):
    """Of the prompt's last rows and the whole answer: common best tokens."""
    count = len(measured.tokens)
    return _common(measured.received(slice(-window, None)), measured.received_from_answer(),
                   _tokens(budget, count))


def window_overlap(measured, budget=0.1, window=16, index=-1):
    """Of a window of the prompt or answer, and of the whole answer: common best tokens."""
    rows = slice(index * window, (index + 1) * window)
    if index < 0:
        count = len(measured.tokens)
        scores = measured.received(slice(count + rows.start, count + rows.stop))
    elif rows.start < len(measured.output):
        scores = measured.received_from_answer(rows)
    else:
        return None
    return _common(scores, measured.received_from_answer(), _tokens(budget, len(measured.tokens)))


def block_overlap(measured, budget=0.1, blocks=8, first=-1, distance=1):
    """Of two parts of the answer: common best tokens; without parts that are empty."""
    ends = [len(measured.output) * i // blocks for i in range(blocks + 1)]
    scores = [measured.received_from_answer(slice(*pair)) for pair in zip(ends, ends[1:])]
    values = [_common(scores[i], scores[i + distance], _tokens(budget, len(measured.tokens)))
              for i in (range(blocks - distance) if first < 0 else [first])
              if ends[i] < ends[i + 1] and ends[i + distance] < ends[i + distance + 1]]
    return np.mean(values) if values else None


def _segment_ends(measured, count, cut):
    texts = [measured.model.texts[token] for token in measured.tokens[:count]]
    marks, blank = (".,;:!?", "\n") if cut == "clause" else (".!?", "\n\n")
    return np.array([text.endswith(blank) or text.strip().endswith(tuple(marks)) for text in texts])


def fragmentation(measured, block=7, window=8, cut="clause"):
    """Share of the blocks inside which a segment ends: before their last token."""
    count = len(measured.tokens) - window
    ends = _segment_ends(measured, count, cut)
    return np.mean([ends[i : min(i + block, count) - 1].any() for i in range(0, count, block)])


def redundancy(measured, block=7, budget=128, window=8, by="mass"):
    """Of each layer, with the mean attention of its heads: what whole blocks lose."""
    values = []
    for weights in measured.prompt:
        scores = weights[:, -window:, :-window].sum(1).mean(0)
        count = min(_tokens(budget, len(measured.tokens)), len(scores))
        kept, single = e.block_choice(scores, count, block), best(scores, count)
        values.append(np.isin(kept, single).mean() if by == "tokens"
                      else scores[kept].sum() / scores[single].sum())
    return 1 - np.mean(values)


def block_sizes(measured, size=1, by="segments", budget=1024, window=8):
    """In all layers together; segments that keep no token do not count."""
    sizes = np.array([found for rows in measured.whole.layers
                      for found in e.sablock_sizes(rows, measured.tokens, budget, window)])
    weights = np.ones(len(sizes)) if by == "segments" else sizes[:, 1]
    return weights[sizes[:, 0] == size].sum() / weights.sum()


def top_mass(measured, budget=0.1, row=1.0, layer=-1, head=-1, over="mean"):
    """Of one row: its attention on its best tokens."""
    i = max(1, math.ceil(row * len(measured.tokens)))
    return _over([np.sort(w[i - 1, :i])[::-1][: _tokens(budget, i)].sum()
                  for w in _heads(measured, layer, head)], over)


class _Beside:
    """A method that reads what full attention has computed.  errors: relative L2 errors of its
    attention outputs, of each layer and pass; reads: of each layer and step its slots, or None, and
    full attention's weights."""

    def __init__(self, measured, method, phase):
        self.model, self.caches = measured.model, measured.model.caches()
        self._clear()
        if method.prefill:
            self.hooks = method.function(measured.turns, **method.parameters)
            self._run(measured.tokens, self.model.caches(), 0)
        else:
            prompt = measured.whole.copy()
            self.hooks, self.caches = method.function(prompt, **method.parameters), prompt.caches
            if method.codec:
                self.hooks = method.codec.apply(prompt, self.hooks)
        if phase == "decode":
            self._clear()
            self.hooks = self.hooks._replace(mask=None)
            full = measured.whole.copy().caches
            for i, token in enumerate(measured.output[: measured.steps]):
                self._run([token], full, len(measured.tokens) + i)

    def _clear(self):
        self.errors, self.reads = ([[] for _ in range(self.model.layers)] for _ in range(2))

    def _run(self, tokens, caches, begin):
        self.model.forward(tokens, caches, begin, Hooks(end=self._measure))

    def _measure(self, rows):
        own, count, read = self.caches[rows.layer], len(rows.tokens), []
        for head, (keys, values) in enumerate(zip(rows.cache.keys, rows.cache.values)):
            own.append(head, keys[-count:], values[-count:], rows.cache.positions[head][-count:],
                       self.hooks.store)
        mine = rows._replace(cache=own)

        def select(mine):
            read.append(self.hooks.select(mine))
            return read[0]

        def logits(mine):
            out = self.hooks.logits(mine)
            read.append([np.flatnonzero(np.isfinite(head[-1])) for head in out])
            return out
        weights, outputs = attend(mine, self.hooks._replace(
            select=self.hooks.select and select, logits=self.hooks.logits and logits))
        if self.hooks.end:
            self.hooks.end(mine._replace(weights=weights))
        full = [w @ rows.cache.values[head // self.model.group]
                for head, w in enumerate(rows.weights)]
        error = np.linalg.norm(np.subtract(outputs, full)) / np.linalg.norm(full)
        self.errors[rows.layer].append(error)
        self.reads[rows.layer].append((read[0] if read else None, rows.weights))

    def shares(self, share):
        """Mean of share(slots, weights) over heads; 1 in a layer that reads everything."""
        values = [1 if slots is None else share(own, w[0]) for reads in self.reads
                  for slots, weights in reads for own, w in zip(slots or weights, weights)]
        read = any(slots is not None for reads in self.reads for slots, _ in reads)
        return np.mean(values) if read else None


def output_error(measured, method, layer=-1, phase="decode"):
    """Mean over layers and passes."""
    errors = measured.beside(method, phase).errors
    return np.mean(errors if layer < 0 else errors[layer])


def recall(measured, method):
    """Of as many best tokens as a query head reads: the share that it reads."""
    def share(slots, weights):
        top = best(weights, len(slots))
        top = top[weights[top] > 0]
        return np.isin(top, slots).mean()
    return measured.beside(method, "decode").shares(share)


def selected_mass(measured, method):
    """Attention on the tokens that a query head reads."""
    return measured.beside(method, "decode").shares(lambda slots, w: w[slots].sum())


def step_overlap(measured, method):
    """Of the tokens that a query head reads: the share that it read in the step before."""
    values = [np.isin(now, before).mean() for reads in measured.beside(method, "decode").reads
              for (earlier, _), (later, _) in zip(reads, reads[1:])
              if earlier is not None and later is not None for before, now in zip(earlier, later)]
    return np.mean(values) if values else None


class Probe(typing.NamedTuple):
    function: typing.Callable
    parameters: dict = {}
    method: m.Method = None

    @property
    def text(self):
        more = [f"method={self.method.text}"] if self.method else []
        return m.written(self.function, self.parameters, more)

    def value(self, measured):
        method = [self.method] if self.method else []
        return self.function(measured, *method, **self.parameters)


_QUEST = m.Method(s.quest, dict(budget=32, page=4, dense_layers=1))
_ORACLE = m.Method(s.oracle, dict(budget=32, sinks=4))
_HEAD = m.Method(s.specontext, dict(budget=32, head="tiny", feat="prev"))
_MINFERENCE = m.Method(p.minference, dict(vertical=40, slash=120))
_INFLLM = m.Method(p.infllm, dict(budget=64, init=4, block=12, exc=20))
PROBES = [
    Probe(coverage, dict(eta=0.05)),
    Probe(coverage, dict(layer=1, over="p25")),
    Probe(line_overlap),
    Probe(line_overlap, dict(eta=0.05, head=3, over="p75", self_=False)),
    Probe(segment_overlap),
    Probe(segment_overlap, dict(eta=0.05, split=0.3, of="shared")),
    Probe(token_overlap),
    Probe(token_overlap, dict(budget=20, window=8)),
    Probe(window_overlap),
    Probe(window_overlap, dict(budget=20, window=5, index=1)),
    Probe(window_overlap, dict(window=16, index=1)),
    Probe(block_overlap),
    Probe(block_overlap, dict(budget=20, blocks=5, first=1, distance=2)),
    Probe(fragmentation),
    Probe(fragmentation, dict(block=4, window=20, cut="sentence")),
    Probe(redundancy, dict(budget=64)),
    Probe(redundancy, dict(block=5, budget=40, window=16, by="tokens")),
    Probe(block_sizes, dict(budget=64)),
    Probe(block_sizes, dict(size=10, budget=64, by="tokens")),
    Probe(top_mass),
    Probe(top_mass, dict(budget=5, row=0.5, layer=2, over="p50")),
    Probe(output_error, dict(phase="prefill", layer=2), m.Method(p.int8, {})),
    Probe(output_error, dict(layer=2), m.Method(p.int8, {})),
    Probe(output_error, {}, m.Method(h.full, {}, codec=k.Kivi(bits=4, residual=32))),
    Probe(output_error, dict(layer=3), m.Method(h.full, {}, codec=k.Kivi(group=16, residual=16))),
    Probe(output_error, dict(phase="prefill", layer=2), _INFLLM),
    Probe(output_error, dict(phase="prefill"), _MINFERENCE),
    Probe(output_error, dict(layer=3), m.Method(e.snapkv, dict(budget=64))),
    Probe(output_error, {}, m.Method(e.h2o, dict(budget=64))),
    Probe(output_error, {}, _HEAD),
    Probe(recall, {}, _QUEST),
    Probe(recall, {}, _HEAD),
    Probe(recall, {}, _INFLLM),
    Probe(recall, {}, m.Method(s.sparq, dict(budget=64, r=8))),
    Probe(selected_mass, {}, _QUEST),
    Probe(selected_mass, {}, m.Method(s.loopserve_decode, dict(budget=64, first=2, n_d=3))),
    Probe(step_overlap, {}, _QUEST),
    Probe(step_overlap, {}, _ORACLE),
    Probe(step_overlap, {}, _INFLLM),
]
