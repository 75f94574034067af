"""Metrics of InfiniteBench, SCBench, RULER and others; exceptions of the official scorers count as 0.

Labels are texts here, as in the project; the JSON files store labels that are numbers as numbers.
"""

import re

from longbench_references import bare_words, chinese, f1


def characters_f1(prediction, reference):
    return f1(list(chinese(prediction)), list(chinese(reference)))


def number(text):
    """A label as in the JSON files."""
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


def blanked(text, characters):
    return "".join(" " if c in characters else c for c in text)


def first_number(prediction, labels):
    runs = [run for run in re.split("[^0-9]", prediction) if run]
    return (runs[0] if runs else "") == labels[0]


def kv_retrieval(prediction, labels):
    return labels[0] in blanked(prediction, "\n:\"'.,?!{}").split()


def dialogue_qa(prediction, labels):
    words = blanked(prediction, "\n:\"'.,?!{}").split()
    return labels[0] in [word.upper() for word in words]


def after_prefix(text, prefixes):
    for prefix in prefixes:
        head, found, tail = text.partition(prefix)
        if found:
            return tail[1:] if tail else None
    return False


def choice(prediction, labels):
    prediction = prediction.strip()
    if not prediction:
        return False
    if prediction[0] in "ABCD":
        return prediction[0] in labels
    if prediction in labels:
        return True
    text = re.sub(" +", " ", blanked(prediction, "\n\"'.,?!{}"))
    rest = after_prefix(text, ["answer is:", "answer:", "answer is", "option is"])
    if rest is not False:
        return rest is not None and any(rest.startswith(label) for label in labels)
    letters = [word for word in text.split() if word in "ABCD"]
    return bool(letters) and letters[0] in labels


def code_debug(prediction, labels):
    name, letter = labels
    prediction = prediction.strip()
    if prediction[:2] in (letter + ".", letter + ":"):
        return True
    text = blanked(prediction, "\n`'\"-*").replace("Option", " ").replace("option", " ")
    text = re.sub(" +", " ", text)
    rest = after_prefix(text, ["answer is:", "is:", "answer:"])
    return bool(rest) and (rest.startswith(letter) or rest.startswith(name))


def code_run(prediction, labels):
    words = blanked(prediction, "\n.`'\":").split()
    return int(words[-1]) == number(labels[0])


def math_find(prediction, labels, to_int=int):
    label = number(labels[0])
    found = re.search(r"\d+\.\d+|\d+", prediction).group()
    return (to_int(found) if isinstance(label, int) else float(found)) == label


def scbench_math_find(prediction, labels):
    return math_find(prediction, labels, lambda text: int(float(text)))


def math_calc(prediction, labels):
    numbers = [int(run) for run in re.split("[^0-9]", prediction) if run]
    right = 0
    for label, found in zip(labels, numbers):
        if number(label) != found:
            break
        right += 1
    return right / len(labels)


def scbench_kv(prediction, labels):
    return labels[0] in prediction


def scbench_qa(prediction, labels):
    return any(label.upper() in prediction.strip().upper() for label in labels)


def occurring(prediction, labels):
    return [float(label.lower() in prediction.lower()) for label in labels]


def scbench_vt(prediction, labels):
    return round(sum(occurring(prediction, labels)) / len(labels), 2)


def ruler_clean(prediction):
    return re.sub(r"[\x00-\x1f]", "\n", prediction.strip()).strip()


def ruler_match_all(prediction, labels):
    return sum(occurring(ruler_clean(prediction), labels)) / len(labels)


def ruler_match_part(prediction, labels):
    return max(occurring(ruler_clean(prediction), labels))


def gsm8k(prediction, reference):
    def last(text):
        return float(re.findall(r"\d*\.?\d+", text.replace(",", ""))[-1])

    return float(last(prediction.split("\nQuestion: ")[0]) == last(reference))


def longbench_write_length(prediction, reference):
    wanted = int(reference)
    words = len(re.findall(r"[\u4e00-\u9fff]", prediction))
    words += len(re.findall(r"\b[a-zA-Z]+\b", prediction))
    if words > wanted:
        return max(0, 1.0 - (words / wanted - 1) / 3)
    return max(0, 1.0 - (wanted / words - 1) / 2)


def letters_score(given, reference):
    if given == reference:
        return 1
    return 0.25 if set(given) <= set(reference) else 0


def leval_letter(prediction, reference):
    if prediction in "ABCD":
        return letters_score(prediction, reference)
    return letters_score((re.findall("[ABCD]", prediction) + ["A"])[0], reference)


def leval_letters(prediction, reference):
    if prediction in "ABCD":
        return letters_score(prediction, reference)
    named = re.match("[ABCD]*", prediction).group()
    if len(named) < 2:
        rest = prediction[len(named) :].split("Question")[0]
        named += "".join(re.findall(r"\s*[A-Z](?=[\s.)])", rest))
    return letters_score("".join(sorted(set(re.sub("[^A-D]", "", named)))) or "A", reference)


def leval_stated(prediction, reference):
    if all(c in "ABCD" for c in bare_words(reference)):
        return letters_score(bare_words(prediction), bare_words(reference))
    try:
        return float(prediction) == float(reference)
    except ValueError:
        line = ([one for one in prediction.split("\n") if len(one) > 1] + [prediction])[0]
        return reference.lower().replace(" ", "") in line.lower().replace(" ", "")


def plain_code(text):
    text = re.sub(r"\s+", " ", text)
    changes = [(",", ""), ("'", ""), ("\\", ""), (".0", ""), ("] [", "]["), ("[ [", "[["), ("] ]", "]]")]
    for old, new in changes:
        text = text.replace(old, new)
    return text


def leval_code(prediction, reference):
    words = len(reference.split()) + 3
    text = plain_code(prediction)
    for filler in ["will be", "of the code", "is", "would be", "the value of", "the result of", "printed"]:
        text = text.replace(filler, "")
    head, mark, tail = text.rpartition("the final output")
    parts = re.split(r"\s+", tail)
    return leval_stated(" ".join(parts[:words] if mark else parts[-words:]), plain_code(reference))
