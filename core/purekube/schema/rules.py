"""The evaluation of a schema's CEL rules on an object, and the conversion of JSON values for the rules."""

from collections.abc import Mapping
from typing import Any

import attrs

from purekube.apimachinery.errors import StatusCause
from purekube.cel import CelError
from purekube.cel.moments import parse_duration, parse_timestamp
from purekube.cel.values import ABSENT, KeyedList, OptionalValue, SetList
from purekube.schema.causes import NO_FIELD, duplicate, go_value, invalid_value, required
from purekube.schema.node import MISSING, CompiledRule, JsonType, ListType, Schema
from purekube.schema.structure import equal


def needs_conversion(schema: Schema) -> bool:
    """Report whether any value that `schema` describes has another type in a CEL rule than in JSON, such as a time."""
    if any(child.nullable for child in schema.properties.values()):
        return True
    if schema.type is JsonType.STRING:
        return schema.format in ("date-time", "date", "duration", "byte")
    if schema.type is JsonType.NUMBER or schema.list_type is not ListType.ATOMIC:
        return True
    below = (*schema.properties.values(), schema.additional, schema.items)
    return any(needs_conversion(child) for child in below if child is not None)


def convert(schema: Schema | None, value: Any) -> Any:
    """Return `value` with each part converted to the type that it has in CEL rules by its schema.

    Strings with a format become times, durations or bytes, values of type number become floats, and lists of type set
    or map are marked as such. Without a schema `value` is unchanged. A declared field that is null is left out, because
    `has(self.f)` is false for it (on kube-apiserver 1.34.3 and 1.36.3).
    """
    if schema is None or value is None:
        return value
    if isinstance(value, dict):
        seen = {key: item for key, item in value.items() if item is not None or key not in schema.properties}
        return {key: convert(schema.child(key), item) for key, item in seen.items()}
    if isinstance(value, list):
        return _list(schema, [convert(schema.items, item) for item in value])
    if schema.type is JsonType.NUMBER and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return _scalar(schema.format, value) if schema.type is JsonType.STRING and isinstance(value, str) else value


def _list(schema: Schema, items: list[Any]) -> list[Any]:
    match schema.list_type:
        case ListType.SET:
            return SetList(items)
        case ListType.MAP:
            keyed = KeyedList(items)
            keyed.keys = schema.list_keys
            return keyed
        case ListType.ATOMIC:
            return items


def _scalar(form: str, value: str) -> Any:
    """Return the string `value` converted by the format `form`, such as to a time. A malformed string, which the format
    check reports, is unchanged.
    """
    match form:
        case "date-time" | "date":
            return parse_timestamp(value) or value
        case "duration":
            return parse_duration(value) or value
        case "byte":
            return value.encode()
        case _:
            return value


def check_rules(
    schema: Schema, value: Any, old: Any = MISSING, path: str = "", *, settled: bool = False
) -> list[StatusCause]:
    """Return every violation of the CEL rules of `schema` and of its parts by `value`, which is at `path` in the
    object.

    `old` is the value that `value` replaces, MISSING for a new value. A rule without `oldSelf` that fails on an
    unchanged value is ignored (ratcheting). `settled` says that the old value passed these same rules; parts that
    `value` shares with it are then checked only by rules with `oldSelf`.
    """
    return _checked(schema, value, old, _Former(old), path, settled)


@attrs.frozen
class _Former:
    """The old `value` with which ratcheting compares a value; MISSING if there is none.

    Unlike `oldSelf` in a rule, it also exists for items of lists without a list type: it is the old item at the same
    index. Where it is missing, `is_same` says whether the nearest enclosing value that has an old value is unchanged.
    """

    value: Any
    is_same: bool = False

    def is_unchanged(self, value: Any) -> bool:
        return self.is_same if self.value is MISSING else equal(value, self.value)

    def below(self, value: Any, former: Any) -> "_Former":
        """Return the `_Former` for a part of `value`; `former` is the part's old value."""
        return self if self.value is MISSING else _Former(former, former is MISSING and equal(value, self.value))


def _checked(schema: Schema, value: Any, old: Any, former: _Former, path: str, settled: bool) -> list[StatusCause]:
    if not schema.has_rules or value is None:
        return []
    same = settled and value is old
    if same and not schema.has_transitions:
        return []
    causes: list[StatusCause] = []
    rules = [rule for rule in schema.rules if rule.transition or not same]
    shown = convert(schema, value) if any(rule.typed for rule in rules) else value
    for rule in rules:
        causes += _check(schema, rule, value, shown, old, former, path)
    if isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        known = former.value if isinstance(former.value, dict) else {}
        for key, item in value.items():
            child = schema.child(key)
            if child is not None and child.has_rules:
                inner, where = former.below(value, known.get(key, MISSING)), _member(schema, path, key)
                causes += _checked(child, item, before.get(key, MISSING), inner, where, settled)
    elif isinstance(value, list) and schema.items is not None and schema.items.has_rules:
        for index, item in enumerate(value):
            before = _old_item(schema, item, old)
            inner = former.below(value, _former_item(schema, index, item, former.value))
            causes += _checked(schema.items, item, before, inner, f"{path}[{index}]", settled)
    return causes


