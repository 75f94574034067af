"""Draws templates of the features of text/jinja: most are well-typed, with all kinds of statements; some fail."""

from splitmix import Random

VARIABLES = [
    {"m": [{"role": "user", "content": " Hi <b>you</b>\n"}, {"role": "assistant", "content": "Yes.", "n": 3}],
     "s": "ab cd", "t": "Ünï 你好😀", "n": 3, "k": -2, "x": 1.5, "b": True, "l": [3, 1, 2], "w": ["b", "A", "c"],
     "d": {"k": 1, "a": "z"}},
    {"m": [{"role": "system", "content": ""}], "s": "", "t": "x\ty\r\n'z\"", "n": 0, "k": 7, "x": -0.25, "b": False,
     "l": [], "w": [""], "d": {}},
    {"m": [], "s": "Hello, World", "t": "ß ı Σ", "n": 12, "k": -11, "x": 1e20, "b": None, "l": [5, 5, -1, 0],
     "w": ["x y", "é", "É", "x y"], "d": {"b": [1, 2], "a": {"c": None}, "get": 1}},
]

TEXTS = ["a", " ", "\n", "  ", "x\n", "\n  ", " y ", "<|im_start|>", "é", "{", "}}"]


class Draw:
    def __init__(self, random):
        self.random = random

    def of(self, *choices):
        return choices[self.random.below(len(choices))]

    def chance(self, n):
        return self.random.below(n) == 0

    def any(self, depth):
        kind = self.of("text", "number", "truth", "items", "mapping")
        return getattr(self, kind)(depth)

    def wrong(self, kind, depth):
        """Sometimes a value of another type."""
        return self.any(depth - 1) if self.chance(25) else getattr(self, kind)(depth - 1)

    def text(self, depth):
        if depth <= 0:
            return self.of("s", "t", "'q'", "'a b'", "''", "\"it's\"", "d.a", "m[0].content", "m[0]['role']", "'\\n\\u00e9'")
        a, b, i = (lambda: self.wrong("text", depth)), (lambda: self.wrong("text", 0)), (lambda: self.wrong("number", depth))
        return self.of(
            lambda: f"{a()} + {b()}", lambda: f"{a()} ~ {self.any(depth - 1)}", lambda: f"({self.of('s', 't')} * {self.of('2', 'n', 'k')})",
            lambda: f"({self.text(depth - 1)})[{self.piece()}]", lambda: f"({a()})[{i()}]", lambda: f"({a()}).{self.method()}",
            lambda: f"{a()} | {self.text_filter()}", lambda: f"({self.wrong('items', depth)}) | join({b()})",
            lambda: f"({a()} if {self.wrong('truth', depth)} else {b()})", lambda: f"{self.any(depth - 1)} | string",
            lambda: f"({self.any(depth - 1)}) | tojson{self.of('', '', '(indent=2)', '(ensure_ascii=false)')}",
            lambda: f"({self.any(depth - 1)} | default({b()}{self.of('', ', true')})) | string", lambda: f"({a()} or {b()})")()

    def method(self):
        return self.of("strip()", "lstrip()", "rstrip('b \\n')", "upper()", "lower()", "replace('a', 'zz')", "replace('', '.', 3)",
                       "split()[0]", "split(' ')[-1]", "rsplit(' ', 1)[0]", "strip('abH')", "join(w)", "swapcases()", "nosuch()", "strip(1)")

    def text_filter(self):
        return self.of("upper", "lower", "trim", "replace('a', 'b')", "trim('a')", "indent(2)", "indent(1, true, true)", "first", "last",
                       "reverse", "default('D', true)", "string")

    def piece(self):
        part = lambda: self.of("", "", "1", "-1", "2", "-3", "n", "9")
        return self.of(f"{part()}:{part()}", f"{part()}:{part()}:{self.of('1', '2', '-1', '-2', '')}")

    def number(self, depth):
        if depth <= 0:
            return self.of("n", "k", "x", "0", "1", "2", "-1", "3.5", "7", "l[0]", "true", "10")
        a, b = (lambda: self.wrong("number", depth)), (lambda: self.wrong("number", 0))
        return self.of(
            lambda: f"{a()} {self.of('+', '-', '/')} {b()}", lambda: f"({self.whole()} {self.of('//', '%')} {self.whole()})", lambda: f"({a()} {self.of('+', '-')} {a()})", lambda: f"({self.whole()} * {self.of('x', '2', '0.5', '-3')})", lambda: f"-{b()}",
            lambda: f"({a()}) | {self.of('abs', 'int', 'float')}",
            lambda: f"({self.wrong('items', depth)}) | {self.of('length', 'first', 'last', 'count')}",
            lambda: f"({self.wrong('text', depth)}) | {self.of('length', 'int', 'float', 'int(5)')}",
            lambda: f"({a()} if {self.wrong('truth', depth)} else {b()})")()

    def whole(self):
        return self.of("n", "k", "0", "1", "2", "-1", "7", "true", "10", "s | length")

    def truth(self, depth):
        if depth <= 0:
            return self.of("b", "true", "false", "none", "n", "s", "l", "zz", "m")
        return self.of(
            lambda: f"{self.wrong('number', depth)} {self.sign()} {self.wrong('number', depth)}",
            lambda: f"{self.wrong('text', depth)} {self.sign()} {self.wrong('text', depth)}",
            lambda: f"{self.any(depth - 1)} {self.of('==', '!=')} {self.any(depth - 1)}",
            lambda: f"{self.wrong('text', depth)} {self.of('in', 'not in')} {self.of('t', 'w', 'd', 'm[0]', 's')}",
            lambda: f"{self.wrong('number', 0)} {self.of('in', 'not in')} {self.wrong('items', depth)}",
            lambda: f"not {self.wrong('truth', depth)}", lambda: f"{self.truth(depth - 1)} {self.of('and', 'or')} {self.truth(depth - 1)}",
            lambda: f"({self.any(depth - 1)}) is {self.of('', 'not ')}{self.test()}",
            lambda: f"({self.wrong('text', depth)}).{self.of('startswith', 'endswith')}({self.wrong('text', 0)})",
            lambda: f"{self.number(0)} {self.sign()} {self.number(0)} {self.sign()} {self.number(0)}")()

    def sign(self):
        return self.of("==", "!=", "<", "<=", ">", ">=")

    def test(self):
        return self.of("defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "sequence", "iterable",
                       "true", "false", "eq 1", "in [1, 'a']", "gt 0")

    def items(self, depth):
        if depth <= 0:
            return self.of("l", "w", "[]", "[1, 'a', none]", "(1, 2)", "[2.5, true]", "d.b", "range(3) | list", "[[1, 2], ['a']]")
        a = lambda: self.wrong("items", depth)
        return self.of(
            lambda: f"[{self.any(depth - 1)}, {self.any(0)}]", lambda: f"({self.items(depth - 1)})[{self.piece()}]", lambda: f"({a()} | list + [{self.any(0)}])",
            lambda: f"({a()}) | {self.of('list', 'unique | list', 'reverse | list')}",
            lambda: f"{self.of('l', 'w', '[2.5, true]', '(1, s)')} | sort{self.of('', '(reverse=true)')}",
            lambda: f"({a()}) | map('{self.of('string', 'int', 'length', 'upper', 'abs', 'tojson')}') | list",
            lambda: f"({a()}) | {self.of('select', 'reject')}({self.of('', repr('integer'), repr('defined'), repr('string'), repr('number'))}) | list",
            lambda: f"({self.wrong('text', depth)}) | list", lambda: f"({self.wrong('text', depth)}).split({self.of('', repr(' '), repr('b'))})",
            lambda: f"m | {self.of('map(attribute=', 'selectattr(', 'rejectattr(', 'sort(attribute=')}'{self.of('role', 'content', 'n')}') | list",
            lambda: f"({self.wrong('mapping', depth)}) | {self.of('dictsort', 'list', 'items | list')}",
            lambda: f"({self.wrong('mapping', depth)}).{self.of('items', 'keys', 'values')}() | list")()

    def mapping(self, depth):
        if depth <= 0:
            return self.of("d", "{}", "m[0]", "{'a': 1}", "{1: 2, 'k': []}", "d.a")
        return self.of(lambda: "{'a': " + self.any(depth - 1) + ", " + self.of("'b'", "1", "s", "none") + ": " + self.any(0) + "}",
                       lambda: f"({self.wrong('mapping', depth)}).get({self.text(0)}, {self.any(0)})", lambda: f"m | {self.of('first', 'last')}")()

    # Statements

    def tag(self, text):
        left, right = self.of("", "", "", "-", "-", "+"), self.of("", "", "", "-", "-", "+")
        return "{%" + left + " " + text + " " + right + "%}"

    def output(self):
        return "{{" + self.of("", "", "-") + " " + self.any(self.of(0, 1, 1, 2, 2, 3)) + " " + self.of("", "", "-") + "}}"

    def body(self, depth):
        return "".join(self.statement(depth) for _ in range(1 + self.random.below(3)))

    def block(self, depth, begin, end, *middle):
        out = self.tag(begin)
        for tag in middle:
            out += self.body(depth) + self.tag(tag)
        return out + self.body(depth) + self.tag(end)

    def statement(self, depth):
        if depth <= 0 or self.chance(3):
            return self.of(self.output, self.output, self.output, lambda: self.of(*TEXTS), lambda: "{#" + self.of("", "-") + " c " + self.of("", "-") + "#}")()
        depth -= 1
        condition = lambda: self.truth(self.of(0, 1, 2))
        return self.of(
            lambda: self.block(depth, "if " + condition(), "endif", *self.of((), ("else",), ("elif " + condition(), "else"))),
            lambda: self.block(depth, "for i in " + self.items(1) + self.of("", "", " if " + self.of("i", "i != 1", "i is string")), "endfor", *self.of((), (), ("else",)))
            .replace("'q'", self.of("'q'", "i", "loop.index", "loop.last", "loop.nextitem")),
            lambda: self.block(depth, "for a, v in " + self.of("d.items()", "d | dictsort", "[[1, 2], 'xy']", "d | items"), "endfor").replace("'q'", "a").replace("'a b'", "v"),
            lambda: self.block(depth, "for i in range(4)", "endfor").replace("'q'", "i") .replace("{% endfor", "{% if i == 2 %}{% " + self.of("break", "continue") + " %}{% endif %}{{ i }}{% endfor"),
            lambda: self.tag("set " + self.of("q", "r") + " = " + self.any(2)), lambda:  self.block(depth, "set " + self.of("r", "q"), "endset") + "{{ q }}",
            lambda: self.block(depth, "macro f(q, n=" + self.any(0) + ")", "endmacro") + "{{ f(" + self.of("", "1", "s, 2", "n='z'", "q=l") + ") }}",
            lambda: self.tag("set ns = namespace(c=0)") + self.block(depth, "for i in " + self.items(0), "endfor").replace("{{ ", "{% set ns.c = ns.c + 1 %}{{ ns.c ~ ", 1) + "{{ ns.c }}",
            lambda: self.block(depth, "generation", "endgeneration"))()


def draw(seed):
    """An infinite sequence of templates, each with the index of its variables."""
    random = Random(seed)
    drawing = Draw(random)
    while True:
        source = drawing.body(2)
        if len(source) <= 300:
            yield source, random.below(len(VARIABLES))
