"""LongBench's metrics by the project's scoring notes, with the packages that the official code uses, and the metrics
that the project defines."""

import difflib
import re
import string
from collections import Counter

import fuzzywuzzy.fuzz
import fuzzywuzzy.StringMatcher
import rouge as pltrdy
from rouge_score import rouge_scorer

import synthetic_jieba

synthetic_jieba.make()
SEGMENTER = synthetic_jieba.load()
ASCII_PUNCTUATION = set(string.punctuation)
CHINESE_PUNCTUATION = ASCII_PUNCTUATION | set(
    "！？｡。＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜｝～｟｠｢｣､、〃》「」『』【】〔〕〖〗〘〙"
    "〚〛〜〝〞〟〰〾〿–—‘’‛“”„‟…‧﹏."
)


def bare_words(text):
    text = "".join(c for c in text if c not in ASCII_PUNCTUATION)
    return " ".join(re.sub(r"\b(?:a|an|the)\b", " ", text).split())


def english(text):
    return bare_words(text.lower())


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
    return rouge(*words)  # one frame deeper than LongBench's English texts


def classification(prediction, reference, classes):
    named = [c for c in classes if c in prediction]
    for name in named:  # as in the official code, the list shrinks during the iteration
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


# Metrics that the project defines.


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
