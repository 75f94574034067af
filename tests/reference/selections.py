"""Selections, written from the papers and from `turnbench describe method`.

Each function gets a computed prompt, whose caches it can change, and returns the hook that chooses
the slots which a decode step reads: for each query head, or None for all.
"""

import json

import numpy as np

from model import Hooks, attention_weights, log_softmax, read_safetensors
from ranking import best, best_and_last, groups, window_scores


def _for_heads(per_kv_head, model):
    return [slots for slots in per_kv_head for _ in range(model.group)]


def _step_logits(rows):
    """[KV heads, query heads of each, cached tokens]"""
    return np.array(groups([rows.logits(head)[0] for head in range(rows.model.heads)], rows))


def quest(prompt, budget, page=16, dense_layers=2):
    """The pages with the highest bounds of a score, and the last one."""
    def select(rows):
        tokens = len(rows.cache.keys[0])
        pages, count = -(-tokens // page), max(3, budget // page)
        if rows.layer < dense_layers or tokens <= budget or pages <= count:
            return None
        begins, out = np.arange(0, tokens, page), []
        least = [np.minimum.reduceat(keys, begins) for keys in rows.cache.keys]
        most = [np.maximum.reduceat(keys, begins) for keys in rows.cache.keys]
        for head, query in enumerate(rows.query[:, 0]):
            own = head // rows.model.group
            bounds = np.maximum(query * least[own], query * most[own]).sum(1)
            chosen = np.append(best(bounds[:-1], count - 1), pages - 1)
            out.append(np.flatnonzero(np.isin(np.arange(tokens) // page, chosen)))
        return out
    return Hooks(select=select)


def oracle(prompt, budget, sinks=32, local=0.5):
    """First and recent tokens, and those with the most attention of a group's query heads."""
    recent, count = int((budget - sinks) * local), int((budget - sinks) * (1 - local))

    def select(rows):
        weights = attention_weights(_step_logits(rows)).sum(1)
        tokens = weights.shape[1]
        end = tokens - 1 - recent
        if end - sinks <= count:
            return None
        weights[:, :sinks] = weights[:, end:] = np.inf
        return _for_heads([best(w, sinks + count + recent + 1) for w in weights], rows.model)
    return Hooks(select=select)


def sparq(prompt, budget, sinks=0, local=0.25, r=32):
    """Scores from the largest dimensions of a group's queries, summed over its heads."""
    recent = int((budget - sinks) * local)

    def select(rows):
        tokens, model, out = len(rows.cache.keys[0]), rows.model, []
        if tokens <= budget + 1:
            return None
        for keys, queries in zip(rows.cache.keys, groups(rows.query[:, 0], rows)):
            read = best(np.abs(queries).sum(0), r)
            scores = 0
            for query in queries:
                share = np.abs(query[read]).sum() / np.abs(query).sum()
                scores = scores + keys[:, read] @ query[read] / np.sqrt(model.head_dim * share)
            scores[:sinks] = scores[tokens - 1 - recent :] = np.inf
            out.append(best(scores, budget + 1))
        return _for_heads(out, model)
    return Hooks(select=select)


def specontext_self(prompt, budget, d=1, sinks=0):
    """Layer d chooses for itself and for all layers after it."""
    chosen = []

    def select(rows):
        tokens = len(rows.cache.keys[0])
        if rows.layer < d or tokens <= budget:
            return None
        if rows.layer == d:
            scores = log_softmax(_step_logits(rows)).max(1)
            scores[:, :sinks] = scores[:, -1] = np.inf
            chosen[:] = [best(s, budget) for s in scores]
        return _for_heads(chosen, rows.model)
    return Hooks(select=select)


def omnikv(prompt, budget, filters, wait=1, score="logit", level="batch"):
    """Filters choose tokens of the prompt for the layers after them; the answer is read, too."""
    layers, chosen = [int(layer) for layer in filters.split("/")], []

    def select(rows):
        count, tokens = len(prompt.tokens), len(rows.cache.keys[0])
        source = max((layer for layer in layers if layer <= rows.layer), default=None)
        if source is None or count <= budget:
            return None
        if rows.layer == source:
            scores = _step_logits(rows)[:, :, :count]
            if score == "softmax":
                scores = log_softmax(scores)
            scores = scores.max(1)
            if level == "batch":
                scores[:] = scores.max(0)
            chosen[:] = [np.append(best(own, budget), range(count, tokens)) for own in scores]
        return None if rows.layer - source <= wait else _for_heads(chosen, rows.model)
    return Hooks(select=select)


# Kascade's anchor layers, and the anchor's KV head that each KV head of a layer reads.
ANCHORS = {"anchors": [0, 2], "heads": [[0, 1], [1, 0], [0, 1], [1, 1]]}


def kascade_decode(prompt, budget, anchors="", map=None, dense_layers=1):
    """Anchors choose tokens; the heads of layers after them read those of a head of the anchor.
    map: file of ANCHORS."""
    layers, heads, chosen = [int(layer) for layer in anchors.split("/") if layer], None, []
    if map:
        layers, heads = ANCHORS["anchors"], ANCHORS["heads"]

    def select(rows):
        tokens = len(rows.cache.keys[0])
        if tokens <= budget:
            return None
        source = max([layer for layer in layers if layer <= rows.layer] + [0])
        if rows.layer == source:
            scores = attention_weights(_step_logits(rows)).sum(1)
            scores[:, -1] = np.inf
            chosen[:] = [best(own, budget) for own in scores]
        if rows.layer < dense_layers:
            return None
        own = range(rows.model.kv_heads)
        if heads and rows.layer != source:
            own = heads[rows.layer]
        return _for_heads([chosen[head] for head in own], rows.model)
    return Hooks(select=select)


def loopserve_decode(prompt, budget, n_d=16, first=16):
    """Tokens with the most attention of the last n_d rows, chosen again after n_d tokens; those
    that are added until then are read, too."""
    queries = [list(rows.query.transpose(1, 0, 2)[-n_d:]) for rows in prompt.layers]
    chosen = [None] * len(queries)

    def choose(rows, tokens):
        observed = rows._replace(query=np.stack(queries[rows.layer][-n_d:], 1))
        scores = [attention_weights(observed.logits(h)).sum(0) for h in range(rows.model.heads)]
        for own in scores:
            own[-n_d:] = np.inf
        return [best(own, budget) for own in scores]

    def select(rows):
        tokens = len(rows.cache.keys[0])
        step = tokens - len(prompt.tokens)
        queries[rows.layer].append(rows.query[:, 0])
        if step < first:
            return None
        if (step - first) % n_d == 0:
            chosen[rows.layer] = choose(rows, tokens) if tokens > budget else None
        elif chosen[rows.layer] is not None:
            chosen[rows.layer] = [np.append(slots, tokens - 1) for slots in chosen[rows.layer]]
        return chosen[rows.layer]
    return Hooks(select=select)


def shadowkv(prompt, budget, rank=160, chunk=8, local_chunks=4, outliers=48):
    """Chunks by their mean keys; the keys of selected chunks come from a low-rank product."""
    model, tokens = prompt.model, len(prompt.tokens)
    chunks = tokens // chunk - local_chunks
    if tokens <= budget or chunks < budget // chunk + outliers:
        return Hooks()
    slots, positions, means, normal = np.arange(chunks * chunk), np.arange(tokens), [], []
    slots = slots.reshape(chunks, chunk)
    for rows in prompt.layers:
        cached = rows.cache.keys
        plain = np.concatenate([model.rotate(keys, -positions) for keys in cached], 1)
        left, values, right = np.linalg.svd(plain, full_matrices=False)
        product = (left[:, :rank] * values[:rank]) @ right[:rank]
        means.append([]), normal.append([])
        for head, built in enumerate(np.split(product, model.kv_heads, 1)):
            keys = cached[head][slots]
            mean = keys.mean(1)
            cosine = (keys * mean[:, None]).sum(-1) / (
                np.linalg.norm(keys, axis=-1) * np.linalg.norm(mean, axis=-1)[:, None])
            own = np.setdiff1d(np.arange(chunks), best(-cosine.min(1), outliers))
            cached[head] = cached[head].copy()
            cached[head][slots[own]] = model.rotate(built, positions)[slots[own]]
            means[-1].append(mean[own]), normal[-1].append(own)

    def select(rows):
        out = []
        for head, queries in enumerate(groups(rows.query[:, 0], rows)):
            mean, own = means[rows.layer][head], normal[rows.layer][head]
            weights = attention_weights(queries @ mean.T / np.sqrt(model.head_dim)).max(0)
            left_out = np.delete(own, best(weights, budget // chunk))
            out.append(np.delete(np.arange(len(rows.cache.keys[head])), slots[left_out].ravel()))
        return _for_heads(out, model)
    return Hooks(select=select)


def sentencekv(prompt, budget, window=32, kernel=7, semantic_factor=3, sinks=32, recent=32):
    """Keeps a pool of the prompt's tokens, and reads the sentences whose mean keys are most similar
    to the mean query of the sentence that is being generated."""
    model, pool = prompt.model, semantic_factor * budget

    def ends(token):
        return model.texts[token].endswith((".", "!", "?", "\n\n"))

    sentence = np.cumsum([0] + [ends(token) for token in prompt.tokens])[:-1]
    members = []  # of each layer and KV head: the slots of each sentence
    for rows in prompt.layers:
        if len(prompt.tokens) > pool:
            for head, scores in enumerate(window_scores(rows, window, kernel)):
                slots = best(np.append(scores, np.full(window, np.inf)), pool)
                rows.cache.keep(head, slots)
        members.append([[np.flatnonzero(sentence[positions] == i) for i in range(sentence[-1] + 1)]
                        for positions in rows.cache.positions])
    means = [[[keys[slots].mean(0) if len(slots) else keys[0] * 0 for slots in own]
              for keys, own in zip(rows.cache.keys, heads)]
             for rows, heads in zip(prompt.layers, members)]
    begin = [len(rows.cache.keys[0]) for rows in prompt.layers]  # of the generated sentence
    sums = [0] * len(begin)

    def select(rows):
        layer, tokens = rows.layer, len(rows.cache.keys[0])
        if ends(rows.tokens[0]):
            for keys, own, mean in zip(rows.cache.keys, members[layer], means[layer]):
                own.append(np.arange(begin[layer], tokens))
                mean.append(keys[begin[layer] :].mean(0))
            begin[layer], sums[layer] = tokens, 0
            return None
        sums[layer] = sums[layer] + np.mean(groups(rows.query[:, 0], rows), 1)
        if tokens - begin[layer] <= 1 or tokens <= budget:
            return None
        out = []
        for head, own in enumerate(members[layer]):
            scores = np.array(means[layer][head]) @ sums[layer][head]
            order = np.concatenate([own[i] for i in np.argsort(-scores, kind="stable")])
            order = order[(order > sinks) & (order < tokens - recent)][: budget - sinks - recent]
            out.append(np.concatenate([np.arange(sinks), np.sort(order),
                                       np.arange(tokens - recent, tokens)]))
        return _for_heads(out, model)
    return Hooks(select=select)


def _rocketkv_rule(tokens, budget, answer, kept):
    """The budget of a prompt as a number of tokens, and the tokens that are kept of it."""
    budget = max(1, int(budget * tokens)) if budget < 1 else budget
    if tokens <= budget:
        return budget, tokens
    total = tokens + answer
    ratio = total / budget
    capacity = int(total / ratio ** min(0.2 + 0.06 * np.log2(ratio), 0.8))
    return budget, min(kept, tokens) or max(capacity - answer, min(answer, tokens))


def rocketkv(prompt, budget, window=32, kernel=63, answer=128, kept=0, page=0, r=0, evicts=True):
    """Keeps tokens like snapkv.  A step then reads its own token, and the pages with the most
    attention, estimated from the largest dimensions of a group's queries and bounds of the keys.
    evicts: not in a later turn of compress_once.  With compress=before_question the first stage
    follows the rule for the text before the question, the second one that for the whole prompt."""
    model, (_, count) = prompt.model, _rocketkv_rule(len(prompt.tokens), budget, answer, kept)
    for rows in prompt.layers:
        size = len(rows.cache.keys[0])
        if evicts and size > count:
            for head, scores in enumerate(window_scores(rows, window, kernel)):
                rows.cache.keep(head, best_and_last(scores, count - window, size))
    settings = []  # of the answer's steps: size and number of the pages, and dimensions

    def second_stage(tokens):
        own, count = _rocketkv_rule(tokens, budget, answer, kept)
        if tokens <= own:
            return None
        reduction = max(1, (count + answer) / own)
        size = int(np.ceil(np.sqrt(reduction)))
        size = page or (size if size <= reduction else 1)
        return size, max(1, -(-(own // 2) // size)), r or int(model.head_dim * size / reduction)

    def select(rows):
        if not settings:
            settings.append(second_stage(rows.cache.positions[0][-1]))  # the first step's position
        if settings[0] is None:
            return None
        size, number, dimensions = settings[0]
        tokens, out = len(rows.cache.keys[0]), []
        for keys, queries in zip(rows.cache.keys, groups(rows.query[:, 0], rows)):
            signs = np.where(sum(queries) > 0, 1, -1)
            bounds = np.maximum.reduceat(keys * signs, np.arange(0, tokens, size))
            read, weights = best(np.abs(queries).sum(0), dimensions), []
            for query in queries:
                share = np.abs(query[read]).sum() / np.abs(query).sum()
                logits = bounds[:, read] @ (query * signs)[read]
                weights.append(attention_weights(logits / np.sqrt(model.head_dim * share)))
            chosen = np.isin(np.arange(tokens) // size, best(np.mean(weights, 0), number))
            chosen[-1] = True
            out.append(np.flatnonzero(chosen))
        return _for_heads(out, model)
    return Hooks(select=select)


class _Draft:
    """The queries and keys of an EAGLE-3 draft: one decoder layer, whose row j reads the embedding
    of a token and, if it has them, the hidden states of the token before."""

    def __init__(self, model, n_max, n_orig):
        directory = model.directory / "retrieval_head"
        config = json.loads((directory / "config.json").read_text())
        self.model, self.epsilon = model, config["rms_norm_eps"]
        self.head_dim = config["head_dim"]
        self.layers = config["eagle_config"]["eagle_aux_hidden_state_layer_ids"]
        self.weights = read_safetensors(directory / "model.safetensors")
        self._extend(config["rope_theta"], n_max / n_orig, n_orig)

    def _extend(self, theta, factor, original):
        """YaRN with the betas 32 and 1."""
        last, factor = self.head_dim // 2, max(1, factor)

        def dimension(beta):
            turns = original / (2 * np.pi * beta)
            return self.head_dim * np.log(turns) / (2 * np.log(theta))
        low = max(0, np.floor(dimension(32)))
        high = min(self.head_dim - 1, np.ceil(dimension(1)))
        slow = np.clip((np.arange(last) - low) / (high - low), 0, 1)
        self.frequencies = theta ** (-np.arange(last) / last) * (1 - slow + slow / factor)
        self.scale = 0.1 * np.log(factor) + 1

    def _norm(self, x, name):
        scale = np.sqrt((x * x).mean(-1, keepdims=True) + self.epsilon)
        return x / scale * self.weights[f"midlayer.{name}.weight"]

    def project(self, part, tokens, hidden, begin):
        """Queries ("q") or keys ("k") after RoPE: [heads, rows, head_dim]."""
        embedding = self.model.weights["model.embed_tokens.weight"][np.asarray(tokens)]
        x = self._norm(embedding, "input_layernorm")
        if hidden is not None:
            x = np.concatenate([x, self._norm(hidden @ self.weights["fc.weight"].T,
                                              "hidden_norm")], -1)
        weight = self.weights[f"midlayer.self_attn.{part}_proj.weight"][:, : x.shape[1]]
        out = (x @ weight.T).reshape(len(x), -1, self.head_dim).transpose(1, 0, 2)
        positions = begin + np.arange(len(x))
        return self.model.rotate(out, positions, self.frequencies) * self.scale


def specontext(prompt, budget, head="tiny", feat="none", level="head", n_max=32768, n_orig=2048,
               sinks=0):
    """The attention of a draft chooses for all layers before a step."""
    draft, model = _Draft(prompt.model, n_max, n_orig), prompt.model
    tokens, shift = list(prompt.tokens), int(feat == "prev")
    hidden = [list(prompt.layers[layer].hidden) for layer in draft.layers]
    keys, chosen = [], []

    def choose():
        begin = keys[0].shape[1] if keys else 0  # of the draft's new rows
        own = tokens[begin + shift :]
        states = np.concatenate([h[begin:] for h in hidden], -1) if shift else None
        keys[:] = [np.concatenate([*keys, draft.project("k", own, states, begin)], 1)]
        rows = keys[0].shape[1]
        query = draft.project("q", own[-1:], states[-1:] if shift else None, rows - 1)[:, 0]
        logits = keys[0].repeat(len(query) // len(keys[0]), 0) @ query[:, :, None]
        weights = log_softmax(logits[:, :, 0] / np.sqrt(draft.head_dim))
        scores = weights.reshape(model.kv_heads, -1, rows).max(1)
        if level == "batch":
            scores[:] = scores.max(0)
        scores = np.pad(scores, ((0, 0), (shift, 0)), constant_values=np.inf)
        scores[:, -1] = scores[:, :sinks] = np.inf
        chosen[:] = [best(own, budget) for own in scores]

    def select(rows):
        if rows.layer == 0:
            tokens.extend(rows.tokens)
            choose()
        if rows.layer in draft.layers:
            hidden[draft.layers.index(rows.layer)].extend(rows.hidden)
        return _for_heads(chosen, model) if len(tokens) > budget else None
    return Hooks(select=select)
