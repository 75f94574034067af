"""Sparse prefills, written from the papers and from `turnbench describe method`.

Each function gets the turns of a prompt, each as the begin and the end of its text without the
answer.  The hook that it returns chooses which pairs of row and cached token a pass over the
prompt computes: for each query head, or None for all.
"""

import math

import numpy as np

from model import Hooks, attention_weights
from ranking import best


def a_shape(turns, n_init=128, n_local=3968):
    return tri_shape(turns, n_init, n_local, 0)


def tri_shape(turns, n_init=128, n_local=3968, n_last=100):
    def mask(rows):
        count = len(rows.tokens)
        row, token = np.mgrid[:count, :count]
        dense = row >= count - min(n_last, count - 1)
        seen = (row - token < n_local) | (token < n_init) | dense
        return [seen] * rows.model.heads
    return Hooks(mask)


def _line_masses(rows, head, last):
    """Attention of the last rows, as sums over columns and over diagonals."""
    weights = attention_weights(rows.logits(head)[-last:])
    count = weights.shape[1]
    row, token = np.mgrid[count - last : count, :count]
    offsets = np.where(row >= token, row - token, 0)
    return weights.sum(0), np.bincount(offsets.ravel(), weights.ravel(), count)


def _blocks_of_lines(columns, diagonals, count, size=64):
    """For each block of rows: runs of 64 keys that contain the diagonals, and the columns."""
    out = np.zeros((count, count), bool)
    for begin in range(0, count, size):
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
        count, out = len(rows.tokens), []
        for head in range(rows.model.heads):
            columns, diagonals = _line_masses(rows, head, min(64, count))
            columns[:30] = diagonals[:100] = np.inf
            columns, diagonals = best(columns, max(vertical, 30)), best(diagonals, slash)
            out.append(_blocks_of_lines(columns, diagonals, count))
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


def round_(turns, lw=2, share=0.1):
    """Layer lw, counted from 1, chooses the earlier rounds that the upper layers read in a turn."""
    begins, read = [begin for begin, _ in turns], []
    begins[0] = 1  # the first token is no candidate

    def choose(weights, turn):
        rounds = [np.arange(*pair) for pair in zip(begins, begins[1 : turn + 1])]
        chosen = best(np.array([weights[tokens].sum() for tokens in rounds]),
                      math.ceil(share * len(rounds)))
        return np.concatenate([[0], *(rounds[i] for i in chosen)]).astype(int)

    def mask(rows):
        if rows.layer < lw - 1:
            return None
        if rows.layer == lw - 1:
            weights = np.mean([attention_weights(rows.logits(h)) for h in range(rows.model.heads)],
                              0)
            read[:] = [choose(weights[slice(*rows_of_turn)].sum(0), turn)
                       for turn, rows_of_turn in enumerate(turns)]
            return None
        seen = np.ones((len(rows.tokens), len(rows.tokens)), bool)
        for begin, tokens in zip(begins, read):
            seen[begin:, :begin] = False
            seen[begin:, tokens] = True
        return [seen] * rows.model.heads

    def select(rows):
        if rows.layer < lw:
            return None
        turn = np.arange(begins[-1], len(rows.cache.keys[0]))
        return [np.append(read[-1], turn)] * rows.model.heads
    return Hooks(mask, select)
