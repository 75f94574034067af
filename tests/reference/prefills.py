"""Sparse prefills, written from the papers and from `turnbench describe method`.

Each function gets the turns of a prompt, each as the begin and the end of its text without the
answer.  The hook that it returns chooses which pairs of row and cached token a pass over the
prompt computes: for each query head, or None for all.
"""

import math
from types import SimpleNamespace

import numpy as np

from model import Hooks, attention_weights
from ranking import best, line_sums
from selections import loopserve_decode


def a_shape(turns, n_init=128, n_local=3968):
    return tri_shape(turns, n_init, n_local, 0)


def tri_shape(turns, n_init=128, n_local=3968, n_last=100):
    def mask(rows):
        count, own = len(rows.cache.keys[0]), len(rows.tokens)
        row, token = np.mgrid[:count, :count]
        dense = row >= count - min(n_last, own - 1)
        seen = (row - token < n_local) | (token < n_init) | dense
        return [seen[-own:]] * rows.model.heads
    return Hooks(mask)


def _line_masses(rows, head, last):
    """Attention of the last rows, as sums over columns and over diagonals."""
    return line_sums(attention_weights(rows.logits(head)[-last:]))


def _blocks_of_lines(columns, diagonals, count, first=0, size=64):
    """For each block of the rows after `first`: runs of 64 keys that contain the diagonals, and the
    columns."""
    out = np.zeros((count, count), bool)
    for begin in range(first, count, size):
        end, runs = begin + size, []
        for diagonal in sorted(diagonals[diagonals < end], reverse=True):
            stop = max(end - diagonal, size)
            if not runs or stop > runs[-1][1] + size:
                runs.append([stop - size, stop])
            elif stop > runs[-1][1]:
                runs[-1][1] += size
        for run in runs:
            out[begin:end, slice(*run)] = True
        out[begin:end, columns] = True
    return out


def minference(turns, vertical=512, slash=2048):
    """Columns and diagonals by the attention of the last 64 rows."""
    def mask(rows):
        count, out = len(rows.cache.keys[0]), []
        first = count - len(rows.tokens)
        for head in range(rows.model.heads):
            columns, diagonals = _line_masses(rows, head, min(64, len(rows.tokens)))
            columns[:30] = diagonals[:100] = np.inf
            columns, diagonals = best(columns, max(vertical, 30)), best(diagonals, slash)
            out.append(_blocks_of_lines(columns, diagonals, count, first)[first:])
        return out
    return Hooks(mask)


def _means(vectors, size):
    return np.array([vectors[i : i + size].mean(0) for i in range(0, len(vectors), size)])


