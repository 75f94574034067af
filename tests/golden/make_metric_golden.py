#!/usr/bin/env python3
"""Makes the golden scores of tests/metrics from the reference packages.

Needs CPython 3.11 (Unicode 14, recursion limit) and
  pip install rouge==1.0.1 rouge-score==0.1.2 fuzzywuzzy==0.18.0 levenshtein==0.25.1 \
      python-Levenshtein jieba==0.42.1 numpy
Writes to tests/data/metrics: golden_scores.bin, unicode.bin and the made-up dictionary in jieba/.
The texts themselves are not stored: golden_cases.cpp builds the same ones from vocabulary.json.
"""

import difflib
import json
import math
import pathlib
import re
import struct
import string
import sys
import tempfile
import unicodedata
import warnings
from collections import Counter

warnings.filterwarnings("ignore")
import fuzzywuzzy.fuzz
import fuzzywuzzy.StringMatcher
import jieba
import jieba.finalseg
import numpy
import rouge as pltrdy
from rouge_score import rouge_scorer

DATA = pathlib.Path(__file__).resolve().parents[1] / "data" / "metrics"
VOCABULARY = json.loads((DATA / "vocabulary.json").read_text(encoding="utf-8"))
CASES = 5000
MASK = (1 << 64) - 1


# Texts: the same generator as in golden_cases.cpp.


class Random:
    """SplitMix64, as in common/random.h."""

    def __init__(self, *seeds):
        self.state = 0x9E3779B97F4A7C15
        for seed in seeds:
            self.state = self.next() ^ seed
        self.state = self.next()

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def below(self, n):
        limit = (1 << 64) % n
        while True:
            x = self.next()
            if x >= limit:
                return x % n

    def between(self, low, high):
        return low + self.below(high - low + 1)

    def uniform(self):
        return (self.next() >> 11) * 2.0**-53


def seed_of(name):
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001B3) & MASK
    return h


class Case:
    def __init__(self, kind, index):
        spec = VOCABULARY[kind]
        rng = Random(seed_of(kind), index)
        labels = spec.get("labels")
        self.references = list(labels[rng.below(len(labels))]) if labels else []
        self.classes = spec.get("classes", [])
        if self.classes:
            turn = rng.below(len(self.classes))
            self.classes = self.classes[turn:] + self.classes[:turn]
        tokens = self._tokens(rng, spec, index)
        self.prediction = self._text(tokens, spec)
        if not labels:
            fresh = rng.below(4) == 0
            other = self._tokens(rng, spec, index) if fresh else self._mutated(rng, spec, tokens)
            self.references = [self._text(other, spec)]

    @staticmethod
    def _token(rng, spec):
        fragment = rng.below(len(spec["fragments"]))
        return fragment, rng.below(len(spec["separators"]))

    def _tokens(self, rng, spec, index):
        roll = rng.below(100)
        typical = spec["typical"]
        if roll < 3:
            length = 0
        elif roll < 10:
            length = 1
        elif roll < 97:
            length = rng.between(2, 2 * typical)
        else:
            length = rng.between(2 * typical, 8 * typical)
        if index % 1000 == 7:
            length = 20 * typical
        if index % 1000 == 8:
            length = 45 * typical
        return [self._token(rng, spec) for _ in range(length)]

    def _mutated(self, rng, spec, tokens):
        out = []
        for token in tokens:
            roll = rng.below(12)
            if roll == 0:
                continue
            if roll == 1:
                token = self._token(rng, spec)
            if roll == 2:
                out.append(self._token(rng, spec))
            out.append(token)
        if rng.below(8) == 0:
            half = len(out) // 2
            out = out[half:] + out[:half]
        return out

    def _text(self, tokens, spec):
        out = []
        for fragment, separator in tokens:
            text = spec["fragments"][fragment]
            if text in ("{0}", "{1}", "{1}.", "{1}:"):
                which = min(int(text[1]), len(self.references) - 1)
                text = self.references[which] + text[3:]
            out.append(text + spec["separators"][separator])
        return "".join(out)


# LongBench's rules, as the project's scoring notes state them.

