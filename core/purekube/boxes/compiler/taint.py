"""The taint of expressions: what a value may reveal, and who controls it, judged from the text alone (PH-6, RUN-12).

A taint has two parts. `data`: whether the value reveals data of a Secret; such a value may be written only into
Secrets. `origin`: who controls the value, the author of the box or the authors of its parents. Objects are judged field
by field: a Secret's name reveals nothing of its data, and no tenant chooses a parent's namespace.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from functools import reduce
from typing import Final

import attrs

from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import NAMESPACE, SECRET
from purekube.cel import syntax
from purekube.cel.syntax import Expression, children

_PASSED_ON: Final = frozenset(("orValue", "or", "value", "of", "ofNonZeroValue", "default", "reverse"))
"""Functions that return one of their arguments unchanged."""
_ITEMS: Final = frozenset(("first", "last"))
_OPTIONALS: Final = frozenset(("optMap", "optFlatMap"))
_LISTS: Final = frozenset(("map", "transformList"))


class Origin(IntEnum):
    """The party that controls a value: the box's author, the user who names a parent, or any user who may write the
    parent.

    If several parties control a value, the least trusted is recorded. A parent is an object of the box's kind.
    """

    AUTHOR = 0
    """The author of the box, or the API server. A parent's namespace counts as controlled by the author, since users
    write only in the namespaces that they were given.
    """
    NAMED = 1
    """The user who chooses the name of a parent (object of the box's kind)."""
    CHOSEN = 2
    """Any user who may write the parent, or other objects in its namespace."""


@attrs.frozen
class TaintSource:
    """An object that variables refer to, with the parties that control its fields.

    `origins` maps paths of fields to the party that controls the field; `rest` controls all other fields. `public`
    lists the fields of a Secret that reveal nothing of its data, and is None for other objects. `owned` says that the
    box itself creates the object, so that no other object can have its name.
    """

    origins: Mapping[tuple[str, ...], Origin]
    public: frozenset[tuple[str, ...]] | None = None
    owned: bool = False
    rest: Origin = Origin.CHOSEN


_SERVER: Final[Mapping[tuple[str, ...], Origin]] = {
    ("apiVersion",): Origin.AUTHOR,
    ("kind",): Origin.AUTHOR,
    ("metadata", "namespace"): Origin.AUTHOR,
    ("metadata", "uid"): Origin.AUTHOR,
    ("metadata", "creationTimestamp"): Origin.AUTHOR,
}
_META: Final = ("metadata",)
_NAME: Final = ("metadata", "name")
PUBLIC: Final = frozenset((*_SERVER, _NAME, ("metadata", "labels"), ("type",)))
"""Fields of a Secret that reveal nothing of its data. Annotations may: kubectl's last-applied-configuration does."""

_DATA: Final = ("data", "stringData")
"""Fields of a Secret whose mere presence reveals nothing of their values."""


@attrs.frozen
class Taint:
    """The secrecy and origin of a value: whether it may reveal Secrets (`data`), and who controls it (`origin`).

    `source` is the Kubernetes object that the value is, or is a part of; None if there is none. `path` is the place of
    the value in that object. `owned` says that the value is exactly the name of an object that the box creates.
    """

    data: bool = False
    origin: Origin = Origin.AUTHOR
    source: TaintSource | None = None
    path: tuple[str, ...] = ()
    listed: bool = False
    owned: bool = False

    @property
    def whole(self) -> "Taint":
        """The taint (secrecy, and who controls it) of the value as a whole, with all its fields."""
        if self.source is None:
            return self
        return Taint(self.data or self.source.public is not None, max(self.origin, self.source.rest))

    @property
    def presence(self) -> "Taint":
        """The taint (secrecy, and who controls it) of whether the value exists, or how many items it has."""
        return Taint(self.data, self.whole.origin)

    def under(self, other: "Taint") -> "Taint":
        """Return this taint (secrecy of a value, and who controls it) combined with that of a condition under which the
        value is used.
        """
        owned = self.owned and other.origin is Origin.AUTHOR
        return attrs.evolve(self, data=self.data or other.data, origin=max(self.origin, other.origin), owned=owned)

    def field(self, name: str) -> "Taint":
        """Return the taint (secrecy, and who controls it) of the field `name` of the value that has this taint."""
        if self.source is None or self.listed:
            return self.whole
        path = (*self.path, name)
        if path == _META:
            return attrs.evolve(self, path=path)
        data = self.source.public is not None and path not in self.source.public
        owned = self.source.owned and path == _NAME
        return Taint(data, self.source.origins.get(path, self.source.rest), owned=owned).under(self)

    @property
    def item(self) -> "Taint":
        """The taint (secrecy, and who controls it) of an item, if the value is a list. Only items of a list of objects
        have another taint than the whole list.
        """
        return attrs.evolve(self, listed=False) if self.listed else self.whole

    @property
    def list(self) -> "Taint":
        """The taint (secrecy, and who controls it) of a list whose items have this taint."""
        return self.whole if self.listed or self.path else attrs.evolve(self, listed=self.source is not None)

    def meets(self, other: "Taint") -> "Taint":
        """Return the taint (secrecy, and who controls it) of a value that may be either of two: one with this taint,
        one with `other`.
        """
        if self.source is not None and other.source is not None:
            alike = (self.source, self.path, self.listed) == (other.source, other.path, other.listed)
            return self.under(other) if alike else self.whole.under(other.whole)
        kept = other if self.source is None else self
        owned = (self.owned or other.owned) and all(one.owned or one.origin is Origin.AUTHOR for one in (self, other))
        return attrs.evolve(kept, data=self.data or other.data, origin=max(self.origin, other.origin), owned=owned)


TRUSTED: Final = Taint()
PARENT: Final = Taint(source=TaintSource({**_SERVER, _NAME: Origin.NAMED}))


def child(kind: Kind, name: Origin, *, listed: bool = False) -> Taint:
    """Return the taint (secrecy, and who controls it) of an object that the box creates.

    `name` says who controls the object's name. The name of a Namespace that the box creates counts as chosen by the
    box's author. With `listed` it is the taint of a list of such objects.
    """
    origins = {**_SERVER, _NAME: Origin.AUTHOR if kind == NAMESPACE else name}
    return Taint(source=TaintSource(origins, _public(kind), owned=True), listed=listed)


def external(kind: Kind, name: Origin, *, elsewhere: bool) -> Taint:
    """Return the taint (secrecy, and who controls it) of an object that the box only reads.

    `name` says who controls the object's name. `elsewhere` says that the object is in a namespace that no tenant may
    write. The name of a Secret always counts as controlled by the box's author: if a tenant chooses it, the box reads
    the Secret only with the permission of an annotation on it, or if the box trusts its tenants with Secrets.
    """
    named = Origin.AUTHOR if kind == SECRET else name
    rest = Origin.AUTHOR if elsewhere and name is Origin.AUTHOR else Origin.CHOSEN
    return Taint(source=TaintSource({**_SERVER, _NAME: named}, _public(kind), rest=rest))


def _public(kind: Kind) -> frozenset[tuple[str, ...]] | None:
    return PUBLIC if kind == SECRET else None


def taint_of(tree: Expression, variables: Mapping[str, Taint]) -> Taint:
    """Return the taint of an expression's value: whether it may reveal Secrets, and who controls it. A variable that is
    not in `variables` reveals nothing.
    """
    return _Tracer(variables).visit(tree)


@attrs.frozen
class _Tracer:
    variables: Mapping[str, Taint]

    def visit(self, node: Expression) -> Taint:
        match node:
            case syntax.Identifier(name):
                return self.variables.get(name, TRUSTED)
            case syntax.Select(operand, field):
                return self.visit(operand).field(field)
            case syntax.HasMacro(operand, field):
                found = self.visit(operand)
                is_secret = found.source is not None and not (found.path or found.listed)
                return found.presence if is_secret and field in _DATA else found.field(field).whole
            case syntax.Index(operand, key):
                return self._index(self.visit(operand), key)
            case syntax.Call():
                return self._call(node)
            case syntax.Macro():
                return self._macro(node)
            case syntax.Bind(name, value, body):
                return self._with({name: self.visit(value)}).visit(body)
            case syntax.Conditional(condition, positive, negative):
                return self.visit(positive).meets(self.visit(negative)).under(self.visit(condition).whole)
            case syntax.ListLiteral(items):
                return reduce(Taint.meets, map(self.visit, items), TRUSTED).list
            case _:
                return _mixed(self.visit(part) for part in children(node))

    def _with(self, names: Mapping[str, Taint]) -> "_Tracer":
        return _Tracer({**self.variables, **names})

    def _index(self, operand: Taint, key: Expression) -> Taint:
        """Return the taint (secrecy, and who controls it) of `operand[key]`. A literal key selects one field or item. A
        computed key may select any of them.
        """
        if not operand.listed and isinstance(key, syntax.Literal) and isinstance(key.value, str):
            return operand.field(key.value)
        return operand.item.under(self.visit(key).whole)

    def _call(self, node: syntax.Call) -> Taint:
        parts = [*([node.target] if node.target is not None else []), *node.arguments]
        taints = [self.visit(part) for part in parts]
        if node.name == "size" and taints and taints[0].listed:
            return taints[0].presence
        if node.name == "isReady" and taints and not taints[0].path and not taints[0].listed:
            return taints[0].presence
        if node.name in _PASSED_ON:
            return reduce(Taint.meets, taints, TRUSTED)
        if node.name in _ITEMS and node.target is not None:
            return taints[0].item
        return _mixed(taints)

    def _macro(self, node: syntax.Macro) -> Taint:
        target = self.visit(node.target)
        item = target if node.name in _OPTIONALS else target.item
        inner = self._with({**dict.fromkeys(node.variables, target.presence), node.variables[-1]: item})
        asked, made = (None if part is None else inner.visit(part) for part in (node.body, node.transform))
        if node.name in _OPTIONALS and asked is not None:
            return asked.under(target.presence)
        if node.name in _LISTS:
            made, asked = (asked, None) if made is None else (made, asked)
        decided = _mixed(one for one in (target.presence, asked, None if target.listed else target) if one is not None)
        if node.name in ("filter", "sortBy"):
            return target.under(decided) if target.listed else target.whole.under(decided)
        if made is None:
            return decided
        return (made.list if node.name in _LISTS else made.whole).under(decided)


def _mixed(taints: Iterable[Taint]) -> Taint:
    return reduce(Taint.under, (taint.whole for taint in taints), TRUSTED)
