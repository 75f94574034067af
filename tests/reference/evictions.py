"""Evictions, written from the papers and from `turnbench describe method`.

Each function removes tokens from the caches of a computed prompt.  Methods that also evict while
decoding return what they do after each layer.
"""

import numpy as np

from episodes import of_question
from model import Hooks, attention_weights
from ranking import best, best_and_last, groups, pooled, whole_numbers, window_scores

GATES = np.array([[0.1, 0.9], [0.6, 0.2], [0.3, 0.8], [0.7, 0.4]])  # of each layer's KV heads


def _evict(prompt, kept, rolling=False):
    """kept(rows): the slots that each KV head keeps.  rolling: also after each decode step."""
    def evict(rows):
        for head, slots in enumerate(kept(rows)):
            rows.cache.keep(head, slots)
    for rows in prompt.layers:
        evict(rows)
    return Hooks(end=evict if rolling else None)


def _size(rows):
    return len(rows.cache.keys[0])


def _first_and_last(tokens, sinks, recent):
    return np.delete(np.arange(tokens), np.arange(sinks, max(sinks, tokens - recent)))


def streamingllm(prompt, budget, sinks=4, rolling=True):
    return _evict(prompt, lambda rows: [
        _first_and_last(len(keys), sinks, budget - sinks) for keys in rows.cache.keys], rolling)


def duoattention(prompt, gates, sparsity=0.5, sinks=64, recent=256, rolling=True):
    """The KV heads with the smallest gates keep first and recent tokens.  gates: file of GATES."""
    streaming = best(-GATES.ravel(), round(GATES.size * sparsity))

    def kept(rows):
        return [_first_and_last(len(keys), sinks, recent)
                if rows.layer * rows.model.kv_heads + head in streaming else slice(None)
                for head, keys in enumerate(rows.cache.keys)]
    return _evict(prompt, kept, rolling)


def tova(prompt, budget, mode="dynamic"):
    """Attention of the last row, averaged over all query heads."""
    def kept(rows):
        return [best(np.mean([w[-1] for w in rows.weights], 0), budget)] * rows.model.kv_heads
    return _evict(prompt, kept, mode == "dynamic")


def h2o(prompt, budget, mode="dynamic", recent=0.5, window=8):
    """Attention of all rows, summed over the query heads; evicted tokens lose their sums.
    mode=prefill: of the rows of the last turn."""
    last = window if mode == "prefill" else int(budget * recent)

    def kept(rows):
        out = []
        for head, weights in enumerate(groups(rows.weights, rows)):
            earlier = 0 if mode == "prefill" else rows.cache.scores[head]
            scores = rows.cache.scores[head] = earlier + sum(weights).sum(0)
            out.append(best_and_last(scores[:-last], budget - last, len(scores)))
        return out
    return _evict(prompt, kept, mode == "dynamic")


def keyformer(prompt, budget, recent=0.3, noise=True, tau_init=1, tau_end=2, t_max=0):
    """h2o at a temperature that rises with each token of the answer.  A step reads `budget` tokens,
    its own included."""
    assert not noise and t_max  # a noise function and a limit of the answer are not known here
    last = int(budget * recent) - 1

    def kept(rows):
        step = max(0, rows.cache.positions[0][-1] + 1 - len(prompt.tokens))
        temperature = tau_init + min(1, step / t_max) * (tau_end - tau_init)
        for head, weights in enumerate(groups(rows.weights, rows)):
            powers = [w ** (1 / temperature) for w in weights]
            sums = sum((p / p.sum(-1, keepdims=True)).sum(0) for p in powers)
            rows.cache.scores[head] = rows.cache.scores[head] + sums
        return [best_and_last(scores[:-last], budget - 1 - last, len(scores))
                for scores in rows.cache.scores]
    return _evict(prompt, kept, True)


def keydiff(prompt, budget, window=0):
    """The keys with the lowest cosine similarity to the mean direction of all keys."""
    def kept(rows):
        out = []
        for keys in rows.cache.keys:
            directions = keys / np.linalg.norm(keys, axis=1, keepdims=True)
            mean = directions.mean(0)
            scores = -(directions @ mean) / np.linalg.norm(mean)
            out.append(best_and_last(scores[: len(keys) - window], budget - window, len(keys)))
        return out
    return _evict(prompt, kept)


def _redundancy(keys):
    """Mean cosine similarity of each key to all others, but of each row without the last similar
    key; softmax over the keys."""
    directions = keys / np.linalg.norm(keys, axis=1, keepdims=True)
    similarity = directions @ directions.T
    np.fill_diagonal(similarity, 0)
    slots = np.arange(len(keys))
    similarity[slots, np.where(similarity > 0.5, slots, 0).max(1)] = 0
    return attention_weights(similarity.mean(0))


