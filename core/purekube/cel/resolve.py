"""The resolution of names with dots: which part of `a.b.c` is a variable, and which are fields of it.

The longest name that is a variable wins. It is looked up in the container (a namespace of CEL, such as `a.b`) first,
and then in the container's parents. A variable of a macro hides all of them, unless a dot precedes the name.
"""

from collections.abc import Iterator

import attrs

from purekube.cel.syntax import Bind, Expression, Identifier, Macro, Select, dotted, rebuilt


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
            case Macro(_, target, names):
                inner = attrs.evolve(self, local=self.local.union(names))
                return rebuilt(node, lambda part: self.visit(part) if part is target else inner.visit(part))
            case Bind(name, value):
                inner = attrs.evolve(self, local=self.local | {name})
                return rebuilt(node, lambda part: self.visit(part) if part is value else inner.visit(part))
            case _:
                return rebuilt(node, self.visit)

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


def apart(node: Expression, absolute: frozenset[str]) -> Expression:
    """Return `node` with macro variables renamed if they would hide a name in `absolute`.

    `absolute` has the names that the expression writes with a leading dot anywhere: with the dot they never mean a
    macro's variable. An example is `x` in `[1].map(x, .x + x)`. Here the macro's variable becomes `x'`, so that the
    tree has the same meaning for code that ignores the dot.
    """
    return _Renamer(absolute, frozenset()).visit(node)


@attrs.frozen
class _Renamer:
    absolute: frozenset[str]
    hidden: frozenset[str]

    def visit(self, node: Expression) -> Expression:
        match node:
            case Identifier(name, absolute=False):
                return attrs.evolve(node, name=self._renamed(name))
            case Macro(_, target, names):
                inner = self._inside(names)
                named = attrs.evolve(node, variables=tuple(map(inner._renamed, names)))
                return rebuilt(named, lambda part: self.visit(part) if part is target else inner.visit(part))
            case Bind(name, value):
                inner = self._inside((name,))
                bound = attrs.evolve(node, name=inner._renamed(name))
                return rebuilt(bound, lambda part: self.visit(part) if part is value else inner.visit(part))
            case _:
                return rebuilt(node, self.visit)

    def _inside(self, names: tuple[str, ...]) -> "_Renamer":
        return attrs.evolve(self, hidden=self.hidden | self.absolute.intersection(names))

    def _renamed(self, name: str) -> str:
        return f"{name}'" if name in self.hidden else name


def _root(node: Expression) -> Identifier | None:
    while isinstance(node, Select):
        node = node.operand
    return node if isinstance(node, Identifier) else None
