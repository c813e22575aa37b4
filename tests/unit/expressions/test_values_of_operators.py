# ruff: noqa: E501
"""What parts of times, and operators give, and what that costs (PH-6, RUN-11): values, errors, edges, and operands of other types."""

from tests.support.expression_answers import differing

TABLE = r"""
timestamp('2026-12-31T23:58:59.987Z').getFullYear() => 2026
timestamp('2026-12-31T23:58:59.987Z').getMonth() => 11
timestamp('2026-12-31T23:58:59.987Z').getDayOfYear() => 364
timestamp('2026-12-31T23:58:59.987Z').getDayOfMonth() => 30
timestamp('2026-12-31T23:58:59.987Z').getDate() => 31
timestamp('2026-12-31T23:58:59.987Z').getDayOfWeek() => 4
timestamp('2026-12-27T00:00:00Z').getDayOfWeek() => 0
timestamp('2026-12-31T23:58:59.987Z').getHours() => 23
timestamp('2026-12-31T23:58:59.987Z').getMinutes() => 58
timestamp('2026-12-31T23:58:59.987Z').getSeconds() => 59
timestamp('2026-12-31T23:58:59.987Z').getMilliseconds() => 987
timestamp('1969-12-31T23:59:59.5Z').getSeconds() => 59
timestamp('1969-12-31T23:59:59.5Z').getMilliseconds() => 500
timestamp('2026-12-31T23:58:59Z').getFullYear('+01:30') => 2027
timestamp('2026-12-31T23:58:59Z').getHours('+01:30') => 1
timestamp('2026-12-31T23:58:59Z').getMinutes('-01:30') => 28
timestamp('2026-12-31T23:58:59Z').getHours('-1:30') => 22
timestamp('2026-12-31T23:58:59Z').getHours('01:30') => 1
timestamp('2026-12-31T23:58:59Z').getHours('Europe/Berlin') => 0
timestamp('2026-07-31T23:58:59Z').getHours('Europe/Berlin') => 1
timestamp('2026-12-31T23:58:59Z').getHours('UTC') => 23
timestamp('2026-12-31T23:58:59Z').getHours('') => 23
timestamp('2026-12-31T23:58:59Z').getHours('Nowhere') => EvaluationError: unknown time zone 'Nowhere'
timestamp('2026-12-31T23:58:59Z').getHours('+24:00') => EvaluationError: unknown time zone '+24:00'
timestamp('2026-12-31T23:58:59Z').getHours('+23:59') => 23
timestamp('2026-12-31T23:58:59Z').getHours('+00:60') => EvaluationError: unknown time zone '+00:60'
timestamp('2026-12-31T23:58:59Z').getHours(x.one) => EvaluationError: no such overload
timestamp('0001-01-01T00:00:00Z').getHours('-01:00') => EvaluationError: timestamp overflow
timestamp('9999-12-31T23:59:59Z').getHours('+01:00') => EvaluationError: timestamp overflow
timestamp(0).getMilliseconds('UTC') => 0
duration('25h61m').getHours() => 26
duration('-25h').getHours() => -25
duration('90m').getHours() => 1
duration('-90m').getHours() => -1
duration('90s').getMinutes() => 1
duration('-90s').getMinutes() => -1
duration('1500ms').getSeconds() => 1
duration('-1500ms').getSeconds() => -1
duration('1500ms').getMilliseconds() => 1500
duration('-1500ms').getMilliseconds() => -1500
x.aday.getHours('UTC') => EvaluationError: no such overload
x.aday.getFullYear() => EvaluationError: no such overload
x.one.getHours() => EvaluationError: no such overload
x.one.getMilliseconds() => EvaluationError: no such overload
timestamp(0) + duration('1s') => timestamp(1000000000)
duration('1s') + timestamp(0) => timestamp(1000000000)
timestamp(5) - duration('1s') => timestamp(4000000000)
timestamp(5) - timestamp(2) => duration(3000000000)
timestamp(2) - timestamp(5) => duration(-3000000000)
duration('1s') + duration('2s') => duration(3000000000)
duration('1s') - duration('2s') => duration(-1000000000)
timestamp(253402300799) + duration('1s') => EvaluationError: timestamp overflow
timestamp(-62135596800) - duration('1s') => EvaluationError: timestamp overflow
timestamp(253402300799) - timestamp(-62135596800) => EvaluationError: duration overflow
duration('2562047h') + duration('2562047h') => EvaluationError: duration overflow
x.aday - timestamp(0) => EvaluationError: no such overload
x.aday * x.aday => EvaluationError: no such overload
dyn(timestamp(0)) + timestamp(0) => EvaluationError: no such overload
1 + 2 => 3
1 - 2 => -1
3 * 4 => 12
9223372036854775807 + 1 => EvaluationError: integer overflow
-9223372036854775808 - 1 => EvaluationError: integer overflow
9223372036854775807 * 2 => EvaluationError: integer overflow
-9223372036854775808 * -1 => EvaluationError: integer overflow
7 / 2 => 3
-7 / 2 => -3
7 / -2 => -3
-7 / -2 => 3
7 % 3 => 1
-7 % 3 => -1
7 % -3 => 1
-7 % -3 => -1
1 / 0 => EvaluationError: division by zero
1 % 0 => EvaluationError: modulus by zero
1u / 0u => EvaluationError: division by zero
1u % 0u => EvaluationError: modulus by zero
-9223372036854775808 / -1 => EvaluationError: integer overflow
-9223372036854775808 % -1 => EvaluationError: integer overflow
-9223372036854775807 % -1 => 0
-9223372036854775808 % 1 => 0
1u + 2u => 3u
1u - 2u => EvaluationError: unsigned integer overflow
18446744073709551615u + 1u => EvaluationError: unsigned integer overflow
3u - 3u => 0u
3u * 4u => 12u
7u / 2u => 3u
7u % 2u => 1u
x.one + x.unsigned => EvaluationError: no such overload
x.unsigned + x.one => EvaluationError: no such overload
x.yes + 1 => EvaluationError: no such overload
1 + x.yes => EvaluationError: no such overload
1.5 + 2.0 => 3.5
1.5 - 2.0 => -0.5
1.5 * 2.0 => 3.0
3.0 / 2.0 => 1.5
1.0 / 0.0 => inf
-1.0 / 0.0 => -inf
1.0 / -0.0 => -inf
0.0 / 0.0 => nan
x.half % x.half => EvaluationError: no such overload
x.half + x.one => EvaluationError: no such overload
'a' + 'b' => 'ab' [0 2 0]
b'a' + b'b' => b'ab' [0 2 0]
x.s + b'b' => EvaluationError: no such overload
[1] + [2] => [1, 2] [0 0 2]
x.s - x.s => EvaluationError: no such overload
[1] + x.s => EvaluationError: no such overload
x.nothing + x.nothing => EvaluationError: no such overload
-x.one => -1
-x.half => -0.5
-x.unsigned => EvaluationError: no such overload
-x.yes => EvaluationError: no such overload
-x.s => EvaluationError: no such overload
-9223372036854775808 => -9223372036854775808
-(-9223372036854775808) => EvaluationError: integer overflow
!x.yes => False
!x.one => EvaluationError: no such overload
1 < 2 => True
2 < 2 => False
2 <= 2 => True
3 > 2 => True
2 > 2 => False
2 >= 2 => True
1 >= 2 => False
1.5 < 2.5 => True
1.5 <= 1.5 => True
1.5 > 2.5 => False
1 < 1.5 => True
2 > 1.5 => True
2u > 1 => True
1u < x.minus => False
0.0 / 0.0 < 1.0 => False
0.0 / 0.0 >= 1.0 => False
1 < x.nan => False
1 >= x.nan => False
'a' < 'b' => True
'b' <= 'a' => False
b'a' < b'b' => True
false < true => True
true < false => False
timestamp(1) < timestamp(2) => True
duration('1s') > duration('2s') => False
semver('1.0.0') < semver('1.0.1') => True [2 0 0]
x.s < x.one => EvaluationError: no such overload
x.yes < x.one => EvaluationError: no such overload
x.nothing < x.nothing => EvaluationError: no such overload
[1] < x.one => EvaluationError: no such overload
1 == 1.0 => True
1 == 1u => True
1u == 1.0 => True
x.one == x.yes => False
0.0 / 0.0 == 0.0 / 0.0 => False
x.s == x.one => False
'a' == 'a' => True
'a' != 'b' => True
b'a' == b'a' => True
null == x.nothing => True
x.nothing == x.one => False
true == x.yes => True
false == x.yes => False
[1, 2] == [1, 2.0] => True [2 0 0]
[1, 2] == [2, 1] => False [2 0 0]
[1] == [1, 2] => False [1 0 0]
[] == [] => True
[1] == x.one => False
{'a': 1} == {'a': 1.0} => True [1 0 0]
{'a': 1} == {'b': 1} => False [1 0 0]
{'a': 1} == {'a': 1, 'b': 2} => False [1 0 0]
{'a': 1} == {'a': 2} => False [1 0 0]
{1: 'a'} == {true: 'a'} => False [1 0 0]
{1: 'a'} == {1u: 'a'} => True [1 0 0]
x.set == [2, 1] => True [6 0 0]
[2, 1] == x.set => True [6 0 0]
x.set == [2, 3] => False [6 0 0]
x.set == [1] => False [1 0 0]
x.keyed == [{'k': 2}, {'k': 1}] => True [9 0 0]
timestamp(0) == timestamp(0) => True
timestamp(0) == duration('0s') => False
type(1) == int => True
type(1) != string => True
1 in [1.0] => True [1 0 0]
1 in [2] => False [1 0 0]
'a' in {'a': 1} => True
'b' in {'a': 1} => False
1 in {1: 2} => True [1 0 0]
1.0 in {1: 2} => True [1 0 0]
true in {1: 2} => False [1 0 0]
x.one in {true: 2} => False [1 0 0]
null in [null] => True [1 0 0]
[1] in x.m => EvaluationError: no such overload
x.m in x.m => EvaluationError: no such overload
[1] in [[1]] => True [2 0 0]
1 in x.s => EvaluationError: no such overload
x.one in x.one => EvaluationError: no such overload
true && true => True
true && false => False
false && x.nope.a => False
x.nope.a && false => False
x.nope.a && true => Missing: no such key: nope
true && x.nope.a => Missing: no such key: nope
true && x.one => EvaluationError: no such overload
x.one && true => EvaluationError: no such overload
x.one && false => False
false || false => False
true || x.nope.a => True
x.nope.a || true => True
x.nope.a || false => Missing: no such key: nope
false || x.nope.a => Missing: no such key: nope
x.one || false => EvaluationError: no such overload
x.one || true => True
false || x.one => EvaluationError: no such overload
true ? 1 : 2 => 1
false ? 1 : 2 => 2
x.one ? 1 : 2 => EvaluationError: no such overload
x.long == x.long => True
x.long != x.other => True
x.long == 'a' => False
x.verylong == x.verylong => True [100 0 0]
x.verylong == x.long => False [16 0 0]
x.verylong + 'a' == x.verylong => False [100 1601 0]
x.verylong < x.long => False
x.verylong in [x.verylong] => True [1 0 0]
x.verylong.startsWith('a') => True [101 0 0]
x.verylong.matches('^a*$') => True [438 0 0]
x.verylong.find('a{3}') => 'aaa' [401 3 0]
matches(x.verylong, 'b') => False [413 0 0]
x.verylong.contains('b') => False [101 0 0]
1 in [2, 1, 3] => True [3 0 0]
1 in {2: 0, 1: 0} => True [2 0 0]
x.yes == x.one => False
true == x.unsigned => False
1.5 < 2 => True
1.5 < x.s => EvaluationError: no such overload
x.half == x.s => False
x.s == x.half => False
x.nan < 1 => False
[0u].sum() => 0u [2 0 0]
semver('1.0.0') < x.s => EvaluationError: no such overload [1 0 0]
x.s < semver('1.0.0') => EvaluationError: no such overload [1 0 0]
timestamp(0) - duration('-1s') => timestamp(1000000000)
duration('-2562047h47m16.854775807s') - duration('1ns') => duration(-9223372036854775808)
duration('-2562047h47m16.854775807s') - duration('2ns') => EvaluationError: duration overflow
timestamp(0).getHours('UTC') => 0
optional.none() == 1 => False
b'a' == x.s => False
"""


def test_each_expression_has_its_value_or_its_error_and_its_cost() -> None:
    assert list(differing(TABLE)) == []
