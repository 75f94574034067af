"""A turn of a dialogue, and what a method changes in it."""

import numpy as np

import evictions
from model import Hooks, Prompt
from ranking import groups

ANSWER_TOKENS = 4  # of the model's own answers


class Turn:
    """The last turn of a prompt.  turns: begin and end of the text of each turn, without the
    answer; question: the token at which the question begins."""

    def __init__(self, model, dialogue, tokens, turns, question, answer, stop):
        self.model, self.tokens, self.turns, self.answer = model, tokens, turns, answer
        self.stop, self.cue = stop, tokens[-2:]
        (newline,) = model.tokenize("\n")
        self.asked = tokens[question : tokens.index(newline, question + 1)]
        self.whole = Prompt(model, tokens, self.cue, dialogue=dialogue, asked=self.asked)
        self.to_question = Prompt(model, tokens[:question], self.cue, dialogue=dialogue,
                                  asked=self.asked)
        self.full = self._answer(self.whole.copy(), Hooks())

    def measure(self, method):
        """KL divergence and counters by their names in the store."""
        prompt, hooks, pairs = self._prompt(method)
        out = {"kv_tokens": np.mean([len(keys) for c in prompt.caches for keys in c.keys])}
        if method.codec:
            out["kv_bytes"] = method.codec.bytes(prompt)
        own = self._answer(prompt.copy(), hooks)
        out["kl"] = (np.exp(self.full) * (self.full - own)).sum(-1).mean()
        if pairs:
            out["prefill_pairs_share"] = np.mean(pairs)
        if hooks.select or hooks.end or hooks.logits or method.history:
            if hooks != Hooks():  # they have seen the answer
                prompt, hooks, _ = self._prompt(method)
            out["attended_tokens"] = self._reads(prompt, hooks)
        return out

    def _before(self, method):
        """The prompt of the previous turn, if its caches are continued."""
        return None

    def _computed(self, method):
        """The prompt before the method evicts at its end."""
        whole = self.to_question if method.before_question else self.whole
        return self._in_blocks(method, whole.tokens) if method.block else whole.copy()

    def _in_blocks(self, method, tokens):
        """A prompt that a method computes in blocks of tokens, with an eviction after each block but
        the last.  A window of rows may begin in an earlier block."""
        prompt = before = self._before(method)
        first = len(before.tokens) if before else 0
        for end in [*range(first + method.block, len(tokens), method.block), len(tokens)]:
            earlier = prompt.layers if prompt is not before else None
            prompt = Prompt(self.model, tokens[:end], self.cue, before=prompt, text=tokens,
                            asked=self.asked)
            window = evictions.WINDOWS.get(method.function)
            if earlier and window:
                prompt.layers = [rows.behind(others, window)
                                 for rows, others in zip(prompt.layers, earlier)]
            if end < len(tokens):
                self._apply(method, prompt)
        return prompt

    def _share_of_pairs(self, method, prompt):
        """Of the pairs of this turn's rows, those that are computed."""
        tokens, before = len(self.tokens), self._before(method)
        first = len(before.tokens) if before else 0
        causal = (tokens * (tokens + 1) - first * (first + 1)) / 2
        return (prompt.pairs - (before.pairs if before else 0)) / causal

    def _apply(self, method, argument):
        return method.function(argument, **method.parameters)

    def _prompt(self, method):
        """The prompt with the tokens that a method keeps, as they are stored, the hooks for its
        answer, and the shares of pairs that its layers compute."""
        prompt, hooks, pairs = self._chosen(method)
        if method.block:
            pairs = [self._share_of_pairs(method, prompt)]
        return prompt, method.codec.apply(prompt, hooks) if method.codec else hooks, pairs

    def _chosen(self, method):
        if method.prefill:
            hooks, pairs = self._apply(method, self.turns), []
            first = self.turns[-2][1] if method.continues and len(self.turns) > 1 else 0
            causal = np.tri(len(self.tokens), dtype=bool)[first:]

            def counted(computed):
                pairs.append(np.mean([c[first - len(self.tokens) :] & causal for c in computed])
                             / np.mean(causal))

            def mask(rows):
                masks = hooks.mask(rows)
                counted([np.ones(causal.shape, bool)] if masks is None else masks)
                return masks

            def logits(rows):
                out = hooks.logits(rows)
                counted(np.isfinite(out))
                return out
            own = Hooks(hooks.mask and mask, logits=hooks.logits and logits)
            prompt = Prompt(self.model, self.tokens, self.cue, own, before=self._before(method))
            return prompt, hooks._replace(mask=None), pairs
        prompt = self._computed(method)
        begin, hooks = len(prompt.tokens), Hooks()
        if method.always or begin > method.parameters.get("budget", 0):  # else all are read
            hooks = self._apply(method, prompt)
        if begin < len(self.tokens):
            if method.codec:
                method.codec.apply(prompt, Hooks())
            prompt = Prompt(self.model, self.tokens, self.cue, before=prompt)
        return prompt, hooks, []

    def _answer(self, prompt, hooks):
        """Log-probabilities of each token of the reference answer."""
        tokens, begin = self.answer[:-1], len(self.tokens)
        passes = [[token] for token in tokens] if hooks != Hooks() else [tokens]
        out = [prompt.last]
        for tokens in passes:
            out.append(self.model.forward(tokens, prompt.caches, begin, hooks))
            begin += len(tokens)
        return np.concatenate(out)

    def _reads(self, prompt, hooks):
        """Tokens that a KV head reads, as a mean over the steps of the model's own answer; None
        without a step."""
        counts, last, begin = [], prompt.last, len(self.tokens)

        def select(rows):
            slots = hooks.select(rows) if hooks.select else None
            for head, keys in enumerate(rows.cache.keys):
                own = slots and groups(slots, rows)[head]
                counts.append(len(np.unique(np.concatenate(own))) if own else len(keys))
            return slots

        def logits(rows):
            out = hooks.logits(rows)
            counts.extend(np.isfinite(own).any(0).sum() for own in groups(out[:, -1], rows))
            return out
        counting = hooks._replace(logits=logits) if hooks.logits else hooks._replace(select=select)
        for position in range(begin, begin + ANSWER_TOKENS - 1):
            token = int(last[-1].argmax())
            if token == self.stop:
                break
            last = self.model.forward([token], prompt.caches, position, counting)
        return np.mean(counts) if counts else None