ASCII_PUNCTUATION = set(string.punctuation)
CHINESE_PUNCTUATION = ASCII_PUNCTUATION | set(
    "！？｡。＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜｝～｟｠｢｣､、〃》「」『』【】〔〕〖〗〘〙"
    "〚〛〜〝〞〟〰〾〿–—‘’‛“”„‟…‧﹏."
)


def english(text):
    text = "".join(c for c in text.lower() if c not in ASCII_PUNCTUATION)
    return " ".join(re.sub(r"\b(?:a|an|the)\b", " ", text).split())


def chinese(text):
    return "".join("".join(c for c in text.lower() if c not in CHINESE_PUNCTUATION).split())


def f1(prediction, reference):
    same = sum((Counter(prediction) & Counter(reference)).values())
    if not same:
        return 0.0
    precision, recall = same / len(prediction), same / len(reference)
    return 2 * precision * recall / (precision + recall)


def qa_f1(prediction, reference):
    return f1(english(prediction).split(), english(reference).split())


def qa_f1_zh(prediction, reference):
    def tokens(text):
        return [t for t in map(chinese, SEGMENTER.cut(text, cut_all=False)) if t]

    return f1(tokens(prediction), tokens(reference))


def rouge(prediction, reference):
    try:
        return pltrdy.Rouge().get_scores([prediction], [reference], avg=True)["rouge-l"]["f"]
    except Exception:
        return 0.0


def rouge_zh(prediction, reference):
    words = [" ".join(SEGMENTER.cut(text, cut_all=False)) for text in (prediction, reference)]
    score = rouge(*words)
    return score


def classification(prediction, reference, classes):
    named = [c for c in classes if c in prediction]
    for name in named:  # the list shrinks while it is walked
        if name in reference and name != reference:
            named.remove(name)
    return 1 / len(named) if reference in named else 0.0


def count(prediction, reference):
    numbers = re.findall(r"\d+", prediction)
    return sum(n == reference for n in numbers) / len(numbers) if numbers else 0.0


def retrieval(prediction, reference):
    return count(prediction, re.findall(r"Paragraph (\d+)", reference)[0])


def retrieval_zh(prediction, reference):
    return count(prediction, re.findall(r"段落(\d+)", reference)[0])


def fuzz_line(prediction, reference, matcher):
    fuzzywuzzy.fuzz.SequenceMatcher = matcher
    lines = prediction.lstrip("\n").split("\n")
    plain = [line for line in lines if not re.search("`|#|//", line)]
    return fuzzywuzzy.fuzz.ratio(plain[0] if plain else "", reference) / 100


def code_sim(prediction, reference):
    return fuzz_line(prediction, reference, difflib.SequenceMatcher)


def code_sim_levenshtein(prediction, reference):
    return fuzz_line(prediction, reference, fuzzywuzzy.StringMatcher.StringMatcher)


# The project's own definitions.


def exact_match(prediction, reference):
    return float(english(prediction) == english(reference))


def accuracy(prediction, reference, classes):
    answer = english(prediction)
    if classes:
        named = [(answer.find(c), -len(c.encode()), c) for c in map(english, classes) if c]
        named = sorted(n for n in named if n[0] >= 0)
        if not named:
            return 0.0
        answer = named[0][2]
    return float(answer == english(reference))


def rouge_l_recall(prediction, reference):
    candidate, target = prediction.split(), reference.split()
    row = [0] * (len(target) + 1)
    for word in candidate:
        above = row
        row = [0]
        for j, other in enumerate(target):
            row.append(above[j] + 1 if word == other else max(above[j + 1], row[j]))
    return row[-1] / len(target) if target else 0.0


# rouge-score

SCORER = rouge_scorer.RougeScorer(["rougeL", "rougeLsum"], use_stemmer=False)


def rouge_score_l(prediction, reference):
    return SCORER.score(reference, prediction)["rougeL"].fmeasure


def rouge_score_lsum(prediction, reference):
    return SCORER.score(reference, prediction)["rougeLsum"].fmeasure


# InfiniteBench, SCBench, RULER and others; exceptions of the official scorers count as 0.


def characters_f1(prediction, reference):
    return f1(list(chinese(prediction)), list(chinese(reference)))


def number(text):
    """A label as the JSON files hold it."""
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


def blanked(text, characters):
    return "".join(" " if c in characters else c for c in text)


