"""Handwritten templates, each for one feature of chat templates."""

VARIABLES = {
    "messages": [
        {"role": "system", "content": " Be brief. "},
        {"role": "user", "content": "Hello, \"World\" <b>\n\tçà va? 你好 😀"},
        {"role": "assistant", "content": "", "tool_calls": [
            {"function": {"name": "f", "arguments": {"x": 1, "y": [1.5, None, True], "z": "é\"\\\n"}}}]},
    ],
    "tools": None, "yes": True, "no": False, "zero": 0, "n": 42, "x": 2.5, "s": "Hello World", "empty": "",
    "words": ["banana", "Apple", "cherry", "apple"], "numbers": [3, 1, 2, -7, 2],
    "d": {"b": 2, "a": [1, {"c": "deep"}], "items": "shadow", "1": "one", "C": 0},
    "people": [{"name": "Ann", "age": 30, "at": {"city": "Paris"}}, {"name": "bob", "age": 25, "at": {"city": "Rome"}},
               {"name": "Cid", "age": 30, "at": {"city": "paris"}}],
    "u": "ÀÉîß ǆ İstanbul Σίσυφος ΌΣ ﬁ", "lines": "one\r\ntwo\n\nthree\x0bfour\u2028five",
}

# One per line, as {{ expression }}.
EXPRESSIONS = r"""
1 + 2 * 3 - 4
7 / 2
8 / 2
7 // 2
-7 // 2
7 % 3
-7 % 3
7 % -3
10 ** 18
9223372036854775807
1 / 0
1 // 0
1 % 0
1.0 / 0
0.1 + 0.2
1e16
1e15
123456789012345680.0
1e-5
0.0001
1.5e300 * 1e10
-0.0
1.e5
5 is odd
1 if yes else 2
1 if no else 2
1 if no
(1 if no) is defined
1 if yes if no else 3
yes and no
yes and 0 or 'x'
not yes
not no and yes
not (1 == 1)
1 < 2 < 3
1 < 3 < 2
3 > 2 >= 2 != 1
1 == 1.0 == true
'a' < 'b'
'a' < 'B'
'é' > 'z'
(1, 2) == (1, 2)
[1] == (1,)
1 < 'a'
none < 1
none == none
'1' == 1
{'a': 1} == {'a': 1.0}
{'a': 1, 'b': 2} == {'b': 2, 'a': 1}
'ell' in 'Hello'
'' in ''
1 in 'a'
1 in [1, 2]
1 not in [1, 2]
'b' in d
'zz' not in d
1 in 5
[1] in [[1]]
'a' ~ 1 ~ none ~ true ~ 1.0
'a' + 'b' * 3
3 * 'ab'
'a' + 1
1 + 'a'
'a' * -1
[1, 2] + [3]
(1,) + (2,)
[1] + (2,)
true + true
-true
+'a'
-x
- -n
- n | abs
-7|abs
(-7)|abs
not not 1
undefined_name
undefined_name.x
undefined_name['x']
undefined_name[0]
undefined_name()
undefined_name + 1
1 + undefined_name
'a' + undefined_name
undefined_name ~ 'a'
undefined_name == other_name
undefined_name == none
undefined_name < 1
undefined_name or 'fallback'
not undefined_name
-undefined_name
'x' in undefined_name
undefined_name in [1]
undefined_name in 'abc'
undefined_name | length
undefined_name | list
undefined_name | upper
undefined_name | int
undefined_name | first
undefined_name | last
undefined_name | join
undefined_name | default('D')
undefined_name.x | default('D')
undefined_name | tojson
undefined_name | string
undefined_name | trim
undefined_name[1:]
[undefined_name]
d.zz
d.zz.y
d.zz is defined
d.zz.y is defined
d['b']
d.b
d.items
d['items']
d.keys() | list
d.items() | length
d.items() | list
d.get('b')
d.get('zz')
d.get('zz', 5)
d.get('zz', default=5)
d.a[1].c
d.a.1.c
d.a.0
d['a'][-1]['c']
d.1
d['1']
d[1]
d[[1]]
d.pop('b')
d.update({'a': 1})
d.clear()
d.setdefault('q', 1)
words.append('x')
words.sort()
words.index('zz')
words.0
words[0]
words[-1]
words[9]
words[9] is defined
words['a']
words[1.0]
words[true]
words[none]
words[1:]
words[:-1]
words[::-1]
words[::2]
words[-2:]
words[5:]
words[2:1]
words[1:3:2]
words[::0]
words['a':]
s[0]
s[-1]
s[0:5]
s[::-1]
s[::2]
s[99]
s[6:]
s[-5:-1]
s[99:]
u[0]
u[1:3]
u[::-1]
'😀你'[1]
'😀你'[0] ~ '|' ~ ('😀你'|length)
(1, 2, 3)[1:]
(1, 2)[0]
d[1:]
5[0]
none[0]
none.x
s.__class__
s.__class__ is defined
s.foo
s.upper()
s['upper']()
s.lower()
s.title()
s.capitalize()
u.upper()
u.lower()
u | upper
u | lower
"they're bill's (small)-step [x] friends" | title
"they're bill's (small)-step friends".title()
'  a b  '.strip() ~ '|'
'  a b  '.lstrip() ~ '|'
'  a b  '.rstrip() ~ '|'
'xxaxx'.strip('x')
'abcba'.strip('ab')
'xyaxy'.lstrip('xy')
'xyaxy'.rstrip('yx')
'a'.strip(none)
'a'.strip(1)
'\u00a0a\u3000'.strip() ~ '|'
'a,b,,c'.split(',')
'a,b,,c'.split(',', 1)
'a,b,,c'.rsplit(',', 1)
'a,b,,c'.split(',', maxsplit=2)
' a  b c '.split()
' a  b c '.split(none, 1)
''.split()
''.split(',')
'abc'.split('')
'a--b--c'.split('--')[-1]
'aaa'.split('aa')
'aaa'.rsplit('aa')
s.startswith('Hello')
s.startswith(('x', 'He'))
s.startswith('')
s.startswith(1)
s.endswith('World')
s.endswith(('x', 'ld'))
s.replace('o', '0')
s.replace('o', '0', 1)
'aaa'.replace('', '-')
'abc'.replace('', '-', 2)
'aaaa'.replace('aa', 'b')
s.index('zz')
','.join(['a', 'b'])
','.join([1, 2])
','.join('abc')
', '.join(words)
'{'.format()
'{}'.format()
'{x}'.format()
'{:d}'.format('a')
'%d' % 'a'
'%s %s' % 'a'
'%s' % ('a', 'b')
s | length
u | length
words | length
d | count
5 | length
none | length
'' | length
'  x ' | trim ~ '|'
'xxaxx' | trim('x')
5 | trim
none | trim
s | replace('o', '0')
s | replace('o', '0', 1)
5 | replace(5, 6)
s | replace('l', none)
s | default('D')
none | default('D')
none | default('D', true)
'' | default('D', boolean=true)
'' | d('D')
zero | default(5, true)
words | join
words | join(', ')
[1, none, 2.0] | join('-')
people | join(', ', attribute='name')
people | map(attribute='at.city') | join(',')
5 | join
words | first
words | last
[] | first
[] | first is defined
[] | last
s | first ~ (s | last)
d | first
words | map('upper') | last
words | sort
words | sort(case_sensitive=true)
words | sort(reverse=true)
numbers | sort
[1, 'a'] | sort
people | sort(attribute='age') | map(attribute='name') | list
people | sort(attribute='at.city') | map(attribute='name') | list
d | sort
'hello' | sort
words | unique | list
words | unique(case_sensitive=true) | list
people | unique(attribute='age') | map(attribute='name') | join
words | reverse | list
s | reverse
(1, 2) | reverse | list
d | reverse | list
5 | reverse
words | sum
numbers | slice(0) | list
d | dictsort
d | dictsort(true)
{'b': 1, 'a': 2} | dictsort(by='value')
{'b': 1, 'a': 2} | dictsort(false, 'value', true)
{'b': 1} | dictsort(by='zz')
d | items | list
undefined_name | items | list
words | items | list
people | map(attribute='zz', default='?') | join
people | map(attribute='zz') | join
words | map('length') | list
words | map('replace', 'a', 'o') | list
words | map('nosuch') | list
words | map | list
numbers | select | list
[0, 1, '', 'a', none] | select | list
numbers | select('odd') | list
numbers | reject('odd') | list
numbers | select('>', 1) | list
numbers | select('divisibleby', 2) | list
numbers | select('in', [1, 2]) | list
people | selectattr('age') | list | length
people | selectattr('age', 'equalto', 30) | map(attribute='name') | list
people | selectattr('age', '==', 25) | map(attribute='name') | list
people | selectattr('zz', 'defined') | list
people | rejectattr('zz', 'undefined') | list
messages | selectattr('role', 'equalto', 'user') | list | length
(words | map('upper')) | length
(words | map('upper'))[0]
(words | map('upper')) is iterable
(words | map('upper')) is sequence
'abc' | list
d | list
5 | list
(1, 2) | list
5 | string + 'a'
none | string
[1, 'a'] | string
'42' | int
'4.7' | int
' 42 ' | int
'z' | int
'z' | int(7)
'z' | int('no')
none | int
3.99 | int
-3.99 | int
true | int
'1_000' | int
'1e3' | int
'٣' | int
[] | int
'inf' | int
'4.5' | float
'x' | float
'x' | float(1.5)
'1e400' | float
'-inf' | float
'nan' | float
5 | float
none | float
-5 | abs
-5.5 | abs
'a' | abs
42.55 | round(1, 'zz')
'a' | round
s | upper | lower | title
5 | upper
'hello wORLD' | capitalize
'' | capitalize
'foo' | truncate(2)
'a\nb\n\nc' | indent
'a\nb\n\nc' | indent(2, true)
'a\nb\n\nc' | indent(2, blank=true)
'a\nb' | indent('> ', first=true)
'' | indent(2, true) ~ '|'
'a\r\nb\n' | indent ~ '|'
5 | indent
'<a>' | safe
('<a>' | safe) ~ '<b>'
[('<' | safe)]
1 | tojson
1.0 | tojson
1e100 | tojson
true | tojson
none | tojson
'é"\\\n\t\x01\x7f/<>&\'' | tojson
[] | tojson
{} | tojson
[[], {}] | tojson(indent=2)
d | tojson
d | tojson(indent=2)
d | tojson(indent=0)
d | tojson(indent='--')
d | tojson(separators=(',', ':'))
d | tojson(indent=2, separators=(', ', ' = '))
(1, 2) | tojson
{1: 2, none: 3, true: 4, 1.5: 5} | tojson
{(1, 2): 3} | tojson
(words | map('upper')) | tojson
('inf' | float) | tojson
('nan' | float) | tojson
messages | tojson
messages[2].tool_calls[0].function | tojson
s | nosuchfilter
1 if yes else (s | nosuchfilter)
s is nosuchtest
1 is defined
none is none
n is number and x is number and yes is number
n is integer
yes is integer
x is float
yes is boolean
s is string
d is mapping
d is sequence
s is sequence
5 is sequence
undefined_name is sequence
undefined_name is iterable
undefined_name is mapping
range(3) is sequence
5 is iterable
s is iterable
d.items() is sequence
yes is true
1 is true
no is false
3 is odd and 4 is even
-3 is odd
'a' is odd
6 is divisibleby 3
6 is divisibleby(4)
6 is divisibleby(0)
1 is eq 1
1 is equalto(1)
1 is ne 2
1 is lt 2 and 1 is le 1 and 2 is gt 1 and 2 is ge 2
1 is == 1
1 is in [1, 2]
1 is not in [1, 2]
x is not none
x is not defined
not x is defined
x is defined is true
s is string and s | length > 3
words[0] is string
range(3) | list
range(1, 10, 3) | list
range(5, 0, -2) | list
range(3)[1]
range(10)[::-1] | list
range(0)| list
range(1, 2, 0)
range(100001)
range(3) | length
3 in range(5)
range('a')
dict([1])
namespace(a=1).a
namespace(a=1).b
namespace(a=1)['a']
namespace(_a=1)
cycler()
strftime_now('%d %b %Y')
raise_exception('no')
raise_exception is defined
'a' 'b' "c"
"it's"
['it\'s', "q\"", 'both\'"', '\n\\\x00\xa0\u200b\U0001F600é']
[1, 1.0, true, none, 'a', (1,), (), [], {}, {'a': [1]}]
{'a': 1, 'a': 2}
{1: 'a', true: 'b', 1.0: 'c'}
{[1]: 2}
{'k': 1}.k
{'k': 1}['k']
[1, 2, 3,]
(1,)
()
1, 2
(1, 2, 3,)
{'a': 1,}
messages[0].content
messages[0]['content'].strip()
messages[-1].tool_calls[0].function.arguments.z
messages[1:] | length
messages | map(attribute='role') | join(' ')
messages[0] == messages | first
'content' in messages[0]
messages[5].role
messages[0].role.upper() + '!'
tools is none
tools is defined
tools or 'none'
(messages | last).tool_calls is defined
d.b + d.a[0]
s | upper ~ s | lower
1 ~ 2 + 3
'a' ~ 'b' in 'ab'
2 * 3 ~ 4
1 + 1 == 2 and 2 in [2]
(1, 'a') in [(1, 'a')]
words | select('in', 'apple pie') | list
a.b.c
s.upper
1.5.x
'a'.join
[].x
'' or none or 0 or 'last'
1 and 2 and 3
[] and 1
'abc' < 'abd' <= 'abd'
9223372036854775807 - 1
-9223372036854775807 - 1
1 == true and 'a' == 'a'
[1, [2, [3]]] | string
words | map('first') | join | upper
words|join(',')|replace(',', ';')|length
{'a': {'b': {'c': [10, 20]}}}.a.b.c[-1]
not 1 in [2]
(yes, no) | map('string') | list
1 if 0 else 2 if 0 else 3
(d.items() | first)[0]
d.items() | map('first') | list
[3, 1, 2] | sort | first
'a b'.split(' ')[1] | upper
'x'.__len__()
namespace.x
loop
caller
varargs
s.format
'{} {}'.format('a')
''.join(['a', none])
'a' if s else 'b' ~ 'c'
"a\
b"
1 +
(1
1 2
'abc
foo bar
1 | | 2
.x
a..b
{ 'a' 1 }
[1 2]
x!
`x`
s.upper(
f(a=1, 2)
f(*[1], 2)
f(**{'a': 1}, b=2)
dict(**[1])
dict(a=1, a=2)
1 if
is defined
x is
and
if
5.upper()
1_
0x
1e
'\u12'
'\ud800'
'\N{DASH}'
99999999999999999999999
"""

