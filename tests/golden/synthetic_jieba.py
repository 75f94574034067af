"""A synthetic dictionary and model in jieba's format."""

import re
import tempfile

import jieba
import jieba.finalseg

from metric_cases import DATA, VOCABULARY, seed_of
from splitmix import Random

FOLDER = DATA / "jieba"


def make():
    """Writes the files to tests/data/metrics/jieba."""
    rng = Random(seed_of("jieba"))
    words = [w for w in VOCABULARY["chinese"]["fragments"] if re.fullmatch(r"[\w+#&.%-]+", w)]
    left_out = ["12", "x_y", "v1.2.3", "龘", "小明", "+", "所在", "%", "甲乙丙", "人水", "人", "水"]
    words = [w for w in words if w not in left_out + ["到了", "到", "了"]]
    FOLDER.joinpath("finalseg").mkdir(parents=True, exist_ok=True)
    lines = ["%s %d n" % (word, rng.between(0, 3000)) for word in words]
    # Two segmentations of equal probability, and words that lose against their characters.
    lines += ["甲 5 n", "丙 7 n", "甲乙 5 n", "乙丙 7 n"]
    lines += ["到 2900 n", "了 2900 n", "到了 1 n", "人 2900 n", "水 2900 n", "人水 1 n"]
    FOLDER.joinpath("dict.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def logarithm():
        return -rng.uniform() * 8

    def write(name, table):
        FOLDER.joinpath("finalseg", name).write_text("P=" + ascii(table) + "\n")

    write("prob_start.py", {"B": logarithm(), "E": -3.14e100, "M": -3.14e100, "S": logarithm()})
    edges = {"B": "EM", "E": "BS", "M": "EM", "S": "BS"}
    write("prob_trans.py", {a: {b: logarithm() for b in edges[a]} for a in "BEMS"})
    characters = sorted({c for w in VOCABULARY["chinese"]["fragments"] for c in w if "一" <= c <= "龥"})
    write(
        "prob_emit.py",
        {s: {c: logarithm() for c in characters if rng.below(10) < 7} for s in "BEMS"},
    )


def load():
    """A tokenizer with them in place of jieba's own."""

    def table(name):
        scope = {}
        exec(FOLDER.joinpath("finalseg", name).read_text(), scope)
        return scope["P"]

    jieba.setLogLevel("ERROR")
    jieba.finalseg.start_P = table("prob_start.py")
    jieba.finalseg.trans_P = table("prob_trans.py")
    jieba.finalseg.emit_P = table("prob_emit.py")
    tokenizer = jieba.Tokenizer(dictionary=str(FOLDER / "dict.txt"))
    tokenizer.tmp_dir = tempfile.mkdtemp()
    return tokenizer
