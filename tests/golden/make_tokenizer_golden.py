"""Makes tests/data/tokenizers: small tokenizers of every supported style, and the results of the reference packages
(tokenizers, sentencepiece, tiktoken) for 20,000 fuzz texts each.

Usage: python make_tokenizer_golden.py [directory of real tokenizers]
Needs: pip install tokenizers sentencepiece tiktoken; a Python whose Unicode is 14 (3.11).

Texts are not stored: a seeded generator makes them (tokenizer_fuzz.py), which the tests reproduce.  Results are stored
as one hash for every block of texts.
"""

import io
import json
import pathlib
import sys

import sentencepiece
import tiktoken.load
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers,
                        pre_tokenizers, processors, trainers)

from splitmix import Random
from tokenizer_fuzz import ASSIGNED, POOLS, WORDS, Hash, fuzz_text
from tokenizer_reference import (BLOCK, ID_LISTS, ID_SEED, SEED, TEXTS, HuggingFace, SentencePiece, TikToken,
                                 results)

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests/data/tokenizers"
REAL = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else None
TRAINING_SEED = 2

GPT2 = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")
DEEPSEEK3 = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
             r"""| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""")


def training_texts():
    texts = [fuzz_text(TRAINING_SEED, i) for i in range(3000)]
    random = Random(TRAINING_SEED)
    for _ in range(3000):
        texts.append(" ".join(WORDS[random.below(len(WORDS))] for _ in range(12)) + ".\n")
    return texts


TRAINING = training_texts()


def byte_level(pre_tokenizer, normalizer=None, size=600, **model):
    """A trained byte-level tokenizer."""
    tokenizer = Tokenizer(models.BPE(**model))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  show_progress=False)
    tokenizer.train_from_iterator(TRAINING, trainer)
    return tokenizer


def character_level(pre_tokenizer, normalizer, size, byte_fallback, alphabet=150, **model):
    """A trained tokenizer of characters, with the tokens <unk>, <s>, </s> and optionally the byte tokens."""
    tokenizer = Tokenizer(models.BPE())
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    trainer = trainers.BpeTrainer(vocab_size=size, limit_alphabet=alphabet, max_token_length=12,
                                  show_progress=False)
    tokenizer.train_from_iterator(TRAINING, trainer)
    trained = json.loads(tokenizer.to_str())["model"]
    tokens = ["<unk>", "<s>", "</s>"]
    if byte_fallback:
        tokens += ["<0x%02X>" % b for b in range(256)]
    tokens += [t for t, _ in sorted(trained["vocab"].items(), key=lambda item: item[1]) if t not in tokens]
    tokenizer.model = models.BPE(vocab={t: i for i, t in enumerate(tokens)},
                                 merges=[tuple(m) for m in trained["merges"]], unk_token="<unk>",
                                 byte_fallback=byte_fallback, **model)
    tokenizer.add_special_tokens(tokens[:3])
    return tokenizer


def template(tokenizer, before, behind=()):
    ids = [(t, tokenizer.token_to_id(t)) for t in (*before, *behind)]
    return processors.TemplateProcessing(single=[*before, "$A", *behind], special_tokens=ids)


def make_gpt2():
    t = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False))
    t.add_special_tokens(["<|endoftext|>"])
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return t


def make_roberta():
    t = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True))
    t.add_special_tokens(["<s>", "</s>", AddedToken("<mask>", lstrip=True, special=True),
                          AddedToken("<pad>", rstrip=True, special=True)])
    t.add_tokens([AddedToken("WORD", single_word=True), AddedToken("café", normalized=False),
                  AddedToken("[INST]", lstrip=True, rstrip=True)])
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False),
                                            template(t, ["<s>"], ["</s>"])])
    return t


def split_then_bytes(*stages):
    return pre_tokenizers.Sequence([*stages, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def isolated(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def make_llama3():
    t = byte_level(split_then_bytes(isolated(LLAMA3)), size=800, ignore_merges=True)
    t.add_special_tokens(["<|begin_of_text|>", "<|eot_id|>", "<|"])
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False),
                                            template(t, ["<|begin_of_text|>"])])
    return t


def make_qwen2():
    t = byte_level(split_then_bytes(isolated(QWEN2)), normalizers.NFC())
    t.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    t.add_tokens([AddedToken("<tool_call>", normalized=False), AddedToken("</tool_call>", normalized=False),
                  AddedToken("café", normalized=True), AddedToken("WORD", single_word=True, normalized=False)])
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return t


