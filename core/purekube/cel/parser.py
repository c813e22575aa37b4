"""The parser of expressions: the whole grammar of CEL with its macros."""

from typing import Final

import attrs

from purekube.cel import syntax
from purekube.cel.lexer import Token, tokens
from purekube.cel.limits import LIMITS, CelSyntaxError, Limits
from purekube.cel.resolve import apart
from purekube.cel.syntax import RESERVED, Expression, constructor, dotted
from purekube.cel.values import INT_MAX

_CONSTANTS: Final = {"true": True, "false": False, "null": None}
# All relations have one level, as in cel-go (parser/gen/CEL.g4, relation): `1 < 2 == true` is read from the left.
_LEVELS: Final = (
    ("||",),
    ("&&",),
    ("==", "!=", "<", "<=", ">", ">=", "in"),
    ("+", "-"),
    ("*", "/", "%"),
)
# These words are tokens in CEL.g4; every other reserved word may be the name of a field.
_NO_FIELDS: Final = frozenset(("true", "false", "null", "in"))
MACROS: Final[dict[str, dict[int, int]]] = {
    "all": {2: 1, 3: 2},
    "exists": {2: 1, 3: 2},
    "exists_one": {2: 1, 3: 2},
    "existsOne": {2: 1, 3: 2},
    "filter": {2: 1},
    "map": {2: 1, 3: 1},
    "optMap": {2: 1},
    "optFlatMap": {2: 1},
    "sortBy": {2: 1},
    "transformList": {3: 2, 4: 2},
    "transformMap": {3: 2, 4: 2},
    "transformMapEntry": {3: 2, 4: 2},
}
"""The number of variables among the arguments of each macro, by the number of arguments."""
_TRANSFORMS: Final = frozenset(("transformList", "transformMap", "transformMapEntry"))


def parse(source: str, limits: Limits = LIMITS) -> Expression:
    """Return the syntax tree of the expression `source`. Raises CelSyntaxError if it is invalid or exceeds `limits`."""
    if len(source) > limits.text:
        raise CelSyntaxError(f"an expression has at most {limits.text} characters, this one has {len(source)}")
    parser = _Parser(source, limits)
    tree = parser.expression()
    parser.expect_end()
    return apart(tree, frozenset(parser.absolute)) if parser.absolute else tree


