"""Six prompts for SmolLM2-135M-Instruct, of any length: a public-domain speech and generated texts."""
from splitmix import Random

SPEECH = (  # Lincoln at Gettysburg, 1863
    "Four score and seven years ago our fathers brought forth on this continent, a new nation, conceived in "
    "Liberty, and dedicated to the proposition that all men are created equal. Now we are engaged in a great civil "
    "war, testing whether that nation, or any nation so conceived and so dedicated, can long endure. We are met on "
    "a great battle-field of that war. We have come to dedicate a portion of that field, as a final resting place "
    "for those who here gave their lives that that nation might live. It is altogether fitting and proper that we "
    "should do this. But, in a larger sense, we can not dedicate, we can not consecrate, we can not hallow this "
    "ground. The brave men, living and dead, who struggled here, have consecrated it, far above our poor power to "
    "add or detract. The world will little note, nor long remember what we say here, but it can never forget what "
    "they did here. ")
NAMES = "Alice Bruno Clara Dmitri Elena Farid Greta Hugo Ines Jonas".split()
PLACES = "Lisbon Oslo Quito Hanoi Dublin Cairo Lima Turin Accra Perth".split()
THINGS = "violin lantern compass teapot ladder telescope basket mirror hammer kite".split()


def speech(_):
    while True:
        yield SPEECH


def pass_key(_):
    """A number among sentences that repeat."""
    yield "The pass key is 71839. Remember it. "
    while True:
        yield "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again. "


def journeys(random):
    while True:
        name, thing, place = (list_[random.below(10)] for list_ in (NAMES, THINGS, PLACES))
        year, days = 1900 + random.below(100), random.between(2, 90)
        yield f"In {year} {name} carried a {thing} to {place} and stayed {days} days. "


def pairs(random):
    """The lines of a JSON object."""
    yield '{"violin": "91-Oslo"'
    while True:
        thing, place = THINGS[random.below(10)], PLACES[random.below(10)]
        yield f',\n "{thing}-{random.below(1000)}": "{random.below(100)}-{place}"'


def labels(random):
    """Solved examples of one task."""
    while True:
        a, b = random.below(50), random.below(50)
        yield f"Q: {NAMES[random.below(10)]} has {a} kites and buys {b} more. How many?\nA: {a + b}\n"


def code(random):
    while True:
        k = random.below(1000)
        yield (f"def scale_{k}(values):\n    \"\"\"Multiplies each value by {k}.\"\"\"\n"
               f"    return [value * {k} for value in values]\n\n")


KINDS = {  # the text, and the end of the prompt
    "speech": (speech, "\nIn one sentence, what is this speech about?"),
    "pass key": (pass_key, "\nWhat is the pass key?"),
    "journeys": (journeys, "\nWho travelled to Oslo, and what did they carry?"),
    "pairs": (pairs, '}\nWhat is the value of the key "violin"?'),
    "labels": (labels, "Q: Hugo has 7 kites and buys 5 more. How many?\nA:"),
    "code": (code, "def scale_12(values):\n"),
}


def prompt(tokenizer, name, length):
    """`length` token ids: the beginning of the text and its ending, wrapped in chat markup."""
    text, end = KINDS[name]
    answers = name not in ("labels", "code")
    head = tokenizer("<|im_start|>user\n" if answers else "")["input_ids"]
    tail = tokenizer(end + ("<|im_end|>\n<|im_start|>assistant\n" if answers else ""))["input_ids"]
    room, parts = length - len(head) - len(tail), text(Random(17))
    body = ""
    while len(ids := tokenizer(body)["input_ids"]) < room:
        body += next(parts)
    return head + ids[:room] + tail


def prompts(tokenizer, lengths):
    """Token ids by name; `lengths` in the order of KINDS."""
    return {name: prompt(tokenizer, name, n) for name, n in zip(KINDS, lengths, strict=True)}
