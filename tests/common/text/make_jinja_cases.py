#!/usr/bin/env python3
"""Writes jinja_cases.json: templates, their variables, and what jinja2 makes of them.

    python3 make_jinja_cases.py > jinja_cases.json      (needs jinja2 3.1)

The environment is the one in which transformers renders chat templates. A case without "text" is one that
jinja2 fails on.
"""
import json
import sys

import jinja2
import jinja2.ext
import jinja2.nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hi <|im_end|>\n  there "},
    {"role": "assistant", "content": "Hello!", "tool_calls": [
        {"type": "function", "function": {"name": "f", "arguments": {"x": 1, "y": [True, None, 2.5]}}}]},
    {"role": "tool", "content": "42", "name": "f", "tool_call_id": "c1"},
    {"role": "user", "content": "Größe 你好 \U0001f525"},
]
TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "description": "It's \"nice\" <b>&</b>",
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "enum": ["Zürich", "a\tb"]},
                                                    "days": {"type": "integer", "items": {"type": "x"}}},
                   "required": ["city"]}}}]
CHAT = {"messages": MESSAGES, "tools": TOOLS, "add_generation_prompt": True, "bos_token": "<s>"}
DATA = {"n": 7, "f": 2.5, "s": "Hello, World", "e": "", "l": [3, 1, 2], "d": {"b": 1, "a": [1, 2], "items": "own"},
        "none": None, "t": True, "u": "straße ΑΣ ǆ 12-b (c", "mixed": ["a", "B", "c"], "deep": {"x": {"y": [{"z": 9}]}},
        "users": [{"name": "Ann", "age": 30, "on": True}, {"name": "bob", "age": 25, "on": False},
                  {"name": "Cy", "age": 30}]}


