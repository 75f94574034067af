"""The variables with which every chat template is rendered."""

ODD = ["", "  leading and trailing \n", "\n\nlines\r\n\tand tabs\n", "{{ 1 }} {% if %} {# x #} }} %} <|im_end|></s>[INST]",
       "中文。\u3000日本語", "😀👩‍👩‍👧 é\u0301 \u00a0", '"quotes" \\ \'and\' <b>&amp;</b>']
SYSTEMS = [None, "You are terse.", "  Spaced.\n"]
PLAIN = ["What is 2 + 2?", "Four.", "And 3 + 3?", "Six.", "Thanks!"]


def messages(system, texts):
    out = [] if system is None else [{"role": "system", "content": system}]
    for i, text in enumerate(texts):
        out.append({"role": "assistant" if i % 2 else "user", "content": text})
    return out


def all_variables():
    base = {"bos_token": "<s>", "eos_token": "</s>"}
    for system in SYSTEMS:
        for turns in (1, 2, 3):
            for prompt in (True, False):
                yield {**base, "messages": messages(system, PLAIN[:2 * turns - 1]), "add_generation_prompt": prompt}
    for i in range(len(ODD)):
        texts = [ODD[i], ODD[(i + 1) % len(ODD)], ODD[(i + 2) % len(ODD)]]
        yield {**base, "messages": messages(ODD[(i + 3) % len(ODD)], texts), "add_generation_prompt": True}
        yield {**base, "messages": messages(None, texts), "add_generation_prompt": True, "tools": None}
    yield {**base, "messages": messages(None, PLAIN[:2]), "add_generation_prompt": False}
    yield {**base, "messages": [], "add_generation_prompt": True}
    yield {**base, "messages": messages(None, PLAIN[:1]) * 2, "add_generation_prompt": True}
    yield {"messages": messages(None, PLAIN[:1]), "add_generation_prompt": True}


VARIABLES = list(all_variables())