def flexprefill(turns, gamma=0.9, tau=0.1, min_budget=512, block=128):
    """Blocks of columns and diagonals that cover the share gamma of the last rows' attention; heads
    whose attention to blocks can be estimated add the best blocks of this estimate."""
    def covered(masses):
        return int((np.cumsum(np.sort(masses)[::-1]) <= gamma).sum()) + 1

    def sums(masses):
        return np.add.reduceat(masses, range(0, len(masses), block))

    def divergence(p, q):
        return np.where(p > 0, p * np.log(np.where(p > 0, p, 1) / q), 0).sum()

    def mask(rows):
        count, model, out = len(rows.tokens), rows.model, []
        least = -(-min_budget // block)
        if count <= block * max(2, least):
            return None
        blocks = -(-count // block)
        row, token = np.mgrid[:blocks, :blocks]
        for head in range(model.heads):
            columns, diagonals = (m / block for m in _line_masses(rows, head, block))
            numbers = [max(least, covered(m) // block + 1) for m in (columns, diagonals)]
            query = rows.query[head]
            keys = _means(rows.cache.keys[head // model.group], block) / np.sqrt(model.head_dim)
            estimate = attention_weights(query[-block:].mean(0) @ keys.T)
            found = sums(columns)
            middle = (estimate + found) / 2
            distance = (divergence(estimate, middle) + divergence(found, middle)) / 2
            by_blocks = math.sqrt(max(0, distance)) < tau
            if by_blocks:
                numbers = [least, least]
            diagonals = sums(diagonals[::-1])
            found[0] = diagonals[-1] = np.inf
            chosen = (np.isin(token, best(found, numbers[0]))
                      | np.isin(blocks - 1 - row + token, best(diagonals, numbers[1])))
            if by_blocks:
                logits = np.where(row >= token, _means(query, block) @ keys.T, -np.inf)
                weights = attention_weights(logits).ravel()
                order = np.argsort(-weights, kind="stable")
                inside = np.cumsum(weights[order]) <= gamma * blocks
                chosen |= np.isin(row * blocks + token, order[inside])
            out.append(chosen.repeat(block, 0).repeat(block, 1)[:count, :count])
        return out
    return Hooks(mask)


def xattention(turns, gamma=0.9, stride=16, block=128):
    """Blocks by descending attention, which the antidiagonals of squares of logits estimate."""
    def mask(rows):
        count, model, out = len(rows.tokens), rows.model, []
        if count <= 2 * block:
            return None
        groups, starts = -(-count // stride), range(0, -(-count // stride), block // stride)

        def grouped(vectors):
            padded = np.zeros((groups * stride, model.head_dim))
            padded[:count] = vectors
            return padded.reshape(groups, stride, model.head_dim)
        for head in range(model.heads):
            queries = grouped(rows.query[head])[:, ::-1]
            keys = grouped(rows.cache.keys[head // model.group])
            logits = np.einsum("qsd,ksd->qk", queries, keys) / (stride * math.sqrt(model.head_dim))
            weights = attention_weights(np.where(np.tri(groups, dtype=bool), logits, -np.inf))
            sums = np.add.reduceat(np.add.reduceat(weights, starts, 0), starts, 1)
            chosen = np.zeros(sums.shape, bool)
            for row, own in enumerate(sums):
                others = np.argsort(-own[:row], kind="stable")
                covered = np.cumsum([0, own[row], *own[others]])[:row]
                chosen[row, [0, row, *others[covered < gamma * own.sum()]]] = True
            out.append(chosen.repeat(block, 0).repeat(block, 1)[:count, :count])
        return out
    return Hooks(mask)


def critiprefill(turns, budget=2048, segment=512, block=32, threshold=4096):
    """For each segment of rows, the key blocks before it with the highest bounds of the logits,
    which are combined with those of the layer before."""
    previous = []

    def extremes(vectors, size):
        parts = np.array_split(vectors, range(size, len(vectors), size))
        return np.array([part.max(0) for part in parts]), np.array([part.min(0) for part in parts])

    def bounds(queries, keys):
        found = [sum(q @ k.T for q in extremes(queries, segment)) / 2
                 for k in extremes(keys, block)]
        return np.maximum(*found)

    def mask(rows):
        if rows.layer == 0:
            return None
        count, group, out = len(rows.tokens), rows.model.group, []
        begins = np.arange(0, count, segment)
        ends = np.arange(block, count + block, block)
        for head, keys in enumerate(rows.cache.keys):
            queries = rows.query[head * group : (head + 1) * group]
            scores = np.mean([bounds(q, keys) for q in queries], 0)
            scores = np.where(ends <= begins[:, None], scores, -np.inf)
            scores[1:] = attention_weights(scores[1:])
            if rows.layer > 1:
                scores[1:] = previous[head][1:] / 4 + scores[1:] * 3 / 4
            previous[head : head + 1] = [scores]
            seen = np.zeros((count, count), bool)
            for begin, own in zip(begins, scores):
                if begin < threshold or begin == begins[-1]:
                    seen[begin : begin + segment] = True
                    continue
                seen[begin : begin + segment, begin:] = True
                for i in best(own[: begin // block], budget // block):
                    seen[begin : begin + segment, i * block : (i + 1) * block] = True
            out += [seen] * group
        return out
    return Hooks(mask)


def round_(turns, lw=2, share=0.1, read=None):
    """Layer lw, counted from 1, chooses the earlier rounds that the upper layers read in a turn.
    read: what was chosen in turns that are not computed."""
    begins, read = [begin for begin, _ in turns], {} if read is None else read
    begins[0] = 1  # the first token is no candidate

    def choose(weights, turn):
        rounds = [np.arange(*pair) for pair in zip(begins, begins[1 : turn + 1])]
        chosen = best(np.array([weights[tokens].sum() for tokens in rounds]),
                      math.ceil(share * len(rounds)))
        return np.concatenate([[0], *(rounds[i] for i in chosen)]).astype(int)

    def mask(rows):
        if rows.layer < lw - 1:
            return None
        tokens = len(rows.cache.keys[0])
        first = tokens - len(rows.tokens)
        if rows.layer == lw - 1:
            weights = np.mean([attention_weights(rows.logits(h)) for h in range(rows.model.heads)],
                              0)
            read.update({turn: choose(weights[begin - first : end - first].sum(0), turn)
                         for turn, (begin, end) in enumerate(turns) if begin >= first})
            return None
        seen = np.ones((tokens, tokens), bool)
        for turn, begin in enumerate(begins):
            seen[begin:, :begin] = False
            seen[begin:, read[turn]] = True
        return [seen[first:]] * rows.model.heads

    def select(rows):
        if rows.layer < lw:
            return None
        turn = np.arange(begins[-1], len(rows.cache.keys[0]))
        return [np.append(read[len(turns) - 1], turn)] * rows.model.heads
    return Hooks(mask, select)


def _recovering_lines(weights, alpha):
    """Columns and diagonals that contain the share alpha of the attention of the last rows, chosen
    by their gain for each of their cells that no chosen line contains."""
    rows, tokens = weights.shape
    first = tokens - rows
    gains = line_sums(weights)[::-1]  # diagonals, columns
    left = [rows - np.maximum(0, np.arange(tokens) - first) for _ in gains]
    order = [list(np.argsort(-own, kind="stable")) for own in gains]
    order[0].remove(0)
    chosen, covered, kind, line = ([], []), 0, 0, 0
    while True:
        chosen[kind].append(line)
        covered += gains[kind][line]
        row = np.arange(max(0, line - first), rows)
        crossing = first + row - line
        gains[1 - kind][crossing] -= weights[row, line if kind else crossing]
        left[1 - kind][crossing] -= 1
        if covered >= alpha * rows or not any(order):
            return np.array(chosen[1], int), np.array(chosen[0])
        rates = [gains[k][own[0]] / max(1, left[k][own[0]]) if own else -1
                 for k, own in enumerate(order)]
        kind = int(rates[1] > rates[0])
        line = order[kind].pop(0)


def loopserve_prefill(turns, alpha=0.955, samples=64):
    """For each turn, which begins with the previous answer, lines that recover the share alpha of
    the attention of its rows."""
    assert samples >= turns[-1][1]  # otherwise rows are drawn at random
    begins = [0, *(end for _, end in turns)]

    def mask(rows):
        model, count = rows.model, len(rows.cache.keys[0])
        first = count - len(rows.tokens)
        weights = [attention_weights(rows.logits(head)) for head in range(model.heads)]
        out = np.zeros((model.heads, count, count), bool)
        for begin, end in zip(begins, begins[1:]):
            if begin < first:
                continue
            for own, seen in zip(weights, out):
                lines = _recovering_lines(own[begin - first : end - first, :end], alpha)
                seen[begin:end, :end] = _blocks_of_lines(*lines, end, begin)[begin:]
        return list(out[:, first:])
    return Hooks(mask)


def loopserve(turns, alpha=0.955, samples=64, **decode):
    """The prefill by lines, and the selections of loopserve-decode."""
    prefill, hooks = loopserve_prefill(turns, alpha, samples), []
    prompt = SimpleNamespace(layers=[])

    def mask(rows):
        prompt.layers.append(rows)
        prompt.tokens = range(len(rows.cache.keys[0]))
        return prefill.mask(rows)

    def select(rows):
        if not hooks:
            hooks.append(loopserve_decode(prompt, **decode))
        return hooks[0].select(rows)
    return Hooks(mask, select=select)


def int8(turns):
    """Keys and values are multiples of 1/127 of their largest magnitudes, which are rounded to 17
    significant bits."""
    def rounded(vectors):
        fraction, exponent = np.frexp(np.abs(vectors).max(-1, keepdims=True) / 127)
        scale = np.ldexp(np.round(fraction * 2**17) / 2**17, exponent)
        return np.round(vectors / scale) * scale
    return Hooks(store=rounded)


def infllm(turns, budget=1024, init=128, block=128, repr_=4, exc=512):
    """Rows in groups read a window and, as if they were just outside of it, the first tokens, the
    tokens that fill no block yet, and the earlier blocks with the best representatives."""
    local = budget // 2
    count, size = -(-(budget - local) // block), min(exc, local)
    masses, blocks = {}, {}  # of each layer: [heads, tokens], and a list of [heads, head_dim]

    def represent(masses, plain, begin, group):
        slots = [begin + best(mass[begin : begin + block], repr_) for mass in masses]
        return [plain[head // group][own].mean(0) for head, own in enumerate(slots)]

    def logits(rows):
        model, layer, tokens = rows.model, rows.layer, len(rows.cache.keys[0])
        first, group = tokens - len(rows.tokens), rows.model.group
        plain = [model.rotate(keys, -np.arange(tokens)) for keys in rows.cache.keys]
        near = np.array([rows.logits(head) for head in range(model.heads)])
        distant = model.rotate(rows.plain_query, np.full(len(rows.tokens), local - 1))
        far = np.array([query @ plain[head // group].T for head, query in enumerate(distant)])
        far /= np.sqrt(model.head_dim)
        old = masses.get(layer, np.zeros((model.heads, 0)))
        masses[layer] = np.pad(old, ((0, 0), (0, tokens - old.shape[1])))
        own, begin, out = blocks.setdefault(layer, []), first, np.full(near.shape, -np.inf)
        while begin < tokens:
            end = max(begin + 1, min(begin + size, tokens - 1))
            loose = init + len(own) * block
            while begin - loose >= local + block:
                own.append(represent(masses[layer], plain, loose, group))
                loose += block
            group_rows = slice(begin - first, end - first)
            seen = np.arange(tokens) < init
            seen[loose:] = True
            means = distant[:, group_rows].mean(1)
            for i in best(np.array([(means * vectors).sum() for vectors in own]), count):
                seen[init + i * block : init + (i + 1) * block] = True
            distance = np.arange(begin, end)[:, None] - np.arange(tokens)
            out[:, group_rows] = np.where(distance < local, near[:, group_rows],
                                          np.where(seen, far[:, group_rows], -np.inf))
            weights = attention_weights(out[:, group_rows])
            masses[layer] += np.where(distance < local, weights, 0).sum(1)
            begin = end
        return out
    return Hooks(logits=logits)
