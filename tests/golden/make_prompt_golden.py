"""Makes tests/data/datasets/prompts.json: LongBench prompts as the official pred.py makes them.

Usage: python make_prompt_golden.py DIRECTORY
where DIRECTORY contains longbench/config/dataset2prompt.json, real records as longbench/native/*.jsonl
and longbench/recovered/*.jsonl, and chat_templates/*.jinja.
Needs: pip install transformers jinja2 xxhash

The procedure (LongBench/pred.py, get_pred): the record fills its task's template.  If the text has more than
max_length tokens, the first and the last int(max_length / 2) of them are decoded separately, without special tokens,
and joined.  Unless the task is a few-shot or code task, the chat template wraps the text.  The result is tokenized;
if the chat template writes the model's first token itself, no further special tokens are added.

For real records only lengths and hashes are stored; for synthetic ones the whole texts.
"""

import json
import pathlib
import struct
import sys

import xxhash
from jinja2.sandbox import ImmutableSandboxedEnvironment
from transformers import PreTrainedTokenizerFast

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(sys.argv[1])
OUT = ROOT / "tests/data/datasets/prompts.json"
LIMITS = [0, 1001, 3500]  # 0: none
UNWRAPPED = ["trec", "triviaqa", "samsum", "lsht", "lcc", "repobench-p"]
# Tokenizer of tests/data/tokenizers, name of the chat template, its official text.
SETUPS = [
    ("llama3", "llama3.1", "meta-llama-Llama-3.1-8B-Instruct"),
    ("qwen2", "qwen2.5", "Qwen-Qwen2.5-7B-Instruct"),
    ("llama2", "none", None),
]


class Setup:
    def __init__(self, tokenizer, _, template):
        file = ROOT / "tests/data/tokenizers" / (tokenizer + ".json")
        self.tokenizer = PreTrainedTokenizerFast(
            tokenizer_file=str(file), clean_up_tokenization_spaces=False
        )
        self.template = None
        if template is not None:
            text = (DATA / "chat_templates" / (template + ".jinja")).read_text(encoding="utf-8")
            environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
            self.template = environment.from_string(text)

    def prompt(self, task, template, record, max_length):
        """The text and its tokens."""
        text = template.format(**record)
        tokens = self.tokenizer(text, truncation=False).input_ids
        if max_length and len(tokens) > max_length:
            half = int(max_length / 2)
            text = self.tokenizer.decode(tokens[:half], skip_special_tokens=True)
            text += self.tokenizer.decode(tokens[-half:], skip_special_tokens=True)
        wrapped = self.template is not None and task not in UNWRAPPED
        if wrapped:
            text = self.template.render(
                messages=[{"role": "user", "content": text}],
                add_generation_prompt=True,
                bos_token="<|begin_of_text|>",
            )
        return text, self.tokenizer(text, truncation=False, add_special_tokens=not wrapped).input_ids


def short_hash(data):
    return xxhash.xxh3_128_hexdigest(data)[:16]


def hash_of_tokens(tokens):
    return short_hash(struct.pack("<%di" % len(tokens), *tokens))


def made_up():
    """Records with all kinds of text that records may have, and templates with all kinds that templates may have."""
    text = "\n".join(
        [
            "  A first line, with two spaces before it.",
            "Tabs\tand  runs   of spaces, {braces}, {context} and {input} that stay.",
            "Ein schöner Satz über Äpfel: naïve café, Σίσυφος, Привет!",
            "他们在北京大学学习，今天下雨。「引号」与……",
            "Family \U0001f469‍\U0001f469‍\U0001f467 and flags \U0001f1e9\U0001f1ea.",
            "Text of tokens: <|eot_id|> <|im_end|> </s> in the middle.",
            "The last line ends here. ",
        ]
    )
    record = {"context": text, "input": "Who said {so}? ", "all_classes": None}
    return [
        ("qasper", "Read it.\n\nArticle: {context}\n\n Answer. {{\"a\": 1}}\n\nQuestion: {input}\n\nAnswer:", record),
        ("trec", "Types:\n\n{context}\n{input}", record),
        ("passage_count", "{context}\n\nHow many? Answer: ", record),
        ("lcc", "Complete. \n{context}Next line of code:\n", {**record, "input": ""}),
    ]


def main():
    templates = json.loads((DATA / "longbench/config/dataset2prompt.json").read_text(encoding="utf-8"))
    setups = [Setup(*setup) for setup in SETUPS]
    out = {"setups": [setup[:2] for setup in SETUPS], "limits": LIMITS, "made_up": [], "files": {}}
    for task, template, record in made_up():
        for number, setup in enumerate(setups):
            for limit in (0, 100, 41, 7):
                text, tokens = setup.prompt(task, template, record, limit)
                out["made_up"].append(
                    {"task": task, "template": template, "context": record["context"], "input": record["input"],
                     "setup": number, "limit": limit, "text": text, "tokens": tokens})
    for folder in ("native", "recovered"):
        for file in sorted((DATA / "longbench" / folder).glob("*.jsonl")):
            rows = out["files"][file.stem] = []
            for line in file.read_text(encoding="utf-8").split("\n"):
                if not line:
                    continue
                record = json.loads(line)
                text = templates[file.stem].format(**record).encode()
                row = [len(text), short_hash(text)]
                for setup in setups:
                    for limit in LIMITS:
                        _, tokens = setup.prompt(file.stem, templates[file.stem], record, limit)
                        row += [len(tokens), hash_of_tokens(tokens)]
                rows.append(row)
            print(file.stem, len(rows))
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(out, ensure_ascii=False, separators=(",", ":")).replace("],[", "],\n[") + "\n",
                   encoding="utf-8")


main()
