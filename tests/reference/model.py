"""A Llama model in float64, written from the definition of the architecture, and the interface
of methods to its passes.

No code is shared with turnbench.  Keys are cached after RoPE, one array for each KV head.
"""

import json
import struct
import typing

import numpy as np

_LEAST_WEIGHT = np.exp(-87)  # turnbench's statistics set smaller attention weights to 0


def read_safetensors(path):
    """Tensors of a file, by name, in float64."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        dtype = {"F16": np.float16, "F32": np.float32, "BF16": np.uint16}[entry["dtype"]]
        values = np.frombuffer(data[begin:end], dtype)
        if dtype == np.uint16:  # the upper halves of float32
            values = (values.astype(np.uint32) << 16).view(np.float32)
        tensors[name] = values.reshape(entry["shape"]).astype(np.float64)
    return tensors


def log_softmax(logits):
    """Of the last dimension."""
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def attention_weights(logits):
    """softmax over the last dimension; masked logits are -inf."""
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    weights[weights < _LEAST_WEIGHT] = 0
    return weights


class Cache:
    """Keys and values of one layer: for each KV head [tokens, head_dim], the positions, scores of
    the tokens for methods that need them later, and how many keys and values a codec has encoded."""

    def __init__(self, kv_heads, head_dim):
        self.keys = [np.zeros((0, head_dim))] * kv_heads
        self.values = [np.zeros((0, head_dim))] * kv_heads
        self.positions = [np.zeros(0, int)] * kv_heads
        self.scores = [np.zeros(0)] * kv_heads
        self.encoded = [(0, 0)] * kv_heads

    def append(self, head, keys, values, positions, store=None):
        if store:
            keys, values = store(keys), store(values)
        self.keys[head] = np.concatenate([self.keys[head], keys])
        self.values[head] = np.concatenate([self.values[head], values])
        self.positions[head] = np.concatenate([self.positions[head], positions])
        self.scores[head] = np.concatenate([self.scores[head], np.zeros(len(keys))])

    def keep(self, head, slots):
        for part in (self.keys, self.values, self.positions, self.scores):
            part[head] = part[head][slots]
        self.encoded[head] = 0, 0  # the groups change

    def copy(self):
        out = Cache(0, 0)
        out.keys, out.values = list(self.keys), list(self.values)
        out.positions, out.scores = list(self.positions), list(self.scores)
        out.encoded = list(self.encoded)
        return out


class Rows(typing.NamedTuple):
    """The rows of a pass in one layer.  The cache contains them."""
    model: "Model"
    layer: int
    tokens: list
    cache: Cache
    plain_query: np.ndarray  # [heads, rows, head_dim], before RoPE
    query: np.ndarray        # after RoPE
    hidden: np.ndarray       # [rows, width], before the layer
    weights: list = None     # after the attention: for each query head [rows, cached tokens]

    @property
    def pairs(self):
        """Number of pairs of a row and a token that is cached before it, or itself, as a mean over
        the heads."""
        rows = len(self.tokens)
        return rows * np.mean([w.shape[1] for w in self.weights]) - rows * (rows - 1) / 2

    def behind(self, others, count):
        """These rows, and the last `count` of a pass before it, as if one pass had computed all."""
        both = self._replace(query=np.concatenate([others.query[:, -count:], self.query], 1))
        return both._replace(weights=[attention_weights(both.logits(head))
                                      for head in range(self.model.heads)])

    def logits(self, head, slots=slice(None)):
        """Of a query head, for each row; those of later tokens are -inf."""
        own = head // self.model.group
        logits = self.query[head] @ self.cache.keys[own][slots].T / np.sqrt(self.model.head_dim)
        positions = self.cache.positions[own]
        rows = positions[-1] - np.arange(self.query.shape[1])[::-1]
        return np.where(positions[slots] <= rows[:, None], logits, -np.inf)


class Hooks(typing.NamedTuple):
    """What a method does in the passes of a model; each function takes Rows."""
    mask: typing.Callable = None    # for each query head: which [row, cached token] it computes
    select: typing.Callable = None  # of one row, for each query head: the slots that it reads
    end: typing.Callable = None     # after the attention of a layer
    logits: typing.Callable = None  # for each query head: [row, cached token], instead of q k
    store: typing.Callable = None   # what a cache stores of keys or values [rows, head_dim]


def attend(rows, hooks):
    """Weights and outputs of the query heads: [rows, read tokens] and [rows, head_dim]."""
    masks = hooks.mask(rows) if hooks.mask else None
    slots = hooks.select(rows) if hooks.select else None
    own = hooks.logits(rows) if hooks.logits else None
    weights, outputs = [], []
    for head in range(rows.model.heads):
        read = slice(None) if slots is None else slots[head]
        logits = rows.logits(head, read) if own is None else own[head]
        if masks is not None:
            logits = np.where(masks[head], logits, -np.inf)
        weights.append(attention_weights(logits))
        outputs.append(weights[-1] @ rows.cache.values[head // rows.model.group][read])
    return weights, outputs


class Model:
    def __init__(self, directory, tokenize):
        """tokenize(text): its tokens."""
        self.tokenize = tokenize
        config = json.loads((directory / "config.json").read_text())
        self.layers = config["num_hidden_layers"]
        self.heads = config["num_attention_heads"]
        self.kv_heads = config["num_key_value_heads"]
        self.head_dim = config.get("head_dim") or config["hidden_size"] // self.heads
        self.epsilon = config["rms_norm_eps"]
        exponents = np.arange(0, self.head_dim, 2) / self.head_dim
        self.frequencies = config["rope_theta"] ** -exponents
        self.directory = directory
        self.weights = read_safetensors(directory / "model.safetensors")
        tokenizer = json.loads((directory / "tokenizer.json").read_text())
        self.texts = {token: text.replace("Ġ", " ").replace("Ċ", "\n")
                      for text, token in tokenizer["model"]["vocab"].items()}
        self.texts.update({entry["id"]: entry["content"] for entry in tokenizer["added_tokens"]})

    @property
    def group(self):
        """Query heads of a KV head."""
        return self.heads // self.kv_heads

    def caches(self):
        return [Cache(self.kv_heads, self.head_dim) for _ in range(self.layers)]

    def _norm(self, x, name):
        scale = np.sqrt((x * x).mean(-1, keepdims=True) + self.epsilon)
        return x / scale * self.weights[name + ".weight"]

    def _linear(self, x, name):
        return x @ self.weights[name + ".weight"].T

    def rotate(self, x, positions, frequencies=None):
        """RoPE.  x: [..., rows, head_dim]; frequencies: by default the model's."""
        angles = positions[:, None] * (self.frequencies if frequencies is None else frequencies)
        first, second = np.split(x, 2, -1)
        return np.concatenate(
            [first * np.cos(angles) - second * np.sin(angles),
             second * np.cos(angles) + first * np.sin(angles)], -1)

    def forward(self, tokens, caches, begin, hooks=Hooks()):
        """Log-probabilities [rows, vocabulary] after each token.  begin: position of the first
        token.  A mask or a selection can be None: all tokens."""
        positions = begin + np.arange(len(tokens))
        x = self.weights["model.embed_tokens.weight"][np.asarray(tokens)]
        for layer, cache in enumerate(caches):
            name = f"model.layers.{layer}"
            h = self._norm(x, name + ".input_layernorm")
            plain, key, value = (
                self._linear(h, f"{name}.self_attn.{part}_proj")
                .reshape(len(tokens), -1, self.head_dim).transpose(1, 0, 2) for part in "qkv")
            key = self.rotate(key, positions)
            for head in range(self.kv_heads):
                cache.append(head, key[head], value[head], positions, hooks.store)
            rows = Rows(self, layer, tokens, cache, plain, self.rotate(plain, positions), x)
            weights, outputs = attend(rows, hooks)
            x = x + self._linear(np.concatenate(outputs, -1), f"{name}.self_attn.o_proj")
            if hooks.end:
                hooks.end(rows._replace(weights=weights))
            h = self._norm(x, name + ".post_attention_layernorm")
            gate = self._linear(h, name + ".mlp.gate_proj")
            x = x + self._linear(
                gate / (1 + np.exp(-gate)) * self._linear(h, name + ".mlp.up_proj"),
                name + ".mlp.down_proj")
        x = self._norm(x, "model.norm")
        return log_softmax(x @ self.weights["model.embed_tokens.weight"].T)


