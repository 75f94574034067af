"""The properties of every code point in Python's str and re, as runs of equal properties, and all case mappings:
tests/data/metrics/unicode.bin."""

import re
import struct
import unicodedata


def properties(code_point):
    c = chr(code_point)
    if 0xD800 <= code_point < 0xE000 or unicodedata.category(c) == "Cn":
        return 0
    cased = (c + "Σ").lower()[-1] == "ς"  # and not case-ignorable
    ignorable = not cased and ("A" + c + "Σ").lower()[-1] == "ς"
    digit = re.fullmatch(r"\d", c) is not None
    return (
        1
        | (c.isspace() << 1)
        | ((re.fullmatch(r"\w", c) is not None) << 2)
        | (cased << 3)
        | (ignorable << 4)
        | (digit << 5)
        | ((int(c) if digit else 0) << 6)
    )


def write_unicode(path):
    runs, start, last = [], 0, properties(0)
    for code_point in range(1, 0x110001):
        here = properties(code_point) if code_point < 0x110000 else None
        if here != last:
            runs.append((start, last))
            start, last = code_point, here
    mappings = []
    for code_point in range(0x110000):
        if properties(code_point) == 0:
            continue
        c = chr(code_point)
        for kind, mapped in enumerate((c.lower(), c.upper())):
            if mapped != c:
                points = [ord(x) for x in mapped] + [0, 0]
                mappings.append((kind << 24 | code_point, *points[:3]))
    with open(path, "wb") as out:
        out.write(struct.pack("<II", len(runs), len(mappings)))
        for start, bits in runs:
            out.write(struct.pack("<IH", start, bits))
        for first, *points in mappings:
            out.write(struct.pack("<IIHH", first, *points))
