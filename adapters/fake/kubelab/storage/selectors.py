"""Label and field selectors: parsed once per request, matched on every object and every change.

The grammar and the messages of its errors are kube-apiserver's (`found '=', expected: …`); as there, `!=`, `notin` and
`!key` hold for an absent label.
"""

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Final, assert_never

import attrs

from kubelab.model.failure import ApiFailure, bad_request


class Operator(StrEnum):
    """The operators of label selectors, such as `in` and `notin`. ABSENT is the `!` of `!key`."""

    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    ABSENT = "!"
    GREATER = ">"
    LESS = "<"


@attrs.frozen
class Requirement:
    """One comma-separated requirement of a label selector, such as `app in (a, b)`."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Report whether an object with these labels satisfies the requirement."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value in self.values
            case Operator.NOT_IN:
                # apimachinery: labels/selector.go, Requirement.Matches: an absent label is not in any set of values.
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.ABSENT:
                return value is None
            case Operator.GREATER | Operator.LESS:
                return self._compares(value)
            case _:
                assert_never(self.operator)

    def _compares(self, value: str | None) -> bool:
        # apimachinery: labels/selector.go: a value that is no integer matches neither `>` nor `<`; it is no error.
        if value is None or not re.fullmatch(r"-?\d+", value):
            return False
        (bound,) = self.values
        return int(value) > int(bound) if self.operator is Operator.GREATER else int(value) < int(bound)


@attrs.frozen
class FieldTerm:
    """A term `path=value` or `path!=value` of a field selector."""

    path: str
    value: str
    equal: bool = True

    def holds(self, value: str) -> bool:
        """Report whether a field with this value satisfies the term. An absent field has an empty value."""
        return (value == self.value) is self.equal


_TOKEN: Final = re.compile(r"\s*(==|!=|[=><(),!]|[^\s=><(),!]+)")
_END: Final = ""
_SYMBOLS: Final = frozenset({"==", "!=", "=", ">", "<", "(", ")", ",", "!"})
# A key's name and a label's value: at most 63 characters.
_NAME: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)")
_PREFIX: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_OPERATORS: Final = {
    "in": Operator.IN,
    "=": Operator.IN,
    "==": Operator.IN,
    "notin": Operator.NOT_IN,
    "!=": Operator.NOT_IN,
    ">": Operator.GREATER,
    "<": Operator.LESS,
}


@lru_cache(maxsize=256)
def parse_labels(text: str) -> tuple[Requirement, ...]:
    """Parse a label selector. An object has to satisfy all its requirements; an empty selector has none.

    Raises ApiFailure 400 with kube-apiserver's message.
    """
    return tuple(_Parser(text).requirements()) if text.strip() else ()


class _Parser:
    """A recursive descent parser over the tokens of one selector."""

    def __init__(self, text: str) -> None:
        self._tokens = [match.group(1) for match in _TOKEN.finditer(text.strip())]
        self._at = 0

    def requirements(self) -> list[Requirement]:
        requirements = [self._first()]
        while self._peek() != _END:
            if self._next() != ",":
                raise _unexpected(self._tokens[self._at - 1], "',' or 'end of string'")
            if self._peek() in (_SYMBOLS - {"!"}) | {_END}:
                raise _unexpected(self._peek(), "identifier after ','")
            requirements.append(self._requirement())
        return requirements

    def _first(self) -> Requirement:
        if self._peek() in _SYMBOLS - {"!"}:
            raise _unexpected(self._peek(), "!, identifier, or 'end of string'")
        return self._requirement()

    def _requirement(self) -> Requirement:
        # apimachinery: labels/selector.go, Parser.parse adds the prefix to errors within a requirement only.
        try:
            return self._one()
        except ApiFailure as failure:
            raise bad_request(f"unable to parse requirement: {failure.message}") from failure

    def _one(self) -> Requirement:
        absent = self._peek() == "!"
        if absent:
            self._next()
        key = _checked_key(self._identifier())
        if absent:
            return Requirement(key, Operator.ABSENT)
        if self._peek() in {_END, ","}:
            return Requirement(key, Operator.EXISTS)
        word = self._next()
        if word not in _OPERATORS:
            raise _unexpected(word, "in, notin, =, ==, !=, gt, lt")
        values = self._values() if word in {"in", "notin"} else frozenset({self._exact()})
        return Requirement(key, _OPERATORS[word], _checked_values(key, _OPERATORS[word], values))

    def _values(self) -> frozenset[str]:
        if self._peek() != "(":
            raise bad_request(f"found '{self._peek()}' expected: '('")
        self._next()
        if self._peek() == _END:
            raise _unexpected(_END, "',', ')' or identifier")
        # `a in (,)` has the empty value twice (labels/selector.go, parseIdentifiersList).
        values = {self._optional_identifier()}
        while self._peek() == ",":
            self._next()
            values.add(self._optional_identifier())
        if self._next() != ")":
            raise _unexpected(self._tokens[self._at - 1] if self._at <= len(self._tokens) else _END, "',' or ')'")
        return frozenset(values)

    def _exact(self) -> str:
        # apimachinery: labels/selector.go, parseExactValue: `a=` selects the empty value.
        return "" if self._peek() in {_END, ","} else self._identifier()

    def _optional_identifier(self) -> str:
        return "" if self._peek() in {",", ")"} else self._identifier()

    def _identifier(self) -> str:
        word = self._next()
        if word in _SYMBOLS or word == _END:
            raise _unexpected(word, "identifier")
        return word

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else _END

    def _next(self) -> str:
        word = self._peek()
        self._at += 1
        return word


def _unexpected(token: str, desired: str) -> Exception:
    return bad_request(f"found '{token}', expected: {desired}")


def _checked_key(key: str) -> str:
    prefix, slash, name = key.rpartition("/")
    if not _NAME.fullmatch(name) or (slash and not (_PREFIX.fullmatch(prefix) and len(prefix) <= 253)):
        raise bad_request(
            f'key: Invalid value: "{key}": name part must consist of alphanumeric characters, '
            "'-', '_' or '.', and must start and end with an alphanumeric character"
        )
    return key


def _checked_values(key: str, operator: Operator, values: frozenset[str]) -> frozenset[str]:
    for value in values:
        if operator in {Operator.GREATER, Operator.LESS}:
            if not re.fullmatch(r"-?\d+", value):
                raise bad_request(
                    f"values[0]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, the value must be an integer"
                )
        elif value and not _NAME.fullmatch(value):
            raise bad_request(
                f'values[0][{key}]: Invalid value: "{value}": a valid label must be an empty string '
                "or consist of alphanumeric characters, '-', '_' or '.', and must start and end with "
                "an alphanumeric character"
            )
    return values


def parse_fields(text: str, supported: Callable[[str], bool]) -> tuple[FieldTerm, ...]:
    """Parse a field selector.

    `supported` reports whether the resource's objects can be selected by the field at a path. Raises ApiFailure 400 if
    the selector is malformed or a path is not supported.
    """
    terms = tuple(_term(text, part) for part in re.findall(r"((?:\\.|[^,\\])+)", text) if part)
    for term in terms:
        if not supported(term.path):
            raise bad_request(f"field label not supported: {term.path}")
    return terms


def name_selected(text: str) -> str:
    """Return the name that a field selector requires. It is empty if the selector requires none or is malformed."""
    try:
        terms = parse_fields(text, lambda path: True)
    except ApiFailure:
        return ""
    # apiserver: endpoints/request/requestinfo.go takes the name from such a selector, so roles with resourceNames
    # permit the list.
    return next((term.value for term in terms if term.path == "metadata.name" and term.equal), "")


def _term(selector: str, part: str) -> FieldTerm:
    match = re.match(r"((?:\\.|[^=!\\])*)(==|!=|=)((?:\\[\\,=]|[^\\=,])*)$", part)
    if match is None:
        raise bad_request(f"invalid selector: '{selector}'; can't understand '{part}'")
    path, operator, value = match.groups()
    return FieldTerm(path.strip(), re.sub(r"\\(.)", r"\1", value), operator != "!=")