class Prompt:
    """A computed prompt: `layers`, the Rows of each layer; `last`, the log-probabilities after its
    last token.  cue: the text at the end of the complete prompt, as tokens.  dialogue: its id.
    before: a prompt with which `tokens` begin, whose caches are continued.  text: all tokens that
    the turn computes before it evicts for the last time.  asked: its question.  pairs: of rows and
    cached tokens, as a mean over layers and KV heads."""

    def __init__(self, model, tokens, cue, hooks=Hooks(), dialogue="", before=None, text=None,
                 asked=None):
        self.model, self.tokens, self.cue, self.layers = model, tokens, cue, []
        self.text, self.asked = text or tokens, asked
        self.dialogue = dialogue
        first = len(before.tokens) if before else 0
        caches = before.copy().caches if before else model.caches()
        self.last = model.forward(tokens[first:], caches, first,
                                  hooks._replace(end=self.layers.append))[-1:]
        self.pairs = np.mean([rows.pairs for rows in self.layers]) + (before.pairs if before else 0)

    def copy(self):
        out = Prompt.__new__(Prompt)
        vars(out).update(vars(self))
        out.layers = [rows._replace(cache=rows.cache.copy()) for rows in self.layers]
        return out

    @property
    def caches(self):
        return [rows.cache for rows in self.layers]
