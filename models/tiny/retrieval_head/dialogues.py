"""Prints dialogues for tools/train_retrieval_head.py: {"ids": [...], "spans": [{"kind": "answer", ...}]} a line.

    python dialogues.py 3000 > dialogues.jsonl

They come from the generator of the model's training data and from a seed that the model's training did not use.  The
datasets tiny-* have another generator.
"""
import itertools
import json
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "training"))
from data import ANSWER, LEAD, Generator  # noqa: E402

SEED = 77_000_000
KINDS = ("fact", "hop", "label", "list")


def main():
    generator = Generator(SEED)
    for i in range(int(sys.argv[1])):
        length = (256, 512, 1024, 2048)[i % 4]
        ids, classes, _, _ = generator.sequence(length, (80, length // 2), (.4, .6), KINDS, extra=4, together=4,
                                                names=(16, 64))
        begin, spans = 0, []
        for is_answer, run in itertools.groupby(classes, lambda c: c in (ANSWER, LEAD)):
            end = begin + len(list(run))
            if is_answer:  # without <eos>
                spans.append({"kind": "answer", "begin": begin, "end": end - 1})
            begin = end
        print(json.dumps({"ids": ids, "spans": spans}))


if __name__ == "__main__":
    main()