def first_number(prediction, labels):
    runs = [run for run in re.split("[^0-9]", prediction) if run]
    return (runs[0] if runs else "") == labels[0]


def kv_retrieval(prediction, labels):
    return labels[0] in blanked(prediction, "\n:\"'.,?!{}").split()


def dialogue_qa(prediction, labels):
    words = blanked(prediction, "\n:\"'.,?!{}").split()
    return labels[0] in [word.upper() for word in words]


def after_prefix(text, prefixes):
    for prefix in prefixes:
        head, found, tail = text.partition(prefix)
        if found:
            return tail[1:] if tail else None
    return False


def choice(prediction, labels):
    prediction = prediction.strip()
    if not prediction:
        return False
    if prediction[0] in "ABCD":
        return prediction[0] in labels
    if prediction in labels:
        return True
    text = re.sub(" +", " ", blanked(prediction, "\n\"'.,?!{}"))
    rest = after_prefix(text, ["answer is:", "answer:", "answer is", "option is"])
    if rest is not False:
        return rest is not None and any(rest.startswith(label) for label in labels)
    letters = [word for word in text.split() if word in "ABCD"]
    return bool(letters) and letters[0] in labels


def code_debug(prediction, labels):
    name, letter = labels
    prediction = prediction.strip()
    if prediction[:2] in (letter + ".", letter + ":"):
        return True
    text = blanked(prediction, "\n`'\"-*").replace("Option", " ").replace("option", " ")
    text = re.sub(" +", " ", text)
    rest = after_prefix(text, ["answer is:", "is:", "answer:"])
    return bool(rest) and (rest.startswith(letter) or rest.startswith(name))


def code_run(prediction, labels):
    words = blanked(prediction, "\n.`'\":").split()
    return int(words[-1]) == number(labels[0])


def math_find(prediction, labels, to_int=int):
    label = number(labels[0])
    found = re.search(r"\d+\.\d+|\d+", prediction).group()
    return (to_int(found) if isinstance(label, int) else float(found)) == label


def scbench_math_find(prediction, labels):
    return math_find(prediction, labels, lambda text: int(float(text)))


def math_calc(prediction, labels):
    numbers = [int(run) for run in re.split("[^0-9]", prediction) if run]
    right = 0
    for label, found in zip(labels, numbers):
        if number(label) != found:
            break
        right += 1
    return right / len(labels)


def scbench_kv(prediction, labels):
    return labels[0] in prediction


def scbench_qa(prediction, labels):
    return any(label.upper() in prediction.strip().upper() for label in labels)


def occurring(prediction, labels):
    return [float(label.lower() in prediction.lower()) for label in labels]


def scbench_vt(prediction, labels):
    return round(sum(occurring(prediction, labels)) / len(labels), 2)


def ruler_clean(prediction):
    return re.sub(r"[\x00-\x1f]", "\n", prediction.strip()).strip()


def ruler_match_all(prediction, labels):
    return sum(occurring(ruler_clean(prediction), labels)) / len(labels)


def ruler_match_part(prediction, labels):
    return max(occurring(ruler_clean(prediction), labels))


def gsm8k(prediction, reference):
    def last(text):
        return float(re.findall(r"\d*\.?\d+", text.replace(",", ""))[-1])

    return float(last(prediction.split("\nQuestion: ")[0]) == last(reference))


def longbench_write_length(prediction, reference):
    wanted = int(reference)
    words = len(re.findall(r"[\u4e00-\u9fff]", prediction))
    words += len(re.findall(r"\b[a-zA-Z]+\b", prediction))
    if words > wanted:
        return max(0, 1.0 - (words / wanted - 1) / 3)
    return max(0, 1.0 - (wanted / words - 1) / 2)


ONE, ALL, CLASSES = "one reference", "all references", "with classes"

