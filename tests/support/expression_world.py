"""Random expressions that type-check, and random objects that their schema allows."""

from collections.abc import Mapping
from typing import Any, Final

from hypothesis import strategies as st

from purekube.schema.compile import compile_schema
from purekube.schema.node import Schema

_TEXT: Final = {"type": "string"}
_SPEC: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["name", "replicas", "ports", "ratio", "on", "labels"],
    "properties": {
        "name": _TEXT,
        "replicas": {"type": "integer"},
        "ratio": {"type": "number"},
        "on": {"type": "boolean"},
        "host": _TEXT,
        "mode": {"type": "string", "default": "plain"},
        "labels": {"type": "object", "additionalProperties": _TEXT},
        "ports": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "port"],
                "properties": {"name": _TEXT, "port": {"type": "integer"}, "note": _TEXT},
            },
        },
        "tags": {"type": "array", "items": _TEXT},
    },
}
SCHEMA: Final[Schema] = compile_schema({"type": "object", "required": ["spec"], "properties": {"spec": _SPEC}})

_TEXTS: Final = st.sampled_from(["", "a", "b", "http", "x-1", "ä", "🙂", "10"])
_INTEGERS: Final = st.sampled_from([0, 1, -1, 2, 7, 80, 2**63 - 1, -(2**63)])
_DOUBLES: Final = st.sampled_from([0.0, 1.5, -2.25, 1e6, 1e-7, 1e300])
_PORTS: Final = st.fixed_dictionaries({"name": _TEXTS, "port": _INTEGERS}, optional={"note": _TEXTS})
OBJECTS: Final[st.SearchStrategy[Mapping[str, Any]]] = st.fixed_dictionaries(
    {
        "spec": st.fixed_dictionaries(
            {
                "name": _TEXTS,
                "replicas": _INTEGERS,
                "ratio": _DOUBLES,
                "on": st.booleans(),
                "mode": _TEXTS,
                "labels": st.dictionaries(_TEXTS, _TEXTS, max_size=3),
                "ports": st.lists(_PORTS, max_size=3),
            },
            optional={"host": _TEXTS, "tags": st.lists(_TEXTS, max_size=3)},
        )
    }
)
"""Objects that are valid for the schema, defaults filled in."""

_LEAVES: Final[Mapping[str, list[str]]] = {
    "string": [
        "self.spec.name",
        "self.spec.mode",
        "'a'",
        "'x-1'",
        "''",
        "self.spec.?host.orValue('h')",
        "self.spec.host",
    ],
    "int": ["self.spec.replicas", "0", "1", "-7", "self.spec.ports.size()", "9223372036854775807"],
    "double": ["self.spec.ratio", "1.5", "0.0", "double(self.spec.replicas)"],
    "bool": ["self.spec.on", "true", "false", "has(self.spec.host)", "'a' in self.spec.labels"],
    "strings": ["['a', 'b']", "self.spec.ports.map(p, p.name)", "self.spec.?tags.orValue([])", "self.spec.tags"],
}
_FORMS: Final[Mapping[str, list[tuple[str, ...]]]] = {
    "string": [
        ("{} + {}", "string", "string"),
        ("({} ? {} : {})", "bool", "string", "string"),
        ("string({})", "int"),
        ("string({})", "double"),
        ("{}.lowerAscii()", "string"),
        ("{}.replace({}, {})", "string", "string", "string"),
        ("{}.join('-')", "strings"),
        ("'%s/%d'.format([{}, {}])", "string", "int"),
        ("(has(self.spec.host) ? self.spec.host : {})", "string"),
    ],
    "int": [
        ("{} + {}", "int", "int"),
        ("{} * {}", "int", "int"),
        ("{} / {}", "int", "int"),
        ("size({})", "string"),
        ("{}.size()", "strings"),
        ("({} ? {} : {})", "bool", "int", "int"),
        ("math.greatest({}, {})", "int", "int"),
        ("{}.indexOf({})", "string", "string"),
    ],
    "double": [("{} + {}", "double", "double"), ("{} / {}", "double", "double"), ("math.abs({})", "double")],
    "bool": [
        ("{} == {}", "int", "int"),
        ("{} == {}", "string", "string"),
        ("{} < {}", "int", "int"),
        ("{} >= {}", "double", "double"),
        ("({} && {})", "bool", "bool"),
        ("({} || {})", "bool", "bool"),
        ("!({})", "bool"),
        ("{} in {}", "string", "strings"),
        ("{}.exists(x, x == {})", "strings", "string"),
        ("self.spec.ports.all(p, p.port > {})", "int"),
        ("{}.startsWith({})", "string", "string"),
        ("{}.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')", "string"),
        ("{} == {}", "strings", "strings"),
    ],
    "strings": [
        ("{} + {}", "strings", "strings"),
        ("{}.filter(x, x != {})", "strings", "string"),
        ("{}.map(x, x + {})", "strings", "string"),
        ("{}.split('-')", "string"),
        ("[{}, {}]", "string", "string"),
        ("{}.distinct()", "strings"),
        ("{}.sort()", "strings"),
    ],
}


@st.composite
def _expression(draw: st.DrawFn, kind: str, depth: int) -> str:
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from(_LEAVES[kind]))
    form, *parts = draw(st.sampled_from(_FORMS[kind]))
    inner = [draw(_expression(part, depth - 1)) for part in parts]
    return form.format(*(f"({script})" if " " in script else script for script in inner))


EXPRESSIONS: Final[st.SearchStrategy[str]] = st.sampled_from(sorted(_LEAVES)).flatmap(lambda kind: _expression(kind, 3))
"""Texts that the check accepts: their types are right by construction."""


def any_text() -> st.SearchStrategy[str]:
    """Text of any characters, and texts that look like expressions nearly."""
    parts = ["self", ".", "spec", "(", ")", "[", "]", "{", "}", "?", ":", "'", '"', "1", "1u", "2.5", "&&", "||", "!"]
    parts += ["-", "+", "%", "all", "map", "(x, ", ",", " in ", "has(", "b'", "\\", "\\x", "`", "\n", "//", "é", "\x00"]
    near = st.lists(st.sampled_from(parts), max_size=25).map("".join)
    return (
        st.text(max_size=40)
        | near
        | st.builds(lambda sign, times: sign * times, st.sampled_from("([{!-+'a."), st.integers(1, 9_000))
    )
