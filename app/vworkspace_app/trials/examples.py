"""Objects drawn from a structural schema: equal seeds draw equal objects.

What is drawn is plain: names, small numbers, short lists. Bounds, patterns, formats and enumerations hold; rules of CEL
are asked of whoever admits the object, who draws again where it is refused.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

import attrs

from vworkspace_core.apimachinery.manifest import get_path
from vworkspace_core.regex import syntax
from vworkspace_core.regex.syntax import PatternError

_WORDS: Final = ("a", "web", "shop", "main", "blue", "db-1", "x7", "alpha", "core", "z9")
_MOST_ITEMS: Final = 3
_MOST_REPEATS: Final = 3
_DEEPEST: Final = 12
_OFTEN: Final = 0.6
"""How often an optional field is there."""

_FORMATS: Final[Mapping[str, Callable[[Random], str]]] = {
    "date-time": lambda random: f"2026-0{random.randint(1, 9)}-1{random.randint(0, 9)}T12:00:00Z",
    "date": lambda random: f"2026-0{random.randint(1, 9)}-1{random.randint(0, 9)}",
    "duration": lambda random: f"{random.randint(1, 90)}s",
    "uri": lambda random: f"https://{random.choice(_WORDS)}.example.com/{random.choice(_WORDS)}",
    "hostname": lambda random: f"{random.choice(_WORDS)}.example.com",
    "email": lambda random: f"{random.choice(_WORDS)}@example.com",
    "ipv4": lambda random: f"192.0.2.{random.randint(1, 254)}",
    "ipv6": lambda random: f"2001:db8::{random.randint(1, 9999):x}",
    "cidr": lambda random: f"192.0.2.{random.randint(0, 15) * 16}/28",
    "uuid": lambda random: f"{random.getrandbits(32):08x}-0000-4000-8000-{random.getrandbits(48):012x}",
    "byte": lambda random: random.choice(("", "YQ==", "c2hvcA==")),
    "password": lambda random: f"pw-{random.randint(1, 99)}",
}


@attrs.define
class Examples:
    """Draws values. `random` decides everything."""

    random: Random

    def spec_of(self, schema: Mapping[str, Any]) -> Any:
        """The `spec` of an object whose whole schema this is; an empty one where it has none."""
        spec = get_path(schema, "properties", "spec")
        return self.value(spec) if isinstance(spec, Mapping) else {}

    def value(self, schema: Mapping[str, Any], depth: int = 0) -> Any:
        """A value that the schema admits, its rules aside."""
        if (fixed := self._fixed(schema)) is not None:
            return fixed[0]
        if schema.get("x-kubernetes-int-or-string"):
            return self.random.choice((self._integer(schema), f"{self.random.randint(1, 100)}%"))
        match schema.get("type"):
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._array(schema, depth)
            case "string":
                return self._text(schema)
            case "integer":
                return self._integer(schema)
            case "number":
                return self._integer(schema) + self.random.choice((0, 0.5)) * (schema.get("maximum") is None)
            case "boolean":
                return self.random.random() < 0.5
            case _:  # whatever is preserved
                return self.random.choice(({}, {"key": "value"}, {"list": [1, 2]}))

    def _fixed(self, schema: Mapping[str, Any]) -> tuple[Any] | None:
        if choices := schema.get("enum"):
            return (self.random.choice(choices),)
        if "default" in schema and self.random.random() < 0.5:
            return (schema["default"],)
        if schema.get("nullable") and self.random.random() < 0.1:
            return (None,)
        return None

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        required = schema.get("required") or ()
        drawn = {
            name: self.value(field, depth + 1)
            for name, field in (schema.get("properties") or {}).items()
            if name in required or (depth < _DEEPEST and self.random.random() < _OFTEN)
        }
        further = schema.get("additionalProperties")
        if isinstance(further, Mapping):
            least = max(0, schema.get("minProperties", 0) - len(drawn))
            keys = self.random.sample(_WORDS, min(len(_WORDS), self._count(least, schema.get("maxProperties"), depth)))
            drawn |= {key: self.value(further, depth + 1) for key in keys}
        return drawn

    def _array(self, schema: Mapping[str, Any], depth: int) -> list[Any]:
        count = self._count(schema.get("minItems", 0), schema.get("maxItems"), depth)
        drawn = [self.value(schema.get("items") or {}, depth + 1) for _ in range(count)]
        match schema.get("x-kubernetes-list-type"):
            case "map":
                keys = schema.get("x-kubernetes-list-map-keys") or ()
                return list({tuple(str(get_path(item, key)) for key in keys): item for item in drawn}.values())
            case "set":
                return list({str(item): item for item in drawn}.values())
            case _:
                return drawn

    def _count(self, least: int, most: int | None, depth: int) -> int:
        widest = least if depth >= _DEEPEST else max(least, min(_MOST_ITEMS, _MOST_ITEMS if most is None else most))
        return self.random.randint(least, widest)

    def _integer(self, schema: Mapping[str, Any]) -> int:
        """Near the least that is allowed: a hundred pods show nothing that three do not."""
        least = int(schema.get("minimum", 0)) + bool(schema.get("exclusiveMinimum"))
        most = int(schema["maximum"]) - bool(schema.get("exclusiveMaximum")) if "maximum" in schema else least + 5
        step = int(schema.get("multipleOf", 1)) or 1
        drawn = self.random.randint(min(least, most), min(most, least + 5 * step))
        return max(drawn - drawn % step, -(-least // step) * step)

    def _text(self, schema: Mapping[str, Any]) -> str:
        least: int = schema.get("minLength", 0)
        most: int | None = schema.get("maxLength")
        if pattern := schema.get("pattern"):
            return self._matching(pattern, least, most)
        if draw := _FORMATS.get(schema.get("format", "")):
            return draw(self.random)
        drawn = self.random.choice(_WORDS)
        drawn += "x" * (least - len(drawn))
        return drawn[: len(drawn) if most is None else most]

    def _matching(self, pattern: str, least: int, most: int | None) -> str:
        try:
            tree = syntax.parse(pattern)
        except PatternError:
            return self.random.choice(_WORDS)
        drawn = [self._of(tree) for _ in range(20)]
        fitting = (one for one in drawn if least <= len(one) and (most is None or len(one) <= most))
        return next(fitting, drawn[0])

    def _of(self, node: syntax.Node) -> str:
        match node:
            case syntax.Characters(ranges):
                return self._character(ranges)
            case syntax.Sequence(parts):
                return "".join(map(self._of, parts))
            case syntax.Alternatives(branches):
                return self._of(self.random.choice(branches))
            case syntax.Repeat(body, least, most, _):
                widest = least + _MOST_REPEATS if most is None else min(most, least + _MOST_REPEATS)
                return "".join(self._of(body) for _ in range(self.random.randint(least, widest)))
            case syntax.Assertion():
                return ""

    def _character(self, ranges: syntax.Ranges) -> str:
        """Letters and digits where there are any: what is drawn often becomes a name."""
        plain = [(max(low, a), min(high, z)) for low, high in ranges for a, z in ((97, 122), (48, 57), (65, 90))]
        usable = [(low, high) for low, high in plain if low <= high] or list(ranges)
        low, high = self.random.choice(usable[:1] if self.random.random() < 0.8 else usable)
        return chr(self.random.randint(low, high))
