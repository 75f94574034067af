"""Makes tests/data/chat/golden.json: dialogues rendered by Jinja with each chat template.

Usage: python make_chat_golden.py DIRECTORY
where DIRECTORY contains the official templates as chat_templates/*.jinja and
tokenizers/*/tokenizer_config.json.  Needs: pip install jinja2.

Templates without an available official text are written here from the models' documentation.
"""

import json
import pathlib
import sys

from jinja2.sandbox import ImmutableSandboxedEnvironment

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(sys.argv[1])
DATE = "26 Jul 2024"

INST = ("{{ bos }}{% for m in messages %}{% if m.role == 'user' %}{{ begin + m.content + end }}"
        "{% else %}{{ answer + (m.content | trim if trims else m.content) + close }}{% endif %}{% endfor %}")


def config(name):
    return json.loads((DATA / "tokenizers" / name / "tokenizer_config.json").read_text())["chat_template"]


def official(name):
    return (DATA / "chat_templates" / (name + ".jinja")).read_text()


CHATML = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' + '\n' }}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
QWEN2 = ("{% if messages[0].role != 'system' %}{{ '<|im_start|>system\nYou are a helpful assistant."
         "<|im_end|>\n' }}{% endif %}" + CHATML)
LLAMA3 = ("{{ '<|begin_of_text|>' }}{% for m in messages %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n'"
          " + m.content | trim + '<|eot_id|>' }}{% endfor %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}")
LLAMA2 = ("{% set ns = namespace(system='') %}{% for m in messages %}{% if m.role == 'system' %}"
          "{% set ns.system = '<<SYS>>\n' + m.content + '\n<</SYS>>\n\n' %}{% elif m.role == 'user' %}"
          "{{ '<s>[INST] ' + (ns.system + m.content).strip() + ' [/INST]' }}{% set ns.system = '' %}{% else %}"
          "{{ ' ' + m.content.strip() + ' </s>' }}{% endif %}{% endfor %}")

# name: (Jinja text, extra variables, whether the system prompt is put into the first user message)
TEMPLATES = {
    "llama2": (LLAMA2, {}, False),
    "llama3": (LLAMA3, {}, False),
    "llama3.1": (official("meta-llama-Llama-3.1-8B-Instruct"), {"bos_token": "<|begin_of_text|>"}, False),
    "llama3.2": (config("llama3"), {"bos_token": "<|begin_of_text|>"}, False),
    "chatml": (CHATML, {}, False),
    "qwen2": (QWEN2, {}, False),
    "qwen2.5": (config("qwen2.5"), {}, False),
    "qwen3": (config("qwen3"), {}, False),
    "qwen3-no-thinking": (config("qwen3"), {"enable_thinking": False}, False),
    "mistral-v0.1": (INST, {"bos": "<s>", "begin": "[INST] ", "end": " [/INST]", "answer": "", "close": "</s> "}, True),
    "mistral": (config("mistral-7b-v0.2"), {"bos_token": "<s>", "eos_token": "</s>"}, True),
    "mistral-v0.3": (INST, {"bos": "<s>", "begin": "[INST] ", "end": "[/INST]", "answer": " ", "close": "</s>",
                            "trims": True}, True),
    "mistral-nemo": (official("mistralai-Mistral-Nemo-Instruct-2407"), {"bos_token": "<s>", "eos_token": "</s>"}, True),
}

TURNS = [("What is the capital of France?", "Paris."),
         ("And of Spain?\n\nAnswer in one word, ça va?", "Madrid,\nof course: \"Madrid\"."),
         ("Thanks {{ 1 }} <|im_end|> [INST]", "😀")]
SPACED = [("  Two spaces before, a newline behind\n", " \tspaced answer \n\n"), ("\u00a0and now?\u3000 ", "\nyes ")]
THOUGHT = [("2 + 2?", "<think>\nTwo and two.\n</think>\n\nFour."), ("Sure?", "</think>\nYes"), ("Really?", "")]


def fail(message):
    raise ValueError(message)


def render(template, variables, messages):
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = fail
    environment.globals["strftime_now"] = lambda form: DATE
    return environment.from_string(template).render(messages=messages, add_generation_prompt=True, **variables)


def messages_of(turns, system, in_first_user):
    messages = []
    if system is not None and not in_first_user:
        messages.append({"role": "system", "content": system})
    for question, answer in turns:
        messages.append({"role": "user", "content": question})
        messages.append({"role": "assistant", "content": answer})
    if system is not None and in_first_user:
        messages[0]["content"] = system + "\n\n" + messages[0]["content"]
    return messages[:-1]


def main():
    cases = []
    for name, (template, variables, in_first_user) in TEMPLATES.items():
        for turns in (TURNS[:1], TURNS[:2], TURNS, SPACED, THOUGHT):
            for system in (None, "You are terse.\nVery."):
                messages = messages_of(turns, system, in_first_user)
                if name == "llama2":  # for the reason, see known_chat_templates.h
                    messages[-2 * len(turns) + 1]["content"] = turns[0][0].lstrip()
                text = render(template, variables, messages)
                cases.append({"template": name, "system": system, "turns": turns, "text": text})
        if name == "mistral-nemo":  # for one turn the official place of the system prompt is the same
            text = render(template, variables, messages_of(TURNS[:1], "Be terse.", False))
            cases.append({"template": name, "system": "Be terse.", "turns": TURNS[:1], "text": text})
    out = ROOT / "tests/data/chat/golden.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(cases, indent=0, ensure_ascii=False) + "\n")
    print(len(cases), "cases")


if __name__ == "__main__":
    main()