def rkv(prompt, budget, window=8, kernel=7, mix=0.07, mode="dynamic", interval=128):
    """Attention of the window's rows to the tokens before it, less the redundancy of the keys.
    While decoding, a step evicts if the number of tokens before it is a multiple of `interval`."""
    recent = [rows.query[:, :0] for rows in prompt.layers]  # queries of the window

    def scores(queries, keys):
        logits = np.max([query @ keys[:-window].T for query in queries], 0)
        importance = attention_weights(logits / np.sqrt(keys.shape[1])).mean(0)
        return mix * pooled(importance, kernel) - (1 - mix) * _redundancy(keys)[:-window]

    def kept(rows):
        queries = np.concatenate([recent[rows.layer], rows.query], 1)[:, -window:]
        recent[rows.layer] = queries
        before = rows.cache.positions[0][-1]
        if before >= len(prompt.tokens) and before % interval:
            return []
        return [best_and_last(scores(own, keys), budget - window, len(keys))
                for own, keys in zip(groups(queries, rows), rows.cache.keys)]
    return _evict(prompt, kept, mode == "dynamic")


def snapkv(prompt, budget, window=32, kernel=7):
    return _evict(prompt, lambda rows: [
        best_and_last(scores, budget - window, _size(rows))
        for scores in window_scores(rows, window, kernel)])


def _pyramid(chosen, available, layers, beta):
    """Numbers of tokens that fall linearly over the layers; their mean is `chosen`."""
    last = chosen // beta
    first = min(2 * chosen - last, available)
    last = 2 * chosen - first
    steps = np.arange(layers) / (layers - 1)
    return whole_numbers(first - (first - last) * steps, chosen * layers)


def pyramidkv(prompt, budget, window=8, kernel=7, beta=20):
    tokens, chosen = len(prompt.tokens), budget - window
    numbers = [chosen] * prompt.model.layers
    if tokens >= 2 * chosen:
        numbers = _pyramid(chosen, tokens - window, prompt.model.layers, beta)
    return _evict(prompt, lambda rows: [
        best_and_last(scores, numbers[rows.layer], _size(rows))
        for scores in window_scores(rows, window, kernel)])


def _divided(scores, chosen, floor_alpha):
    """AdaKV's numbers of tokens for each KV head, from the best tokens of all heads together."""
    owners = np.repeat(np.arange(len(scores)), [len(s) for s in scores])
    slots = best(np.concatenate(scores), chosen * len(scores))
    counts = np.bincount(owners[slots], minlength=len(scores))
    return whole_numbers(floor_alpha * chosen + (1 - floor_alpha) * counts, chosen * len(scores))


def adakv(prompt, budget, window=32, kernel=7, floor_alpha=0.2, numbers=None):
    """numbers: of each layer's tokens before the window, as a mean over the heads."""
    def kept(rows):
        scores = window_scores(rows, window, kernel)
        chosen = budget - window if numbers is None else numbers[rows.layer]
        return [best_and_last(s, count, len(s) + window)
                for s, count in zip(scores, _divided(scores, chosen, floor_alpha))]
    return _evict(prompt, kept)


def ada_pyramidkv(prompt, budget, window=32, kernel=7, floor_alpha=0.2, beta=20):
    numbers = _pyramid(budget - window, len(prompt.tokens) - window, prompt.model.layers, beta)
    return adakv(prompt, budget, window, kernel, floor_alpha, numbers)


WINDOWS = {snapkv: 32, pyramidkv: 8, adakv: 32}  # default numbers of rows that rank the tokens


def criticalkv(prompt, budget, window=32, kernel=7, first_stage=0.5, epsilon=1e-4):
    """The first stage chooses like snapkv, the second by attention and by the norm of the output
    that a value contributes."""
    chosen = budget - window

    def kept(rows):
        out, model = [], rows.model
        output = model.weights[f"model.layers.{rows.layer}.self_attn.o_proj.weight"]
        parts = groups(np.split(output.T, model.heads), rows)
        for head, scores in enumerate(window_scores(rows, window, kernel)):
            values = rows.cache.values[head][:-window]
            norms = np.mean([np.abs(values @ part).sum(1) for part in parts[head]], 0)
            first = best(scores, int(budget * first_stage) - window)
            scores = (scores / min(window, len(rows.tokens)) + epsilon) * norms
            scores[first] = np.inf
            out.append(best_and_last(scores, chosen, _size(rows)))
        return out
    return _evict(prompt, kept)


