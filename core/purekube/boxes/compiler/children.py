"""The names `children.<kind>`, `children.<kind>.<id>` and `children.<kind>[*]`, resolved to resources (PH-5).

They are replaced by ids in the tree of an expression when a box is read, so that all later steps know ids only.
`children.<kind>` is an error if several resources have that kind.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final, TypeVar

import attrs

from purekube.cel import CelSyntaxError
from purekube.cel.lexer import Token, tokens
from purekube.cel.syntax import Bind, Expression, HasMacro, Identifier, Index, Macro, Select, rebuilt

T = TypeVar("T")

ROOT: Final = "children"
_ANY: Final = "_"
"""The stand-in for `*` between brackets, which CEL does not know; no variable has this name."""


@attrs.frozen
class ChildNames:
    """A table of the ids of a box's resources by lower-case kind, such as `deployment`.

    It resolves names like `children.deployment` in expressions.
    """

    by_kind: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, resources: Iterable[tuple[str, str]]) -> "ChildNames":
        """Return the table for `resources`, which are pairs of a resource's id and its kind."""
        found: dict[str, tuple[str, ...]] = {}
        for identifier, kind in resources:
            found[kind.lower()] = (*found.get(kind.lower(), ()), identifier)
        return cls(found)

    @property
    def lists(self) -> Mapping[str, tuple[str, ...]]:
        """The resource ids of each kind, by the name of the variable that lists all children of that kind."""
        return {list_name(kind): ids for kind, ids in self.by_kind.items()}

    def ids_of(self, kind: str) -> tuple[str, ...]:
        """Return the ids of the resources of a kind.

        Raises LookupError with a suggestion if no resource has that kind.
        """
        ids = self.by_kind.get(kind.lower(), ())
        if not ids:
            near = get_close_matches(kind.lower(), self.by_kind, 1)
            hint = f"; did you mean children.{near[0]}?" if near else ""
            raise LookupError(f"no resource of this box is of a kind {kind!r}{hint}")
        return ids

    def only(self, kind: str) -> str:
        """Return the id of the only resource of a kind. Raises LookupError if there are several or none."""
        ids = self.ids_of(kind)
        if len(ids) > 1:
            named = " or ".join(f"{ROOT}.{kind}.{identifier}" for identifier in ids)
            raise LookupError(f"several resources are of that kind: write {named}, or {ROOT}.{kind}[*] for all")
        return ids[0]

    def resolve_path(self, steps: Sequence[str | int]) -> list[str | int]:
        """Return the path `steps` with `children.<kind>` or `children.<kind>.<id>` at its beginning replaced by a
        resource's id.

        It is the path of a value that a `when` gate (a condition for writes) tests. A path with another beginning is
        returned unchanged. Raises LookupError if a path under `children` does not name one resource of the box.
        """
        if not steps or steps[0] != ROOT:
            return list(steps)
        if len(steps) < 2 or not isinstance(steps[1], str):
            raise LookupError(f"{ROOT} is read as {ROOT}.<kind>: {', '.join(sorted(self.by_kind))}")
        kind = steps[1]
        if len(steps) > 2 and steps[2] in self.ids_of(kind):
            return list(steps[2:])
        return [self.only(kind), *steps[2:]]

    def resolve(self, tree: Expression, source: str) -> Expression:
        """Return the expression `tree` with `children.<kind>` replaced by resource ids. Raises CelSyntaxError, with the
        position in `source`, if a replacement is not possible.
        """
        return _Resolver(self, source).visit(tree)


def list_name(kind: str) -> str:
    """Return the name of the variable that holds all children of a kind, such as `children.deployment[*]`."""
    return f"{ROOT}.{kind.lower()}[*]"


def readable(source: str) -> str:
    """Return the expression `source` in a form that CEL accepts: `*` in `children.<kind>[*]` becomes the name `_`.

    All other characters keep their positions. Raises CelSyntaxError if a part of the text is not a CEL token.
    """
    if "*" not in source or ROOT not in source:
        return source
    found: list[Token] = list(tokens(source))
    text = list(source)
    for at in range(len(found) - 5):
        words = [token.text for token in found[at : at + 6]]
        if words[0] == ROOT and words[1] == "." and words[3:] == ["[", "*", "]"]:
            text[found[at + 4].position] = _ANY
    return "".join(text)


@attrs.frozen
class _Resolver:
    children: ChildNames
    source: str

    def visit(self, node: Expression) -> Expression:
        match node:
            case Index(Select(Identifier("children"), kind), Identifier("_")):
                self._looked_up(self.children.ids_of, kind, node)
                return Identifier(list_name(kind), at=node.at)
            case Select(Select(Identifier("children"), kind), name) if name in self.children.by_kind.get(
                kind.lower(), ()
            ):
                return Identifier(name, at=node.at)
            case Select(Identifier("children"), kind):
                return Identifier(self._looked_up(self.children.only, kind, node), at=node.at)
            case HasMacro(Identifier("children"), kind):
                raise CelSyntaxError(f"write has({ROOT}.{kind}.metadata): has() asks for a field", self.source, node.at)
            case Identifier("children"):
                kinds = ", ".join(sorted(self.children.by_kind)) or "there is none"
                raise CelSyntaxError(f"{ROOT} is read as {ROOT}.<kind>: {kinds}", self.source, node.at)
            case Macro(_, _, names) if ROOT in names:
                raise CelSyntaxError(f"{ROOT} cannot be the name of a variable", self.source, node.at)
            case Bind("children"):
                raise CelSyntaxError(f"{ROOT} cannot be the name of a variable", self.source, node.at)
        return rebuilt(node, self.visit)

    def _looked_up(self, look_up: Callable[[str], T], kind: str, node: Expression) -> T:
        try:
            return look_up(kind)
        except LookupError as error:
            raise CelSyntaxError(str(error.args[0]), self.source, node.at) from error
