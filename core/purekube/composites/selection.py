"""Label selectors: `matchLabels` and `matchExpressions` (RES-5)."""

from collections.abc import Mapping
from typing import Any

from purekube.apimachinery.manifest import Manifest, get_path


def selects(selector: Mapping[str, Any] | None, manifest: Manifest | None) -> bool:
    """Report whether the selector matches the object's labels. Without a selector every object matches."""
    if not selector:
        return True
    labels = get_path(manifest, "metadata", "labels") or {}
    match_labels = selector.get("matchLabels") or {}
    asked = selector.get("matchExpressions") or ()
    return all(labels.get(key) == value for key, value in match_labels.items()) and all(
        _holds(match_expression, labels) for match_expression in asked
    )


def _holds(asked: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    key, values = str(asked.get("key")), asked.get("values") or ()
    match asked.get("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:
            return False
