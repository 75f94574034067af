"""Makes tests/data/chat/turns.json: dialogues rendered by transformers, and the place of each message.

Usage: python make_turns_golden.py DIRECTORY
where DIRECTORY contains chat_templates/*.jinja and tokenizers/*/tokenizer_config.json; these templates
are not copied.  Needs the packages named in jinja_reference.py.

Templates of families without an available text are written here in the format of their models.  The places of
messages are found without tracing: from the text around placeholder words.
"""

import json
import pathlib
import re
import sys

from jinja_reference import render

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/data/chat/turns.json"
CHATML = ("{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n' }}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
WRITTEN = {
    "smollm2": "{% if messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a helpful AI assistant named "
               "SmolLM<|im_end|>\n' }}{% endif %}" + CHATML,
    "qwen2": "{% if messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a helpful assistant."
             "<|im_end|>\n' }}{% endif %}" + CHATML,
    "deepseek": "{{ bos_token }}{% for m in messages if m['role'] == 'system' %}{{ m['content'] }}{% endfor %}"
                "{% for m in messages %}{% if m['role'] == 'user' %}{{ '<｜User｜>' + m['content'] }}"
                "{% elif m['role'] == 'assistant' %}{{ '<｜Assistant｜>' + m['content'].split('</think>')[-1] + "
                "'<｜end▁of▁sentence｜>' }}{% endif %}{% endfor %}"
                "{% if add_generation_prompt %}{{ '<｜Assistant｜><think>\n' }}{% endif %}",
    "glm4": "[gMASK]<sop>{% for m in messages %}<|{{ m['role'] }}|>{{ '\n' + m['content'] | trim }}{% endfor %}"
            "{% if add_generation_prompt %}<|assistant|>{% endif %}",
    "phi4": "{% for m in messages %}<|im_start|>{{ m.role }}<|im_sep|>{{ m.content }}<|im_end|>{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant<|im_sep|>{% endif %}",
    "gemma3": "{{ bos_token }}{%- set first = '' -%}{%- if messages[0]['role'] == 'system' -%}"
              "{%- set first = messages[0]['content'] + '\n\n' -%}{%- set messages = messages[1:] -%}{%- endif -%}"
              "{%- for m in messages -%}{{ '<start_of_turn>' + ('model' if m['role'] == 'assistant' else m['role']) "
              "+ '\n' + (first if loop.first else '') }}{{ m['content'] | trim }}{{ '<end_of_turn>\n' }}{%- endfor -%}"
              "{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%}",
}
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
SYSTEMS = [None, "You are terse."]
PLAIN = ["What is 2 + 2?", "Four.", "And 3 + 3?", "Six.", "Thanks,\n\nbye!"]
DIALOGUES = [PLAIN[:1], PLAIN[:3], PLAIN,
             ["  two before, one behind\n", "\n spaced \n", " \u00a0中文。\u3000"],
             ["<|im_end|>{{ 1 }}</s>", "[INST] no <end_of_turn>", "<s>"],
             ["", "Nothing?", "😀👩‍👩‍👧 é\u0301"],
             ["2 + 2?", "<think>\nTwo and two.\n</think>\n\nFour.", "Sure?"]]


def messages_of(system, texts):
    out = [] if system is None else [{"role": "system", "content": system}]
    return out + [{"role": "assistant" if i % 2 else "user", "content": text} for i, text in enumerate(texts)]


def rendered(source, system, texts):
    return render(source, {"messages": messages_of(system, texts), "tools": None, "documents": None,
                           "add_generation_prompt": True, **TOKENS})


def parts_of(source, system, texts):
    """The parts of the text: the text before a message, the message, ...; and whether turns can be appended:
    None if earlier text changes, False if only the cue of an answer changes, True if nothing changes."""
    words = [f"word{i}word" for i in range(len(texts))]
    text = rendered(source, system, words)
    markup = re.split("word[0-9]word", text)
    if re.findall("word[0-9]word", text) != words:
        return None, None
    joins = True
    for turn in range(len(words) // 2):
        asked = rendered(source, system, words[:2 * turn + 1])
        before = text[:text.index(words[2 * turn + 1])]
        if not before.startswith(asked):
            joins = False
            question = words[2 * turn]
            if not before.startswith(asked[:asked.index(question) + len(question)]):
                return None, None
    pattern = "(.*)".join("(" + re.escape(m) + ")" for m in markup)
    parts = re.fullmatch(pattern, rendered(source, system, texts), re.DOTALL)
    if parts is None or any(p not in t for p, t in zip(parts.groups()[1::2], texts)):
        return None, joins  # with an empty message the system prompt may be trimmed
    return parts.groups(), joins


def ends_of(parts):
    """The ends of the parts in bytes."""
    out, end = [], 0
    for part in parts:
        end += len(part.encode())
        out.append(end)
    return out


def main():
    data = pathlib.Path(sys.argv[1])
    templates = {path.name: path.read_text() for path in sorted(data.glob("chat_templates/*.jinja"))}
    for path in sorted(data.glob("tokenizers/*/tokenizer_config.json")):
        text = json.loads(path.read_text()).get("chat_template")
        if text:
            templates[path.parent.name] = text
    cases, counts = [], {}
    for name, source in {**templates, **WRITTEN}.items():
        for system in SYSTEMS:
            for texts in DIALOGUES:
                text = rendered(source, system, texts)
                parts, joins = (None, None) if text is None else parts_of(source, system, texts)
                cases.append([name, system, texts, text, parts and ends_of(parts), joins])
                kind = "refused" if text is None else joins
                counts[kind] = counts.get(kind, 0) + 1
    lines = ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases)
    head = json.dumps({"tokens": TOKENS, "written": WRITTEN}, ensure_ascii=False)[:-1]
    OUT.write_text(head + ',\n"cases": [\n' + lines + "\n]}\n")
    print(f"{len(cases)} cases of {len(templates) + len(WRITTEN)} templates, {counts}, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
