"""Parts that several methods share."""

import numpy as np


def best(scores, count):
    """The slots of the largest scores, ascending; of equal scores the earlier ones."""
    order = np.lexsort((np.arange(len(scores)), -scores))
    return np.sort(order[: max(0, count)])


def best_and_last(scores, count, tokens):
    """The best slots of `scores`, and all slots after these scores."""
    return np.concatenate([best(scores, count), np.arange(len(scores), tokens)])


def groups(per_head, rows):
    """Divides a list with an entry for each query head by KV head."""
    group = rows.model.group
    return [per_head[head : head + group] for head in range(0, len(per_head), group)]


def whole_numbers(shares, total):
    """Rounds down, and adds 1 where the remainders are largest; of equal ones the first."""
    shares = np.round(shares, 9)
    out = np.floor(shares).astype(int)
    out[best(shares - out, total - out.sum())] += 1
    return out


def pooled(scores, kernel):
    """The maximum of `kernel` scores around each one."""
    padded = np.pad(scores, kernel // 2, constant_values=-np.inf)
    return np.max([padded[i : i + len(scores)] for i in range(kernel)], 0)


def window_scores(rows, window, kernel=1):
    """Of the tokens before the window, for each KV head: attention from the window's rows, averaged
    over the query heads, pooled by maximum."""
    out = []
    for heads in groups(rows.weights, rows):
        out.append(pooled(np.mean([w[-window:, :-window].sum(0) for w in heads], 0), kernel))
    return out


def line_sums(weights):
    """Sums over columns and over diagonals of the attention of a prompt's last rows [rows, tokens];
    diagonal 0 ends at the last token."""
    rows, tokens = weights.shape
    row, token = np.tril_indices(rows, tokens - rows, tokens)
    diagonals = np.bincount(tokens - rows + row - token, weights[row, token], tokens)
    return weights.sum(0), diagonals
