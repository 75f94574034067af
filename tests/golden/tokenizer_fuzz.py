"""Seeded texts over all planes of Unicode, the same as in tests/text/tokenizer_fuzz.h.

A text consists of a few pieces, each of a few members of one pool.  The tests read the pools from
tests/data/tokenizers/fuzz.json.  Code points are drawn from those assigned in Unicode 14, because the reference
packages use later versions of Unicode than PCRE2.
"""

import unicodedata

from splitmix import Random, fnv1a


def assigned_ranges():
    assert unicodedata.unidata_version.startswith("14."), "needs the data of Unicode 14"
    out = []
    for c in range(0x110000):
        if unicodedata.category(chr(c)) in ("Cn", "Cs", "Co"):
            continue
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


ASSIGNED = assigned_ranges()


def block(first, last):
    """The assigned code points of a block."""
    return [[max(a, first), min(b, last)] for a, b in ASSIGNED if a <= last and b >= first]


WORDS = ("the and of to in is that it was for on are as with his they at be this have from or had by "
         "hot word but what some we can out other were all there when up use your how said an each "
         "she which do their time if will way about many then them write would like so these her "
         "long make thing see him two has look more day could go come did number sound no most "
         "people my over know water than call first who may down side been now find").split()

SPECIAL = ["<|endoftext|>", "<s>", "</s>", "<unk>", "<mask>", "<|im_start|>", "<|im_end|>",
           "<tool_call>", "</tool_call>", "<pad>", "[INST]", "[/INST]", "<|begin_of_text|>",
           "<|eot_id|>", "<｜begin▁of▁sentence｜>", "<｜User｜>", "<|", "|>", "<", "<0x41>", "<0xE2>", "WORD",
           "café", "ﬁn", "two  spaces"]

POOLS = [
    {"max": 8, "ranges": [[0x61, 0x7A]]},
    {"max": 6, "ranges": [[0x41, 0x5A], [0x61, 0x7A]]},
    {"max": 3, "items": [" " + w for w in WORDS]},
    {"max": 2, "items": WORDS + [w.capitalize() for w in WORDS]},
    {"max": 8, "ranges": [[0x30, 0x39]]},
    {"max": 4, "items": [" "]},
    {"max": 3, "items": ["\n", "\n", " \n", "\r\n", "\r", "\t", "\t\t", "\v", "\f", "\u0085", "\u00a0", "\u1680",
                         "\u180e", "\u2003", "\u200b", "\u200c", "\u200d", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000",
                         "\ufeff", "\u001c", "\u0000", "  ", "   \n  "]},
    {"max": 5, "ranges": [[0x21, 0x2F], [0x3A, 0x40], [0x5B, 0x60], [0x7B, 0x7E]]},
    {"max": 2, "items": ["'s", "'S", "'t", "'T", "'re", "'RE", "'rE", "'ve", "'VE", "'m", "'ll", "'LL", "'lL", "'d",
                         "'D", "'ſ", "’s", "'x", "''", "'K", "'l"]},
    {"max": 2, "items": SPECIAL},
    {"max": 3, "ranges": ASSIGNED},
    {"max": 3, "ranges": [[0x80, 0x24F]]},
    {"max": 6, "ranges": block(0x370, 0x5FF)},
    {"max": 6, "ranges": block(0x600, 0x7FF)},
    {"max": 6, "ranges": block(0x900, 0xEFF)},
    {"max": 6, "ranges": block(0x1000, 0x1FFF)},
    {"max": 4, "ranges": block(0x2000, 0x2BFF)},
    {"max": 8, "ranges": block(0x3000, 0x30FF) + [[0x4E00, 0x4EFF], [0x9F00, 0x9FA5]]},
    {"max": 5, "ranges": [[0xAC00, 0xD7A3]]},
    {"max": 5, "ranges": [[0x1100, 0x11FF]]},
    {"max": 3, "ranges": block(0xF900, 0xFFEF)},
    {"max": 4, "ranges": block(0x10000, 0x1FFFF)},
    {"max": 2, "ranges": [[0x20000, 0x2A6DF], [0x2F800, 0x2FA1D], [0xE0001, 0xE0001], [0xE0020, 0xE007F]]},
    {"max": 3, "items": ["e\u0301", "e", "a\u0323\u0307", "a\u0307\u0323", "\u0345", "q\u0307\u0323", "\u1112\u1161\u11ab", "\u09c7\u09be",
                         "\u0041\u030a", "\u212b", "\ufb01", "\u1e9b\u0323", "\u0344", "\u0958", "\u2adc", "\u0f73", "\uff76\uff9e"]},
    {"max": 4, "ranges": block(0x300, 0x36F) + block(0x483, 0x487) + block(0x591, 0x5BD)
     + block(0x8CA, 0x8FF) + block(0x1AB0, 0x1ACE) + block(0x1DC0, 0x1DFF) + block(0x20D0, 0x20F0)},
    {"max": 2, "items": ["😀", "👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "❤️", "1️⃣", "🦙", "✅", "𝒳", "𝟘"]},
    {"max": 3, "items": ["²", "½", "Ⅷ", "٣", "๓", "一", "௧", "𝟗", "①", "㉓", "〇", "²³¹¼"]},
    {"max": 40, "same": True, "items": ["a", " ", "\n", "=", "-", "0", "é", "ह", "中", "😀", "\u0301", "\u0316", "▁", ".", "the"]},
    {"max": 3, "items": ["▁", "Ġ", "Ċ", "▁▁", "▁the", "\ufffd", "\ue000", "\uf8ff", "\U000f0000", "\U0010fffd", "\uffff", "\U0001fffe"]},
]


def code_points(pool):
    return [chr(c) for a, b in pool.get("ranges", []) for c in range(a, b + 1)] + pool.get("items", [])


MEMBERS = [code_points(pool) for pool in POOLS]


def fuzz_text(seed, index):
    random = Random(seed, index)
    out = []
    for _ in range(1 + random.below(10)):
        p = random.below(len(POOLS))
        count = 1 + random.below(POOLS[p]["max"])
        member = None
        for _ in range(count):
            if member is None or not POOLS[p].get("same"):
                member = MEMBERS[p][random.below(len(MEMBERS[p]))]
            out.append(member)
    return "".join(out)


class Hash:
    """FNV-1a, 64 bits."""

    def __init__(self):
        self.state = fnv1a(b"")

    def add(self, data):
        self.state = fnv1a(data, self.state)

    def add_numbers(self, numbers):
        self.add(b"".join(n.to_bytes(4, "little") for n in (len(numbers), *numbers)))
