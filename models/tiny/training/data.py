"""Training sequences of the tiny model: dialogues in its own chat format, supervised densely.

A sequence is one dialogue.  A turn is paragraphs of facts and filler with one numbered question at
the beginning, in the middle or at the end, then the cue of the same number and the answer.  To get
more signal from each token, some turns are followed by immediate question-answer pairs.

    <bos> [\n paragraph]* \n<q3> question? [\n paragraph]* \n<a3> answer.<eos> ...

Fact kinds: attribute (`the color of alice is red blue.`), relation (`the friend of alice is bob.`),
schedule (one attribute per weekday, asked for as a whole), label (`the label of quiet river is
beta.`: the label depends on the noun alone and is asked for with an unseen adjective).
"""
import json
import pathlib
import random

import numpy as np

MODEL = pathlib.Path(__file__).resolve().parent.parent
LEXICON = json.loads((MODEL / "lexicon.json").read_text())
_TOKENIZER = json.loads((MODEL / "tokenizer.json").read_text())
VOCAB = dict(_TOKENIZER["model"]["vocab"])
VOCAB.update({t["content"]: t["id"] for t in _TOKENIZER["added_tokens"]})
VOCAB_SIZE = len(VOCAB)
NUM_CUES = 16

OTHER, ANSWER, REPEAT, LEAD = 0, 1, 2, 3  # what a predicted token is, for its loss weight
LEAD_TOKENS = 6  # of an answer: they restate the question, so they tell which one it answers


def word(w):
    return VOCAB["Ġ" + w]


NAMES, ATTRS, RELS, DAYS, VALUES, LABELS, ADJS, NOUNS, VERBS, ADVS, PREPS = (
    [word(w) for w in LEXICON[k]]
    for k in ("names", "attributes", "relations", "days", "values", "labels", "adjectives",
              "nouns", "verbs", "adverbs", "prepositions"))
THE, A, OF, IS, WAS, AND, VERY, WHAT, FOR, LABEL, WEEK = (
    word(w) for w in "the a of is was and very what for label week".split())
DOT, COMMA, ASK, NEWLINE = (VOCAB[c] for c in (".", ",", "?", "Ċ"))
BOS, EOS = VOCAB["<bos>"], VOCAB["<eos>"]
QUESTION = [VOCAB[f"<q{i}>"] for i in range(1, NUM_CUES + 1)]
CUE = [VOCAB[f"<a{i}>"] for i in range(1, NUM_CUES + 1)]


class World:
    """The facts of one dialogue: each key is used once, so every question has one answer."""

    def __init__(self, rng, num_names):
        self.rng = rng
        self.names = rng.sample(NAMES, num_names)
        self.facts = {}      # (attribute or day, name) -> value tokens
        self.relations = {}  # (relation, name) -> name
        self.labels = {}     # noun -> label
        self.examples = set()  # (adjective, noun) shown
        self.weeks = []      # names with a full schedule
        self.attributed = []  # names with at least one attribute fact
        self.attribute_keys = []  # keys of self.facts that are attributes

    def attribute(self, value_lengths=(2, 2, 3, 3, 4), name=None):
        r = self.rng
        for _ in range(20):
            key = (r.choice(ATTRS), name if name is not None else r.choice(self.names))
            if key not in self.facts:
                break
        else:
            return []
        self.facts[key] = [r.choice(VALUES) for _ in range(r.choice(value_lengths))]
        self.attributed.append(key[1])
        self.attribute_keys.append(key)
        return [[THE, key[0], OF, key[1], IS, *self.facts[key], DOT]]

    def relation(self):
        """A relation, and an attribute of the related person so that it can be asked about."""
        r = self.rng
        for _ in range(20):
            key = (r.choice(RELS), r.choice(self.names))
            if key not in self.relations:
                break
        else:
            return []
        out = []
        if not self.attributed or r.random() < 0.5:
            out = self.attribute()
        if not self.attributed:
            return out
        other = r.choice(self.attributed)
        if other == key[1]:
            return out
        self.relations[key] = other
        return out + [[THE, key[0], OF, key[1], IS, other, DOT]]

    def schedule(self):
        r = self.rng
        free = [n for n in self.names if n not in self.weeks]
        if not free:
            return []
        name = r.choice(free)
        self.weeks.append(name)
        for day in DAYS:
            self.facts[day, name] = [r.choice(VALUES) for _ in range(4)]
        return [[THE, d, OF, name, IS, *self.facts[d, name], DOT] for d in DAYS]

    def label(self):
        """Two or three examples of one noun's label."""
        r = self.rng
        noun = r.choice(NOUNS)
        label = self.labels.setdefault(noun, r.choice(LABELS))
        adjs = r.sample(ADJS, r.choice((2, 3)))
        self.examples.update((a, noun) for a in adjs)
        return [[THE, LABEL, OF, a, noun, IS, label, DOT] for a in adjs]


