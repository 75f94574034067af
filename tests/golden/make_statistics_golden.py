"""Writes tests/data/reports/statistics.json: means, differences, intervals, p values and numbers of dialogues of
synthetic tables, computed with numpy and scipy.

    pip install numpy scipy
    python tests/golden/make_statistics_golden.py

A table has datasets of dialogues, each with the scores of its turns by a baseline and by several methods.  The formulas
are those of docs/statistics.md in matrix form, and share no code with reports/statistics/.  Only the signs of the
random flips are the same: they are drawn as in common/random.h.
"""
import itertools
import json
import pathlib

import numpy as np
from scipy import optimize
from scipy.stats import norm, t as student

from splitmix import Random, fnv1a

TESTS = pathlib.Path(__file__).resolve().parent.parent
FLIPS, ENUMERATED, MARGIN, POINTS = 4999, 11, 0.02, 0.05


def signs(names, differing):
    """E: flips x dialogues.  All flips if at most ENUMERATED dialogues differ, otherwise random ones."""
    if len(differing) <= ENUMERATED:
        some = np.array(list(itertools.product((1.0, -1.0), repeat=len(differing))))
        out = np.ones((len(some), len(names)))
        out[:, differing] = some
        return out, True
    out = np.empty((FLIPS, len(names)))
    for i, (dataset, dialogue) in enumerate(names):
        random = Random(fnv1a(b"sign flips"), fnv1a(dataset.encode()), fnv1a(dialogue.encode()))
        words = [random.next() for _ in range((FLIPS + 63) // 64)]
        bits = [words[b // 64] >> (b % 64) & 1 for b in range(FLIPS)]
        out[:, i] = 1 - 2 * np.array(bits, float)
    return out, False


class Spread:
    """The spread of one mean or difference.  s and t, per dataset [n_k]: sums and numbers of turns of dialogues."""

    def __init__(self, s, t):
        k = len(s)
        w = 1 / k
        n = np.array([len(x) for x in s], float)
        self.n = int(n.sum())
        self.mean = sum(x.sum() / y.sum() for x, y in zip(s, t)) / k
        v = np.array([len(x) / (len(x) - 1) * (((x - x.sum() / y.sum() * y) / (k * y.sum())) ** 2).sum()
                      for x, y in zip(s, t)])
        a = w * w / n
        self.v, self.a, self.pseudo = v.sum(), a.sum(), (w * (w / n) ** 2).sum()
        self.least = 1 / (w / n).max()
        self.constant = (w * (w / n) ** 2)[v < 1e-15].sum()
        self.shares = sum(self.shrunk(*x) for x in zip(v, s, t, [w] * k))
        u = (v + max(self.v, 1e-15) * a / self.a) / 2
        self.df = u.sum() ** 2 / (u ** 2 / (n - 1)).sum()
        self.q = student.ppf(.975, self.df)
        sizes = np.abs(np.concatenate([x / y for x, y in zip(s, t)]))
        self.pair = (w / n.min()) ** 2 * 2 * (2 + (sizes ** 3).sum()) / (2 + sizes.sum())
        self.se = np.sqrt(self.v + self.pair * (norm.ppf(.975) / self.q) ** 2)

    @staticmethod
    def shrunk(v, s, t, w):
        """v of one dataset, shrunk towards the variance of scores that are 0 or 1."""
        n, r, z = len(s), s.sum() / t.sum(), np.mean((2 * s / t - 1) ** 4)
        h = n * min(r, 1 - r)
        return (h * v + 2 * z * w * w * r * (1 - r) / (n - 1)) / (h + 2 * z)

    def wilson(self):
        """The m with |m - mean| = q sqrt(m (1 - m) / n_e), by numerical root finding."""
        unseen = max(self.pseudo - 1 / self.n ** 2, self.constant) / 4
        m = self.mean
        s = m * (1 - m)
        n_e = 1 / self.a if self.v < 1e-15 else min(s / self.shares, max(s / (self.shares + unseen), self.least))
        f = lambda x: (x - m) ** 2 - self.q ** 2 * x * (1 - x) / n_e
        low = 0.0 if m < 1e-12 else optimize.brentq(f, 0, m, xtol=1e-15)
        high = 1.0 if m > 1 - 1e-12 else optimize.brentq(f, m, 1, xtol=1e-15)
        return [low, high]

    def needed(self, power=.8):
        def fits(n):
            x, df = self.n / n, max(1, self.df * n / self.n)
            q = student.ppf(.975, df)
            error = np.sqrt(self.v * x + self.pair * x * x * (norm.ppf(.975) / q) ** 2)
            return (q + student.ppf(power, df)) * error <= POINTS

        n = 2
        while not fits(n):
            n += 1
        return n


def none_differs(n, margin):
    """The largest prod (1 - p_k)^n_k with mean p_k = margin, by numerical optimization."""
    k = len(n)
    if k == 1:
        return (1 - margin) ** n[0]
    best = optimize.minimize(lambda p: -np.sum(n * np.log1p(-p)), np.full(k, margin),
                             bounds=[(0, 1 - 1e-9)] * k, tol=1e-14,
                             constraints={"type": "eq", "fun": lambda p: p.mean() - margin})
    return float(np.exp(-best.fun))


def table(datasets, baseline, methods):
    """datasets: name -> dialogue -> scores [1 + methods][turns]."""
    names = [(d, i) for d in sorted(datasets) for i in sorted(datasets[d])]
    t = [np.array([len(datasets[d][i][0]) for i in sorted(datasets[d])], float) for d in sorted(datasets)]
    s = [[np.array([sum(datasets[d][i][m]) for i in sorted(datasets[d])]) for d in sorted(datasets)]
         for m in range(1 + methods)]
    k = len(t)
    d = np.array([np.concatenate([(x - y) / (k * u.sum()) for x, y, u in zip(s[m], s[0], t)])
                  for m in range(1, 1 + methods)]).T  # dialogues x methods
    d[np.abs(d) < 1e-15] = 0
    e, all_flips = signs(names, np.flatnonzero((d != 0).any(1)))
    scale = np.sqrt((d ** 2).sum(0))
    safe = np.where(scale > 0, scale, 1)
    observed, null = np.abs(d.sum(0)) / safe, np.abs(e @ d) / safe
    p_of = lambda hits: hits / len(e) if all_flips else (1 + hits) / (1 + len(e))
    p = p_of((null >= observed - 1e-9).sum(0))
    for m in range(methods):
        own = np.flatnonzero(d[:, m])
        if len(own) == 0:
            p[m] = 1
        elif len(own) <= ENUMERATED:
            flips = np.array(list(itertools.product((1.0, -1.0), repeat=len(own)))) @ d[own, m]
            p[m] = (np.abs(flips) / scale[m] >= observed[m] - 1e-9).mean()
    order = np.argsort(-observed, kind="stable")
    step = np.array([p_of((null[:, order[i:]].max(1) >= observed[order[i]] - 1e-9).sum())
                     for i in range(methods)])
    adjusted = np.empty(methods)
    adjusted[order] = np.maximum.accumulate(np.maximum(step, p[order]))
    rising = np.argsort(p, kind="stable")
    holm = np.empty(methods)
    holm[rising] = np.minimum(1, np.maximum.accumulate((methods - np.arange(methods)) * p[rising]))
    out = {"datasets": datasets, "methods": []}
    for m in range(1 + methods):
        x = Spread(s[m], t)
        row = {"mean": x.mean, "interval": x.wilson(), "freedom": x.df}
        if m > 0:
            y = Spread([a - b for a, b in zip(s[m], s[0])], t)
            equal = student.sf((MARGIN - abs(y.mean)) / y.se, y.df)
            if not d[:, m - 1].any():
                equal = max(equal, none_differs(np.array([len(u) for u in t], float), MARGIN))
            row["difference"] = {
                "mean": y.mean, "interval": [max(-1, y.mean - y.q * y.se), min(1, y.mean + y.q * y.se)],
                "p": p[m - 1], "max_t": adjusted[m - 1], "holm": holm[m - 1], "equivalent": equal,
                "needed": y.needed()}
        out["methods"].append(row)
    return out


def synthetic(g, sizes, effects, binary):
    out = {}
    for k, n in enumerate(sizes):
        dialogues = {}
        for i in range(n):
            turns = int(g.integers(2, 4))
            level = g.beta(4, 1)
            draw = lambda p: [round(float(x), 3) for x in
                              (g.random(turns) < p if binary else g.beta(5 * p + .2, 5 * (1 - p) + .2, turns))]
            base = draw(level)
            rows = [base]
            for effect in effects:  # a turn changes with this probability
                other = draw(max(.02, level - .3))
                rows.append([o if g.random() < effect else b for o, b in zip(other, base)])
            dialogues["d%03d" % i] = rows
        out["set%d" % k] = dialogues
    return out


def main():
    g = np.random.default_rng(20250101)
    effects = [0, .05, .3, 1]
    cases = [synthetic(g, [5], effects, True), synthetic(g, [11], effects, False),
             synthetic(g, [12], effects, True), synthetic(g, [24], effects, True),
             synthetic(g, [3, 4, 4], effects, False), synthetic(g, [12, 12, 12, 12], effects, True),
             synthetic(g, [4, 40], effects, False), synthetic(g, [6, 18, 30], effects, True)]
    cases.append({"right": {"d%03d" % i: [[1.0, 1.0], [1.0, 1.0]] for i in range(12)},
                  "wrong": {"d%03d" % i: [[0.0], [0.0]] for i in range(30)}})
    # Mostly 0, few partial scores: the variance is shrunk.
    few = lambda n: {"d%03d" % i: [[round(float(x), 3) if g.random() < .2 else 0.0 for x in g.beta(.6, 1.2, 2)]
                                   for _ in range(3)] for i in range(n)}
    # Near the end of the scale: 19 dialogues all right, one almost.
    cases.append({"right": {"d%03d" % i: [[1.0]] * 3 for i in range(10)},
                  "almost": {"d%03d" % i: [[.998 if i == 0 else 1.0]] * 3 for i in range(10)}})
    cases += [{"few": few(8)}, {"few": few(12), "right": {"d%03d" % i: [[1.0]] * 3 for i in range(6)}}]
    out = {"margin": MARGIN, "points": POINTS,
           "quantiles": [[p, df, student.ppf(p, df)] for p in (.6, .8, .95, .975, .9995)
                         for df in (1, 1.5, 2, 3.7, 11, 23, 92, 495.5, 1e5)],
           "tails": [[t, df, student.sf(t, df)] for t in (-3, -.1, 0, .01, 1, 2.5, 8, 40)
                     for df in (1, 2.5, 11, 92, 1e4)],
           "tables": [table(c, 0, len(next(iter(next(iter(c.values())).values()))) - 1) for c in cases]}
    path = TESTS / "data" / "reports" / "statistics.json"
    path.parent.mkdir(exist_ok=True)
    made = {"made_by": "tests/golden/make_statistics_golden.py"}
    path.write_text(json.dumps({**made, **out}, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
