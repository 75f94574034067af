"""Synthetic records, questions and predictions for make_official_golden.py."""

from splitmix import Random, fnv1a


def seeded(*names):
    return Random(*[fnv1a(str(name).encode()) for name in names])


def pick(rng, items):
    return items[rng.below(len(items))]


# RULER: the outputs of its thirteen tasks have these forms.

WORDS = "harbor violet meadow copper lantern orchard granite saffron walnut thicket ember quartz".split()


def number(rng):
    return str(rng.between(1000000, 9999999))


def uuid(rng):
    digits = "".join("%x" % rng.below(16) for _ in range(32))
    return "-".join([digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]])


def coded(rng):
    return "".join(chr(97 + rng.below(26)) for _ in range(6))


def several(make, count):
    return lambda rng: [make(rng) for _ in range(count)]


def variables(rng):
    return ["".join(chr(65 + rng.below(26)) for _ in range(5)) for _ in range(5)]


def common_words(rng):
    start = rng.below(len(WORDS))
    return (WORDS + WORDS)[start : start + 10]


def alternatives(rng):
    year = rng.between(1800, 1999)
    street = ["the Straße of %d" % year, "%d" % year]
    return pick(rng, [street, ["Denver Broncos", "The Broncos"], ["İzmir"], ["yes"], ["two\nlines"], [" no"]])


RULER_OUTPUTS = {
    "niah_single_1": several(number, 1),
    "niah_single_2": several(number, 1),
    "niah_single_3": several(uuid, 1),
    "niah_multikey_1": several(number, 1),
    "niah_multikey_2": several(number, 1),
    "niah_multikey_3": several(uuid, 1),
    "niah_multivalue": several(number, 4),
    "niah_multiquery": several(number, 4),
    "vt": variables,
    "cwe": common_words,
    "fwe": several(coded, 3),
    "qa_1": alternatives,
    "qa_2": alternatives,
}


def ruler_prediction(rng, outputs, form):
    some = [output for output in outputs if rng.below(2) == 0]
    text = ", ".join(outputs)
    return [
        " " + text + ".",
        ", ".join(reversed(outputs)).upper(),
        text.swapcase() + "\n\nQuestion: none of this",
        "The answer is " + " and ".join(some),
        "\x00" + "\x1f".join(outputs) + "\t\r\n",
        "".join(c + "\x0b" if i == 2 else c for i, c in enumerate(text.replace("\n", "\x1f"))),
        text.replace("\n", "\x0b") + "\x7f",
        text[1:],
        text[:-1],
        "",
        " \n\x01\x02 ",
        "I cannot find it.",
        "\u3000" + "".join(outputs) + "\u00a0",
    ][form]


def ruler_cases(task):
    out = []
    for i in range(39):
        rng = seeded("ruler", task, i)
        outputs = RULER_OUTPUTS[task](rng)
        out.append((ruler_prediction(rng, outputs, i % 13), outputs))
    return out


# LongBench v2

DOMAINS = ["Single-Document QA", "Multi-Document QA", "Code Repository Understanding"]


def longbench_v2_records():
    out = []
    for i in range(40):
        rng = seeded("longbench_v2", i)
        place = pick(rng, WORDS)
        record = {
            "_id": "made-%02d" % i,
            "domain": pick(rng, DOMAINS),
            "sub_domain": "Synthetic",
            "difficulty": pick(rng, ["easy", "hard"]),
            "length": pick(rng, ["short", "medium", "long"]),
            "question": " Which number belongs to %s?\n" % place,
        }
        for letter in "ABCD":
            record["choice_" + letter] = " %s " % number(rng)
        record["answer"] = pick(rng, "ABCD")
        number_of_place = record["choice_" + record["answer"]].strip()
        record["context"] = "\n The number of %s is %s. $Q$ {x}\n" % (place, number_of_place)
        out.append(record)
    return out


def longbench_v2_predictions(records):
    out = []
    for i, record in enumerate(records):
        right, wrong = record["answer"], "ABCD"["BCDA".index(record["answer"])]
        out.append(
            [
                "The correct answer is (%s)" % right,
                " **The correct answer is (%s)**. It follows from the text." % right,
                "The correct answer is %s" % right,
                "The correct answer is *%s*, not (%s)" % (right, wrong),
                "The correct answer is (%s)" % wrong,
                "The correct answer is %s; no: The correct answer is (%s)" % (wrong, right),
                "The correct answer is (%s). The correct answer is (%s)." % (right, wrong),
                "the correct answer is (%s)" % right,
                "The correct answer is ( %s )" % right,
                "The correct answer is (%s" % right,
                "The correct answer is (E) The correct answer is %sx" % right,
                "The correct answer is:\n(%s)" % right,
                "The correct answer is (insert answer here)",
                "(%s)" % right,
                "The correct answer is Definitely (%s)" % right,
                "The correct answer is The correct answer is (%s)" % right,
                "The correct answer is %s. The correct answer is %s." % (right, wrong),
            ][i % 17]
        )
    return out


# LoCoMo and REALTALK

