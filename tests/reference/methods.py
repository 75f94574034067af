"""The compared methods with their settings."""

import typing

import cache_codec as k
import clusters as c
import evictions as e
import histories as h
import prefills as p
import selections as s


def written(function, parameters, more=()):
    """As a manifest names a method or a probe."""
    values = [f"{name.strip('_')}={str(value).lower()}" for name, value in parameters.items()]
    name = function.__name__.strip("_").replace("_", "-")
    return f"{name}:{','.join([*values, *more])}".strip(":")


class Method(typing.NamedTuple):
    function: typing.Callable
    parameters: dict
    before_question: bool = False
    history: str = None  # None: reprefill
    codec: k.Kivi = None
    block: int = 0  # tokens of a prompt between evictions; 0: no blocks

    @property
    def evicts(self):
        return self.function.__module__ == e.__name__

    @property
    def prefill(self):
        return self.function.__module__ == p.__name__

    @property
    def continues(self):
        """The prefill computes the rows after the previous prompt only."""
        return self.history or self.function in (p.a_shape, p.round_, p.loopserve_prefill,
                                                 p.loopserve)

    @property
    def always(self):
        """The method is applied even if the budget is not smaller than the prompt."""
        return self.function is s.rocketkv

    @property
    def text(self):
        more = ["compress=before_question"] if self.before_question else []
        more += [f"compress_block={self.block}"] if self.block else []
        own = written(self.function, self.parameters, more)
        if not self.codec:
            return own
        return self.codec.text if self.function is h.full else f"{own}+{self.codec.text}"

    @property
    def label(self):
        return f"{self.text}, {self.history}" if self.history else self.text


