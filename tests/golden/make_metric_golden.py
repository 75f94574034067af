#!/usr/bin/env python3
"""Makes the golden scores of tests/metrics from the reference packages.

Needs CPython 3.11 (Unicode 14, recursion limit) and
  pip install rouge==1.0.1 rouge-score==0.1.2 fuzzywuzzy==0.18.0 levenshtein==0.25.1 \
      python-Levenshtein jieba==0.42.1 numpy
Writes to tests/data/metrics: golden_scores.bin, unicode.bin and the synthetic dictionary in jieba/.
The texts themselves are not stored: golden_cases.cpp builds the same texts from vocabulary.json.
"""

import struct
import sys
import unicodedata
import warnings

warnings.filterwarnings("ignore")
import numpy

import longbench_references as longbench
import python_unicode
import task_references as tasks
from metric_cases import DATA, Case, seed_of
from splitmix import Random

CASES = 5000

ONE, ALL, CLASSES = "one reference", "all references", "with classes"

# Column: function, its input, kind of texts.  A column is a metric, or a metric/variant.
METRICS = {
    "accuracy": (longbench.accuracy, CLASSES, "classes"),
    "classification": (longbench.classification, CLASSES, "classes"),
    "code_sim": (longbench.code_sim, ONE, "code"),
    "code_sim_levenshtein": (longbench.code_sim_levenshtein, ONE, "code"),
    "count": (longbench.count, ONE, "integers"),
    "exact_match": (longbench.exact_match, ONE, "short"),
    "gsm8k": (tasks.gsm8k, ONE, "solutions"),
    "infinitebench_code_debug": (tasks.code_debug, ALL, "debug"),
    "infinitebench_code_run": (tasks.code_run, ALL, "integers"),
    "infinitebench_kv_retrieval": (tasks.kv_retrieval, ALL, "names"),
    "infinitebench_longbook_choice_eng": (tasks.choice, ALL, "choice"),
    "infinitebench_longbook_qa_chn": (tasks.characters_f1, ONE, "chinese"),
    "infinitebench_longdialogue_qa_eng": (tasks.dialogue_qa, ALL, "names"),
    "infinitebench_math_calc": (tasks.math_calc, ALL, "sequences"),
    "infinitebench_math_find": (tasks.math_find, ALL, "numbers"),
    "infinitebench_passkey": (tasks.first_number, ALL, "integers"),
    "leval_code": (tasks.leval_code, ONE, "outputs"),
    "leval_letter": (tasks.leval_letter, ONE, "letters"),
    "leval_letters": (tasks.leval_letters, ONE, "letters"),
    "leval_stated": (tasks.leval_stated, ONE, "outputs"),
    "leval_stated/letters": (tasks.leval_stated, ONE, "letters"),
    "longbench_write_length": (tasks.longbench_write_length, ONE, "lengths"),
    "qa_f1": (longbench.qa_f1, ONE, "prose"),
    "qa_f1_zh": (longbench.qa_f1_zh, ONE, "chinese"),
    "retrieval": (longbench.retrieval, ONE, "paragraphs"),
    "retrieval_zh": (longbench.retrieval_zh, ONE, "paragraphs_zh"),
    "rouge": (longbench.rouge, ONE, "prose"),
    "rouge/unbroken": (longbench.rouge, ONE, "unbroken"),
    "rouge_l_recall": (longbench.rouge_l_recall, ONE, "prose"),
    "rouge_score_l": (longbench.rouge_score_l, ONE, "prose"),
    "rouge_score_lsum": (longbench.rouge_score_lsum, ONE, "prose"),
    "rouge_zh": (longbench.rouge_zh, ONE, "chinese"),
    "ruler_match_all": (tasks.ruler_match_all, ALL, "names"),
    "ruler_match_part": (tasks.ruler_match_part, ALL, "names"),
    "scbench_kv": (tasks.scbench_kv, ALL, "names"),
    "scbench_mf": (tasks.scbench_math_find, ALL, "numbers"),
    "scbench_qa_eng": (tasks.scbench_qa, ALL, "names"),
    "scbench_vt": (tasks.scbench_vt, ALL, "names"),
}


def score(metric, case):
    """Called at module level + 1, so that rouge runs at the stack depth that it has under LongBench's eval.py."""
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


# A file of columns: u32 number of columns; then for each column a name with a u8 length, the u32 number n of cases, the
# u32 number d of distinct scores, these as f64, and a u16 index for each case.


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
python_unicode.write_unicode(DATA / "unicode.bin")
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