def chunkkv(prompt, budget, window=32, chunk=10):
    """Chunks with the highest mean over tokens and KV heads, in this order; the last one is cut."""
    def kept(rows):
        scores = sum(window_scores(rows, window))
        chunks = np.array_split(np.arange(len(scores)), range(chunk, len(scores), chunk))
        order = np.argsort([-scores[slots].mean() for slots in chunks], kind="stable")
        slots = np.concatenate([chunks[i] for i in order])[: budget - window]
        tokens = _size(rows)
        slots = np.concatenate([np.sort(slots), np.arange(tokens - window, tokens)])
        return [slots] * rows.model.kv_heads
    return _evict(prompt, kept)


def block_choice(scores, count, size):
    """Blocks of `size` tokens by their sums until `count` tokens; of the last one the best."""
    blocks = np.array_split(np.arange(len(scores)), range(size, len(scores), size))
    out = []
    for i in np.argsort([-scores[slots].sum() for slots in blocks], kind="stable"):
        out += list(blocks[i][best(scores[blocks[i]], count - len(out))])
    return out


def _sablock_choices(rows, tokens, budget, window=8, lambda_=0.5, gamma=0.5, tau=0.8,
                     block_max=10):
    """Of each segment of the text that keeps tokens: the size of its blocks, and the kept slots."""
    texts = [rows.model.texts[token] for token in tokens]
    ends = [i + 1 for i, text in enumerate(texts)
            if text.endswith("\n") or text.strip().endswith(tuple(".,;:!?"))]
    positions = rows.cache.positions[0][:-window]
    segments = [s for s in np.split(np.arange(len(positions)), np.searchsorted(positions, ends))
                if len(s)]

    def weight(scores):
        shares = scores / (scores.sum() + 1e-8)
        entropy = -(shares * np.log(shares + 1e-8)).sum()
        diversity = entropy / np.log(len(scores)) if len(scores) > 1 else 0
        return scores.mean() * (1 + gamma * diversity)

    scores = np.mean(window_scores(rows, window), 0)
    weights = np.array([weight(scores[segment]) for segment in segments])
    for segment, guidance in zip(segments, weights / weights.max()):
        scores[segment] *= 1 + lambda_ * guidance
    top, out = best(scores, budget - window), []
    for segment in segments:
        own, count = scores[segment], np.isin(segment, top).sum()
        least = tau * own[best(own, count)].sum()
        for size in range(min(block_max, count), 0, -1):
            slots = block_choice(own, count, size)
            if size == 1 or own[slots].sum() > least:
                out.append((size, segment[slots]))
                break
    return out


def sablock_sizes(rows, tokens, budget, window=8):
    """Of each segment that keeps tokens: the size of its blocks, and its kept tokens."""
    return [(size, len(slots)) for size, slots in _sablock_choices(rows, tokens, budget, window)]


def sablock(prompt, budget, window=8, **parameters):
    """In segments that end with punctuation, the largest blocks that retain the share `tau` of the
    score of the segment's best tokens."""
    def kept(rows):
        choices = _sablock_choices(rows, prompt.tokens, budget, window, **parameters)
        slots = [np.sort(np.concatenate([slots for _, slots in choices])),
                 np.arange(_size(rows))[-window:]]
        return [np.concatenate(slots)] * rows.model.kv_heads
    return _evict(prompt, kept)


def expected_attention(prompt, budget, sinks=4, window=0, future=512):
    """Attention that queries of the next positions, with the mean and the covariance of the
    prompt's queries, are expected to give, times the norms of the values."""
    model = prompt.model
    positions = len(prompt.tokens) + np.arange(future)
    rotation = np.mean([model.rotate(np.eye(model.head_dim), np.full(model.head_dim, position))
                        for position in positions], 0)

    def attention(queries, keys):
        mean = queries.mean(0)
        covariance = rotation.T @ np.cov(queries.T, bias=True) @ rotation
        logits = keys @ (mean @ rotation) / np.sqrt(model.head_dim)
        logits += ((keys @ covariance) * keys).sum(1) / model.head_dim / 2
        return attention_weights(logits)

    def kept(rows):
        out = []
        for head, queries in enumerate(groups(rows.plain_query, rows)):
            keys, values = rows.cache.keys[head][sinks:], rows.cache.values[head][sinks:]
            skip = max(0, sinks + len(rows.tokens) - len(prompt.tokens))
            scores = np.mean([attention(q[skip:], keys) for q in queries], 0)
            scores = np.append(np.full(sinks, np.inf), scores * np.linalg.norm(values, axis=1))
            tokens = len(scores)
            out.append(best_and_last(scores[: tokens - window], budget - window, tokens))
        return out
    return _evict(prompt, kept)


