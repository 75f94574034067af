"""Turns that continue the caches of the turn before: history=recompress and compress_once."""

from model import Hooks, Prompt
from prefills import round_
from selections import rocketkv
from turn import Turn


def full(prompt):
    return Hooks()


class KeptTurn(Turn):
    """A turn whose rows read the tokens that a method kept at the end of the previous prompt.  The
    reference answer to the previous turn is computed with the prompt of this one."""

    def __init__(self, previous, *arguments):
        super().__init__(*arguments)
        self.previous = previous
        self.computed, self.kept = {}, {}  # the prompt of each method before and after its eviction
        self.read = previous.read if previous else {}  # of round: what each turn reads

    def _before(self, method):
        return self.previous and self.previous.kept[method.label]

    def _computed(self, method):
        if method.label not in self.computed:
            computed = super()._computed(method)
            if self.previous and not method.block:
                computed = Prompt(self.model, computed.tokens, self.cue,
                                  before=self._before(method), asked=self.asked)
            self.computed[method.label] = computed
        return self.computed[method.label].copy()

    def _apply(self, method, argument):
        """compress_once evicts after the first prompt only.  A budget that is a share refers to all
        tokens of the dialogue, evicted or not."""
        parameters, once = dict(method.parameters), method.evicts and method.history != "recompress"
        if once and self.previous:
            return Hooks()
        if method.function is round_:
            parameters["read"] = self.read.setdefault(method.label, {})
        elif method.function is rocketkv:  # divides its budget itself
            parameters["evicts"] = not self.previous or method.history == "recompress"
        elif 0 < parameters.get("budget", 0) < 1:
            parameters["budget"] = int(parameters["budget"] * len(argument.tokens))
        hooks = method.function(argument, **parameters)
        return Hooks() if once else hooks

    def _prompt(self, method):
        prompt, hooks, pairs = super()._prompt(method)
        self.kept[method.label] = prompt.copy()
        return prompt, hooks, pairs or [self._share_of_pairs(method, prompt)]