_EVICTIONS = [
    Method(e.duoattention, dict(gates="gates.tsv", sinks=4, recent=60, rolling=False)),
    Method(e.streamingllm, dict(budget=64, rolling=False)),
    Method(e.tova, dict(budget=64, mode="prefill")),
    Method(e.h2o, dict(budget=64, mode="prefill")),
    Method(e.keydiff, dict(budget=96)),
    Method(e.rkv, dict(budget=96, mode="prefill")),
    Method(e.rkv, dict(budget=64, mix=0.5, kernel=1, window=16, mode="prefill")),
    Method(e.snapkv, dict(budget=96)),
    Method(e.pyramidkv, dict(budget=96)),
    Method(e.adakv, dict(budget=64)),
    Method(e.ada_pyramidkv, dict(budget=96)),
    Method(e.criticalkv, dict(budget=96)),
    Method(e.chunkkv, dict(budget=64)),
    Method(e.sablock, dict(budget=64)),
    Method(e.expected_attention, dict(budget=64)),
    Method(e.lagkv, dict(budget=64, lag=8)),
    Method(e.kvzip, dict(budget=96, chunk=100)),
    Method(e.epicache, dict(budget=64)),
    Method(e.epicache, dict(budget=64, episodes=3, utterances=1, medoids=2, heads="uniform")),
    Method(s.rocketkv, dict(budget=64, answer=8)),
    Method(s.rocketkv, dict(budget=0.2, window=8, kernel=7, answer=8)),
]
_OTHERS = [
    Method(e.duoattention, dict(gates="gates.tsv", sinks=4, recent=60)),
    Method(e.streamingllm, dict(budget=64)),
    Method(e.tova, dict(budget=64)),
    Method(e.h2o, dict(budget=64)),
    Method(e.keyformer, dict(budget=64, noise=False, t_max=10)),
    Method(e.rkv, dict(budget=96)),
    Method(e.rkv, dict(budget=64, mix=0.5, interval=2)),
    Method(e.rkv, dict(budget=80, window=4, kernel=3, interval=4)),
    Method(e.rkv, dict(budget=96, mix=0.03, kernel=1, mode="prefill")),
    Method(s.quest, dict(budget=64, page=8)),
    Method(s.oracle, dict(budget=64, sinks=4)),
    Method(s.sparq, dict(budget=64, r=8)),
    Method(s.specontext_self, dict(budget=64)),
    Method(s.omnikv, dict(budget=64, filters="1", wait=0)),
    Method(s.omnikv, dict(budget=48, filters="0/2", wait=0, score="softmax", level="head")),
    Method(s.omnikv, dict(budget=56, filters="0", wait=1, score="softmax")),
    Method(s.kascade_decode, dict(budget=56, anchors="0/1")),
    Method(s.kascade_decode, dict(budget=64, anchors="0/1/3", dense_layers=0)),
    Method(s.kascade_decode, dict(budget=48, map="anchors.json")),
    Method(s.loopserve_decode, dict(budget=64, first=2, n_d=3)),
    Method(s.shadowkv, dict(budget=64, rank=32, outliers=2)),
    Method(s.sentencekv, dict(budget=34, sinks=4, recent=8)),
    Method(s.rocketkv, dict(budget=64)),
    Method(s.rocketkv, dict(budget=33, answer=4)),
    Method(s.rocketkv, dict(budget=16, window=4, kernel=5, answer=8)),
    Method(s.rocketkv, dict(budget=48, kept=80, page=7, r=5)),
    Method(s.rocketkv, dict(budget=64, kept=200)),
    Method(s.rocketkv, dict(budget=131, kept=80, page=5, answer=8)),
    Method(p.a_shape, dict(n_init=4, n_local=64)),
    Method(p.tri_shape, dict(n_init=4, n_local=64, n_last=50)),
    Method(p.minference, dict(vertical=40, slash=120)),
    Method(p.flexprefill, dict(min_budget=64, block=64)),
    Method(p.xattention, dict(gamma=0.7, stride=8, block=64)),
    Method(p.critiprefill, dict(budget=16, segment=64, block=4, threshold=128)),
    Method(p.round_, dict()),
    Method(s.specontext, dict(budget=32, head="tiny", feat="prev")),
    Method(s.specontext, dict(budget=64, head="tiny", sinks=4, level="batch", n_max=2048)),
    Method(c.clusterkv, dict(budget=16, cluster_tokens=1, sinks=2, iterations=2, window=5,
                             window_clusters=1)),
    Method(c.clusterkv, dict(budget=64, nlist=1, sinks=4, window=3, window_clusters=1)),
    Method(c.clusterkv, dict(budget=32, sinks=4, cluster_tokens=16)),
    Method(c.pqcache, dict(budget=24, sinks=4, b=3)),
    Method(c.pqcache, dict(budget=24, sinks=4, b=4, m=4, local=0.25, max_iter=2)),
    Method(p.infllm, dict(budget=64, init=4, block=12, exc=20)),
    Method(p.loopserve_prefill, dict(samples=4096, alpha=0.8)),
    Method(p.loopserve, dict(samples=4096, alpha=0.3, budget=64, first=2, n_d=3)),
]
_ONCE = [
    Method(e.streamingllm, dict(budget=64)),
    Method(e.snapkv, dict(budget=0.4)),
    Method(e.snapkv, dict(budget=96), before_question=True),
    Method(e.h2o, dict(budget=64)),
    Method(e.tova, dict(budget=64)),
    Method(e.rkv, dict(budget=64, mix=0.3, interval=2)),
    Method(e.adakv, dict(budget=64)),
    Method(p.round_, dict()),
    Method(s.rocketkv, dict(budget=64, answer=8)),
    Method(s.rocketkv, dict(budget=0.25, window=8, answer=8), before_question=True),
]
_KEPT = _ONCE + [
    Method(h.full, dict()),
    Method(e.duoattention, dict(gates="gates.tsv", sinks=4, recent=60)),
    Method(e.streamingllm, dict(budget=64, rolling=False)),
    Method(e.h2o, dict(budget=64, mode="prefill")),
    Method(e.keyformer, dict(budget=64, noise=False, t_max=10)),
    Method(e.keydiff, dict(budget=96)),
    Method(e.rkv, dict(budget=0.4)),
    Method(e.rkv, dict(budget=96, mode="prefill"), before_question=True),
    Method(e.pyramidkv, dict(budget=0.4)),
    Method(e.ada_pyramidkv, dict(budget=0.6)),
    Method(e.criticalkv, dict(budget=96), before_question=True),
    Method(e.chunkkv, dict(budget=64)),
    Method(e.sablock, dict(budget=64)),
    Method(e.expected_attention, dict(budget=64)),
    Method(e.lagkv, dict(budget=64, lag=8)),
    Method(e.kvzip, dict(budget=96, chunk=100)),
    Method(e.epicache, dict(budget=64)),
    Method(s.quest, dict(budget=0.25, page=8)),
    Method(s.sentencekv, dict(budget=34, sinks=4, recent=8)),
    Method(s.specontext, dict(budget=64, head="tiny", sinks=4, level="batch", n_max=2048)),
    Method(p.tri_shape, dict(n_init=4, n_local=64, n_last=50)),
    Method(p.minference, dict(vertical=40, slash=120)),
    Method(p.loopserve, dict(samples=4096, alpha=0.3, budget=64, first=2, n_d=3)),
]
_FULL = Method(h.full, dict())
_CODECS = [  # with settings in which no single rounding decides
    _FULL._replace(codec=k.Kivi()),
    _FULL._replace(codec=k.Kivi(residual=32)),
    _FULL._replace(codec=k.Kivi(group=16, residual=32)),
    Method(e.snapkv, dict(budget=96), codec=k.Kivi(bits=4, residual=32)),
    Method(e.snapkv, dict(budget=96), codec=k.Kivi(bits=4, residual=32), before_question=True),
    Method(e.adakv, dict(budget=64), codec=k.Kivi(bits=4, group=16, residual=16)),
    Method(s.oracle, dict(budget=64, sinks=4), codec=k.Kivi(residual=32)),
]
_KEPT_CODECS = [
    _FULL._replace(codec=k.Kivi(group=16, residual=32)),
    Method(e.snapkv, dict(budget=80), codec=k.Kivi(residual=32)),
]
_BLOCKS = [  # the last block has any number of tokens
    Method(e.streamingllm, dict(budget=64, rolling=False), block=100),
    Method(e.tova, dict(budget=64, mode="prefill"), block=50),
    Method(e.h2o, dict(budget=64, mode="prefill"), block=100),
    Method(e.keydiff, dict(budget=96), block=100),
    Method(e.snapkv, dict(budget=96), block=100),
    Method(e.pyramidkv, dict(budget=96), block=100),
    Method(e.adakv, dict(budget=64), block=70),
    Method(e.lagkv, dict(budget=64, lag=8), block=100),
    Method(e.epicache, dict(budget=64, episodes=3, utterances=1, medoids=2), block=100),
]
METHODS = _EVICTIONS + [m._replace(before_question=True) for m in _EVICTIONS] + _OTHERS
METHODS += _CODECS + _BLOCKS + [m._replace(before_question=True) for m in _BLOCKS]
METHODS += [m._replace(history="compress_once") for m in _ONCE + _KEPT_CODECS]
METHODS += [m._replace(history="recompress") for m in _KEPT + _KEPT_CODECS]
METHODS += [m._replace(history="recompress") for m in _CODECS + _BLOCKS if m.evicts]
