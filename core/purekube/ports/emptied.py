"""A workaround for maps that a server-side apply empties: the API server stores null, or refuses that null (S-42).

The workaround is a second apply of the same `{}`, which finds no member left to remove, and is stored as it is.
"""

from collections.abc import Mapping, Set
from typing import Any, Final

from purekube.apimachinery.errors import Invalid
from purekube.apimachinery.manifest import Manifest

_LEAVES: Final = frozenset({str, int, float, bool, list, type(None)})


def became_null(config: Any, answer: Any) -> bool:
    """Report whether any map, at any depth, is empty in the applied `config` and null in the server's `answer`.

    Lists are not searched: the items of an applied list need not be at the same place in the answer.
    """
    if not isinstance(config, Mapping):
        return False
    if not config:
        return answer is None
    if not isinstance(answer, Mapping):
        return False
    for name, item in config.items():  # most members are texts and numbers, for which a call would cost the most
        if item.__class__ not in _LEAVES and name in answer and became_null(item, answer[name]):
            return True
    return False


def without_refused_maps(config: Manifest, refusal: Invalid) -> Manifest | None:
    """Return `config` without the empty maps that a cause of `refusal` names; None if the causes name none."""
    kept = _without(config, {cause.field for cause in refusal.causes}, "")
    return kept if kept != config else None


def _without(config: Mapping[str, Any], fields: Set[str], path: str) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, item in config.items():
        field = f"{path}.{name}" if path else name
        if isinstance(item, Mapping) and item:
            kept[name] = _without(item, fields, field)
        elif item != {} or field not in fields:
            kept[name] = item
    return kept


def second_apply(config: Manifest, answer: Manifest) -> Manifest:
    """Return the manifest to send for a second apply of `config`.

    The first apply emptied a map. The server either stored null for it, or refused it so that the map was left out. The
    second apply stores the empty map. The result is `config` itself, but its resourceVersion, if any, is replaced by
    that in `answer`, the server's answer to the first apply.
    """
    if "resourceVersion" not in config["metadata"]:
        return config
    version = answer["metadata"]["resourceVersion"]
    return {**config, "metadata": {**config["metadata"], "resourceVersion": version}}
