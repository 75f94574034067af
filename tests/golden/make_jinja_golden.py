"""Makes tests/data/jinja/*.json: renderings by jinja2, or null if it refuses.

  cases.json      handwritten templates (jinja_cases.py)
  left_out.json   handwritten templates with features that text/jinja does not support and refuses
  random.json     templates drawn from a grammar (jinja_grammar.py)
  templates.json  the chat templates of DIRECTORY with conversations; the templates themselves are not copied

Usage: python make_jinja_golden.py DIRECTORY
where DIRECTORY contains *.jinja.  Needs the packages named in jinja_reference.py.
"""

import json
import pathlib
import sys

import jinja_cases
import jinja_conversations
import jinja_grammar
from jinja_reference import is_repeatable, render

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/data/jinja"


def write(name, head, cases):
    """Writes one case per line, so that diffs are readable."""
    lines = ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases)
    head = json.dumps(head, ensure_ascii=False)
    (OUT / name).write_text('{"variables": ' + head + ',\n"cases": [\n' + lines + "\n]}\n")
    failed = sum(case[-1] is None for case in cases)
    print(f"{name}: {len(cases)} cases, {failed} of them refused, {(OUT / name).stat().st_size} bytes")


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for name, sources in (("cases.json", jinja_cases.cases()), ("left_out.json", jinja_cases.left_out())):
        cases = [[source, render(source, jinja_cases.VARIABLES)] for source in sources]
        write(name, jinja_cases.VARIABLES, [case for case in cases if is_repeatable(case[-1])])

    drawn = []
    for source, i in jinja_grammar.draw(seed=1):
        text = render(source, jinja_grammar.VARIABLES[i])
        if is_repeatable(text) and len(text or "") < 400:
            drawn.append([source, i, text])
        if len(drawn) == 2000:
            break
    write("random.json", jinja_grammar.VARIABLES, drawn)

    rendered = []
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.jinja")):
        for i, variables in enumerate(jinja_conversations.VARIABLES):
            rendered.append([path.name, i, render(path.read_text(), variables)])
    write("templates.json", jinja_conversations.VARIABLES, rendered)


if __name__ == "__main__":
    main()