def filler(r):
    c, k = r.choice, r.random()
    if k < .35:
        return [THE, c(ADJS), c(NOUNS), c(VERBS), THE, c(NOUNS), c(PREPS), THE, c(NOUNS), DOT]
    if k < .6:
        return [c(ADVS), COMMA, THE, c(NOUNS), c(VERBS), A, c(ADJS), c(NOUNS), DOT]
    if k < .8:
        return [THE, c(NOUNS), c(PREPS), THE, c(NOUNS), WAS, VERY, c(ADJS), DOT]
    return [THE, c(NOUNS), c(VERBS), THE, c(NOUNS), AND, c(ADVS), c(VERBS), THE, c(ADJS), c(NOUNS), DOT]


def ask(r, world, asked, kinds):
    """(kind, question tokens, answer tokens) about a fact of the world not asked before, or None."""
    for _ in range(8):
        kind = r.choice(kinds)
        if kind == "fact" and world.attribute_keys:
            a, n = r.choice(world.attribute_keys)
            key, q = (a, n), [WHAT, IS, THE, a, OF, n, ASK]
            out = [THE, a, OF, n, IS, *world.facts[a, n], DOT]
        elif kind == "hop" and world.relations:
            (rel, n), other = r.choice(list(world.relations.items()))
            a = r.choice([k[0] for k in world.attribute_keys if k[1] == other])
            key, q = (rel, n, a), [FOR, THE, rel, OF, n, COMMA, WHAT, IS, THE, a, ASK]
            out = [THE, rel, OF, n, IS, other, COMMA, THE, a, OF, other, IS,
                   *world.facts[a, other], DOT]
        elif kind == "label" and world.labels:
            noun = r.choice(list(world.labels))
            adj = r.choice([a for a in ADJS if (a, noun) not in world.examples])
            key, q = (adj, noun), [WHAT, IS, THE, LABEL, OF, adj, noun, ASK]
            out = [THE, LABEL, OF, adj, noun, IS, world.labels[noun], DOT]
        elif kind == "list" and world.weeks:
            n = r.choice(world.weeks)
            key, q = (WEEK, n), [WHAT, IS, THE, WEEK, OF, n, ASK]
            out = []
            for d in DAYS:
                out += [THE, d, OF, n, IS, *world.facts[d, n], COMMA]
            out[-1] = DOT
        else:
            continue
        if key not in asked:
            asked.add(key)
            return kind, q, out + [EOS]
    return None