class _Parser:
    def __init__(self, source: str, limits: Limits) -> None:
        self._source = source
        self._limits = limits
        self._tokens = list(tokens(source))
        self._at = 0
        self._depth = 0
        self.absolute = set[str]()

    # --- operators ----------------------------------------------------------------------------------------------------

    def expression(self) -> Expression:
        self._deeper()
        at = self._peek().position
        node = self._binary(0)
        if self._take("?"):
            positive = self._binary(0)
            self._expect(":")
            node = syntax.Conditional(node, positive, self.expression(), at=at)
        self._depth -= 1
        return node

    def expect_end(self) -> None:
        if self._peek().kind != "end":
            raise self._error("expected the end")

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > self._limits.depth:
            raise self._error(f"an expression is nested {self._limits.depth} levels deep at most")

    def _binary(self, level: int) -> Expression:
        if level == len(_LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        count = 0
        while (operator := self._operator(_LEVELS[level])) is not None:
            count += 1
            if count > self._limits.chain:
                raise self._error(f"at most {self._limits.chain} operators stand in a row")
            left = syntax.Binary(operator.text, left, self._binary(level + 1), at=operator.position)
        return left

    def _operator(self, desired: tuple[str, ...]) -> Token | None:
        token = self._peek()
        if token.kind in ("sign", "name") and token.text in desired:
            self._at += 1
            return token
        return None

    def _unary(self) -> Expression:
        signs: list[Token] = []
        while (token := self._operator(("!", "-"))) is not None:
            # CEL.g4, unary: a run of `!` or a run of `-` before a member.
            if signs and signs[0].text != token.text:
                raise self._error("! and - do not mix")
            signs.append(token)
            if len(signs) > self._limits.chain:
                raise self._error(f"at most {self._limits.chain} operators stand in a row")
        bare = self._peek().kind == "literal"
        minus = bool(signs) and signs[0].text == "-"
        node = self._member(negative=minus and len(signs) % 2 == 1)
        # In CEL.g4 the sign belongs to the literal, so that the smallest integer can be written.
        if bare and minus and isinstance(node, syntax.Literal) and type(node.value) in (int, float):
            return syntax.Literal(-node.value, at=signs[0].position) if len(signs) % 2 else node
        for token in reversed(signs):
            node = syntax.Unary(token.text, node, at=token.position)
        return node

    # --- members ------------------------------------------------------------------------------------------------------

    def _member(self, *, negative: bool) -> Expression:
        node = self._primary()
        if isinstance(node, syntax.Literal) and node.value == INT_MAX + 1 and type(node.value) is int and not negative:
            raise CelSyntaxError("the number does not fit into 64 bits", self._source, node.at)
        count = 0
        while True:
            token = self._peek()
            if self._take("."):
                node = self._selection(node, token)
            elif self._take("["):
                optional = self._take("?")
                key = self.expression()
                self._expect("]")
                node = syntax.Index(node, key, optional, at=token.position)
            elif (name := dotted(node)) and self._take("{"):
                node = self._made(name, token)
            else:
                return node
            count += 1
            if count > self._limits.chain:
                raise self._error(f"at most {self._limits.chain} members stand in a row")

    def _made(self, name: str, begin: Token) -> Expression:
        """Return the parsed construction of an object, such as `JSONPatch{op: "add"}`, as a call. `name` is the
        object's type.
        """
        fields = self._map(begin)
        if any(not isinstance(key, syntax.Identifier) for key, _ in fields.entries):
            raise CelSyntaxError(f"a field of {name} is a name, as in {name}{{field: 1}}", self._source, begin.position)
        named = tuple((syntax.Literal(dotted(key), at=key.at), value) for key, value in fields.entries)
        return syntax.Call(constructor(name), None, (attrs.evolve(fields, entries=named),), at=begin.position)

    def _selection(self, operand: Expression, dot: Token) -> Expression:
        optional = self._take("?")
        token = self._peek()
        quoted = token.kind == "field"
        if not quoted and (token.kind != "name" or token.text in _NO_FIELDS):
            raise self._error("expected a name")
        self._at += 1
        if optional or quoted or not self._take("("):
            return syntax.Select(operand, token.text, optional, quoted, at=dot.position)
        arguments = self._arguments(")")
        if isinstance(operand, syntax.Identifier) and (operand.name, token.text, len(arguments)) == ("cel", "bind", 3):
            return self._bind(arguments, token)
        variables = MACROS.get(token.text, {}).get(len(arguments))
        if variables is not None and (variables == 1 or isinstance(arguments[1], syntax.Identifier)):
            return self._macro(token, operand, arguments, variables)
        if token.text in MACROS and not isinstance(operand, syntax.Identifier):
            raise CelSyntaxError(f"{token.text}() takes a variable and an expression", self._source, token.position)
        return syntax.Call(token.text, operand, arguments, at=token.position)

    def _macro(self, token: Token, target: Expression, arguments: tuple[Expression, ...], count: int) -> Expression:
        names = tuple(self._variable(argument, token) for argument in arguments[:count])
        if len(set(names)) < len(names):
            raise CelSyntaxError(f"{token.text}() takes two different variables", self._source, token.position)
        rest = arguments[count:]
        if token.text in _TRANSFORMS and len(rest) == 1:
            return syntax.Macro(token.text, target, names, None, rest[0], at=token.position)
        return syntax.Macro(token.text, target, names, rest[0], rest[1] if len(rest) > 1 else None, at=token.position)

    def _variable(self, node: Expression, token: Token) -> str:
        if isinstance(node, syntax.Identifier) and not node.absolute:
            return node.name
        raise CelSyntaxError(f"{token.text}() takes a variable and an expression", self._source, token.position)

    def _bind(self, arguments: tuple[Expression, ...], token: Token) -> Expression:
        return syntax.Bind(self._variable(arguments[0], token), arguments[1], arguments[2], at=token.position)

    # --- primaries ----------------------------------------------------------------------------------------------------

    def _primary(self) -> Expression:
        token = self._next()
        match token.kind, token.text:
            case "literal", _:
                return syntax.Literal(token.value, at=token.position)
            case "name", _:
                return self._named(token, absolute=False)
            case "sign", "(":
                inner = self.expression()
                self._expect(")")
                return inner
            case "sign", "[":
                return self._list(token)
            case "sign", "{":
                return self._map(token)
            case "sign", "." if self._peek().kind == "name":
                return self._named(self._next(), absolute=True)
        self._at -= token.kind != "end"
        raise self._error("expected an expression")

    def _named(self, token: Token, *, absolute: bool) -> Expression:
        if token.text in _CONSTANTS and not absolute:
            return syntax.Literal(_CONSTANTS[token.text], at=token.position)
        if token.text in RESERVED or token.text in _NO_FIELDS:
            raise CelSyntaxError(f"reserved identifier {token.text!r}", self._source, token.position)
        if not self._take("("):
            if absolute:
                self.absolute.add(token.text)
            return syntax.Identifier(token.text, absolute, at=token.position)
        arguments = self._arguments(")")
        if token.text == "has":
            return self._has(arguments, token)
        return syntax.Call(token.text, None, arguments, at=token.position)

    def _has(self, arguments: tuple[Expression, ...], token: Token) -> Expression:
        if len(arguments) == 1 and isinstance(arguments[0], syntax.Select) and not arguments[0].optional:
            chosen = arguments[0]
            return syntax.HasMacro(chosen.operand, chosen.field, chosen.quoted, at=token.position)
        raise CelSyntaxError("has() takes one field, as in has(self.spec.host)", self._source, token.position)

    def _arguments(self, end: str) -> tuple[Expression, ...]:
        arguments: list[Expression] = []
        while not self._take(end):
            arguments.append(self.expression())
            if not self._take(","):
                self._expect(end)
                break
            # CEL.g4, exprList: lists and maps may end with a comma, arguments may not.
            if self._peek().text == end and self._peek().kind == "sign" and end == ")":
                raise self._error("expected an expression")
        return tuple(arguments)

    def _list(self, begin: Token) -> Expression:
        items: list[Expression] = []
        optionals = set[int]()
        while not self._take("]"):
            if self._take("?"):
                optionals.add(len(items))
            items.append(self.expression())
            if not self._take(","):
                self._expect("]")
                break
        return syntax.ListLiteral(tuple(items), frozenset(optionals), at=begin.position)

    def _map(self, begin: Token) -> syntax.MapLiteral:
        entries: list[tuple[Expression, Expression]] = []
        optionals = set[int]()
        while not self._take("}"):
            if self._take("?"):
                optionals.add(len(entries))
            key = self.expression()
            self._expect(":")
            entries.append((key, self.expression()))
            if not self._take(","):
                self._expect("}")
                break
        return syntax.MapLiteral(tuple(entries), frozenset(optionals), at=begin.position)

    # --- tokens -------------------------------------------------------------------------------------------------------

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
        return CelSyntaxError(f"{what}, found {shown}", self._source, token.position)
