#!/usr/bin/env python3
"""Makes tests/data/official: synthetic predictions with the scores that the official evaluations give them.

  make_official_golden.py RULER LONGBENCH LOCOMO REALTALK

The arguments are checkouts of NVIDIA/RULER, THUDM/LongBench, snap-research/locomo and danny911kr/REALTALK, whose
functions are executed; nothing is copied from them.  Needs
  pip install nltk==3.10.4 regex==2026.11.19 numpy==2.4.6 pyyaml
Every file names the repository, its commit and the functions.  Records, questions and answers are synthetic.
"""

import ast
import contextlib
import io
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import types

import yaml
from nltk.stem import PorterStemmer

from official_cases import (
    conversation_predictions,
    conversation_records,
    longbench_v2_predictions,
    longbench_v2_records,
    option_of,
    realtalk_record,
    ruler_cases,
    stemmer_words,
)

DATA = pathlib.Path(__file__).resolve().parents[1] / "data" / "official"


def functions(path, names, **context):
    """The functions `names` of an official file, without the rest of it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if getattr(node, "name", None) in names]
    assert len(tree.body) == len(names), path
    space = {"re": re, **context}
    exec(compile(tree, str(path), "exec"), space)
    return [space[name] for name in names]


def module(path, **stubs):
    """An official file, with stand-ins for packages whose functions are not called."""
    for name, attributes in stubs.items():
        name = name.replace("__", ".")
        sys.modules[name] = types.ModuleType(name)
        for attribute in attributes:
            setattr(sys.modules[name], attribute, None)
    space = types.ModuleType(path.stem)
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), space.__dict__)
    return space


def source(name, checkout, used):
    commit = subprocess.check_output(["git", "-C", checkout, "rev-parse", "HEAD"], text=True).strip()
    return {"repository": "https://github.com/" + name, "commit": commit, "functions": used}


def lines_of(value, depth):
    """JSON with one line for each item of a list."""
    if isinstance(value, dict) and depth < 3 and any(isinstance(item, (dict, list)) for item in value.values()):
        items, ends = [json.dumps(key) + ": " + lines_of(item, depth + 1) for key, item in value.items()], "{}"
    elif isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
        items, ends = [lines_of(item, depth + 1) for item in value], "[]"
    else:
        return json.dumps(value, ensure_ascii=False)
    return ends[0] + "\n" + ",\n".join(items) + "\n" + ends[1]


def write(name, value):
    DATA.mkdir(parents=True, exist_ok=True)
    (DATA / name).write_text(lines_of(value, 0) + "\n", encoding="utf-8")


def ruler(checkout):
    root = pathlib.Path(checkout) / "scripts"
    constants = module(root / "eval" / "synthetic" / "constants.py")
    lines = []
    names = ["postprocess_pred", "get_pred_and_ref", "run_evaluation_per_task"]
    evaluate = functions(root / "eval" / "evaluate.py", names, read_manifest=lambda _: lines, tqdm=iter)[2]
    tasks = yaml.safe_load((root / "synthetic.yaml").read_text(encoding="utf-8"))

    def score(task, cases):
        lines[:] = [
            {"input": "", "pred": prediction, "outputs": outputs, "index": i, "others": {}}
            for i, (prediction, outputs) in enumerate(cases)
        ]
        config = dict(tasks[task], **constants.TASKS[tasks[task]["task"]])
        return evaluate(config, "")[:2]

    out = {}
    for task in tasks:
        cases = ruler_cases(task)
        total, nulls = score(task, cases)
        out[task] = {
            "score": total,
            "empty": int(nulls.split("/")[0]),
            "cases": [{"prediction": p, "outputs": o, "score": score(task, [(p, o)])[0]} for p, o in cases],
        }
    used = "scripts/eval/evaluate.py: run_evaluation_per_task; scripts/eval/synthetic/constants.py"
    write("ruler.json", {"source": source("NVIDIA/RULER", checkout, used), "tasks": out})


def longbench_v2(checkout):
    root = pathlib.Path(checkout)
    extract = functions(root / "pred.py", ["extract_answer"])[0]
    records = longbench_v2_records()
    predictions = longbench_v2_predictions(records)
    judged = []
    for record, prediction in zip(records, predictions):
        letter = extract(prediction.strip())
        judged.append(dict(record, pred=letter, judge=letter == record["answer"]))
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        pathlib.Path("results").mkdir()
        pathlib.Path("results/m.jsonl").write_text("\n".join(map(json.dumps, judged)), encoding="utf-8")
        module(root / "result.py")
        header, row = (line.split("\t") for line in pathlib.Path("result.txt").read_text().split("\n"))
    write("longbench_v2_records.json", records)
    used = "pred.py: extract_answer; result.py"
    cases = [{"id": r["_id"], "prediction": p, "letter": j["pred"] or "", "right": j["judge"]}
             for r, p, j in zip(records, predictions, judged)]
    accuracy = {name.lower(): float(value) for name, value in zip(header[1:], row[1:])}
    write("longbench_v2.json",
          {"source": source("THUDM/LongBench", checkout, used), "accuracy": accuracy, "cases": cases})


def locomo(checkout):
    root = pathlib.Path(checkout) / "task_eval"
    evaluation = module(root / "evaluation.py", bert_score=["score"])
    option = functions(root / "gpt_utils.py", ["get_cat_5_answer"])[0]
    records = conversation_records()
    cases = []
    for record in records:
        asked = []
        for i, (qa, prediction) in enumerate(conversation_predictions(record)):
            name = "%s_qa%d" % (record["sample_id"], i)
            # The official code reads `answer`, which most adversarial questions of locomo10.json lack.
            answer = qa.get("answer", qa.get("adversarial_answer"))
            official = prediction
            if qa["category"] == 5:
                missing = "Not mentioned in the conversation"
                a, b = (missing, answer) if option_of(name) == "a" else (answer, missing)
                official = option(prediction, {"a": a, "b": b})
            asked.append(dict(qa, answer=answer, prediction=official.strip()))
            cases.append([name, prediction])
        scores = evaluation.eval_question_answering(asked)[0]
        for case, score in zip(cases[-len(asked):], scores):
            case.append(float(score))
    write("locomo_records.json", records)
    used = "task_eval/evaluation.py: eval_question_answering; task_eval/gpt_utils.py: get_cat_5_answer"
    cases = [{"id": i, "prediction": p, "score": s} for i, p, s in cases]
    write("locomo.json", {"source": source("snap-research/locomo", checkout, used), "cases": cases})


def realtalk(checkout):
    root = pathlib.Path(checkout)
    stubs = {"loguru": ["logger"], "utils": [], "utils__utils_llm": ["LLMMessage", "OpenAIGenerator"]}
    tool = module(root / "eval_memory" / "qa_tool.py", **stubs).QATool
    tool = object.__new__(tool)
    cases = []
    record = realtalk_record()
    for i, (qa, prediction) in enumerate(conversation_predictions(record)):
        score = float(tool.compute_lexical_score(prediction, str(qa["answer"]), qa["category"]))
        cases.append({"id": "realtalk_records_qa%d" % i, "prediction": prediction, "score": score})
    write("realtalk_records.json", record)
    used = "eval_memory/qa_tool.py: compute_lexical_score"
    write("realtalk.json", {"source": source("danny911kr/REALTALK", checkout, used), "cases": cases})


def stemmer():
    stem = PorterStemmer().stem
    used = {"package": "nltk 3.10.4", "functions": "nltk.stem.PorterStemmer().stem"}
    write("porter_stemmer.json", {"source": used, "stems": [[word, stem(word)] for word in stemmer_words()]})


if __name__ == "__main__":
    with contextlib.redirect_stdout(io.StringIO()):
        for make, checkout in zip([ruler, longbench_v2, locomo, realtalk], sys.argv[1:5], strict=True):
            make(checkout)
        stemmer()