STATEMENTS = [
    # white space control: trim_blocks, lstrip_blocks, signs
    "a\n{% if yes %}\nb\n{% endif %}\nc\n",
    "a\n  {% if yes %}  \n  b\n  {% endif %}\n  c",
    "a  {% if yes %} b {% endif %} c",
    "a  {%- if yes %} b {%- endif -%}  c",
    "a \n {%- if yes -%} \n b \n {%- endif -%} \n c",
    "a\n  {%+ if yes %}\nb{% endif +%}\nc",
    "a\n  {{ 1 }}\n  b", "a \n {{- 1 -}} \n b", "a {{+ 1 }} b", "{{-1}} {{ -1 }}", "a\n\n", "a\r\nb\rc\n", "\n", "",
    "  {# c #}\na", "a {#- c -#} b", "a{# c #}\nb", "a\n   {# c #}   \nb", "{#+ c +#}\nb", "{##}x", "{#-#} y", "{# {% x #}z",
    "{# open", "{{ open", "{% if", "a { b } c {} %} }} #}", "{ {{ 1 }} }", "{{ {'a': {'b': 1}} }}", "{{ '}}' }}", "{{ '{%' }}",
    "{% raw %}x", "{% raw %}{% endraw",
    "\t {% set a = 1 %} \nx", "\u00a0{% set a = 1 %}x", "x\u3000{%- set a = 1 -%}\u2003x", "{{ 1 }}\n  {% if 1 %}\na{% endif %}",
    "{% if 1 %}\n\n a\n{% endif %}\n\n b", "{% if 1 -%}\n\n a{% endif %}", "{{ 'a' }}\n\n", "a\n{{ 'b' }}\n{% if 1 %}\n{% endif %}\n",
    # if
    "{% if no %}a{% elif zero %}b{% elif n %}c{% else %}d{% endif %}", "{% if no %}a{% else %}d{% endif %}", "{% if no %}a{% endif %}",
    "{% if undefined_name %}a{% else %}b{% endif %}", "{% if yes: %}a{% endif %}", "{% if %}a{% endif %}", "{% if 1 %}a{% endfor %}",
    "{% if 1 %}a", "{% else %}", "{% endif %}", "{% if 1 %}{% else %}{% else %}{% endif %}", "{% if 1, 2 %}a{% endif %}",
    "{% if no %}{{ x | nosuch }}{% endif %}ok", "{% if yes %}{{ x | nosuch }}{% endif %}", "{% if no %}{{ x is nosuch }}{% endif %}ok",
    "{% if no %}{{ x | urlize2 }}{% elif x | nosuch %}{% endif %}",
    # for
    "{% for w in words %}{{ w }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{% for i in [] %}a{% else %}none{% endfor %}", "{% for i in [1] %}a{% else %}none{% endfor %}",
    "{% for i in numbers if i > 1 %}{{ i }}:{{ loop.index }}/{{ loop.length }} {% endfor %}",
    "{% for i in numbers if i > 99 %}{% else %}none{% endfor %}",
    "{% for i in numbers %}{{ loop.previtem }}<{{ i }}<{{ loop.nextitem }} {% endfor %}",
    "{% for i in numbers %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }} {% endfor %}",
    "{% for i in numbers %}{{ loop.cycle() }}{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k, v in d | dictsort %}{{ k }}={{ v }};{% endfor %}",
    "{% for k in d %}{{ k }}{% endfor %}", "{% for a, b in [[1, 2], (3, 4), 'xy'] %}{{ a }}{{ b }}{% endfor %}",
    "{% for a, b in [[1, 2, 3]] %}{{ a }}{% endfor %}", "{% for a, b in [1] %}{% endfor %}",
    "{% for a, in [[1]] %}{{ a }}{% endfor %}",
    "{% for i in 5 %}{% endfor %}", "{% for i in none %}{% endfor %}", "{% for i in undefined_name %}a{% else %}b{% endfor %}",
    "{% for i in range(5) %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in range(5) %}{% if i is odd %}{% continue %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in range(3) %}{% for j in range(3) %}{% if j == 1 %}{% break %}{% endif %}{{ i }}{{ j }} {% endfor %}{% endfor %}",
    "{% break %}", "{% continue %}", "{% for i in [1] %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}",
    "{% for i in range(3) %}{% set x = i %}{{ x }}{% endfor %}{{ x }}", "{% set x = 9 %}{% for i in [1] %}{% set x = i %}{% endfor %}{{ x }}",
    "{% set c = 0 %}{% for i in [1, 2] %}{% set c = c + i %}{{ c }}{% endfor %}{{ c }}",
    "{% set i = 5 %}{% for i in [1] %}{{ i }}{% endfor %}{{ i }}", "{% for i in [1, 2] %}{{ q }}{% set q = i %}{{ q }}{% endfor %}",
    "{% for i in [1, 2] %}{{ loop.index }}{% for j in 'ab' %}{{ loop.index }}{% endfor %}{{ loop.index }} {% endfor %}",
    "{% for i in [1, 2] %}{% set outer = loop %}{% for j in 'ab' %}{{ outer.index }}{{ j }}{% endfor %}{% endfor %}",
    "{% for i in [1] %}{{ loop([2]) }}{% endfor %}", "{{ loop.index }}",
    "{% set g = words | map('upper') %}{% for w in g %}{{ w }}{% endfor %}-{% for w in g %}{{ w }}{% else %}empty{% endfor %}",
    "{% set g = words | map('upper') %}{{ g | first }}{{ g | list }}", "{% set g = words | map('upper') %}{% for w in g %}{{ w }}{% break %}{% endfor %}{{ g | join }}",
    "{% set ns = namespace(go=true) %}{% for i in numbers if ns.go %}{{ i }}{% set ns.go = i != 1 %}{% endfor %}",
    "{% for i in numbers if i > 1 %}{{ loop.last }}{{ loop.revindex }} {% endfor %}", "{% for i in words | map('length') %}{{ i }}{{ loop.length }}{{ loop.last }} {% endfor %}",
    "{% for m in messages %}{% if m.role == 'user' %}<|user|>{{ m.content }}{% elif m['role'] == 'system' %}<|sys|>{{ m['content'] | trim }}{% else %}{{ m.content }}{% endif %}\n{% endfor %}",
    "{% for i in [3, 4] %}{{ loop.index0 * 2 + i }}{% endfor %}", "{% for in [1] %}{% endfor %}", "{% for i [1] %}{% endfor %}", "{% for i in [1] %}",
    "{% for 1 in [1] %}{% endfor %}", "{% for a.b in [1] %}{% endfor %}", "{% for i in [1], %}{{ i }}{% endfor %}", "{% for i in 1, 2 %}{{ i }}{% endfor %}",
    # set
    "{% set a = 1 %}{{ a }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a, b = [1] %}", "{% set a = 1, 2 %}{{ a }}",
    "{% set a %}x{{ 1 }}y{% endset %}[{{ a }}]",
    "{% set a %}{% set b = 1 %}{% endset %}{{ b }}", "{% set a = a | default(5) %}{{ a }}", "{% set s = s ~ '!' %}{{ s }}", "{% set 1 = 2 %}", "{% set true = 2 %}", "{% set a.b = 1 %}",
    "{% set d.b = 1 %}", "{% set ns = namespace(x=0) %}{% for i in numbers %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}",
    "{% set ns = namespace() %}{% set ns.a = 1 %}{{ ns.a }}{{ ns.b }}|{{ ns.b is defined }}",
    "{% set ns = namespace() %}{% set ns.t %}x{% endset %}{{ ns.t }}",
    "{% if yes %}{% set q = 1 %}{% endif %}{{ q }}", "{% if no %}{% set n = 1 %}{% endif %}{{ n }}", "{% if no %}{% set q = 1 %}{% endif %}{{ q }}|",
    "{% set tools = none %}{{ tools is none }}", "{% set messages = messages[1:] %}{{ messages | length }}", "{% set loop_messages = messages %}{{ loop_messages[0].role }}",
    "{% set a = b = 1 %}", "{% set a %}", "{% set = 1 %}", "{% set a 1 %}",
    # macros
    "{% macro m(a, b=2) %}{{ a }}-{{ b }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(b=5, a=4) }}", "{% macro m(a) %}[{{ a }}]{% endmacro %}{{ m() }}{{ m(1, 2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(zz=1) }}", "{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}", "{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(3) }}",
    "{% macro m(a, b=1, c) %}{% endmacro %}",
    "{% macro m(n) %}{{ n }}{% if n > 0 %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(3) }}",
    "{% macro m() %}{{ q }}{% endmacro %}{% set q = 1 %}{{ m() }}{% set q = 2 %}{{ m() }}", "{% macro m() %}{% set s = 1 %}{% endmacro %}{{ m() }}{{ s }}", "{% set a = 1 %}{% macro m(a) %}{{ a }}{% endmacro %}{{ m(2) }}{{ a }}",
    "{% macro m() %}{% endmacro %}{% call m() %}{% endcall %}", "{% macro m(caller) %}{{ caller() }}{% endmacro %}{% call m() %}b{% endcall %}",
    "{% call 5 %}{% endcall %}", "{% call range(2) %}{% endcall %}", "{% macro m %}{% endmacro %}", "{% macro m(a, a) %}{% endmacro %}", "{{ nosuch() }}", "{% macro m() %}\n  a\n{% endmacro %}\n[{{ m() }}]",
    "{% for i in [1, 2] %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}", "{% macro a() %}{% macro b() %}x{% endmacro %}{{ b() }}{% endmacro %}{{ a() }}{{ b is defined }}",
    "{% macro m(msgs) %}{% for x in msgs %}{{ x.role }} {% endfor %}{% endmacro %}{{ m(messages) }}",
    # filter, with, generation
    "{% filter nosuch %}{% endfilter %}",
    "{% with a = %}{% endwith %}",
    "{% generation %}a{{ s }}{% endgeneration %}b", "{%- generation -%} a {%- endgeneration -%} b", "{% generation %}{% set z = 1 %}{% endgeneration %}{{ z }}", "{% generation %}", "{% for i in [1, 2] %}{% generation %}{{ i }}{{ loop.index }}{% endgeneration %}{% endfor %}",
    # unsupported features and errors
    "{% include 'a' %}", "{% extends 'a' %}", "{% import 'a' as b %}", "{% from 'a' import b %}", "{% nosuch %}", "{% %}", "{{ }}", "{% do x %}", "{{ 1 }", "{% if 1 }",
    "{{ raise_exception('roles must alternate') }}", "{% if messages[0].role != 'user' %}{{ raise_exception('no system') }}{% endif %}",
    "{{ messages[1].content | tojson }} {{ messages[2].tool_calls | tojson(indent=2) }}", "{{ '<|im_start|>' + messages[0]['role'] + '\n' + messages[0].content + '<|im_end|>' }}",
    "{%- for m in messages -%}\n  {%- if m.tool_calls is defined -%}\n    {%- for t in m.tool_calls -%}\n      {{- '\\n<tool>' ~ t.function.name ~ (t.function.arguments | tojson) ~ '</tool>' -}}\n    {%- endfor -%}\n  {%- else -%}\n    {{- m.content -}}\n  {%- endif -%}\n{%- endfor -%}",
    "{%- set ns = namespace(found=false) -%}{%- for m in messages -%}{%- if m['role'] == 'user' -%}{%- set ns.found = true -%}{%- endif -%}{%- endfor -%}{{ ns.found }}",
    "{{ messages[1]['content'].split('\"')[1].lstrip('\\n').rstrip('d') }}", "{% if 'Hello' in messages[1].content and not messages[1].content.endswith('!') %}ok{% endif %}",
    "{% if messages[0]['content'] is string %}{{ messages[0]['content'] }}{% else %}{% for c in messages[0]['content'] %}{{ c['text'] }}{% endfor %}{% endif %}",
    # as in templates of models with reasoning, tool calls and several kinds of content
    "{% set c = '<think>\na\n</think>\n\nb' %}{{ c.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') }}|{{ c.split('</think>')[-1].lstrip('\n') }}|{{ c.rsplit('</think>', 1)[1].strip() }}",
    "{%- set ns = namespace(multi=true, last=messages|length - 1) %}{%- for m in messages[::-1] %}{%- set i = (messages|length - 1) - loop.index0 %}{%- if ns.multi and m.role == 'user' and m.content is string and not(m.content.startswith('<t>') and m.content.endswith('</t>')) %}{%- set ns.multi = false %}{%- set ns.last = i %}{%- endif %}{%- endfor %}{{ ns.last }}",
    "{%- macro text(content) -%}{%- if content is string -%}{{ content }}{%- elif content is iterable and content is not mapping -%}{%- for c in content -%}{%- if c is string -%}{{ c }}{%- elif c.type == 'text' -%}{{ c.text }}{%- elif 'image' in c or 'image_url' in c -%}<img>{%- endif -%}{%- endfor -%}{%- else -%}{{ raise_exception('no content') }}{%- endif -%}{%- endmacro -%}{{ text(s) }}{{ text([{'type': 'text', 'text': 'a'}, {'image': 1}, 'b']) }}",
    "{%- macro typed(spec, depth=0) -%}{%- if spec.type == 'array' -%}{{ typed(spec['items'], depth + 1) + '[]' }}{%- elif spec.enum -%}{{ '\"' + spec.enum | join('\" | \"') + '\"' }}{%- elif spec.type is string -%}{{ spec.type }}{%- else -%}any{%- endif -%}{%- endmacro -%}{{ typed({'type': 'array', 'items': {'type': 'array', 'items': {'enum': ['x', 'y']}}}) }}",
    "{% for k, v in {'a': {'b': 1}, 'c': 'd', 'e': true}.items() %}{{ k }}: {{ v if v is string else v | tojson(ensure_ascii=False) }}{{ ', ' if not loop.last }}{% endfor %}",
    "{{ messages[2].tool_calls | tojson(separators=(',', ':')) }}", "{{ tools | default([]) | length }}{{ (tools or []) | length }}",
    "{% set first = messages[0] if messages and messages[0].role == 'system' else none %}{{ first.content | trim if first is not none else 'none' }}",
    "{% set loop_messages = messages | rejectattr('role', 'equalto', 'system') | list %}{% for m in loop_messages %}{{ loop.index0 % 2 }}{{ (m.role == 'user') != (loop.index0 % 2 == 0) }}{% endfor %}",
    "{% for m in messages if m.role != 'system' %}{{ '[INST] ' if loop.first }}{{ m.role }}{{ loop.nextitem.role if loop.nextitem is defined and not loop.last else '.' }}{% endfor %}",
    "{{ bos_token }}{{ eos_token is defined }}{% if enable_thinking is defined and enable_thinking is false %}<think>{% endif %}{% if not add_generation_prompt | default(false) %}no{% endif %}",
    "{%- set date = strftime_now('%d %B %Y') if strftime_now is defined else '' -%}{{ date }}|{{ strftime_now('%Y-%m-%d') }}|{{ strftime_now('%-d/%m, %A %H:%M') }}",
    "{% if messages[1].content.content is defined %}a{% else %}b{% endif %}{{ messages[1].tool_calls is defined and messages[1].tool_calls is not none }}",
    "{%- for m in messages %}{%- generation %}{{- m.content }}{%- endgeneration %}{%- endfor %}",
    "{{ 'a' if messages | length > 2 else 'b' }}{{ messages | selectattr('tool_calls', 'defined') | list | length }}{{ (messages | last)['role'] }}{{ messages | map(attribute='role') | unique | join(',') }}",
    "{{ {'b': 1, 'a': {'x': [1, 2]}} | tojson(indent=4) }}", "{{ 'Tools: ' + ['p', 'q'] | reject('equalto', 'p') | join(', ') + '\n' }}", "{{ messages[0].role | capitalize }}{{ 'hello world' | title }}{{ 'USER'.lower() }}",
]