def make_falcon():
    t = byte_level(pre_tokenizers.Sequence([
        pre_tokenizers.Punctuation("contiguous"),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        pre_tokenizers.Digits(individual_digits=False),
        isolated("[0-9][0-9][0-9]")]))
    t.add_special_tokens(["<|endoftext|>"])
    return t


def make_starcoder():
    t = byte_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                            pre_tokenizers.ByteLevel(add_prefix_space=False)]))
    t.add_special_tokens(["<|endoftext|>"])
    return t


def make_deepseek():
    t = byte_level(pre_tokenizers.Sequence([
        isolated(r"[\r\n]"),
        isolated(r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-Ֆ]+"),
        isolated(r"\s?[!-/:-~！-／：-～‘-‟　-。]+"),
        isolated(r"\s+$"),
        isolated(r"[一-龥ࠀ-一가-퟿]+"),
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]))
    t.add_special_tokens(["<｜begin▁of▁sentence｜>"])
    t.add_tokens([AddedToken("<｜User｜>", normalized=False)])
    t.post_processor = template(t, ["<｜begin▁of▁sentence｜>"])
    return t


def make_deepseek3():
    return byte_level(split_then_bytes(isolated(r"\p{N}{1,3}"), isolated(r"[一-龥぀-ゟ゠-ヿ]+"), isolated(DEEPSEEK3)))


def make_o200k():
    return byte_level(split_then_bytes(isolated(O200K)), ignore_merges=True)


def make_cl100k():
    t = byte_level(pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(CL100K), "removed", invert=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]))
    t.add_tokens([AddedToken("two  spaces", normalized=True), AddedToken("<", normalized=False),
                  AddedToken("</s>", normalized=False)])
    return t


def llama_decoder():
    return decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                              decoders.Strip(" ", 1, 0)])


def make_llama2():
    t = character_level(None, normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
                        700, True, fuse_unk=True)
    t.decoder = llama_decoder()
    t.post_processor = template(t, ["<s>"])
    return t


def make_metaspace():
    t = character_level(pre_tokenizers.Metaspace("▁", prepend_scheme="first", split=False), None, 600, True,
                        fuse_unk=True)
    t.decoder = llama_decoder()
    t.add_tokens([AddedToken("<mask>", normalized=False, lstrip=True)])
    return t


def make_metaspace_split():
    t = character_level(pre_tokenizers.Metaspace("▁", prepend_scheme="always", split=True), None, 400, False,
                        fuse_unk=True)
    t.decoder = decoders.Metaspace("▁", prepend_scheme="always")
    return t


def make_behaviors():
    split = pre_tokenizers.Split
    t = character_level(
        pre_tokenizers.Sequence([
            split("the", "removed"),
            split(Regex(r"\d{2}|[aeiou](?=[^aeiou])"), "merged_with_previous"),
            split(Regex(r"(?<=[\p{P}\s])\p{Lu}|[.,;]"), "merged_with_next"),
            split(Regex(r"[^\w\s]"), "contiguous"),
            split(Regex(r"^[a-m]+|[n-z\n]*$"), "isolated"),
            split(Regex(r"(?m:.)?\p{Han}{2,}|\W\D\S"), "merged_with_previous", invert=True)]),
        normalizers.Sequence([normalizers.NFKC(), normalizers.Strip(), normalizers.Lowercase(),
                              normalizers.Replace(Regex(r"\s*-+|x*"), "_")]),
        400, False)
    t.add_tokens([AddedToken("ﬁn", normalized=True), AddedToken("WORD", normalized=True, single_word=True)])
    return t


def make_whitespace():
    t = character_level(pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation(),
                                                 pre_tokenizers.CharDelimiterSplit("e")]),
                        normalizers.Sequence([normalizers.NFKD(), normalizers.Strip(left=False, right=True)]),
                        400, False, fuse_unk=False)
    return t


def make_nfd():
    t = byte_level(split_then_bytes(pre_tokenizers.WhitespaceSplit()), normalizers.NFD())
    return t


