"""The preservation of data that one version of an object holds and another cannot, in an annotation (PH-8).

A loss is a place where an object differs from the result of its round trip: it has a value before (`was`) and after
(`became`). The value before is restored if the place still has the value after; otherwise it was changed in the other
version meanwhile, and that change is kept, with all parts of the value before that the other version could not express.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

import attrs
import msgspec

from purekube.apimachinery.manifest import Manifest, canonical_json, same_json
from purekube.schema import Schema
from purekube.schema.node import ListType

_PREFIX: Final = "conversion.vworkspace.io"
_IDENTITY: Final = ("apiVersion", "kind", "metadata")
_ABSENT: Final = object()

Step = str | Mapping[str, Any]
"""One step of a path: the name of a field, or the key fields of an item in a keyed list with their values."""


def preservation_annotation(version: str) -> str:
    """Return the name of the annotation that holds the data of `version` on objects of other versions."""
    return f"{_PREFIX}/{version}"


@attrs.frozen
class Loss:
    """A value that does not survive a round trip: a conversion of an object to another version and back.

    `path` is the place of the value in the object, `was` the value before the round trip, and `became` the value after
    it. `position` is the original index of an item that is missing from a keyed list; -1 for other values.
    """

    path: tuple[Step, ...]
    was: Any = _ABSENT
    became: Any = _ABSENT
    position: int = -1

    def spelled(self) -> str:
        """Return the path of the value as text, for messages."""
        return "".join(
            f".{step}" if isinstance(step, str) else f"[{','.join(f'{k}={v}' for k, v in step.items())}]"
            for step in self.path
        ).removeprefix(".")

    def values(self) -> tuple[str, str]:
        """Return the value before and after the round trip as strings, for a message."""
        was, became = ("nothing" if one is _ABSENT else repr(one) for one in (self.was, self.became))
        return was, became


def losses(before: Manifest, after: Manifest, schema: Schema | None) -> list[Loss]:
    """Return each difference, except in metadata, between an object before and after a round trip to another version.

    `schema` shows which lists are keyed.
    """
    found: list[Loss] = []
    for key in dict.fromkeys((*before, *after)):
        if key not in _IDENTITY:
            child = None if schema is None else schema.child(key)
            found += _differences(before.get(key, _ABSENT), after.get(key, _ABSENT), child, (key,))
    return found


def _differences(was: Any, became: Any, schema: Schema | None, path: tuple[Step, ...]) -> Iterator[Loss]:
    if was is not _ABSENT and became is not _ABSENT and same_json(was, became):
        return
    if isinstance(was, Mapping) and isinstance(became, Mapping):
        for key in dict.fromkeys((*was, *became)):
            child = None if schema is None else schema.child(key)
            yield from _differences(was.get(key, _ABSENT), became.get(key, _ABSENT), child, (*path, key))
        return
    items = _keyed(was, became, schema)
    if items is None or schema is None:
        yield Loss(path, was, became)
        return
    before, after = items
    for position, (name, item) in enumerate(before.items()):
        step = dict(zip(schema.list_keys, name, strict=True))
        if name in after:
            yield from _differences(item, after[name], schema.items, (*path, step))
        else:
            yield Loss((*path, step), item, _ABSENT, position)


def _keyed(was: Any, became: Any, schema: Schema | None) -> tuple[dict[Any, Any], dict[Any, Any]] | None:
    """Return two lists as mappings from the keys of their items to the items. Return None if the lists are not keyed,
    or if `became` has other items than `was` or another order. Items may be missing from `became`.
    """
    if schema is None or schema.list_type is not ListType.MAP or not schema.list_keys:
        return None
    before, after = _by_keys(was, schema.list_keys), _by_keys(became, schema.list_keys)
    if before is None or after is None or [name for name in before if name in after] != list(after):
        return None
    return before, after


def _by_keys(items: Any, keys: Sequence[str]) -> dict[Any, Any] | None:
    if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
        return None
    plain = [item for item in items if all(isinstance(item.get(key), str | int | bool) for key in keys)]
    named = {tuple(item.get(key) for key in keys): item for item in plain}
    return named if len(named) == len(items) else None


def put_back(value: Manifest, lost: Sequence[Loss], schema: Schema | None = None) -> dict[str, Any]:
    """Return the object `value`, which was converted back to its first version, with the values in `lost` restored.

    What was changed in the other version stays changed: a value is restored if its place still has the value that the
    conversion left there. For an object, or a list that is keyed by `schema`, this is decided part by part.
    """
    out = deepcopy(dict(value)) if lost else dict(value)
    for one in lost:
        _restore_loss(out, one, schema)
    return out


def _restore_loss(value: dict[str, Any], loss: Loss, schema: Schema | None) -> None:
    """Restore one lost value, if its place still exists, as far as it is unchanged."""
    place: Any = value
    *above, last = loss.path
    for at, step in enumerate(above):
        schema = _schema_below(schema, step)
        if isinstance(place, dict) and isinstance(step, str) and at == len(above) - 1 and _is_lost_item(loss, schema):
            place.setdefault(step, [])  # the other version took the last of the items that it could express
        place = _below(place, step)
    if isinstance(last, str):
        if isinstance(place, dict):
            merged = _merged(place.get(last, _ABSENT), loss.was, loss.became, _schema_below(schema, last))
            _put(place, last, merged)
    elif isinstance(place, list) and loss.was is not _ABSENT:
        at = next((at for at, item in enumerate(place) if _is_item(item, last)), -1)
        if at < 0 and loss.became is _ABSENT:
            place.insert(loss.position if loss.position >= 0 else len(place), loss.was)


def _is_lost_item(loss: Loss, schema: Schema | None) -> bool:
    keyed = schema is not None and schema.list_type is ListType.MAP
    return keyed and not isinstance(loss.path[-1], str) and loss.was is not _ABSENT and loss.became is _ABSENT


def _put(place: dict[str, Any], key: str, value: Any) -> None:
    if value is _ABSENT:
        place.pop(key, None)
    else:
        place[key] = value


def _merged(there: Any, was: Any, became: Any, schema: Schema | None) -> Any:
    """Return the value `there` of the object that was converted back, with restored losses of the round trip.

    `was` is the value before the round trip, `became` the value after it. Each of the three may be absent. A part of
    `there` that equals the part in `became` gets its value in `was`.
    """
    if _is_same(there, became):
        return was
    if isinstance(there, dict) and isinstance(was, Mapping) and (became is _ABSENT or isinstance(became, Mapping)):
        after = became if isinstance(became, Mapping) else {}
        out = dict(there)
        for key in dict.fromkeys((*was, *after)):
            now, before, then = there.get(key, _ABSENT), was.get(key, _ABSENT), after.get(key, _ABSENT)
            _put(out, key, _merged(now, before, then, _schema_below(schema, key)))
        return out
    return _merged_lists(there, was, became, schema)


def _merged_lists(there: Any, was: Any, became: Any, schema: Schema | None) -> Any:
    """Merge as `_merged` does, for lists; return `there` if they are not keyed.

    An item of `was` that is in neither other list could not be expressed, and comes back to its former index.
    """
    if schema is None or schema.list_type is not ListType.MAP or not schema.list_keys:
        return there
    now, before, after = (
        _by_keys([] if items is _ABSENT else items, schema.list_keys) for items in (there, was, became)
    )
    if now is None or before is None or after is None:
        return there
    merged = (
        _merged(item, before.get(name, _ABSENT), after.get(name, _ABSENT), schema.items) for name, item in now.items()
    )
    out = [item for item in merged if item is not _ABSENT]
    for position, (name, item) in enumerate(before.items()):
        if name not in now and name not in after:
            out.insert(position, item)
    return out or there


def _schema_below(schema: Schema | None, step: Step) -> Schema | None:
    if schema is None:
        return None
    return schema.child(step) if isinstance(step, str) else schema.items


def _below(value: Any, step: Step) -> Any:
    if isinstance(step, str):
        return value.get(step) if isinstance(value, dict) else None
    return next((item for item in value if _is_item(item, step)), None) if isinstance(value, list) else None


def _is_item(item: Any, step: Mapping[str, Any]) -> bool:
    return isinstance(item, Mapping) and all(item.get(key) == value for key, value in step.items())


def _is_same(there: Any, became: Any) -> bool:
    if there is _ABSENT or became is _ABSENT:
        return there is became
    return same_json(there, became)


def written(lost: Sequence[Loss]) -> str:
    """Return `lost`, the values that a conversion loses, as the text of the `preservation_annotation`.

    The function `read` reads this text.
    """
    return canonical_json([_entry(one) for one in lost]).decode()


def _entry(one: Loss) -> dict[str, Any]:
    entry: dict[str, Any] = {"at": list(one.path)}
    if one.was is not _ABSENT:
        entry["was"] = one.was
    if one.became is not _ABSENT:
        entry["became"] = one.became
    if one.position >= 0:
        entry["position"] = one.position
    return entry


def read(text: Any) -> list[Loss]:
    """Return the values that a conversion has lost, from `text`, the content of the `preservation_annotation`.

    The function `written` made this text. Damaged entries are left out; the result is empty if `text` is not a JSON
    list.
    """
    if not isinstance(text, str):
        return []
    try:
        entries = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return []
    if not isinstance(entries, list):
        return []
    return [loss for entry in entries if (loss := _loss(entry)) is not None]


def _loss(entry: Any) -> Loss | None:
    if not isinstance(entry, Mapping):
        return None
    path, position = entry.get("at"), entry.get("position", -1)
    if not isinstance(path, list) or not path or not isinstance(position, int) or path[0] in _IDENTITY:
        return None
    if not isinstance(path[0], str) or not all(isinstance(step, str | Mapping) for step in path):
        return None
    return Loss(tuple(path), entry.get("was", _ABSENT), entry.get("became", _ABSENT), position)