# Supported by Jinja2 but refused by text/jinja.
LEFT_OUT = r"""
7.5 // 2
-7.5 % 2
7.5 % -2
2 ** 10
2 ** -1
2 ** 3 ** 2
-2 ** 2
2 ** 0.5
0 ** 0
1_000 + 0x1F + 0b11 + 0o17
1_0.5
[1, 2] < [1, 3]
[1] * 3
+n
d.items()
d.keys()
d.values()
d['keys'] is callable
d.update is defined
d.copy()
words.append is defined
words.index('Apple')
words.count('apple')
words.copy()
u.title()
u.capitalize()
u | title
u | capitalize
' a  b c '.rsplit(none, 1)
lines.splitlines()
lines.splitlines(true)
lines.splitlines(keepends=true)
'a-b-c'.partition('-')
'a-b-c'.rpartition('-')
'abc'.partition('-')
'abc'.rpartition('-')
s.startswith('World', 6)
s.endswith('Hello', 0, 5)
s.find('o')
s.find('o', 5)
s.find('zz')
s.rfind('o')
s.rfind('o', 0, 6)
s.find('')
s.rfind('')
s.index('W')
s.rindex('o')
s.count('o')
s.count('')
s.count('l', 0, 4)
u.find('ί')
'{} {}'.format(1, 'a')
'{0} {1} {0}'.format('a', 'b')
'{a} {b!r}'.format(a=1, b='q')
'{:>5}|{:<5}|{:^5}|{:*^7}'.format('a', 'b', 'c', 'd')
'{:05d}|{:+d}|{:,}|{:x}|{:#x}|{:b}'.format(42, 42, 1234567, 255, 255, 5)
'{:.2f}|{:8.3f}|{:e}|{:%}|{:g}'.format(3.14159, 2.71828, 12345.678, 0.25, 0.0001)
'{:.3}'.format('abcdef')
'{{}}'.format()
'{0.name} {0[age]}'.format(people[0])
'{}'.format([1, 'a'])
'{:5}|{:5}|'.format(1, 'a')
'{}'.format(none)
'%s %d' % ('a', 5)
'%s' % 'a'
'%s' % [1, 'b']
'%s' % none
'%(a)s-%(b)03d' % {'a': 1, 'b': 7}
'%5s|%-5s|%05d|%+d|%x|%.2f|%5.1f|%%' % ('a', 'b', 42, 7, 255, 3.14159, 2.55)
'%r' % 'a'
'%d' % 3.99
'%s' | format('x')
'%s-%(a)s' | format(a=1)
'%s, %s!' | format('Hello', 'World')
'%c' % 'a' == 'a'
'%e' % 12345.678
'%g' % 1e10
'abc'.removeprefix('ab')
'abc'.removesuffix('bc')
'abc'.removeprefix('x')
'42'.zfill(5)
'-42'.zfill(5)
'ab'.center(5) ~ '|'
'ab'.center(7, '*')
'abc'.center(6, '*')
'ab'.ljust(4, '.') ~ 'ab'.rjust(4)
'abc'.isalpha()
'abc1'.isalpha()
'你好'.isalpha()
'12'.isdigit()
''.isdigit()
'1a'.isalnum()
' \t'.isspace()
'ABC'.isupper()
'Abc'.islower()
'a1'.islower()
'12'.isupper()
'12'.isdecimal() and '12'.isnumeric()
'abc'.isascii()
[none, none] | sort
people | sort(attribute='age,name', reverse=true) | map(attribute='name') | list
words | min
words | max
numbers | min
numbers | max
[] | max
people | max(attribute='age')
words | max(case_sensitive=true)
numbers | sum
people | sum(attribute='age')
people | sum('age', 100)
[] | sum
[1, 2.5] | sum
[[1], [2]] | sum(start=[])
numbers | batch(2) | list
numbers | batch(2, 'x') | list
numbers | slice(2) | list
numbers | slice(3, 'x') | list
people | groupby('age')
people | groupby('at.city') | list
people | groupby('zz', default='none')
(people | groupby('age') | first).grouper
(people | groupby('age') | first).list | length
people | rejectattr('name', 'lower') | map(attribute='name') | list
'0x1F' | int(0, 16)
'1F' | int(base=16)
'0b11' | int(0, 2)
' 1_0.5 ' | float
2.5 | round
3.5 | round
2.675 | round(2)
42.55 | round(1, 'floor')
42.55 | round(1, 'ceil')
42 | round
42 | round(-1)
45 | round(-1)
55 | round(-1)
-45 | round(-1)
42.4 | round | int
'foo bar baz qux' | truncate(9)
'foo bar baz qux' | truncate(9, true)
'foo bar baz qux' | truncate(11)
'foo bar baz qux' | truncate(11, false, '...', 0)
'foobarbazqux' | truncate(5, end='', leeway=0)
'foo bar, baz_2' | wordcount
'ab' | center(6) ~ '|'
'<a href="x">\'&' | escape
'<a>' | e
'<a>' | e | e
'<a>' | e | length
'<a>' | safe is escaped
d | attr('items') is callable
d | attr('b') is defined
s | attr('upper') is callable
'é😀' | tojson(ensure_ascii=true)
'é😀' | tojson(true)
d | tojson(sort_keys=true)
undefined_name is callable
range is callable
2.0 is even
s is upper
'AB' is upper
'ab' is lower
5 is lower
none is sameas none
1 is sameas true
words is sameas words
[1] is sameas [1]
'upper' is filter
'zz' is filter
'odd' is test
range(3)
range(10)[2:5]
dict(a=1, b='x')
dict({'a': 1}, b=2)
dict([('a', 1), ('b', 2)])
dict(a=1)['a']
namespace(a=1)
namespace({'a': 2}).a
joiner()() ~ joiner()()
cycler('a', 'b').next()
cycler('a', 'b').current
strftime_now('%Y-%m-%d %H:%M:%S %A %B %j %U %W %w %y %I %p %% %a %-d %F %T %D %e')
'\x41\u00e9\U0001F600\101\\\'\"\n\t|\q'
'%s' % (('a', 1),)
10 // 3.0
"%.3s|" % 'abcdef'
dict(**{'a': 1})
range(*[1, 4]) | list
'-'.join(*[['a', 'b']])
"{a}".format(**{'a': 'q'})
"""