class Generator:
    """Seeded source of sequences and batches."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def sequence(self, length, turn_tokens, fact_share, kinds, extra=2, repeats=0,
                 layouts=(1, 1, 1), names=(4, 8, 16, 32, 64), max_turns=NUM_CUES, one_kind=0.,
                 together=0):
        """Tokens, classes of the *tokens themselves*, sentence starts and turn infos.

        turn_tokens: range of a turn's context length; fact_share: range of the share of it that
        states facts; extra: at most so many immediate question-answer pairs after a turn;
        one_kind: share of sequences whose questions are of one kind, where there is one to ask;
        together: at most so many further questions stand beside a turn's question, and the turn
        answers all of them, in random order.
        """
        r = self.rng
        world = World(r, r.choice([n for n in names if n * 20 <= max(length, 80)] or [4]))
        makers = [(world.attribute, 5)]
        if "hop" in kinds:
            makers.append((world.relation, 2))
        if "label" in kinds:
            makers.append((world.label, 1))
        if "list" in kinds:
            makers.append((world.schedule, 1))
        tokens, classes, starts, turns = [BOS], [OTHER], [], []
        numbers = list(range(NUM_CUES))
        r.shuffle(numbers)
        asked = set()
        preferred = [r.choice(kinds)] if one_kind and r.random() < one_kind else kinds

        def put(piece, cls=OTHER):
            tokens.extend(piece)
            classes.extend([cls] * len(piece))

        def answer(number, out):
            put([NEWLINE, CUE[number]])
            put(out[:LEAD_TOKENS], LEAD)
            put(out[LEAD_TOKENS:], ANSWER)

        while len(tokens) < length and numbers and len(turns) < max_turns:
            target = min(r.randint(*turn_tokens), max(24, length - len(tokens) - 40))
            share = r.uniform(*fact_share)
            sentences, used = [], 0
            while used < share * target:
                maker = r.choices([m for m, _ in makers], [w for _, w in makers])[0]
                if maker == world.schedule and target - used < 80:
                    continue
                new = maker()
                if not new:
                    break
                sentences += new
                used += sum(map(len, new))
            while used < target:
                sentences.append(filler(r))
                used += len(sentences[-1])
            r.shuffle(sentences)
            item = ask(r, world, asked, preferred) or ask(r, world, asked, kinds)
            if item is None:
                continue
            open_questions = [(numbers.pop(), *item)]
            for _ in range(r.randint(0, together)):
                item = ask(r, world, asked, preferred) or ask(r, world, asked, kinds)
                if item is None or not numbers:
                    break
                open_questions.append((numbers.pop(), *item))
            paragraphs = []
            while sentences:
                k = r.randint(3, 10)
                paragraphs.append(sentences[:k])
                sentences = sentences[k:]
            position = r.choices(("begin", "middle", "end"), layouts)[0]
            at = {"begin": 0, "middle": len(paragraphs) // 2, "end": len(paragraphs)}[position]
            for i in range(len(paragraphs) + 1):
                for number, _, question, _ in open_questions if i == at else []:
                    starts.append(len(tokens))
                    put([NEWLINE, QUESTION[number], *question])
                if i < len(paragraphs):
                    put([NEWLINE])
                    for s in paragraphs[i]:
                        starts.append(len(tokens))
                        put(s)
            r.shuffle(open_questions)
            for number, kind, _, out in open_questions:
                turns.append((kind, position, len(tokens) + 2, out))
                answer(number, out)
            for _ in range(r.randint(0, extra)):
                item = ask(r, world, asked, preferred) or ask(r, world, asked, kinds)
                if item is None or not numbers:
                    break
                number = numbers.pop()
                starts.append(len(tokens))
                put([NEWLINE, QUESTION[number], *item[1]])
                answer(number, item[2])
            for _ in range(r.randint(0, repeats)):
                key = r.choice(world.attribute_keys) if world.attribute_keys else None
                if key is None:
                    break
                starts.append(len(tokens))
                put([THE, key[0], OF, key[1], IS])
                put([*world.facts[key], DOT], REPEAT)
        while len(tokens) < length:
            starts.append(len(tokens))
            put(filler(r))
        return tokens[:length], classes[:length], starts, turns

    def repeats(self, length):
        """Blocks of random words, each repeated later: the induction warm-up."""
        r, pool = self.rng, NAMES + ATTRS + VALUES
        tokens, classes, starts, blocks = [BOS], [OTHER], [], []
        while len(tokens) < length:
            starts.append(len(tokens))
            if not blocks or r.random() < .4:
                blocks.append([r.choice(pool) for _ in range(r.randint(4, 12))])
                tokens += blocks[-1]
                classes += [OTHER] * len(blocks[-1])
            else:
                b = r.choice(blocks)
                tokens += b
                classes += [OTHER] + [ANSWER] * (len(b) - 1)
        return tokens[:length], classes[:length], starts, []

    def positions(self, length, starts, max_position, share):
        """Position ids; with probability `share`, random gaps at sentence starts up to
        max_position, so that long distances are trained on short sequences."""
        r = self.rng
        inc = np.zeros(length, np.int64)
        starts = [s for s in starts if s < length]
        if max_position > length and starts and r.random() < share:
            chosen = r.sample(starts, min(r.randint(1, 8), len(starts)))
            total = r.randint(0, max_position - length)
            cuts = sorted(r.randint(0, total) for _ in range(len(chosen) - 1))
            for s, gap in zip(chosen, np.diff([0] + cuts + [total])):
                inc[s] += gap
        return np.arange(length) + np.cumsum(inc)

    def batch(self, size, length, max_position=0, gap_share=.75, repeat_share=0., **kw):
        """int64 [size, length] tokens, positions; int8 classes of the next-token targets."""
        x = np.zeros((size, length), np.int64)
        p = np.zeros((size, length), np.int64)
        c = np.zeros((size, length), np.int8)
        for i in range(size):
            if self.rng.random() < repeat_share:
                t, cls, starts, _ = self.repeats(length)
            else:
                t, cls, starts, _ = self.sequence(length, **kw)
            x[i], c[i] = t, cls
            p[i] = self.positions(length, starts, max_position, gap_share)
        return x, p, c


if __name__ == "__main__":
    import time
    generator = Generator(0)
    kinds = ("fact", "hop", "label", "list")
    t, c, _, turns = generator.sequence(700, (150, 300), (.4, .8), kinds)
    text = {i: w for w, i in VOCAB.items()}
    print("".join(text[i] for i in t).replace("Ġ", " ").replace("Ċ", "\n"))
    print([(k, p) for k, p, _, _ in turns], sum(k in (ANSWER, LEAD) for k in c) / len(c))
    t0 = time.time()
    generator.batch(8, 1024, max_position=8192, turn_tokens=(100, 500), fact_share=(.3, .8), kinds=kinds)
    print(time.time() - t0)