class Generation(jinja2.ext.Extension):
    """transformers' {% generation %} blocks, without the tracking."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    @jinja2.pass_eval_context
    def _render(self, context, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def make_environment():
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: f"now({form})"
    return environment


# One case a line, each an expression over DATA; printed between brackets.
EXPRESSIONS = r"""
none|none; true; True; false; None; n; f; s; e; l; d; deep; users[0]; (1,); (); (1, 'a'); []; {}; {'k': [1, (2,)]}
1 + 2; 7 / 2; 8 / 2; 7 // 2; -7 // 2; -7 % 3; 7 % -3; 7.5 // 2; -7.5 % 2; 2 ** 10; 2 ** -1; 2 ** 3 ** 2; -2 ** 2; 1 - 2 - 3
1.0; 0.1 + 0.2; 1e16 * 1.0; 1e15 * 1.0; 1.5e300 * 1e10; 0.0001; 0.00001; 123456789.125; 5e-324; -0.0; 1e22; 100000.0 * 10
+n; -n; -f; +true; true + 1; not n; not e; not not l; 3 * 'ab'; 'ab' * 0; [1] * 2; [1] + [2]; (1,) + (2,)
'a' ~ 1 ~ none ~ true ~ 1.5 ~ missing ~ [1, 'x']; 'a' + 'b'; "it's" ~ 'a"b'; ["it's", 'a"b', 'both\'"', '\n\t\\', 'é', '\x7f\u200b']
1 < 2; 1 < 2 < 3; 1 < 3 < 2; 1 == 1.0; 1 == true; 'a' < 'b'; 'Z' < 'a'; [1, 2] < [1, 3]; (1,) < (1, 2); none == none; 1 != 2; 2 >= 2; 'é' > 'z'
[1] == (1,); {'a': 1} == {'a': 1.0}; {'a': 1, 'b': 2} == {'b': 2, 'a': 1}; missing == missing2; missing == none; missing != 1
1 in l; 9 in l; 'ell' in s; 'x' not in s; 'a' in d; 1 not in d; '' in s; 1 in missing; 'a' in ('a', 'b'); 3 in range(5); 'b' in d.keys(); 1 in d.values()
n and s; e or 'x'; e and 'x'; n or 'x'; none or e or 0; 1 and 2 and 3; not e and n; e or n and l
'y' if n else 'z'; 'y' if e else 'z'; 'y' if e; ('y' if e) is defined; 'a' if e else 'b' if n else 'c'; 1 if 0 else 2 if 0 else 3
l[0]; l[-1]; l[5]; l[-9]; s[0]; s[-1]; s[99]; d['b']; d['zz']; d.b; d.zz; d['items']; d.a[1]; deep.x.y[0].z; deep['x']['y'][0]['z']; l.0; users.1.name
l[1:]; l[:1]; l[::-1]; l[::2]; l[5:]; l[-2:]; l[:-1]; s[1:4]; s[::-1]; s[-5:]; s[:0]; u[1:6]; u[::-2]; l[2:0:-1]; (1, 2, 3)[1:]; range(10)[2:5]|list; l[None:2]; l[true:]
s.upper(); s.lower(); u.upper(); u.lower(); u.title(); s.title(); 'they\'re bill'.title(); u.capitalize(); 'ΌΔΟΣ ΣΑΣ'.lower(); 'ǆ'.title(); 'ﬁx'.capitalize()
'  a b '.strip(); '  a '.lstrip() ~ '|'; ' a '.rstrip() ~ '|'; 'xxaxx'.strip('x'); 'xyaxy'.lstrip('yx'); '\u3000a\xa0'.strip(); 'aé'.strip('é'); ''.strip(); '   '.strip(); 'a'.strip('')
'a,b,c'.split(','); 'a b  c '.split(); 'a,b,c'.split(',', 1); ' a  b c '.split(none, 1); 'abc'.split('x'); ''.split(); ''.split(','); 'a,b,c'.rsplit(',', 1); ' a b  c '.rsplit(none, 1); 'aaa'.split('aa'); 'aaa'.rsplit('aa'); 'a--b'.split(sep='--', maxsplit=1)
'a\nb\r\nc\rd'.splitlines(); 'a\n'.splitlines(); 'a\n\nb'.splitlines(true); ''.splitlines(); 'a\x0bb\u2028c'.splitlines()
'abc'.startswith('ab'); 'abc'.startswith(('x', 'a')); 'abc'.endswith('bc'); 'abc'.endswith(('x',)); 'a'.startswith('ab'); ''.startswith('')
'abab'.replace('a', 'x'); 'abab'.replace('a', 'x', 1); 'ab'.replace('', '-'); 'é'.replace('', '-'); ''.replace('', '-'); 'abc'.replace('abc', ''); 'aaa'.replace('aa', 'b'); 'ab'.replace('', '-', 2)
'abcabc'.find('c'); 'abcabc'.rfind('c'); 'abc'.find('x'); 'ééa'.find('a'); 'aXbX'.count('X'); 'aaa'.count('aa'); 'abc'.count(''); 'abc'.index('b'); 'aaaa'.rfind('aa'); 'abc'.rfind(''); 'éaéa'.find('a', 2); 'abca'.find('a', 1, 3); 'abc'.find('', 9); 'abc'.find('', 3); 'abab'.rfind('ab', 0, -1); 'aaaa'.count('a', 1, -1); 'abc'.startswith('b', 1); 'éb'.endswith('é', 0, 1); 'abc'.startswith('', 4); 'abc'.find('c', none, none); 'abc'.index('c', -1); 'abc'.count('', 2)
'a=b=c'.partition('='); 'a=b=c'.rpartition('='); 'abc'.partition('='); 'abc'.rpartition('='); 'abc'.removeprefix('a'); 'abc'.removesuffix('c'); 'abc'.removeprefix('x'); ' '.isspace(); ''.isspace(); '-'.join(mixed); '-'.join('abc'); ''.join([])
d.items(); d.keys(); d.values(); d.get('b'); d.get('zz'); d.get('zz', 5); d.items()|list; d.keys()|list; d|list; d|length; d.items()|length; d.keys()|first; d.copy(); l.count(1); l.index(2); (1, 1).count(1)
s|length; l|length; e|length; missing|length; u|length; l|count; l|first; l|last; s|first; s|last; e|first is defined; d|first; []|last is defined; range(3)|last; d|last
s|upper; u|upper; u|lower; u|title; 'a-b c(d {e <f [g'|title; u|capitalize; 5|upper; missing|upper; none|lower; 'heLLo'|capitalize; 'ΑΣ'|title
' a '|trim; 'xax'|trim('x'); 5|trim; missing|trim; ' a '|trim(none); l|join; l|join(', '); mixed|join('-'); users|join(', ', attribute='name'); missing|join('x'); s|join('.'); [none, true, 1.5]|join('|'); d|join; users|join(',', 'age'); l|join(5)
missing|default('x'); none|default('x'); e|default('x', true); e|d('x', boolean=true); n|default('x'); missing|default; missing.a|default('x') if missing is defined else 'no'; missing|default(none)
'abc'|replace('b', 'x'); 'abab'|replace('b', 'x', 1); 5|replace(5, 6); 'abc'|replace('b', 1); 'a'|string; 5|string; l|string; none|string; l|list; s|list; missing|list; (1, 2)|list
'42'|int; ' 42 '|int; '42.9'|int; 'x'|int; 'x'|int(7); '1e3'|int; 3.9|int; -3.9|int; true|int; none|int; '4_2'|int; '+5'|int; '-5'|int; '1__2'|int; '_1'|int; ''|int; l|int(default=3); '0x10'|int; 'nan'|int; 'inf'|int; '+-5'|int
'4.5'|float; 'x'|float; 3|float; ' 1e3 '|float; '.5'|float; '5.'|float; 'nan'|float; '-inf'|float; '1_0.5'|float; '1e999'|float; '1e-999'|float; none|float(1.5); 'infinity'|float
-3|abs; 3.5|abs; (-3)|abs; 2.5|round; 3.5|round; 2.675|round(2); 2.5|round(method='ceil'); 2.5|round(method='floor'); 7|round; 2.345|round(2, 'floor'); -2.5|round; 42.55|round(1); true|abs
l|sum; users|sum('age'); users|sum(attribute='age', start=100); []|sum; l|min; l|max; mixed|max; mixed|min(true); []|min is defined; users|max(attribute='age')
l|sort; l|sort(reverse=true); mixed|sort; ['b', 'A', 'a', 'B']|sort; ['b', 'A', 'a', 'B']|sort(case_sensitive=true); users|sort(attribute='age')|map(attribute='name')|list; users|sort(attribute='age', reverse=true)|map(attribute='name')|list; d|dictsort(by='value') if false else 'x'; {'b': 1, 'A': 2}|dictsort; {'b': 2, 'a': 1}|dictsort(false, 'value', true); {'b': 1, 'A': 2}|dictsort(true)
['a', 'A', 'b']|unique|list; ['a', 'A', 'b']|unique(true)|list; users|unique(attribute='age')|map(attribute='name')|list; [1, 1.0, true, 2]|unique|list; l|reverse|list; s|reverse; (1, 2)|reverse|first; d|reverse|list
users|map(attribute='name')|list; users|map(attribute='on', default='?')|list; mixed|map('upper')|list; mixed|map('replace', 'a', 'z')|join; [[1, 2], [3]]|map('first')|list; deep.x.y|map(attribute='z')|list; [deep]|map(attribute='x.y.0.z')|list; missing|map('upper')|list; l|map('string')|join('+'); mixed|map('default', 'x')|list
users|selectattr('on')|map(attribute='name')|list; users|rejectattr('on')|map(attribute='name')|list; users|selectattr('age', 'equalto', 30)|list|length; users|selectattr('age', '>', 26)|map(attribute='name')|join; users|selectattr('on', 'defined')|list|length; users|rejectattr('on', 'defined')|map(attribute='name')|list; users|selectattr('name', 'in', ['Ann', 'Cy'])|list|length; users|selectattr('name', '==', 'bob')|first
l|select('odd')|list; l|reject('odd')|list; [0, 1, '', 'a', none]|select|list; [0, 1]|reject|list; l|select('gt', 1)|list; mixed|select('in', 'ab')|list; missing|select('odd')|list; l|select('divisibleby', 3)|list
{'a': 1}|items|list; missing|items|list; d|items|length if false else 1; users|selectattr('on')|length if false else 2; (users|selectattr('on')) is defined; (l|select) is sequence; (l|select) is iterable; 'x' if l|select('gt', 100) else 'y'
s|indent; 'a\nb\n\nc'|indent(2); 'a\nb\n\nc'|indent(2, true); 'a\nb\n\nc'|indent(2, blank=true); 'a\nb'|indent('> '); 'a\nb\n'|indent(1) ~ '|'; ''|indent(2, true); 'a\rb'|indent(1)
d|tojson; l|tojson; s|tojson; none|tojson; true|tojson; f|tojson; 1e20|tojson; 'é\n"<&\u2028\x07\x7f/'|tojson; 'é🔥'|tojson(ensure_ascii=true); d|tojson(indent=2); deep|tojson(indent='\t'); {}|tojson(indent=2); [[], {}]|tojson(indent=1); d|tojson(separators=(',', ':')); d|tojson(sort_keys=true); {1: 2, none: 3, true: 4, 1.5: 5}|tojson; (1, 2)|tojson; l|tojson(indent=0); d|tojson(indent=2, separators=(', ', ': ')); 'a'|upper|tojson; ('nan'|float)|tojson; ['inf'|float, '-inf'|float]|tojson
n is defined; missing is defined; missing is undefined; missing is not defined; d.zz is defined; none is none; n is none; none is not none; n is number; f is number; t is number; s is number; n is integer; t is integer; f is float; n is float; t is boolean; n is boolean; t is true; 1 is true; t is false; s is string; n is string; d is mapping; l is mapping; l is sequence; s is sequence; d is sequence; n is sequence; missing is sequence; l is iterable; n is iterable; missing is iterable; none is iterable; d.items() is sequence; range(2) is sequence
7 is odd; 7 is even; 9 is divisibleby 3; 9 is divisibleby(2); n is eq 7; n is equalto(7); n is ne 7; n is gt 5; n is lessthan 5; n is ge(7); 1 is in [1, 2]; 'a' is in 'abc'; none is sameas none; t is sameas true; 'upper' is filter; 'nope' is filter; 'odd' is test; range is callable; s.upper is callable; missing is callable; n is odd and n is not even; n is not odd or s is string
range(3)|list; range(1, 7, 2)|list; range(3, 0, -1)|list; range(0)|list; range(3)|length; range(5)[2]; range(5)[-1]; dict(a=1); dict({'a': 1}, b=2); dict([['a', 1]]); namespace(a=1).a; namespace({'a': 5}).a; namespace().x is defined; strftime_now('%d %b %Y')
'a' 'b'; 'a\x41\u00e9\U0001f525\101\q\
z'; "\"q\"" ; '\''; [1, 2, ]; {'a': 1, }; (1, 2, ); dict(a=1,); 1.5e3; 2.0e-2; 007 if false else 1
s.items is defined; d.items is defined; d.update is defined; l.append is defined; d.__class__ is defined; s.__class__ is defined; d['get'] is callable; d.get is callable; l.nope is defined; n.nope is defined; none.nope is defined; s.strip is defined; d['keys'] is defined
'a'|upper ~ 'b'|lower; -n|abs; n|string ~ 'x'; (n|string)[0]; s|length + 1; l|first + l|last; 'x' in s|lower; not missing|default(false); n == 7 and s|length == 12; l|join(',')|length; 'a,b'.split(',')|last; 'a' ~ 'b' + 'c'; 1 + 2 * 3 ** 2 // 4 - 1 % 2; (1 + 2) * 3; 2 * -3; 1 ~ 2 + 3
'<a>'|safe; '<a>'|safe ~ '<b>'; {'a': '<'}|tojson|safe; ('<a>'|safe)|length; '<'|safe is string; '<a>&"'|e; n|escape; '<'|e ~ '<'; '<'|safe|e; ("'"|e)|length
d.zz.y is defined; missing.x; missing['x']; missing + 1; missing < 1; -missing; missing(); 1 + 'a'; 'a' + 1; 'a' < 1; none < 1; l + 'a'; 1 in 5; 1 in 'a'; 1 / 0; 1 // 0; 1 % 0; 0 ** -1; n.x.y; none.x.y; l['a'].b; s(); n(); 'a'.split(''); 'a'.index('b'); l.index(99); ','.join([1]); none|length; n|length; n|first; n|list; n|join; l|select('odd')|length; l|select|last; {[1]: 2}; {}[[1]]; d.get([]); l|tojson(indent='x'); missing|tojson; range|tojson; (l|map('string'))|tojson; d.items()|tojson; 'a'|abs; 'a'|round; [1, 'a']|sort; [1, 'a']|max; [1, 'a']|sum; missing|int; missing|float; missing|round; raise_exception('no'); range(100001)|length; range(1, 2, 0); dict(1); l[1:'a']; l[::0]; n[0:1]; d[1:2]; (l|select)[0:1]; 5|indent; s.upper(1); s.replace('a'); s.split(1); d.get(); 1|replace; l|join(missing.x); s.nope(); d.update({'a': 1}); l.append(1); 'x' is divisibleby 2; 1 is in 2; [1] is divisibleby 2; n|default(1, 2, 3); s|trim(1); [] < {}; {} < {}; 'inf'|float|int; l|select('nope')|list; l|map('nope')|list; l|map|list
"""

# (name, template); rendered over CHAT.
TEMPLATES = [
    ("ChatML", "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
     "You are<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
     "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"),
    ("Loop", "{% for m in messages %}{{ loop.index }}/{{ loop.index0 }}/{{ loop.revindex }}/{{ loop.revindex0 }}/{{ loop.length }}"
     "{{ loop.first }}{{ loop.last }}{{ loop.previtem.role }}{{ loop.nextitem.role if loop.nextitem is defined }};{% endfor %}"
     .replace("{{ loop.previtem.role }}", "{{ loop.previtem.role if loop.previtem is defined }}")),
    ("LoopFilter", "{% for m in messages if m.role == 'user' %}{{ loop.index }}{{ loop.length }}{{ loop.last }}{{ m.content }}|{% endfor %}"),
    ("LoopFilterIsLazy", "{% set ns = namespace(n=0) %}{% for m in messages if ns.n < 2 %}{% set ns.n = ns.n + 1 %}{{ m.role }} {% endfor %}{{ ns.n }}"),
    ("LoopFilterPeeks", "{% set ns = namespace(n=0) %}{% for m in messages if ns.n < 2 %}{{ loop.last }}{% set ns.n = ns.n + 1 %}{{ m.role }} {% endfor %}{{ ns.n }}"),
    ("LoopElse", "{% for m in [] %}x{% else %}none{% endfor %}{% for m in [1] %}x{% else %}none{% endfor %}"
     "{% for m in [1] if m > 1 %}x{% else %}none{% endfor %}{% for m in [1] %}{% break %}{% else %}none{% endfor %}"),
    ("LoopUnpacks", "{% for k, v in tools[0].function.parameters.properties.items() %}{{ k }}={{ v.type }};{% endfor %}"
     "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}{% for (k,) in [[1], [2]] %}{{ k }}{% endfor %}"),
    ("LoopTargetEndsInComma", "{% for k, in [[1], [2]] %}{{ k }}{% endfor %}"),
    ("LoopElseAfterContinue", "{% for i in [1, 2] %}{% continue %}{% else %}none{% endfor %}{% for i in [1, 2] %}{% if i > 1 %}{% break %}{% endif %}{% else %}none{% endfor %}"),
    ("LoopOverDict", "{% for k in messages[3] %}{{ k }},{% endfor %}{% for c in 'aé' %}[{{ c }}]{% endfor %}{% for x in missing %}x{% endfor %}"
     "{% for i in range(3) %}{{ i }}{% endfor %}{% for i in 1, 2 %}{{ i }}{% endfor %}"),
    ("LoopNested", "{% for a in [1, 2] %}{% for b in 'xy' %}{{ loop.index }}{{ b }}{% endfor %}{{ loop.index }}{% endfor %}{{ loop is defined }}"),
    ("LoopScopes", "{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}{{ i is defined }}"),
    ("LoopOverIterator", "{% set it = messages|selectattr('role', 'eq', 'user') %}{% for m in it %}{{ m.content|length }}{% endfor %}"
     "{{ it|list|length }}{% set g = [1, 2, 3]|map('string') %}{{ g|first }}{{ g|list }}{{ '2' in [1, 2]|map('string') }}"),
    ("BreakContinue", "{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i > 4 %}{% break %}{% endif %}{{ i }}{% endfor %}"
     "{% for i in range(2) %}{% for j in range(3) %}{% if j == 1 %}{% break %}{% endif %}{{ i }}{{ j }} {% endfor %}{% endfor %}"),
    ("BreakInElse", "{% for i in [1, 2] %}{% for j in [] %}{% else %}{{ i }}{% break %}{% endfor %}{% endfor %}"),
    ("IfElif", "{% for i in range(4) %}{% if i == 0 %}a{% elif i == 1 %}b{% elif i == 2 %}c{% else %}d{% endif %}{% endfor %}"
     "{% if missing %}x{% endif %}{% if 1, 2 %}t{% endif %}"),
    ("SetScopes", "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set a, b = b, a %}{{ a }}{{ b }}"
     "{% set t = 1, 2 %}{{ t }}{% set c = [] %}{{ c }}{% set (p, q) = 'xy' %}{{ p }}{{ q }}"),
    ("SetBlock", "{% set x %}a{{ 1 }}{% set y = 5 %}b{% endset %}[{{ x }}]{{ y is defined }}{% set z | upper | trim %} a b {% endset %}[{{ z }}]"
     "{% set z | replace('a', 'x') %}banana{% endset %}{{ z }}"),
    ("Namespace", "{% set ns = namespace(found=false, n=0) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.found = true %}"
     "{% set ns.n = ns.n + loop.index %}{% endif %}{% endfor %}{{ ns.found }}{{ ns.n }}{{ ns.zz is defined }}{% set ns.a, ns.b = 1, 2 %}{{ ns.a + ns.b }}"),
    ("NamespaceNot", "{% set x = {} %}{% set x.y = 1 %}"),
    ("NamespaceMissing", "{% set ns.y = 1 %}"),
    ("NamespaceInItself", "{% set ns = namespace() %}{% set ns.me = ns %}{{ ns.me.me is defined }}"),
    ("Macro", "{% macro m(a, b='d', c=a) %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(1, c=3) }}{{ m() }}{{ m(b=1) ~ 'x' }}{{ m(1)|length }}"),
    ("MacroRecursion", "{% macro walk(x) %}{% if x is mapping %}{ {%- for k, v in x.items() %}{{ k }}:{{ walk(v) }};{% endfor %} }{%- elif x is iterable and x is not string %}"
     "[{% for v in x %}{{ walk(v) }},{% endfor %}]{% else %}{{ x }}{% endif %}{% endmacro %}{{ walk(tools) }}"),
    ("MacroScopes", "{% set g = 1 %}{% macro m() %}{{ g }}{{ y is defined }}{{ bos_token }}{% set z = 1 %}{% endmacro %}{% for y in [1] %}{{ m() }}{% endfor %}"
     "{% set g = 2 %}{{ m() }}{{ z is defined }}"),
    ("MacroLater", "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}"),
    ("MacroBefore", "{{ a() }}{% macro a() %}A{% endmacro %}"),
    ("MacroTooMany", "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}"),
    ("MacroUnknownName", "{% macro m(a) %}{% endmacro %}{{ m(z=2) }}"),
    ("MacroTwice", "{% macro m(a) %}{% endmacro %}{{ m(1, a=2) }}"),
    ("MacroInLoopHasNoLoop", "{% macro m() %}{{ loop is defined }}{% endmacro %}{% for i in [1] %}{{ m() }}{% endfor %}"),
    ("MacroForever", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
    ("FilterBlock", "{% filter upper %}a{{ bos_token }}{% set q = 1 %}b{% endfilter %}{{ q is defined }}{% filter trim|replace('a', 'x') %} banana {% endfilter %}"),
    ("With", "{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% set c = 3 %}{% endwith %}{{ a }}{{ b is defined }}{{ c is defined }}{% with %}{{ a }}{% endwith %}"),
    ("Generation", "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{{ loop.index }}{% set q = 1 %}{% endgeneration %}{% endif %}{% endfor %}"),
    ("Raw", "a {% raw %} {{ x }} {% if %} {% endraw %} b\n  {%- raw -%}  {{ y }}  {%- endraw -%}  c{% raw %}\nz\n  {% endraw %}\nq"),
    ("Comments", "a{# x {{ y }} #}b\n  {# c #}\nd {#- e -#} f\n{#+ g +#}\n h{##}i{#--#}j"),
    ("TrimBlocks", "a\n{% if true %}\nb\n  {% if true %}\n  c\n  {% endif %}\n{% endif %}\nd\n"),
    ("KeepBlocks", "a\n  {%+ if true +%}\n  b\n\t{%+ endif %}\nc"),
    ("StripBlocks", "a \n {%- if true -%} \n\n b \n {%- endif -%} \n c {{- 'x' -}} \n d\n{{- '' }} e"),
    ("LstripNotVariables", "  {{ 1 }}\n  {{ 2 }}  {% if true %}  \n{% endif %} x\n \t {% if true %}y{% endif %}"),
    ("LstripAfterText", "a  {% if true %}b  {% endif %}\nc {# x #} {% if true %}d{% endif %}"),
    ("TwoBlocksInALine", "  {% if true %}  {% if true %}x{% endif %}{% endif %}\n  {% if true %}{% endif %}  {% if true %}y{% endif %}\n"),
    ("TrailingNewlines", "a\n\n"),
    ("OnlyNewline", "\n"),
    ("CarriageReturns", "a\r\n{% if true %}\r\nb\rc{% endif %}\r\n{{ 'x\r\ny' }}\r\n"),
    ("NothingAtAll", ""),
    ("Braces", "{ a } {{ {'a': {'b': 1}}['a']['b'] }} {{ {} }} } }} %} #} {{ '}}' }}{{ \"{% x %}\" }}"),
    ("Whitespace", "{{'a'}}{{\n 'b'\n}}{%if true%}c{%endif%}{% if\ttrue\n%}d{% endif %}"),
    ("Colons", "{% if true: %}a{% else: %}b{% endif %}{% for i in [1]: %}{{ i }}{% endfor %}"),
    ("ToolCalls", "{% for m in messages %}{% if m.tool_calls is defined and m.tool_calls %}{% for c in m.tool_calls %}{% set c = c.function %}"
     "{\"name\": \"{{ c.name }}\", \"arguments\": {{ c.arguments | tojson }}}{% endfor %}{% endif %}{% endfor %}"),
    ("ToolsJson", "{% for tool in tools %}{{ tool | tojson(indent=4) }}\n{{ tool }}{% endfor %}"),
    ("DictItemsIsTheMethod", "{% set p = tools[0].function.parameters.properties %}{{ p.days['items'].type }}{{ 'y' if p.city['items'] else 'n' }}{{ p.city['items']['type'] is defined }}"),
    ("LastUserMessage", "{% for m in messages[::-1] %}{% set i = messages|length - 1 - loop.index0 %}{% if m.role == 'user' and m.content is string and not"
     "(m.content.startswith('<tool_response>') and m.content.endswith('</tool_response>')) %}{{ i }}{% break %}{% endif %}{% endfor %}"),
    ("SystemFirst", "{% if messages[0]['role'] == 'system' %}{% set system = messages[0]['content']|trim %}{% set rest = messages[1:] %}{% else %}"
     "{% set system = '' %}{% set rest = messages %}{% endif %}{{ system }}|{{ rest|length }}"),
    ("Alternation", "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}{% endfor %}"),
    ("ThinkSplit", "{% set c = 'a</think>\n\nb' %}{% if '</think>' in c %}{{ c.split('</think>')[-1].lstrip('\\n') }}{{ c.split('</think>')[0].rstrip('\\n').split('<think>')[-1] }}{% endif %}"),
    ("Dates", "{% if strftime_now is defined %}{{ strftime_now('%d %b %Y') }}{% else %}26 Jul 2024{% endif %}"),
    ("UndefinedIsQuiet", "{{ missing }}[{{ messages[0].zz }}]{{ missing is defined }}{% if messages[0].zz %}x{% endif %}{{ messages[99] }}"),
    ("UndefinedFails", "{{ messages[99].role }}"),
    ("PrintsTuples", "{{ 1, 2 }}{{ (1,) }}{{ messages[0].items() }}{{ messages[0].keys() }}"),
    ("KeywordsAsNames", "{% set if_ = 1 %}{{ if_ }}{% set not_x = 2 %}{{ not not_x }}{% set in_ = 3 %}{{ in_ in [3] }}"),
    ("UnknownTag", "{% nope %}"),
    ("UnclosedIf", "{% if true %}a"),
    ("UnclosedVariable", "{{ 1 "),
    ("UnclosedComment", "{# a"),
    ("UnclosedRaw", "{% raw %} a"),
    ("StrayEnd", "{% endif %}"),
    ("WrongEnd", "{% if true %}{% endfor %}"),
    ("EmptyPrint", "{{ }}"),
    ("BadCharacter", "{{ 1 ? 2 }}"),
    ("BadBracket", "{{ (1] }}"),
    ("BadString", "{{ 'a }}"),
    ("BadAssign", "{% set true = 1 %}"),
    ("BreakOutside", "{% break %}"),
    ("BreakInMacro", "{% for i in [1] %}{% endfor %}{% macro m() %}{% break %}{% endmacro %}"),
    ("TooFewToUnpack", "{% set a, b = [1] %}"),
    ("TooManyToUnpack", "{% for a, b in [[1, 2, 3]] %}{% endfor %}"),
    ("UnknownFilter", "{{ 1|nope }}"),
    ("UnknownTest", "{{ 1 is nope }}"),
    ("NamedBeforePositional", "{{ dict(a=1, 2) }}"),
    ("DefaultBeforeNone", "{% macro m(a=1, b) %}{% endmacro %}"),
]


def split_expressions():
    # A backslash at the end of a line is a string's own: the newline belongs to it.
    text = EXPRESSIONS.strip("\n").replace("\\\n", "\\\0")
    for line in text.split("\n"):
        for expression in line.split("; "):
            yield expression.replace("\0", "\n")


def render(environment, case):
    try:
        case["text"] = environment.from_string(case["source"]).render(**case["variables"])
    except Exception:  # whatever Python raises is a failure of the template
        pass
    return case


def main():
    environment = make_environment()
    cases = [{"name": expression, "source": "[{{ " + expression + " }}]", "data": "DATA"}
             for expression in split_expressions()]
    cases += [{"name": name, "source": source, "data": "CHAT"} for name, source in TEMPLATES]
    data = {"DATA": DATA, "CHAT": CHAT}
    for case in cases:
        rendered = render(environment, {"source": case["source"], "variables": data[case["data"]]})
        if "text" in rendered:
            case["text"] = rendered["text"]
    json.dump({"data": data, "cases": cases}, sys.stdout, indent=0, ensure_ascii=False)
    print()


if __name__ == "__main__":
    main()