# Column: function, what it takes, kind of texts.  A column is a metric, or a metric/variant.
METRICS = {
    "accuracy": (accuracy, CLASSES, "classes"),
    "classification": (classification, CLASSES, "classes"),
    "code_sim": (code_sim, ONE, "code"),
    "code_sim_levenshtein": (code_sim_levenshtein, ONE, "code"),
    "count": (count, ONE, "integers"),
    "exact_match": (exact_match, ONE, "short"),
    "gsm8k": (gsm8k, ONE, "solutions"),
    "infinitebench_code_debug": (code_debug, ALL, "debug"),
    "infinitebench_code_run": (code_run, ALL, "integers"),
    "infinitebench_kv_retrieval": (kv_retrieval, ALL, "names"),
    "infinitebench_longbook_choice_eng": (choice, ALL, "choice"),
    "infinitebench_longbook_qa_chn": (characters_f1, ONE, "chinese"),
    "infinitebench_longdialogue_qa_eng": (dialogue_qa, ALL, "names"),
    "infinitebench_math_calc": (math_calc, ALL, "sequences"),
    "infinitebench_math_find": (math_find, ALL, "numbers"),
    "infinitebench_passkey": (first_number, ALL, "integers"),
    "longbench_write_length": (longbench_write_length, ONE, "lengths"),
    "qa_f1": (qa_f1, ONE, "prose"),
    "qa_f1_zh": (qa_f1_zh, ONE, "chinese"),
    "retrieval": (retrieval, ONE, "paragraphs"),
    "retrieval_zh": (retrieval_zh, ONE, "paragraphs_zh"),
    "rouge": (rouge, ONE, "prose"),
    "rouge/unbroken": (rouge, ONE, "unbroken"),
    "rouge_l_recall": (rouge_l_recall, ONE, "prose"),
    "rouge_score_l": (rouge_score_l, ONE, "prose"),
    "rouge_score_lsum": (rouge_score_lsum, ONE, "prose"),
    "rouge_zh": (rouge_zh, ONE, "chinese"),
    "ruler_match_all": (ruler_match_all, ALL, "names"),
    "ruler_match_part": (ruler_match_part, ALL, "names"),
    "scbench_kv": (scbench_kv, ALL, "names"),
    "scbench_mf": (scbench_math_find, ALL, "numbers"),
    "scbench_qa_eng": (scbench_qa, ALL, "names"),
    "scbench_vt": (scbench_vt, ALL, "names"),
}


def score(metric, case):
    """At module level + 1, so that rouge stands as deep in the stack as under LongBench's eval.py."""
    function, form, _ = METRICS[metric]
    best = 0.0
    for one in [case.references] if form == ALL else case.references:
        try:
            arguments = (case.prediction, one) + ((case.classes,) if form == CLASSES else ())
            best = max(best, float(function(*arguments)))
        except (ValueError, AttributeError, IndexError, OverflowError, ZeroDivisionError):
            pass
    return best


def mean_case(name, index):
    rng = Random(seed_of(name), index)
    form, size = rng.below(3), 1 + rng.below(400)
    if form == 0:
        return [rng.uniform() for _ in range(size)]
    if form == 1:
        return [rng.below(101) / 100 for _ in range(size)]
    return [rng.below(2) * 1.0 for _ in range(size)]


def longbench_mean(scores):
    total = 0.0
    for one in scores:
        total += one
    return round(100 * total / len(scores), 2)


def longbench_e_mean(scores):
    return float(round(100 * numpy.mean(scores), 2))


MEANS = {"longbench_mean": longbench_mean, "longbench_e_mean": longbench_e_mean}


# A dictionary and a model that are nobody's data, in the format of jieba's.


