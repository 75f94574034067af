"""Builds tokenizer.json of the tiny model: a byte-level BPE in which every lexicon word is one token.

The merges are learned the usual way (most frequent adjacent pair first) on the lexicon alone, each
word once with its leading space, until every word is a single token.  All 256 bytes stay in the
vocabulary, so any text can be encoded.

    python build_tokenizer.py            # rewrites ../tokenizer.json and ../tokenizer_config.json
"""
import collections
import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
MODEL = HERE.parent
NUM_CUES = 16
SPECIAL = (["<bos>", "<eos>"] + [f"<q{i}>" for i in range(1, NUM_CUES + 1)]
           + [f"<a{i}>" for i in range(1, NUM_CUES + 1)])


def byte_alphabet():
    """GPT-2's reversible map from bytes to printable characters."""
    kept = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {b: chr(b) for b in kept}
    for b in range(256):
        if b not in table:
            table[b] = chr(256 + len(table) - len(kept))
    return table


def learn_merges(words):
    """Merges, in order, after which each of `words` (lists of symbols) is one symbol."""
    merges = []
    while any(len(w) > 1 for w in words):
        pairs = collections.Counter(p for w in words for p in zip(w, w[1:]))
        best = min(pairs, key=lambda p: (-pairs[p], p))
        merges.append(best)
        for w in words:
            i = 0
            while i + 1 < len(w):
                if (w[i], w[i + 1]) == best:
                    w[i:i + 2] = [w[i] + w[i + 1]]
                i += 1
    return merges


def main():
    lexicon = json.loads((MODEL / "lexicon.json").read_text())
    alphabet = byte_alphabet()
    spaced = [" " + word for group in lexicon.values() for word in group]
    words = [[alphabet[b] for b in w.encode()] for w in spaced]
    merges = learn_merges(words)
    tokens = sorted(alphabet.values()) + [a + b for a, b in merges]
    vocab = {t: i for i, t in enumerate(tokens)}
    assert len(vocab) == len(tokens)
    added = [{"id": len(vocab) + i, "content": t, "single_word": False, "lstrip": False,
              "rstrip": False, "normalized": False, "special": True}
             for i, t in enumerate(SPECIAL)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                  "use_regex": True}
    tokenizer = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
                 "normalizer": None, "pre_tokenizer": byte_level, "post_processor": None,
                 "decoder": byte_level,
                 "model": {"type": "BPE", "dropout": None, "unk_token": None,
                           "continuing_subword_prefix": None, "end_of_word_suffix": None,
                           "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                           "vocab": vocab, "merges": [f"{a} {b}" for a, b in merges]}}
    (MODEL / "tokenizer.json").write_text(
        json.dumps(tokenizer, ensure_ascii=False, indent=0) + "\n")
    (MODEL / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<bos>", "eos_token": "<eos>",
         "add_bos_token": False, "clean_up_tokenization_spaces": False, "model_max_length": 8192,
         "chat_template": "tiny"}, indent=1) + "\n")
    print(len(spaced), "words,", len(merges), "merges,", len(vocab) + len(added), "tokens")


if __name__ == "__main__":
    main()
