# ruff: noqa: E501
"""What macros, fields, indices and literals give, and what that costs (PH-6, RUN-11): values, errors, edges, and operands of other types."""

from tests.support.expression_answers import differing

TABLE = r"""
[1, 2].all(i, i > 0) => True [8 0 0]
[1, 2].all(i, i > 1) => False [4 0 0]
[].all(i, false) => True
[].exists(i, true) => False
[1, 2].exists(i, i == 2) => True [8 0 0]
[1, 2].exists(i, i == 3) => False [8 0 0]
[1, 2].exists_one(i, i == 2) => True [8 0 0]
[2, 2].exists_one(i, i == 2) => False [8 0 0]
[2, 2].existsOne(i, i == 3) => False [8 0 0]
[1, 2].existsOne(i, j, i == 0 && j == 1) => True [16 0 0]
[1, 2].all(i, i == x.nope.a || i == 1) => Missing: no such key: nope [20 0 0]
[1, 2].all(i, i == 2 && x.nope.a) => False [8 0 0]
[1, 2].exists(i, i == 2 || x.nope.a) => True [16 0 0]
[1, 2].exists(i, x.nope.a || i == 3) => Missing: no such key: nope [16 0 0]
[1, 2].exists(i, i == 1 ? x.nope.a : x.nope.b) => Missing: no such key: nope [22 0 0]
[1, 2].all(i, x.one) => EvaluationError: no such overload [6 0 0]
[1, 2].exists_one(i, x.nope.a) => Missing: no such key: nope [4 0 0]
[1, 2, 3].filter(i, i > 1) => [2, 3] [12 0 2]
[1].filter(i, x.one) => EvaluationError: no such overload [3 0 0]
[1, 2].map(i, i * 2) => [2, 4] [8 0 2]
[1, 2, 3].map(i, i > 1, i * 2) => [4, 6] [21 0 2]
{'a': 1, 'b': 2}.map(k, k) => ['a', 'b'] [4 0 2]
{'a': 1, 'b': 2}.all(k, v, k == 'a' || v == 2) => True [16 0 0]
{'a': 1, 'b': 2}.filter(k, k == 'b') => ['b'] [8 0 1]
[5, 6].map(i, i) => [5, 6] [4 0 2]
[5, 6].transformList(i, v, i * 10 + v) => [5, 16] [12 0 2]
[5, 6].transformList(i, v, v > 5, i * 10 + v) => [16] [18 0 1]
{'a': 1}.transformList(k, v, k) => ['a'] [2 0 1]
[5, 6].transformMap(i, v, v * 2) => {0: 10, 1: 12} [8 0 2]
[5, 6].transformMap(i, v, i > 0, v * 2) => {1: 12} [14 0 1]
{'a': 1}.transformMap(k, v, k + 'x') => {'a': 'ax'} [4 2 1]
{'a': 1, 'b': 2}.transformMapEntry(k, v, {k + 'x': v}) => {'ax': 1, 'bx': 2} [12 4 2]
[5, 5].transformMapEntry(i, v, {v: i}) => EvaluationError: the key 5 stands there twice [8 0 2]
{'a': 1, 'b': 2}.transformMapEntry(k, v, v > 1, {v: k}) => {2: 'b'} [14 0 1]
{'a': 1}.transformMapEntry(k, v, x.one) => EvaluationError: no such overload [3 0 0]
{'a': 1}.transformMapEntry(k, v, {}) => {} [2 0 0]
[3, 1, 2].sortBy(i, -i) => [3, 2, 1] [15 0 3]
['bb', 'a'].sortBy(s, s.size()) => ['a', 'bb'] [10 0 2]
[{'n': 2}, {'n': 1}].sortBy(e, e.n) => [{'n': 1}, {'n': 2}] [10 0 2]
[1, 1.0].sortBy(e, 0) => [1, 1.0] [8 0 2]
{'b': 1, 'a': 2}.sortBy(k, k) => ['a', 'b'] [8 0 2]
[1, 'a'].sortBy(e, e) => EvaluationError: no such overload [8 0 0]
x.one.map(i, i) => EvaluationError: no such overload
x.s.all(i, true) => EvaluationError: no such overload
optional.of(1).optMap(v, v + 1) => optional(2)
optional.none().optMap(v, v + 1) => none
x.one.optMap(v, v) => EvaluationError: no such overload
optional.of(1).optFlatMap(v, optional.of(v + 1)) => optional(2)
optional.of(1).optFlatMap(v, optional.none()) => none
optional.none().optFlatMap(v, optional.of(1)) => none
optional.of(1).optFlatMap(v, x.one) => EvaluationError: no such overload
x.one.optFlatMap(v, v) => EvaluationError: no such overload
cel.bind(v, 5, v + v) => 10
cel.bind(v, x.nope, 1) => Missing: no such key: nope
cel.bind(v, x.nope, v) => Missing: no such key: nope
x.m.k => 1
x.m['k'] => 1
x.m.zz => Missing: no such key: zz
x.m['zz'] => Missing: no such key: zz
x.m[1] => Missing: no such key: 1
x.m[[1]] => EvaluationError: no such overload
x.m[null] => EvaluationError: no such overload
x.m.x__dash__y => 2
x.m.`x-y` => 2
x.m['x-y'] => 2
x.m.__in__ => 3
x.m.__namespace__ => 4
has(x.m.x__dash__y) => True
has(x.m.`x-y`) => True
has(x.m.k) => True
has(x.m.zz) => False
has(x.one.k) => EvaluationError: no such overload
has(x.opt.k) => True
has(x.opt.zz) => False
has(x.gone.k) => False
has(x.optone.k) => EvaluationError: no such overload
x.opt.k => optional(1)
x.opt.zz => none
x.gone.k => none
x.optone.k => EvaluationError: no such overload
x.m.?k => optional(1)
x.m.?zz => none
x.m.?x__dash__y => optional(2)
x.opt.?k => optional(1)
x.gone.?k => none
x.one.?k => EvaluationError: no such overload
x.optone.?k => EvaluationError: no such overload
x.m[?'k'] => optional(1)
x.m[?'zz'] => none
x.opt['k'] => optional(1)
x.opt[?'zz'] => none
x.gone['k'] => none
x.l[0] => 10
x.l[2] => 12
x.l[3] => Missing: index out of bounds: 3
x.l[-1] => Missing: index out of bounds: -1
x.l[1.0] => 11
x.l[1.5] => EvaluationError: 1.5 is no index
x.l[1u] => 11
x.l[x.nan] => EvaluationError: nan is no index
x.l[x.inf] => EvaluationError: inf is no index
x.l[x.neginf] => EvaluationError: -inf is no index
x.l[x.yes] => EvaluationError: no such overload
x.l['0'] => EvaluationError: no such overload
x.l[?0] => optional(10)
x.l[?3] => none
x.l[?-1] => none
x.l[?'a'] => EvaluationError: no such overload
x.one[0] => EvaluationError: no such overload
x.one.k => EvaluationError: no such overload
x.s[0] => EvaluationError: no such overload
{true: 'a'}[true] => 'a'
{true: 'a'}[1] => Missing: no such key: 1
{1: 'a'}[true] => Missing: no such key: True
{1: 'a'}[1.0] => 'a'
{1: 'a'}[1u] => 'a'
{0: 'a'}[false] => Missing: no such key: False
{2: 'a'}[2.0] => 'a'
{'a': 1, 'a': 2} => EvaluationError: the key a stands there twice
{1: 'a', 1.0: 'b'} => EvaluationError: a key is a text, a number without a fraction, true or false
{1.5: 'a'} => EvaluationError: a key is a text, a number without a fraction, true or false
{null: 1} => EvaluationError: a key is a text, a number without a fraction, true or false
{x.half: 1} => EvaluationError: a key is a text, a number without a fraction, true or false
{1: 2, true: 3} => EvaluationError: the key True stands there twice
{?'a': optional.of(1), ?'b': optional.none()} => {'a': 1}
{?'a': x.one} => EvaluationError: no such overload
{'a': 1, ?'a': optional.none()} => EvaluationError: the key a stands there twice
[?optional.of(1), ?optional.none(), 2] => [1, 2]
[?x.one] => EvaluationError: no such overload
[1, ?x.gone, ?x.opt.k] => [1, 1]
unknown => Missing: undeclared reference to 'unknown'
x.unknown.y => Missing: no such key: unknown
int => type(int)
net.IP => type(net.IP)
google.protobuf.Duration => type(google.protobuf.Duration)
type(int) => type(type)
nofunction(1) => EvaluationError: unknown function nofunction()
x.nomethod() => EvaluationError: unknown function nomethod()
strings.quote(x.s) => '"abc"' [1 5 0]
x.s.size => EvaluationError: no such overload
lists.range(2).size() => 2 [0 0 2]
x.l[?1.0] => optional(11)
x.l[0.0] => 10
x.l[-1.0] => Missing: index out of bounds: -1.0
x.l[x.huge] => Missing: index out of bounds: 1e+300
x.m == x.m => True [4 0 0]
x.l == x.l => True [3 0 0]
x.nope && x.one.b => EvaluationError: no such overload
x.one.b && x.nope => Missing: no such key: nope
x.nope || x.one.b => EvaluationError: no such overload
x.nope == x.one.b => Missing: no such key: nope
x.one.b == x.nope => EvaluationError: no such overload
x.nope < x.one.b => Missing: no such key: nope
x.one.b < x.nope => EvaluationError: no such overload
x.nope + x.one.b => Missing: no such key: nope
x.one.b + x.nope => EvaluationError: no such overload
x.one.b in x.nope => EvaluationError: no such overload
x.nope in x.one.b => Missing: no such key: nope
[x.nope, x.one.b] => Missing: no such key: nope
{x.nope: x.one.b} => Missing: no such key: nope
{x.one.b: x.nope} => EvaluationError: no such overload
x.nope[x.one.b] => Missing: no such key: nope
x.one.b[x.nope] => EvaluationError: no such overload
x.nope ? x.one.b : 1 => Missing: no such key: nope
x.nope.all(i, i) => Missing: no such key: nope
cel.bind(v, x.nope, x.one.b) => Missing: no such key: nope
[1, 2].map(i, [i].map(j, i + j)) => [[2], [4]] [16 0 4]
[1, 2].all(i, [i].all(i, i > 0) && i > 0) => True [24 0 0]
[1].map(int, int) => [1] [2 0 1]
[1].map(net, net) => [1] [2 0 1]
cel.bind(int, 5, int + 1) => 6
[{'abs': 5}].map(math, math.abs) => [5] [3 0 1]
[1].map(math, math.abs(1)) => EvaluationError: unknown function abs() [4 0 0]
['a'].map(strings, strings.quote('x')) => EvaluationError: unknown function quote() [4 0 0]
['abc'].map(lists, lists.size()) => [3] [3 0 1]
[{'IP': 3}].map(net, net.IP) => [3] [3 0 1]
x.s.nosuch => EvaluationError: no such overload
matches('a', 5) => EvaluationError: no such overload
"""


def test_each_expression_has_its_value_or_its_error_and_its_cost() -> None:
    assert list(differing(TABLE)) == []
