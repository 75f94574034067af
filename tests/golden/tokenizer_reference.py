"""The reference packages behind one interface, and hashes of what they give for the fuzz texts."""

from splitmix import Random
from tokenizer_fuzz import Hash, fuzz_text

TEXTS, BLOCK, SEED, ID_SEED = 20000, 200, 1, 3
ID_LISTS = 2000


class HuggingFace:
    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.ids = sorted(tokenizer.get_vocab().values())

    def encode(self, text, parse_special, add_special):
        self.tokenizer.encode_special_tokens = not parse_special
        encoding = self.tokenizer.encode(text, add_special_tokens=add_special)
        return encoding.ids, encoding.offsets

    def decode(self, ids, skip_special):
        return self.tokenizer.decode(ids, skip_special_tokens=skip_special)


class SentencePiece:
    def __init__(self, processor):
        self.processor = processor
        # Unknown tokens are left out of random lists: SentencePiece writes them as " ⁇ ".
        self.ids = [i for i in range(processor.get_piece_size()) if not processor.is_unknown(i)]

    def encode(self, text, parse_special, add_special):
        ids = self.processor.encode(text)
        return ([self.processor.bos_id()] if add_special else []) + ids, None

    def decode(self, ids, skip_special):
        return self.processor.decode([i for i in ids if not self.processor.is_control(i)])


class TikToken:
    def __init__(self, encoding, bos):
        self.encoding, self.bos = encoding, bos
        self.ids = list(range(encoding.n_vocab))
        self.special = set(encoding._special_tokens.values())

    def encode(self, text, parse_special, add_special):
        ids = self.encoding.encode(text, allowed_special="all") if parse_special else self.encoding.encode_ordinary(text)
        return ([self.bos] if add_special else []) + ids, None

    def decode(self, ids, skip_special):
        return self.encoding.decode([i for i in ids if not (skip_special and i in self.special)])


def ends_of(text, offsets):
    """Tokenizer::encode's rule: a token that is part of a character ends where that starts."""
    bytes_before = [0]
    for c in text:
        bytes_before.append(bytes_before[-1] + len(c.encode()))
    out = []
    for k, (_, end) in enumerate(offsets):
        following = [s for s, e in offsets[k + 1:k + 2]]
        out.append(bytes_before[min([end, *following])])
    return out


def options_of(index):
    """parse_special, add_special and skip_special of a text."""
    return index % 2 == 1, index % 3 == 0, index % 5 == 0


def results(reference, special_parsing=True, decode=True, ends=False, texts=TEXTS):
    """Hashes of ids, decoded texts and ends for each block of texts."""
    out = {"ids": [], "texts": [], "ends": []}
    for start in range(0, texts, BLOCK):
        ids_hash, text_hash, ends_hash = Hash(), Hash(), Hash()
        for index in range(start, start + BLOCK):
            text = fuzz_text(SEED, index)
            parse_special, add_special, skip_special = options_of(index)
            ids, offsets = reference.encode(text, parse_special and special_parsing, add_special)
            ids_hash.add_numbers(ids)
            if decode:
                text_hash.add(reference.decode(ids, skip_special).encode() + b"\0")
            if ends and not add_special:
                ends_hash.add_numbers(ends_of(text, offsets))
        out["ids"].append("%016x" % ids_hash.state)
        out["texts"].append("%016x" % text_hash.state)
        out["ends"].append("%016x" % ends_hash.state)
    if not decode:
        del out["texts"]
    if not ends:
        del out["ends"]
    if decode:
        decoded = Hash()
        for index in range(ID_LISTS):
            random = Random(ID_SEED, index)
            ids = [reference.ids[random.below(len(reference.ids))] for _ in range(1 + random.below(12))]
            decoded.add(reference.decode(ids, options_of(index)[2]).encode() + b"\0")
        out["decoded"] = "%016x" % decoded.state
    return {k: "".join(v) if isinstance(v, list) else v for k, v in out.items()}