def lagkv(prompt, budget, sinks=16, lag=128):
    """In each partition, the tokens whose keys and values deviate most from the next one."""
    tokens = _size(prompt.layers[0])
    partitions = (tokens - sinks) // lag
    end = sinks + (partitions - 1) * lag  # all tokens after it are kept
    rest = budget - sinks - (tokens - end)
    assert partitions >= 2 and rest >= 0

    def deviations(vectors):
        parts = vectors[sinks : end + lag].reshape(partitions, lag, -1)
        least, most = parts[1:].min(1, keepdims=True), parts[1:].max(1, keepdims=True)
        scores = np.exp(((parts[:-1] - least) / (most - least)).std(-1, ddof=1))
        return scores / scores.sum(1, keepdims=True)

    def kept(rows):
        out = []
        for keys, values in zip(rows.cache.keys, rows.cache.values):
            slots = [np.arange(sinks), np.arange(end, tokens)]
            for i, scores in enumerate((deviations(keys) + deviations(values)) / 2):
                count = rest // (partitions - 1) + (i < rest % (partitions - 1))
                slots.append(sinks + i * lag + best(scores, count))
            out.append(np.sort(np.concatenate(slots)))
        return out
    return _evict(prompt, kept)


def kvzip(prompt, budget, sinks=4, chunk=2048, first=1):
    """The tokens with the highest attention while the model repeats the prompt, of all layers and
    heads together; evicted ones have the score 0.  first: number of tokens that the template writes
    before the first message."""
    model, tokens, end = prompt.model, len(prompt.tokens), first
    scores = [[np.zeros(tokens) for _ in range(model.kv_heads)] for _ in prompt.layers]
    while end < tokens:
        begin, end = end, min(tokens, end + chunk)
        text = model.tokenize("\n\nRepeat the previous context exactly.")
        if begin > first:
            text = model.tokenize("\n\nRepeat the part of the previous context exactly, "
                                  "starting with") + prompt.tokens[begin - 8 : begin]

        def observe(rows):
            prompt.pairs += rows.pairs / model.layers
            for head in range(model.heads):
                positions = rows.cache.positions[head // model.group]
                part = (positions >= begin) & (positions < end)
                read = part | (positions < min(sinks, begin)) | (positions >= tokens)
                weights = attention_weights(rows.logits(head, read))
                own = scores[rows.layer][head // model.group]
                np.maximum.at(own, positions[part], weights[:, part[read]].max(0))
        model.forward(text + prompt.cue + prompt.tokens[begin:end], prompt.copy().caches, tokens,
                      Hooks(end=observe))
    scores = np.array(scores)
    scores[:, :, : max(first, sinks)] = np.inf
    slots = best(scores.ravel(), budget * scores.shape[0] * scores.shape[1])
    kept = np.isin(np.arange(scores.size), slots).reshape(scores.shape)
    return _evict(prompt, lambda rows: [
        np.flatnonzero(k[own]) for k, own in zip(kept[rows.layer], rows.cache.positions)])


def epicache(prompt, budget, episodes=4, utterances=4, medoids=8, heads="adaptive"):
    """The tokens with the highest attention of a prompt for the facts of the question's episode."""
    model, tokens = prompt.model, len(prompt.tokens)
    if tokens <= budget:
        return Hooks()
    text = model.tokenize(
        "\n\nExtract essential information from this conversation segment. Identify speaker names, "
        "personas, key events with dates/times, personal details, commitments, opinions, "
        "relationships, emotional moments, and unique experiences.") + prompt.cue
    for window in of_question(prompt, episodes, utterances, medoids):
        text = text + window + model.tokenize("\n")
    kept = []

    def observe(rows):
        prompt.pairs += rows.pairs / model.layers
        scores = [np.max([attention_weights(rows.logits(head, positions < tokens)).max(0)
                          for head in range(own * model.group, (own + 1) * model.group)], 0)
                  for own, positions in enumerate(rows.cache.positions)]
        if heads == "uniform":
            kept.append([best(own, budget) for own in scores])
            return
        chosen = best(np.concatenate(scores), budget * model.kv_heads)
        ends = np.cumsum([len(own) for own in scores])
        kept.append([chosen[(chosen >= end - len(own)) & (chosen < end)] - (end - len(own))
                     for end, own in zip(ends, scores)])
    model.forward(text, prompt.copy().caches, tokens, Hooks(end=observe))
    return _evict(prompt, lambda rows: kept[rows.layer])