ANSWERS = {
    1: ["pottery, painting, running", "Dogs; cats, and a parrot", "the hiking trips", "skies, ponies,dying stars", "3"],
    2: ["7 May 2023", "The week before 9 June, 2023", "in the 1990s", "yesterday's evening", 2022],
    3: ["Likely no; she prefers studying", "Yes", "National parks ; because of hiking", "relational databases"],
    4: ["an old photograph of the lighthouse and the sea", "Café Zoë's résumé", "three", "running", "agreed upon"],
}
SPARE = "the a and an running runner Ran studies hopefully généreux, ponies (old) relational; 2023 it's yyes".split()


def conversation_records():
    out = []
    for conversation in range(2):
        rng = seeded("locomo", conversation)
        record = {"sample_id": "made-%d" % conversation, "conversation": {"speaker_a": "Ann", "speaker_b": "Bob"}}
        for session in range(1, 4):
            messages = []
            for i in range(1, 5):
                speaker = ["Ann", "Bob"][i % 2]
                message = {"speaker": speaker, "dia_id": "D%d:%d" % (session, i)}
                if i == 3:
                    message["blip_caption"] = "a photo of a %s" % pick(rng, WORDS)
                message["text"] = "We talked about the %s %s." % (pick(rng, WORDS), pick(rng, WORDS))
                messages.append(message)
            record["conversation"]["session_%d_date_time" % session] = "%d:00 pm on %d May, 2023" % (session, session)
            record["conversation"]["session_%d" % session] = messages
        record["qa"] = []
        for i in range(100):
            category = 1 + i % 5
            qa = {"question": "Question %d?" % i, "evidence": ["D%d:%d" % (1 + i % 3, 1 + i % 4)], "category": category}
            if category == 5:
                qa["adversarial_answer"] = pick(rng, ["a red bowl", "Not mentioned", "Yes"])
                if i % 20 == 4:
                    qa["answer"] = "No"
            else:
                qa["answer"] = pick(rng, ANSWERS[category])
                if i >= 40:
                    rest = [pick(rng, SPARE) for _ in range(rng.between(1, 6))]
                    qa["answer"] = "%s%s%s" % (qa["answer"], pick(rng, [" ", ", ", "; "]), " ".join(rest))
            record["qa"].append(qa)
        out.append(record)
    return out


def realtalk_record():
    """The first conversation in REALTALK's format, with its questions of the categories 1 to 3."""
    made = conversation_records()[0]
    out = {"name": {"speaker_1": "Ann", "speaker_2": "Bob"}}
    for key, value in made["conversation"].items():
        if key.endswith("date_time"):
            out[key] = value
        elif key.startswith("session"):
            out[key] = [
                {"clean_text" if name == "text" else name: text for name, text in message.items()} for message in value
            ]
            for message in out[key]:
                message.update(date_time=out[key + "_date_time"], img_url=[], img_file=[])
            out["events_" + key] = {"Ann": [], "Bob": []}
    out["qa"] = [qa for qa in made["qa"] if qa["category"] < 4]
    return out


def option_of(name):
    """The option "Not mentioned in the conversation" of an adversarial question, as in datasets/locomo.cpp."""
    return "ab"[seeded(name).below(2)]


def conversation_predictions(record):
    out = []
    for i, qa in enumerate(record["qa"]):
        rng = seeded("prediction", record.get("sample_id", "realtalk"), i)
        if qa["category"] == 5:
            choices = ["a", "b", "(a)", "(B)", " (b) ", "yes", "A", "", "Not mentioned in the conversation"]
            choices += ["x", "No Information Available.", "(a) not mentioned", "a red bowl", "(b) a red bowl"]
            choices += ["NOT\nMENTIONED"]
            out.append((qa, pick(rng, choices)))
            continue
        answer = str(qa["answer"])
        words = answer.split(" ")
        form = rng.below(8)
        if form == 0:
            text = answer
        elif form == 1:
            text = answer.upper() + "!"
        elif form == 2:
            text = ""
        elif form == 3:
            text = ", ".join(reversed(answer.split(",")))
        else:
            text = " ".join(pick(rng, SPARE) if rng.below(3) == 0 else word for word in words)
            if form > 5:
                text += pick(rng, [",", " ", ", "]) + pick(rng, SPARE)
        out.append((qa, text))
    return out


ROOTS = """
a ab b be by fly spy sky dy die lie ti new hop hopp fall hiss fizz fail fil run stud pon relat condit rat val
hesit digit conform radic differ vile analog vietnam predic oper feud decis hope call form sensit tripl electr
good reviv allow infer air gyroscop adjust def irrit replac depend adopt commun activ angul effect bowdl prob
ceas contr roll geo theo archaeo philo yyy syzyg enjo agr proc succe howe out inn cann ñand größ café x1 o
""".split()

SUFFIXES = """
- s es ies sses ss ed ied eed ing ings ated bled ized y ly ational tional enci anci izer bli abli alli entli
eli ousli ization ation ator alism iveness fulness ousness aliti iviti biliti fulli logi icate ative alize
iciti ical ful ness al ance ence er ic able ible ant ement ment ent sion tion ion ou ism ate iti ous ive ize e
ee ll lle
""".split()


def stemmer_words():
    words = {root + suffix.strip("-") for i, root in enumerate(ROOTS) for suffix in SUFFIXES[i % 3 :: 3]}
    words |= set("skies dying lying tying news innings outing cannings exceed succeed proceed".split())
    return sorted(words)
