"""The generation of example objects from a structural schema. Equal random choices give equal objects.

Values are plain: names, small numbers, short lists. They satisfy bounds, patterns, formats, enumerations, unique keys
and CEL rules: if the rules of a node refuse a value, that value is generated again, not the whole object.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import Kind, Manifest, get_path
from purekube.schema import Schema, apply_defaults, validate
from purekube.schema.node import MISSING, JsonType, ListType, ValueChecks
from purekube.schema.structure import INT_FORMATS, equal
from purekube_run.examples.data_source import DataSource, apart, one_of, some_of
from purekube_run.examples.example_texts import WORDS, matching_text, plain_text, text_of_format

_MOST_ITEMS: Final = 3
_DEEPEST: Final = 12
_MOST_VALUES: Final = 150
"""The number of values after which optional fields are left out: a pod template has thousands."""
_OFTEN: Final = 0.6
"""The probability that an optional field is included."""
_TRIES: Final = 20
_FEW: Final = 5
"""The distance from the minimum within which numbers are chosen: a hundred pods reveal nothing that three do not."""
_MOST_EDGE: Final = 1000
"""An integer field gets its maximum as a value sometimes, but only if the maximum is not greater than this number."""
_NOT_DRAWN: Final = ("apiVersion", "kind", "metadata", "status")
_NONE: Final = ValueChecks()


class NoExample(Exception):
    """The error raised when the schema's validation rules refuse every value that was generated.

    The message contains the reason for the last refusal.
    """


@attrs.define
class Examples:
    """A generator of random objects that are valid by `schema`. `choose` makes the random choices.

    With `wide`, values may be unusual: empty or odd strings, extreme numbers. `fixed` has fields of `spec` with given
    values.
    """

    schema: Schema
    choose: DataSource
    wide: bool = False
    fixed: Mapping[str, Any] = attrs.field(factory=dict)
    _left: int = attrs.field(default=_MOST_VALUES, init=False)

    def object_of(self, kind: Kind, metadata: Mapping[str, Any]) -> Manifest:
        """Return an example of `kind` with this metadata and no status. All other fields are generated.

        Raises NoExample if the schema's rules refuse every try.
        """
        head = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": dict(metadata)}
        drawn: Manifest = self._accepted(self.schema, lambda: {**head, **self._body()})
        return drawn

    def spec_of(self) -> Any:
        """Return an example of `spec`, or {} if the schema has no spec.

        Raises NoExample if the schema's rules refuse every try.
        """
        return self._body().get("spec", {})

    def changed(self, old: Manifest) -> Manifest:
        """Return the object `old` after one to three random changes, as a user might make them.

        A change that the schema's validation of updates refuses is left out.
        """
        new = old
        for _ in range(self.choose.integer(1, 3)):
            changed = self._changed(self.schema, new, 0)
            if not validate(self.schema, apply_defaults(self.schema, changed), apply_defaults(self.schema, old)):
                new = changed
        return new

    def value(self, node: Schema | None = None) -> Any:
        """Return a random value that is valid by the schema `node`, by default by the schema of the object.

        Raises NoExample if the validation rules refuse every try.
        """
        self._left = _MOST_VALUES
        return self._value(self.schema if node is None else node, (), 0)

    # --- the walk ----------------------------------------------------------------------------------------------------

    def _body(self) -> dict[str, Any]:
        self._left = _MOST_VALUES
        drawn = {}
        for name, node in self.schema.properties.items():
            if name in _NOT_DRAWN:
                continue
            if name == "spec":
                drawn[name] = self._accepted(node, partial(self._spec, node))
            elif name in self.schema.required or self.choose.chance(_OFTEN):
                drawn[name] = self._value(node, (), 1)
        return drawn

    def _spec(self, node: Schema) -> Any:
        drawn = self._drawn(node, (), 1)
        return {**drawn, **deepcopy(dict(self.fixed))} if isinstance(drawn, dict) else drawn

    def _value(self, node: Schema, also: Sequence[Schema], depth: int) -> Any:
        """Return a random value that is valid by `node` and by all schemas in `also`.

        `also` are branches of `anyOf`, `oneOf` and `allOf` that were chosen for an enclosing value. `depth` is the
        nesting depth.
        """
        self._left -= 1
        if not (node.rules or also or _has_junctors(node)):
            return self._drawn(node, also, depth)
        return self._accepted(node, lambda: self._drawn(node, also, depth))

    def _accepted(self, node: Schema, draw: Callable[[], Any]) -> Any:
        """Call `draw` until it returns a value that is valid by `node`, and return that value.

        Raises NoExample after a number of tries.
        """
        choose, refused = self.choose, ""
        try:
            for number in range(_TRIES):
                left, drawn = self._left, draw()
                causes = validate(node, apply_defaults(node, drawn))
                if not causes:
                    return drawn
                refused = f"{causes[0].field}: {causes[0].message}"
                self._left = left
                if number == 0:
                    self.choose = apart(choose)
        finally:
            self.choose = choose
        raise NoExample(f"{_TRIES} drawings were refused, the last one: {refused}")

    def _drawn(self, node: Schema, also: Sequence[Schema], depth: int) -> Any:
        also = (*also, *(branch for one in (node, *also) for branch in self._branches(one)))
        if (fixed := self._fixed(node, also)) is not None:
            return deepcopy(fixed[0])
        if node.int_or_string:
            return self._int_or_string(node, also)
        match node.type:
            case JsonType.OBJECT:
                return self._object(node, also, depth)
            case JsonType.ARRAY:
                return self._array(node, also, depth)
            case JsonType.STRING:
                return self._text(node, also)
            case JsonType.INTEGER:
                return self._integer(node, also)
            case JsonType.NUMBER:
                return self._number(node, also)
            case JsonType.BOOLEAN:
                return self.choose.chance(0.5)
            case JsonType.ANY:  # any value that is preserved
                return one_of(self.choose, ({}, {"key": "value"}, {"list": [1, 2]}))

    def _branches(self, node: Schema) -> Iterator[Schema]:
        """Yield further schemas that a value must satisfy: all of `allOf`, and one random branch each of `anyOf` and
        `oneOf`.
        """
        checks = node.checks or _NONE
        chosen = (one_of(self.choose, branches) for branches in (checks.any_of, checks.one_of) if branches)
        for branch in (*checks.all_of, *chosen):
            yield branch
            yield from self._branches(branch)

    def _fixed(self, node: Schema, also: Sequence[Schema]) -> tuple[Any] | None:
        choices = [checks.enum for checks in _all_checks(node, also) if checks.enum is not None]
        if choices:
            common = [one for one in choices[0] if all(any(equal(one, other) for other in more) for more in choices)]
            return (one_of(self.choose, common or choices[0]),)
        if node.default is not MISSING and self.choose.chance(0.3):
            return (node.default,)
        if node.nullable and self.choose.chance(0.1):
            return (None,)
        return None

    def _object(self, node: Schema, also: Sequence[Schema], depth: int) -> dict[str, Any]:
        required = {name for one in (node, *also) for name in one.required}
        drawn = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "embedded"}} if node.embedded else {}
        for name, field in node.properties.items():
            if name not in drawn and (name in required or self._takes(depth)):
                inner = [child for schema in also if (child := schema.properties.get(name)) is not None]
                drawn[name] = self._value(field, inner, depth + 1)
        if node.additional is not None:
            drawn |= self._further(node, also, node.additional, drawn, depth)
        elif node.preserve_unknown and not node.embedded and self.choose.chance(0.2):
            drawn.setdefault("key", "value")
        return drawn

    def _takes(self, depth: int) -> bool:
        return depth < _DEEPEST and self._left > 0 and self.choose.chance(_OFTEN)

    def _further(
        self, node: Schema, also: Sequence[Schema], further: Schema, drawn: Mapping[str, Any], depth: int
    ) -> dict[str, Any]:
        names = [word for word in WORDS if word not in drawn]
        least = max((checks.min_properties or 0 for checks in _all_checks(node, also)), default=0) - len(drawn)
        count = self._count(max(0, least), _least_of(node, also, "max_properties"), depth)
        names += [f"key-{number}" for number in range(count - len(names))]
        return {name: self._value(further, (), depth + 1) for name in some_of(self.choose, names, count)}

    def _array(self, node: Schema, also: Sequence[Schema], depth: int) -> list[Any]:
        if node.items is None:
            return []
        inner = [schema.items for schema in also if schema.items is not None]
        least = max((checks.min_items or 0 for checks in _all_checks(node, also)), default=0)
        count = self._count(least, _least_of(node, also, "max_items"), depth)
        drawn: list[Any] = []
        for _ in range(count):
            for _ in range(_TRIES):
                item = self._value(node.items, inner, depth + 1)
                if _is_new(node, item, drawn):
                    drawn.append(item)
                    break
        return drawn

    def _count(self, least: int, most: int | None, depth: int) -> int:
        if depth >= _DEEPEST or self._left <= 0:
            return least
        return self.choose.integer(least, max(least, _MOST_ITEMS if most is None else min(_MOST_ITEMS, most)))

    # --- values without parts
    # -------------------------------------------------------------------------------------------

    def _int_or_string(self, node: Schema, also: Sequence[Schema]) -> int | str:
        if self.choose.chance(0.5):
            return self._integer(node, also)
        patterns = [checks.pattern_text for checks in _all_checks(node, also) if checks.pattern is not None]
        if patterns:
            return matching_text(self.choose, patterns, 1, _least_of(node, also, "max_length"))
        return f"{self.choose.integer(1, 100)}%"

    def _integer(self, node: Schema, also: Sequence[Schema]) -> int:
        """Return an integer near the minimum of the schema, or sometimes near the maximum.

        With `wide`, the result is sometimes any permitted integer.
        """
        least, most, step = self._bounds(node, also)
        if most is not None and most <= _MOST_EDGE and self.choose.chance(0.1):
            drawn = most
        elif self.wide and self.choose.chance(0.2):
            drawn = self.choose.integer(least, (1 << INT_FORMATS.get(node.format, 53)) - 1 if most is None else most)
        else:
            drawn = self.choose.integer(
                least, max(least, min(least + _FEW * step, least + _FEW if most is None else most))
            )
        return max(drawn - drawn % step, -(-least // step) * step)

    def _bounds(self, node: Schema, also: Sequence[Schema]) -> tuple[int, int | None, int]:
        least, most, step = 0, None, 1
        lows, highs = [], []
        for checks in _all_checks(node, also):
            if checks.minimum is not None:
                lows.append(-int(-checks.minimum // 1) + (checks.exclusive_minimum and checks.minimum % 1 == 0))
            if checks.maximum is not None:
                highs.append(int(checks.maximum // 1) - (checks.exclusive_maximum and checks.maximum % 1 == 0))
            step = max(step, int(checks.multiple_of or 1))
        most = min(highs, default=None)
        least = max(lows, default=0 if most is None or most >= 0 else most - _FEW)
        return least, most, step

    def _number(self, node: Schema, also: Sequence[Schema]) -> float:
        drawn = self._integer(node, also)
        most = _least_of(node, also, "maximum")
        return drawn + 0.5 if (most is None or drawn + 0.5 < most) and self.choose.chance(0.3) else drawn

    def _text(self, node: Schema, also: Sequence[Schema]) -> str:
        least = max((checks.min_length or 0 for checks in _all_checks(node, also)), default=0)
        most = _least_of(node, also, "max_length")
        patterns = [checks.pattern_text for checks in _all_checks(node, also) if checks.pattern is not None]
        if patterns:
            return matching_text(self.choose, patterns, least, most)
        drawn = text_of_format(self.choose, node.format) if node.format else None
        return plain_text(self.choose, least, most, wide=self.wide) if drawn is None else drawn

    # --- changes -----------------------------------------------------------------------------------------------------

    def _changed(self, node: Schema, old: Any, depth: int) -> Any:
        """Return the value `old`, which is valid by `node`, after one random change: a field regenerated, added or
        removed.
        """
        names = [name for name in node.properties if depth or name not in _NOT_DRAWN]
        if not isinstance(old, Mapping) or not names or (depth > 1 and self.choose.chance(0.3)):
            return self._tried(node, old)
        name = one_of(self.choose, names)
        field, rest = node.properties[name], {key: value for key, value in old.items() if key != name}
        if name not in old:
            return {**rest, name: self._tried(field, MISSING)}
        if name not in node.required and self.choose.chance(0.2):
            return rest
        return {**rest, name: self._changed(field, old[name], depth + 1)}

    def _tried(self, node: Schema, old: Any) -> Any:
        try:
            return self.value(node)
        except NoExample:
            return {} if old is MISSING else old


def _all_checks(node: Schema, also: Sequence[Schema]) -> list[ValueChecks]:
    return [one.checks for one in (node, *also) if one.checks is not None]


def _least_of(node: Schema, also: Sequence[Schema], bound: str) -> Any:
    """Return the lowest limit named `bound` (such as `max_items`) in `node` and in the schemas `also`, or None without
    one.
    """
    return min(
        (most for checks in _all_checks(node, also) if (most := getattr(checks, bound)) is not None), default=None
    )


def _has_junctors(node: Schema) -> bool:
    checks = node.checks
    return checks is not None and bool(checks.all_of or checks.any_of or checks.one_of or checks.negated)


def _is_new(node: Schema, item: Any, drawn: Sequence[Any]) -> bool:
    """Report whether a list may get `item` in addition to the items in `drawn`: a set or map permits no duplicate."""
    match node.list_type:
        case ListType.MAP:
            named = apply_defaults(node.items, item) if node.items is not None else item
            keys = [get_path(named, key) for key in node.list_keys]
            others = [apply_defaults(node.items, one) if node.items is not None else one for one in drawn]
            return all(keys != [get_path(one, key) for key in node.list_keys] for one in others)
        case ListType.SET:
            return not any(equal(item, other) for other in drawn)
        case ListType.ATOMIC:
            return True