STATEMENTS_LEFT_OUT = [
    "{% raw %}\n {{ x }} {% if %}\n{% endraw %}\nb",
    "{%- raw -%}  {{ x }}  {%- endraw -%}  b",
    "  {% raw %}a\n  {% endraw %}b",
    "{% raw %}{% raw %}{% endraw %}",
    "{%raw%}{{1}}{%endraw%}",
    "{%  raw  %}a{%  endraw  +%}\nb",
    "{% for i in 'abc' %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }}{{ i }};{% endfor %}",
    "{% for i in numbers %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for p in people %}{% if loop.changed(p.age) %}[{{ p.age }}]{% endif %}{{ p.name }}{% endfor %}",
    "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for x in [[1, [2]], 3] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}@{{ loop.depth }}{% endif %}{% endfor %}",
    "{% for i in [1, 2] %}{{ loop }}{% endfor %}",
    "{% set (a, b) = (1, 2) %}{{ a }}{{ b }}",
    "{% set a | upper %}x{{ 1 }}y{% endset %}[{{ a }}]",
    "{% set a | replace('x', 'z') | upper %}x{% endset %}{{ a }}",
    "{% set ns = namespace(a=1) %}{% set ns.a, b = 2, 3 %}{{ ns.a }}{{ b }}",
    "{% set ns = namespace(a=[1]) %}{% set ns.a = ns.a + [2] %}{{ ns.a }}{{ ns }}",
    "{% for i in [1,2] %}{% set t %}{{ i }}{% break %}{% endset %}{{ t }}{% endfor %}.",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}",
    "{% macro m(a) %}{{ a }}{{ varargs }}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m() %}x{% endmacro %}{{ m }}{{ m() | upper }}{{ m.name }}",
    "{% macro m() %}({{ caller() }}){% endmacro %}{% call m() %}body {{ s }}{% endcall %}",
    "{% macro m(x) %}{{ caller(x, 2) }}{% endmacro %}{% call(a, b=9) m(1) %}{{ a }}{{ b }}{% endcall %}",
    "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}",
    "{% filter upper %}a{{ s }}{% endfilter %}",
    "{% filter upper | replace('A', 'b') %}a{% endfilter %}",
    "{% filter trim %}  a  {% endfilter %}|",
    "{% filter upper %}{% set z = 1 %}{% endfilter %}{{ z }}",
    "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "{% with %}{% set a = 1 %}{{ a }}{% endwith %}{{ a }}",
    "{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}",
]



def cases():
    out = ["{{ " + line + " }}" for line in EXPRESSIONS.strip("\n").replace("\\\nb", "\\\x00b").split("\n")]
    return [source.replace("\x00", "\n") for source in out] + STATEMENTS


def left_out():
    return ["{{ " + line + " }}" for line in LEFT_OUT.strip("\n").split("\n")] + STATEMENTS_LEFT_OUT
