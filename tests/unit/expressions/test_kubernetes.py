"""The libraries of Kubernetes in expressions, example by example as its documentation has them (PH-6)."""

import pytest

from purekube.cel import CelError, Environment, compile_expression
from purekube.cel.types import DYN
from purekube.schema.celtypes import type_of_schema
from purekube.schema.compile import compile_schema


def run(text: str) -> object:
    return compile_expression(text, Environment({"self": DYN})).evaluate({"self": {}})


@pytest.mark.parametrize(
    "text",
    [
        "url('https://example.com:80/path').getHost() == 'example.com:80'",
        "url('https://[::1]:80/').getHostname() == '::1'",
        "url('/path').getScheme() == '' && url('/path').getHost() == ''",
        "url('https://e.com/a b').getEscapedPath() == '/a%20b' && !isURL('https://e.com b')",
        "url('https://e.com/?k1=a&k2=b&k2=c').getQuery() == {'k1': ['a'], 'k2': ['b', 'c']}",
        "url('https://e.com/?key=some%20value').getQuery()['key'] == ['some value']",
        "!isURL('../relative') && isURL('https://user:pass@e.com')",
        "quantity('1.5k').asInteger() == 1500 && quantity('200M').isGreaterThan(quantity('0.1G'))",
        "!quantity('0.5').isInteger() && quantity('-2').sign() == -1",
        "quantity('50k').add(20) == quantity('50020') && quantity('50k').sub(quantity('10k')) == quantity('40k')",
        "isQuantity('1.3Gi') && !isQuantity('1.3GB') && quantity('1Ki') == quantity('1024')",
        "!isQuantity('1e99999999999999999999') && isQuantity('1e00000000000000000001')",
        f"isQuantity('{'0' * 256}') && !isQuantity('{'0' * 257}')",
        "quantity('1').compareTo(quantity('2')) == -1 && quantity('1500m').asApproximateFloat() == 1.5",
        "semver('1.2.3-rc.1').isLessThan(semver('1.2.3')) && semver('1.0.0+a').compareTo(semver('1.0.0+b')) == 0",
        "isSemver('1.2.3') && !isSemver('v1.2') && isSemver('v1.2', true) && semver('v1.2', true).minor() == 2",
        "semver('1.2.3').major() + semver('1.2.3').patch() == 4",
        "ip('192.168.0.1').family() == 4 && ip('::1').isLoopback() && !isIP('1.2.3')",
        "cidr('192.168.1.7/24').masked() == cidr('192.168.1.0/24') && cidr('10.0.0.0/8').prefixLength() == 8",
        "cidr('10.0.0.0/8').containsCIDR(cidr('10.1.0.0/16')) && !cidr('10.1.0.0/16').containsCIDR('10.0.0.0/8')",
        "'abc 123'.find('[0-9]+') == '123' && 'abc'.find('[0-9]+') == ''",
        "'1 2 3 4'.findAll('[0-9]', 2) == ['1', '2'] && 'x'.findAll('y') == []",
        "[1, 3].isSorted() && [1, 2].sum() == 3 && ['b', 'a'].min() == 'a' && [1, 2, 1].lastIndexOf(1) == 2",
        "[1, 2].transformList(i, v, i + v) == [1, 3] && [1, 2].transformList(i, v, v > 1, v) == [2]",
        "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2} && {'a': 1, 'b': 2}.transformMap(k, v, v > 1, k) == {'b': 'b'}",
        "{'a': 1}.transformMapEntry(k, v, {k + 'x': v}) == {'ax': 1} && [1].transformMap(i, v, v) == {0: 1}",
        "{'a': 1}.all(k, v, v == 1) && [5].exists(i, v, i == 0 && v == 5) && [3, 1].sortBy(x, x) == [1, 3]",
        "sets.contains([1, 2], [1]) && sets.intersects([1], [1, 2]) && sets.equivalent([1, 1], [1])",
        "duration('1m').getSeconds() == 60 && timestamp('2026-01-01T00:00:00Z') + duration('1h') > timestamp(0)",
    ],
)
def test_the_libraries_of_kubernetes(text: str) -> None:
    assert run(text) is True


@pytest.mark.parametrize(
    "text",
    [
        "url('not a url')",
        "quantity('1.3GB')",
        "semver('1.2')",
        "ip('::ffff:1.2.3.4')",
        "ip('fe80::1%eth0')",
        "cidr('10.0.0.0/33')",
        "quantity('0.5').asInteger()",
        "quantity('1e999999999').asInteger()",
        "[].min()",
    ],
)
def test_what_is_none_of_them_has_no_value(text: str) -> None:
    with pytest.raises(CelError):
        run(text)


def test_where_nothing_is_known_of_types_is_told() -> None:
    anything = {"x-kubernetes-preserve-unknown-fields": True}
    either = {"x-kubernetes-int-or-string": True}
    properties = {"values": {"type": "object", **anything}, "port": either, "name": {"type": "string"}}
    spec = {"type": "object", "required": list(properties), "properties": properties}
    schema = compile_schema({"type": "object", "required": ["spec"], "properties": {"spec": spec}})
    environment = Environment({"self": type_of_schema(schema, plain=True)})

    checked = compile_expression("self.spec.values.a.b == self.spec.port && self.spec.name == 'x'", environment).checked

    assert checked is not None
    assert {".".join(path) for path in checked.unknown} == {
        "self.spec.values",
        "self.spec.values.a",
        "self.spec.values.a.b",
        "self.spec.port",
    }