def make_jieba(folder):
    rng = Random(seed_of("jieba"))
    words = [w for w in VOCABULARY["chinese"]["fragments"] if re.fullmatch(r"[\w+#&.%-]+", w)]
    left_out = ["12", "x_y", "v1.2.3", "龘", "小明", "+", "所在", "%", "甲乙丙", "人水", "人", "水"]
    words = [w for w in words if w not in left_out + ["到了", "到", "了"]]
    folder.joinpath("finalseg").mkdir(parents=True, exist_ok=True)
    lines = ["%s %d n" % (word, rng.between(0, 3000)) for word in words]
    # Two segmentations of equal probability, and words that lose against their characters.
    lines += ["甲 5 n", "丙 7 n", "甲乙 5 n", "乙丙 7 n"]
    lines += ["到 2900 n", "了 2900 n", "到了 1 n", "人 2900 n", "水 2900 n", "人水 1 n"]
    folder.joinpath("dict.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def logarithm():
        return -rng.uniform() * 8

    def write(name, table):
        folder.joinpath("finalseg", name).write_text("P=" + ascii(table) + "\n")

    write("prob_start.py", {"B": logarithm(), "E": -3.14e100, "M": -3.14e100, "S": logarithm()})
    edges = {"B": "EM", "E": "BS", "M": "EM", "S": "BS"}
    write("prob_trans.py", {a: {b: logarithm() for b in edges[a]} for a in "BEMS"})
    characters = sorted({c for w in VOCABULARY["chinese"]["fragments"] for c in w if "一" <= c <= "龥"})
    write(
        "prob_emit.py",
        {s: {c: logarithm() for c in characters if rng.below(10) < 7} for s in "BEMS"},
    )


def load_jieba(folder):
    def table(name):
        scope = {}
        exec(folder.joinpath("finalseg", name).read_text(), scope)
        return scope["P"]

    jieba.setLogLevel("ERROR")
    jieba.finalseg.start_P = table("prob_start.py")
    jieba.finalseg.trans_P = table("prob_trans.py")
    jieba.finalseg.emit_P = table("prob_emit.py")
    tokenizer = jieba.Tokenizer(dictionary=str(folder / "dict.txt"))
    tokenizer.tmp_dir = tempfile.mkdtemp()
    return tokenizer


# Unicode: what str and re know of every code point, as runs of equal properties, and all case
# mappings.


def properties(code_point):
    c = chr(code_point)
    if 0xD800 <= code_point < 0xE000 or unicodedata.category(c) == "Cn":
        return 0
    cased = (c + "Σ").lower()[-1] == "ς"  # and not case-ignorable
    ignorable = not cased and ("A" + c + "Σ").lower()[-1] == "ς"
    digit = re.fullmatch(r"\d", c) is not None
    return (
        1
        | (c.isspace() << 1)
        | ((re.fullmatch(r"\w", c) is not None) << 2)
        | (cased << 3)
        | (ignorable << 4)
        | (digit << 5)
        | ((int(c) if digit else 0) << 6)
    )


def write_unicode(path):
    runs, start, last = [], 0, properties(0)
    for code_point in range(1, 0x110001):
        here = properties(code_point) if code_point < 0x110000 else None
        if here != last:
            runs.append((start, last))
            start, last = code_point, here
    mappings = []
    for code_point in range(0x110000):
        if properties(code_point) == 0:
            continue
        c = chr(code_point)
        for kind, mapped in enumerate((c.lower(), c.upper())):
            if mapped != c:
                points = [ord(x) for x in mapped] + [0, 0]
                mappings.append((kind << 24 | code_point, *points[:3]))
    with open(path, "wb") as out:
        out.write(struct.pack("<II", len(runs), len(mappings)))
        for start, bits in runs:
            out.write(struct.pack("<IH", start, bits))
        for first, *points in mappings:
            out.write(struct.pack("<IIHH", first, *points))


# A file of columns: u32 count; for each column a u8-counted name, the u32 number n of cases, the
# u32 number d of distinct scores, those as f64, then a u16 index for each case.


def write_columns(path, columns):
    with open(path, "wb") as out:
        out.write(struct.pack("<I", len(columns)))
        for name, scores in columns.items():
            distinct = sorted(set(scores))
            place = {value: i for i, value in enumerate(distinct)}
            out.write(struct.pack("<B", len(name)) + name.encode())
            out.write(struct.pack("<II", len(scores), len(distinct)))
            out.write(struct.pack("<%dd" % len(distinct), *distinct))
            out.write(struct.pack("<%dH" % len(scores), *[place[value] for value in scores]))


assert sys.version_info[:2] == (3, 11) and unicodedata.unidata_version == "14.0.0"
make_jieba(DATA / "jieba")
SEGMENTER = load_jieba(DATA / "jieba")
write_unicode(DATA / "unicode.bin")
columns = {}
for metric in METRICS:
    kind = METRICS[metric][2]
    columns[metric] = []
    for index in range(CASES):
        columns[metric].append(score(metric, Case(kind, index)))
    print(metric, len(set(columns[metric])), sum(columns[metric]) / CASES, flush=True)
for name, mean in MEANS.items():
    columns[name] = [mean(mean_case(name, index)) for index in range(CASES)]
write_columns(DATA / "golden_scores.bin", columns)
