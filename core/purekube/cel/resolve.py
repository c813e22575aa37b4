"""The resolution of names with dots: which part of `a.b.c` is a variable, and which are fields of it.

The longest name that is a variable wins, looked up in the container first and then in its parents. A variable of a
macro hides all of them, unless a dot precedes the name.
"""

from collections.abc import Iterator

import attrs

from purekube.cel.syntax import (
    Binary,
    Bind,
    Call,
    Conditional,
    Expression,
    HasMacro,
    Identifier,
    Index,
    ListLiteral,
    Macro,
    MapLiteral,
    Select,
    Unary,
    dotted,
)


def resolved(node: Expression, variables: frozenset[str], container: str = "") -> Expression:
    """Return `node` with each chain of Selects that spells a variable's name, such as `a.b`, replaced by one
    Identifier.

    In `container` (a namespace of CEL such as `a`) a name is looked up first: `x` then means the variable `a.x`.
    """
    return _Resolver(variables, container, frozenset()).visit(node)


@attrs.frozen
class _Resolver:
    variables: frozenset[str]
    container: str
    local: frozenset[str]

    def visit(self, node: Expression) -> Expression:
        match node:
            case Identifier() | Select():
                return self._name(node)
            case HasMacro(operand):
                return attrs.evolve(node, operand=self.visit(operand))
            case Index(operand, key):
                return attrs.evolve(node, operand=self.visit(operand), key=self.visit(key))
            case Call(_, target, arguments):
                new_target = None if target is None else self.visit(target)
                return attrs.evolve(node, target=new_target, arguments=tuple(map(self.visit, arguments)))
            case Macro(_, target, names, body, transform):
                inner = attrs.evolve(self, local=self.local.union(names))
                bodies = [None if part is None else inner.visit(part) for part in (body, transform)]
                return attrs.evolve(node, target=self.visit(target), body=bodies[0], transform=bodies[1])
            case Bind(name, value, body):
                inner = attrs.evolve(self, local=self.local | {name})
                return attrs.evolve(node, value=self.visit(value), body=inner.visit(body))
            case Unary(_, operand):
                return attrs.evolve(node, operand=self.visit(operand))
            case Binary(_, left, right):
                return attrs.evolve(node, left=self.visit(left), right=self.visit(right))
            case Conditional(condition, positive, negative):
                first, second, third = map(self.visit, (condition, positive, negative))
                return Conditional(first, second, third, at=node.at)
            case ListLiteral(items):
                return attrs.evolve(node, items=tuple(map(self.visit, items)))
            case MapLiteral(entries):
                return attrs.evolve(node, entries=tuple((self.visit(key), self.visit(part)) for key, part in entries))
            case _:
                return node

    def _name(self, node: Identifier | Select) -> Expression:
        variable = self._variable(dotted(node), _root(node))
        if variable:
            return Identifier(variable, at=node.at)
        if isinstance(node, Select):
            return attrs.evolve(node, operand=self.visit(node.operand))
        return node

    def _variable(self, name: str, root: Identifier | None) -> str:
        if not name or root is None or (root.name in self.local and not root.absolute):
            return ""
        return next(
            (candidate for candidate in self._candidates(name, root.absolute) if candidate in self.variables), ""
        )

    def _candidates(self, name: str, absolute: bool) -> Iterator[str]:
        around = "" if absolute else self.container
        while around:
            yield f"{around}.{name}"
            around = around.rpartition(".")[0]
        yield name


def _root(node: Expression) -> Identifier | None:
    while isinstance(node, Select):
        node = node.operand
    return node if isinstance(node, Identifier) else None
