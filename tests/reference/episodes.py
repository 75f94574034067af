"""The episodes of a dialogue, as EpiCache finds them."""

import numpy as np

import draws

_LONG_LINE = 128


def _utterances(model, tokens, label):
    """Lines of a text of the embedded model's dialogues, without markup and without the line that
    has this label.  Line breaks belong to what follows them."""
    lines = [[]]
    for token in tokens:
        if model.texts[token] == "\n":
            lines.append([])
        elif model.texts[token] not in ("<bos>", "<eos>"):
            lines[-1].append(token)
    for line in lines:
        first = model.texts[line[0]] if line else ""
        words = line[1:] if first.startswith("<a") else line  # the cue is markup
        if words and first != label:
            assert len(words) <= _LONG_LINE
            yield words


def _plus_plus(rows, count, random):
    """The initial rows of greedy k-means++."""
    def distances(row):
        return ((rows - rows[row]) ** 2).sum(1)

    chosen = [random.below(len(rows))]
    nearest = distances(chosen[0])
    while len(chosen) < count:
        sums = np.cumsum(nearest)
        tried = [min(np.searchsorted(sums, random.uniform() * sums[-1]), len(rows) - 1)
                 for _ in range(2 + int(np.log(count)))]
        best = min(tried, key=lambda row: np.minimum(nearest, distances(row)).sum())
        chosen.append(best)
        nearest = np.minimum(nearest, distances(best))
    return chosen


def _k_means(rows, initial):
    """Centroids, labels and the sum of squared distances."""
    centroids, labels, tolerance = rows[initial], None, 1e-4 * rows.var(0).mean()
    for _ in range(300):
        squares = ((rows[:, None] - centroids) ** 2).sum(-1)
        new = squares.argmin(1)
        assert len(set(new)) == len(centroids)  # the reference has no rule for empty clusters
        moved = np.array([rows[new == i].mean(0) for i in range(len(centroids))])
        done = ((moved - centroids) ** 2).sum() <= tolerance or np.array_equal(new, labels)
        centroids, labels = moved, new
        if done:
            break
    squares = ((rows[:, None] - centroids) ** 2).sum(-1)
    return centroids, squares.argmin(1), squares.min(1).sum()


def of_question(prompt, episodes, utterances, medoids):
    """The windows that represent the episode of the question, as lists of tokens."""
    model = prompt.model
    label = model.texts[prompt.asked[1]]  # behind the line break
    lines = list(_utterances(model, prompt.text, label))
    windows = [sum(lines[i : i + utterances], []) for i in range(0, len(lines), utterances)]
    if not windows:
        return []

    def embedding(tokens):
        mean = model.weights["model.embed_tokens.weight"][np.asarray(tokens)].mean(0)
        return mean / np.linalg.norm(mean)
    rows = np.array([embedding(window) for window in windows])
    count = min(episodes, len(rows))
    runs = [_k_means(rows, _plus_plus(rows, count,
                                      draws.Random(draws.fnv1a(b"epicache"), run)))
            for run in range(10)]
    centroids, labels, _ = min(runs, key=lambda run: run[2])
    own = (centroids @ embedding(prompt.asked)).argmax()
    members = np.flatnonzero(labels == own)
    order = np.argsort(-(rows[members] @ centroids[own]), kind="stable")
    return [windows[i] for i in np.sort(members[order[:medoids]])]