def make_tiktoken():
    """A file of ranks and its special tokens in tokenizer_config.json."""
    trained = json.loads(make_llama3().to_str())["model"]["vocab"]
    alphabet = json.loads(make_alphabet())
    ranks = {bytes(alphabet[c] for c in t): i for t, i in trained.items()}
    special = {"<|begin_of_text|>": len(trained), "<|eot_id|>": len(trained) + 1}
    import base64
    (OUT / "tiktoken").mkdir(exist_ok=True)
    lines = [base64.b64encode(t).decode() + " %d\n" % i for t, i in sorted(ranks.items(), key=lambda x: x[1])]
    (OUT / "tiktoken/tokenizer.model").write_text("".join(lines))
    config = {"added_tokens_decoder": {str(i): {"content": t, "special": True, "normalized": False}
                                       for t, i in special.items()},
              "bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}
    (OUT / "tiktoken/tokenizer_config.json").write_text(json.dumps(config) + "\n")
    return tiktoken.Encoding("small", pat_str=LLAMA3, mergeable_ranks=ranks, special_tokens=special)


def make_alphabet():
    """The byte-level alphabet as JSON {character: byte}."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return json.dumps({**{chr(b): b for b in printable}, **{chr(256 + i): b for i, b in enumerate(others)}})


def make_sentencepiece(name, **options):
    model = io.BytesIO()
    texts = [t.replace("\n", " ") for t in TRAINING[:80] + TRAINING[3000:]]  # few characters
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=model, model_type="bpe", character_coverage=0.99,
        normalization_rule_name="identity", remove_extra_whitespaces=False, minloglevel=2,
        allow_whitespace_only_pieces=True, split_digits=True, max_sentence_length=100000, **options)
    (OUT / name).mkdir(exist_ok=True)
    (OUT / name / "tokenizer.model").write_bytes(model.getvalue())
    config = {"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": True, "add_eos_token": False}
    (OUT / name / "tokenizer_config.json").write_text(json.dumps(config) + "\n")
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


# Patterns that the two regular expression engines could interpret differently.
PATTERNS = [GPT2, LLAMA3, QWEN2, O200K, CL100K, DEEPSEEK3, r"\s+$", r"$", r"^", r"^a|b$", r"\Aa|b\Z|\z", r"x*", r"a|", r"(?=b)",
            r"\w+", r"\W+", r"[\w-]+", r"\d+|\D", r"\S+", r"[^\s]", r"[\S ]+", r".+", r"(?m:.+)", r"(?i:TRaE|k|ſ)", r"(?i)k+|S", r"[\w]+", r"[^\w ]",
            r"a{,2}b", r"a{2}", r"a{2,}", r"{a}|{", r"a{x", r"a++b|a*+|b?+", r"(?>a+)b", r"a+?b", r"(?<=a)b|(?<!b)a", r"a(?!b)|b(?=\s)",
            r"\p{^L}+", r"\P{N}+", r"\p{Han}+|\p{Greek}", r"[\p{Lu}\p{Nd}]+", r"\x41|\u00e9|\x{4e2d}", r"[\n\t\v\f]+", r"\.|\-|\/",
            r"[\]a-]", r"[a\-z]+", "\u00a0|\u3000", r"(a|b)+", r"(?:a(?:b|)){2}"]
PATTERN_TEXTS = ["aab ab\nb  \n a", "a  \u180e\u3000x", "Straße K\u212a ſS k", "x{a}{a{x a-]b]", "ab", "b\n", "\n\n", "  ", "éÉ中文 Ωα AB12",
                 "e\u0301\u0915\u093f_\u203f²½٣", "\u0085\u2028\u200b\t\v\r\n.", "😀a\u200d-/\u00a0aaabbb"]
CLASSES = [r"\p{L}", r"\p{N}", r"\p{M}", r"\p{P}", r"\p{S}", r"\p{Z}", r"\p{C}", r"\p{Lu}", r"\p{Ll}", r"\p{Lt}", r"\p{Lm}", r"\p{Lo}",
           r"\p{Han}", r"\p{Hiragana}", r"\p{Cyrillic}", r"\s", r"\S", r"\w", r"\W", r"\d", r"\D", r"[^\s\p{L}\p{N}]", r"(?i:s)", r"(?i:k)", r"."]


def regex_results():
    """The package's splits of texts at matches, and the code points of each class."""
    splits = []
    for pattern in PATTERNS:
        split = pre_tokenizers.Split(Regex(pattern), "isolated")
        pieces = [[piece for piece, _ in split.pre_tokenize_str(text)] for text in PATTERN_TEXTS]
        splits.append({"pattern": pattern, "pieces": pieces})
    classes = {}
    points = [chr(c) for a, b in ASSIGNED for c in range(a, b + 1)]
    for pattern in CLASSES:
        split = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
        hash = Hash()
        for start in range(0, len(points), 4096):
            for piece, _ in split.pre_tokenize_str("".join(points[start:start + 4096])):
                hash.add(piece.encode())
        classes[pattern] = "%016x" % hash.state
    return {"texts": PATTERN_TEXTS, "splits": splits, "classes": classes}


STYLES = [("gpt2", make_gpt2), ("roberta", make_roberta), ("llama3", make_llama3), ("qwen2", make_qwen2),
          ("falcon", make_falcon), ("starcoder", make_starcoder), ("deepseek", make_deepseek),
          ("deepseek3", make_deepseek3), ("o200k", make_o200k), ("cl100k", make_cl100k), ("llama2", make_llama2),
          ("metaspace", make_metaspace), ("metaspace_split", make_metaspace_split),
          ("behaviors", make_behaviors), ("whitespace", make_whitespace), ("nfd", make_nfd)]


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    fuzz = {"seed": SEED, "id_seed": ID_SEED, "texts": TEXTS, "block": BLOCK, "id_lists": ID_LISTS, "pools": POOLS}
    (OUT / "fuzz.json").write_text(json.dumps(fuzz, separators=(",", ":"), ensure_ascii=False) + "\n")
    regex = json.dumps(regex_results(), ensure_ascii=False, separators=(",", ":"))
    (OUT / "regex.json").write_text(regex + "\n")
    golden = {}
    for name, make in STYLES:
        tokenizer = make()
        text = json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":"))
        (OUT / (name + ".json")).write_text(text + "\n")
        # If normalization replaces characters, the package's offsets are finer than ours.
        golden[name] = results(HuggingFace(Tokenizer.from_str(text)),
                               ends=name not in ("qwen2", "nfd", "whitespace", "behaviors"))
        print(name, len(text), flush=True)
    golden["sentencepiece"] = results(SentencePiece(make_sentencepiece(
        "sentencepiece", vocab_size=700, byte_fallback=True)), special_parsing=False)
    golden["sentencepiece_unk"] = results(SentencePiece(make_sentencepiece(
        "sentencepiece_unk", vocab_size=400, byte_fallback=False, add_dummy_prefix=False,
        user_defined_symbols=["<mask>", "[INST]", "two  spaces", "é"])), special_parsing=False, decode=False)
    encoding = make_tiktoken()
    golden["tiktoken"] = results(TikToken(encoding, encoding._special_tokens["<|begin_of_text|>"]))
    tiny = ROOT / "models/tiny/tokenizer.json"
    golden["tiny"] = results(HuggingFace(Tokenizer.from_file(str(tiny))), ends=True, texts=TEXTS // 10)
    if REAL:
        golden["real"] = real_results()
    else:
        golden["real"] = json.loads((OUT / "golden.json").read_text())["real"]
    (OUT / "golden.json").write_text(json.dumps(golden, indent=0) + "\n")


def real_results():
    """The same for real tokenizers, which are not part of the project."""
    out = {}
    count = TEXTS // 4
    out["mistral-7b-v0.2"] = results(HuggingFace(Tokenizer.from_file(str(REAL / "mistral-7b-v0.2/tokenizer.json"))),
                                     ends=True, texts=count)
    out["llama2"] = results(SentencePiece(sentencepiece.SentencePieceProcessor(
        model_file=str(REAL / "llama2/tokenizer.model"))), special_parsing=False, texts=count)
    ranks = tiktoken.load.load_tiktoken_bpe(str(REAL / "llama3/tokenizer.model"))
    config = json.loads((REAL / "llama3/tokenizer_config.json").read_text())
    special = {v["content"]: int(k) for k, v in config["added_tokens_decoder"].items()}
    encoding = tiktoken.Encoding("llama3", pat_str=LLAMA3, mergeable_ranks=ranks, special_tokens=special)
    out["llama3"] = results(TikToken(encoding, special["<|begin_of_text|>"]), texts=count)
    qwen = Tokenizer(models.BPE.from_file(str(REAL / "qwen2.5/vocab.json"), str(REAL / "qwen2.5/merges.txt")))
    qwen.normalizer = normalizers.NFC()
    qwen.pre_tokenizer = split_then_bytes(isolated(QWEN2))
    qwen.decoder = decoders.ByteLevel()
    config = json.loads((REAL / "qwen2.5/tokenizer_config.json").read_text())
    for _, v in sorted(config["added_tokens_decoder"].items(), key=lambda item: int(item[0])):
        token = AddedToken(v["content"], normalized=False, special=v["special"])
        (qwen.add_special_tokens if v["special"] else qwen.add_tokens)([token])
    out["qwen2.5"] = results(HuggingFace(qwen), texts=count)
    return out


if __name__ == "__main__":
    main()
