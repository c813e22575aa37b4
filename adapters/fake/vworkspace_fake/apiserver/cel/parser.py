"""From the text of a rule to its syntax tree: the whole grammar of CEL, with the macros of Kubernetes."""

from typing import Final

from vworkspace_fake.apiserver.cel.lexer import Token, tokens
from vworkspace_fake.apiserver.cel.syntax import (
    RESERVED,
    Binary,
    Call,
    CelSyntaxError,
    Conditional,
    Expression,
    Identifier,
    Index,
    ListLiteral,
    Literal,
    Macro,
    MapLiteral,
    Present,
    Select,
    Unary,
)

__all__ = ["parse"]

_CONSTANTS: Final = {"true": True, "false": False, "null": None}
_LEVELS: Final = (
    ("||",),
    ("&&",),
    ("==", "!=", "<", "<=", ">", ">=", "in"),
    ("+", "-"),
    ("*", "/", "%"),
)
_MACROS: Final = frozenset(("all", "exists", "exists_one", "existsOne", "map", "filter", "optMap", "optFlatMap"))


def parse(source: str) -> Expression:
    """The tree of `source`. Raises CelSyntaxError."""
    parser = _Parser(list(tokens(source)))
    tree = parser.expression()
    parser.expect_end()
    return tree


class _Parser:
    def __init__(self, found: list[Token]) -> None:
        self._tokens = found
        self._at = 0

    def expression(self) -> Expression:
        condition = self._binary(0)
        if not self._take("?"):
            return condition
        positive = self._binary(0)
        self._expect(":")
        return Conditional(condition, positive, self.expression())

    def expect_end(self) -> None:
        if self._peek().kind != "end":
            raise self._error("expected the end")

    def _binary(self, level: int) -> Expression:
        if level == len(_LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while (operator := self._operator(_LEVELS[level])) is not None:
            left = Binary(operator, left, self._binary(level + 1))
        return left

    def _operator(self, wanted: tuple[str, ...]) -> str | None:
        token = self._peek()
        if token.kind in ("sign", "name") and token.text in wanted:
            self._at += 1
            return token.text
        return None

    def _unary(self) -> Expression:
        operator = self._operator(("!", "-"))
        if operator is None:
            return self._member()
        operand = self._unary()
        if operator == "-" and isinstance(operand, Literal) and type(operand.value) in (int, float):
            return Literal(-operand.value)
        return Unary(operator, operand)

    def _member(self) -> Expression:
        node = self._primary()
        while True:
            if self._take("."):
                node = self._selection(node)
            elif self._take("["):
                optional = self._take("?")
                key = self.expression()
                self._expect("]")
                node = Index(node, key, optional)
            else:
                return node

    def _selection(self, operand: Expression) -> Expression:
        optional = self._take("?")
        name = self._name()
        if optional or not self._take("("):
            return Select(operand, name, optional)
        arguments = self._arguments(")")
        return _macro(name, operand, arguments) if name in _MACROS else Call(name, operand, arguments)

    def _primary(self) -> Expression:
        token = self._next()
        if token.kind == "end":
            raise self._error("expected an expression")
        if token.kind == "literal":
            return Literal(token.value)
        if token.kind == "name":
            return self._named(token)
        if token.text == "(":
            inner = self.expression()
            self._expect(")")
            return inner
        if token.text == "[":
            return ListLiteral(self._arguments("]"))
        if token.text == "{":
            return self._map()
        if token.text == ".":
            return self._named(self._next())
        self._at -= 1
        raise self._error("expected an expression")

    def _named(self, token: Token) -> Expression:
        if token.text in _CONSTANTS:
            return Literal(_CONSTANTS[token.text])
        if token.text in RESERVED:
            raise CelSyntaxError(f"reserved identifier {token.text!r} at {token.position}")
        if not self._take("("):
            return Identifier(token.text)
        arguments = self._arguments(")")
        return _has(arguments) if token.text == "has" else Call(token.text, None, arguments)

    def _arguments(self, end: str) -> tuple[Expression, ...]:
        found: list[Expression] = []
        while not self._take(end):
            found.append(self.expression())
            if not self._take(","):
                self._expect(end)
                break
        return tuple(found)

    def _map(self) -> Expression:
        entries = []
        while not self._take("}"):
            key = self.expression()
            self._expect(":")
            entries.append((key, self.expression()))
            if not self._take(","):
                self._expect("}")
                break
        return MapLiteral(tuple(entries))

    def _name(self) -> str:
        if self._peek().kind != "name":
            raise self._error("expected a name")
        return self._next().text

    def _peek(self) -> Token:
        return self._tokens[self._at]

    def _next(self) -> Token:
        token = self._tokens[self._at]
        if token.kind != "end":
            self._at += 1
        return token

    def _take(self, sign: str) -> bool:
        token = self._peek()
        if token.kind == "sign" and token.text == sign:
            self._at += 1
            return True
        return False

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            raise self._error(f"expected {sign!r}")

    def _error(self, what: str) -> CelSyntaxError:
        token = self._peek()
        shown = repr(token.text) if token.text else "the end"
        return CelSyntaxError(f"{what} at {token.position}, found {shown}")


def _has(arguments: tuple[Expression, ...]) -> Expression:
    if len(arguments) == 1 and isinstance(arguments[0], Select) and not arguments[0].optional:
        return Present(arguments[0].operand, arguments[0].field)
    raise CelSyntaxError("has() takes one field selection")


def _macro(name: str, target: Expression, arguments: tuple[Expression, ...]) -> Expression:
    if len(arguments) not in ((2, 3) if name == "map" else (2,)) or not isinstance(arguments[0], Identifier):
        raise CelSyntaxError(f"{name}() takes a variable and an expression")
    transform = arguments[2] if len(arguments) == 3 else None
    return Macro(name, target, arguments[0].name, arguments[1], transform)
