"""Selections by clusters of keys, written from the papers and from `turnbench describe method`."""

import numpy as np

import draws
from model import Hooks, attention_weights
from ranking import best, groups


def _spherical(keys, initial, iterations):
    """k-means by cosine similarity: centroids, which are means of keys, and their members."""
    def labels(centroids):
        norms = np.linalg.norm(centroids, axis=1)
        return (keys @ centroids.T / norms).argmax(1)

    centroids = keys[initial]
    for _ in range(iterations):
        own = labels(centroids)
        centroids = np.array([keys[own == i].mean(0) if (own == i).any() else old
                              for i, old in enumerate(centroids)])
    own = labels(centroids)
    return list(centroids), [np.flatnonzero(own == i) for i in range(len(centroids))]


def clusterkv(prompt, budget, nlist=0, cluster_tokens=80, iterations=20, sinks=16, dense_layers=2,
              window=320, window_clusters=4):
    """Reads the clusters with the highest scores, of the last one only the first tokens, and the
    tokens of the answer that are in no cluster yet."""
    model, count = prompt.model, len(prompt.tokens) - sinks
    nlist = nlist or -(-count // cluster_tokens)
    clusters = [[([], []) for _ in range(model.kv_heads)] for _ in prompt.layers]
    ends = [sinks] * model.layers

    def add(rows, end, number):
        begin, ends[rows.layer] = ends[rows.layer], end
        random = draws.of_dialogue(prompt.dialogue, "clusterkv", rows.layer, begin)
        initial = draws.different(random, end - begin, number)
        for keys, (means, slots) in zip(rows.cache.keys, clusters[rows.layer]):
            new = _spherical(keys[begin:end], initial, iterations)
            means += new[0]
            slots += [begin + own for own in new[1]]
    for rows in prompt.layers[dense_layers:]:
        add(rows, len(prompt.tokens), nlist)

    def select(rows):
        layer, tokens = rows.layer, len(rows.cache.keys[0])
        if layer < dense_layers:
            return None
        if tokens - ends[layer] > window:
            add(rows, ends[layer] + window, window_clusters)
        out = []
        for head, query in enumerate(rows.query[:, 0]):
            means, slots = clusters[layer][head // model.group]
            order = np.argsort(-(np.array(means) @ query), kind="stable")
            chosen = np.concatenate([slots[i] for i in order])[: budget - sinks]
            out.append(np.concatenate([np.arange(sinks), np.sort(chosen),
                                       np.arange(ends[layer], tokens)]))
        return out
    return Hooks(select=select)


def _nearest(vectors, centroids):
    return ((vectors[:, None] - centroids) ** 2).sum(-1).argmin(1)


def _moved(vectors, labels, centroids):
    """The means of the clusters.  An empty one takes one of the vectors farthest from their
    centroids; also returns whether there was one."""
    members = labels == np.arange(len(centroids))[:, None]
    empty = np.flatnonzero(~members.any(1))
    distances = ((vectors - centroids[labels]) ** 2).sum(-1)
    for cluster, vector in zip(empty, np.argsort(-distances, kind="stable")):
        members[:, vector] = False
        members[cluster, vector] = True
    return np.array([vectors[own].mean(0) for own in members]), len(empty) > 0


def _lloyd(vectors, initial, iterations):
    """k-means as in scikit-learn: stops if no label changes, or if the centroids hardly move."""
    centroids, labels = vectors[initial], None
    for _ in range(iterations):
        before, labels = labels, _nearest(vectors, centroids)
        moved, relocated = _moved(vectors, labels, centroids)
        shift, centroids = ((moved - centroids) ** 2).sum(), moved
        if np.array_equal(before, labels) and not relocated:
            return centroids, labels
        if shift <= 1e-4 * vectors.var(0).mean():
            break
    return centroids, _nearest(vectors, centroids)


def pqcache(prompt, budget, sinks=32, local=0.5, m=2, b=6, max_iter=10):
    """First and recent tokens, and those with the highest estimates from quantised keys."""
    tokens = len(prompt.tokens)
    initial = draws.different(draws.of_seed(4321), tokens - sinks, 2**b)
    recent, count = int((budget - sinks) * local), int((budget - sinks) * (1 - local))
    books = [[[_lloyd(part, initial, max_iter) for part in np.split(keys[sinks:], m, 1)]
              for keys in rows.cache.keys] for rows in prompt.layers]

    def select(rows):
        size, model, out = len(rows.cache.keys[0]), rows.model, []
        end = size - 1 - recent
        for keys, parts, queries in zip(rows.cache.keys, books[rows.layer],
                                        groups(rows.query[:, 0], rows)):
            new, scores = np.split(keys[tokens:], m, 1), 0
            codes = [np.append(own, _nearest(vectors, centroids))[: end - sinks]
                     for (centroids, own), vectors in zip(parts, new)]
            for query in queries:
                estimates = sum((centroids @ q)[own] for (centroids, _), own, q in
                                zip(parts, codes, np.split(query, m)))
                scores = scores + attention_weights(estimates / np.sqrt(model.head_dim))
            out += [np.concatenate([np.arange(sinks), sinks + best(scores, count),
                                    np.arange(end, size)])] * model.group
        return out
    return Hooks(select=select)