def _former_item(schema: Schema, index: int, item: Any, former: Any) -> Any:
    if schema.is_indexed and isinstance(former, list):
        return former[index] if index < len(former) else MISSING
    return _old_item(schema, item, former)


def _member(schema: Schema, path: str, key: str) -> str:
    if key not in schema.properties:
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def _old_item(schema: Schema, item: Any, old: Any) -> Any:
    """Return the item of the map list `old` that has the same keys as `item`. Return MISSING if there is no such item,
    or if the list is not a map list.
    """
    if schema.list_type is not ListType.MAP or not isinstance(old, list) or not isinstance(item, dict):
        return MISSING
    # Items of a map list are matched by their keys; items of other lists have no identity across updates (KEP-2876).
    keys = [item.get(key) for key in schema.list_keys]
    candidates = (candidate for candidate in old if isinstance(candidate, dict))
    return next((before for before in candidates if [before.get(key) for key in schema.list_keys] == keys), MISSING)


def _check(
    schema: Schema, rule: CompiledRule, value: Any, shown: Any, old: Any, former: _Former, path: str
) -> list[StatusCause]:
    """Return the violation of one rule by `value`; the rule sees `shown`, which is `value` converted if it is typed."""
    has_old = old is not MISSING and old is not None
    if rule.transition and not has_old and not rule.optional_old:
        return []
    variables = _variables(schema, rule, shown, old if has_old else MISSING)
    where = path or NO_FIELD
    try:
        holds = rule.run(variables)
    except CelError as error:
        return [invalid_value(where, schema.type.value, _evaluation(rule, error))]
    # Ratcheting (KEP-4008): an update of another field may keep a value that a newer rule refuses.
    if holds is True or (not rule.transition and former.is_unchanged(value)):
        return []
    return [_violation(schema, rule, value, variables, path)]


def _variables(schema: Schema, rule: CompiledRule, shown: Any, old: Any) -> Mapping[str, Any]:
    if not rule.transition:
        return {"self": shown}
    before = convert(schema, old) if rule.typed else old
    if rule.optional_old:
        return {"self": shown, "oldSelf": ABSENT if old is MISSING else OptionalValue(before, True)}
    return {"self": shown, "oldSelf": before}


def _evaluation(rule: CompiledRule, error: CelError) -> str:
    text = str(error)
    shown = rule.message or rule.text
    if text.startswith("no such overload"):
        return (
            f"'{text}': call arguments did not match a supported operator, function or macro signature "
            f"for rule: {shown}"
        )
    return f"{text} evaluating rule: {shown}"


def _violation(schema: Schema, rule: CompiledRule, value: Any, variables: Mapping[str, Any], path: str) -> StatusCause:
    where = (path + rule.field_path).lstrip(".") or NO_FIELD
    detail = _message(rule, variables) or rule.message or f"failed rule: {rule.text}"
    whole = schema.type in (JsonType.OBJECT, JsonType.ARRAY)
    match rule.reason:
        case "FieldValueRequired":
            return required(where, detail)
        case "FieldValueForbidden":
            return StatusCause(where, f"Forbidden: {detail}", rule.reason)
        case "FieldValueDuplicate":
            return StatusCause(where, "Duplicate value", rule.reason) if whole else duplicate(where, value)
        case _:
            shown = "Invalid value" if whole else f"Invalid value: {go_value(value)}"
            return StatusCause(where, f"{shown}: {detail}")


def _message(rule: CompiledRule, variables: Mapping[str, Any]) -> str:
    """Return the text that the rule's `messageExpression` gives for `variables` (`self` and `oldSelf`).

    Return "" if the rule has none, or if its result is not usable.
    """
    # A messageExpression that fails, or has a line break in its result, is passed over for the plain message
    # (apiextensions-apiserver: pkg/apiserver/schema/cel/validation.go, evalMessageExpression).
    if rule.message_run is None:
        return ""
    try:
        text = rule.message_run(variables)
    except CelError:
        return ""
    return text.strip() if isinstance(text, str) and "\n" not in text.strip() else ""
