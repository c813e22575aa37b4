"""The difference of two values as three sets of paths: removed, modified, added.

An update takes ownership of the modified and added paths, and an apply may conflict about them.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from kubelab.ssa.field_paths import field
from kubelab.ssa.fieldset import EMPTY, FieldSet, insert, recursive_difference, union
from kubelab.ssa.typed import element_of, items_schema, shape
from purekube.schema.node import ANYTHING, MISSING, JsonType, ListType, Schema
from purekube.schema.structure import equal


@attrs.frozen
class Comparison:
    """The result of comparing two values: removed paths, modified paths and added paths."""

    removed: FieldSet = EMPTY
    modified: FieldSet = EMPTY
    added: FieldSet = EMPTY

    @property
    def same(self) -> bool:
        """True if the two values are the same."""
        return not (self.removed or self.modified or self.added)

    @property
    def changed(self) -> FieldSet:
        """The modified and added paths: a writer takes their ownership, and an apply can conflict about them."""
        return union(self.modified, self.added)

    def without(self, ignored: FieldSet) -> "Comparison":
        """Return the comparison without the `ignored` paths and all paths below them."""
        if not ignored:
            return self
        return Comparison(
            recursive_difference(self.removed, ignored),
            recursive_difference(self.modified, ignored),
            recursive_difference(self.added, ignored),
        )


def compare(schema: Schema, old: Any, new: Any) -> Comparison:
    """Return the difference between two values with the schema `schema`. MISSING as a value means that it is absent."""
    walk = _Comparing()
    walk.visit(schema, old, new)
    return Comparison(walk.removed, walk.modified, walk.added)


class _Comparing:
    """A walk over two values that collects the paths of their differences; `_path` is the current position."""

    def __init__(self) -> None:
        self.removed: dict[str, Any] = {}
        self.modified: dict[str, Any] = {}
        self.added: dict[str, Any] = {}
        self._path: list[str] = []

    def visit(self, schema: Schema, old: Any, new: Any) -> None:
        if old is new:
            return
        lead = old if new is MISSING else new
        form = shape(schema, lead)
        # SMD: typed/merge.go, mergingWalker.merge deduces the shape of each side separately; compare.go does the same.
        untyped = schema.type is JsonType.ANY  # only then the shape depends on the value
        if untyped and old is not MISSING and new is not MISSING and shape(schema, old) != form:
            self._other_shape(schema, old, new, form)
        elif self._dispatch(schema, old, new, form):
            self._leaf(old, new)
        else:
            self._mark_whole(old, new)

    def _other_shape(self, schema: Schema, old: Any, new: Any, form: str) -> None:
        """Compare two values of different shapes, such as a scalar and a map.

        They are compared twice: by the shape of `old`, and by `form`, the shape of `new`.
        """
        leaf = self._dispatch(schema, old, new, shape(schema, old))
        leaf = self._dispatch(schema, old, new, form) or leaf
        if leaf:
            self._leaf(old, new)

    def _dispatch(self, schema: Schema, old: Any, new: Any, form: str) -> bool:
        """Compare the parts of `old` and `new` as values of the shape `form` (scalar, list or map).

        Return True if values of this shape have no parts, so that the two are compared as a whole.
        """
        if form == "scalar":
            return True
        if form == "list":
            left = old if isinstance(old, list) else []
            right = new if isinstance(new, list) else []
            # SMD: typed/compare.go, doList: two lists without items are a leaf, so null and [] differ.
            if schema.list_type is ListType.ATOMIC or not (left or right):
                return True
            self._lists(schema, left, right)
            return False
        before = old if isinstance(old, dict) else {}
        after = new if isinstance(new, dict) else {}
        if schema.atomic_map or not (before or after):
            return True
        self._maps(schema, before, after)
        return False

    def _leaf(self, old: Any, new: Any) -> None:
        if old is MISSING or new is MISSING:
            self._mark_whole(old, new)
        elif not equal(old, new):
            insert(self.modified, self._path)

    def _mark_whole(self, old: Any, new: Any) -> None:
        if old is MISSING:
            insert(self.added, self._path)
        elif new is MISSING:
            insert(self.removed, self._path)

    def _maps(self, schema: Schema, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        for key, item in new.items():
            before = old.get(key, MISSING)
            # Most members are strings: they need no walk to be found equal.
            if before is not item and not (type(item) is str and before == item):
                self._descend(field(key), schema.applied(key) or ANYTHING, before, item)
        for key, item in old.items():
            if key not in new:
                self._descend(field(key), schema.applied(key) or ANYTHING, item, MISSING)

    def _lists(self, schema: Schema, old: list[Any], new: list[Any]) -> None:
        inner = items_schema(schema)
        # A list item is found by its name, not its place: an order that changes alone is no difference (S-57).
        before, after = _by_element(schema, old), _by_element(schema, new)
        for element in {**before, **after}:
            left, right = before.get(element, []), after.get(element, [])
            if len(left) <= 1 and len(right) <= 1:
                self._descend(element, inner, left[0] if left else MISSING, right[0] if right else MISSING)
            else:
                self._duplicates(element, inner, left, right)

    def _duplicates(self, element: str, inner: Schema, left: list[Any], right: list[Any]) -> None:
        """Compare the items of two lists that have the same path element, for example the same key.

        If a list has more than one such item, its items are compared as a whole (S-61).
        """
        here = [*self._path, element]
        # SMD: typed/compare.go, visitListItems: duplicates cannot be paired, so they are modified, removed or added
        # together.
        if len(left) > 1 and len(right) > 1:
            if not equal(left, right):
                insert(self.modified, here)
        elif len(left) > 1:
            if right:
                self._descend(element, inner, MISSING, right[0])
            insert(self.removed, here)
        else:
            if left:
                self._descend(element, inner, left[0], MISSING)
            insert(self.added, here)

    def _descend(self, element: str, schema: Schema, old: Any, new: Any) -> None:
        self._path.append(element)
        self.visit(schema, old, new)
        self._path.pop()


def _by_element(schema: Schema, items: list[Any]) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for item in items:
        groups.setdefault(element_of(schema, item), []).append(item)
    return groups
