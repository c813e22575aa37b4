"""A page of a list."""

from typing import Any

from vworkspace_core.errors import Unavailable
from vworkspace_core.manifest import dig
from vworkspace_core.ports import ListPage
from vworkspace_kube.errors import Asked

__all__ = ["page_of"]


def page_of(asked: Asked, answer: dict[str, Any]) -> ListPage:
    """A page as the port wants it: `items: null` is empty, and items of built-in kinds get their type."""
    version, token = dig(answer, "metadata", "resourceVersion"), dig(answer, "metadata", "continue")
    items = answer.get("items") or []
    if not version or not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise Unavailable(f"{asked}: the answer is not a list")
    for item in items:
        item.setdefault("apiVersion", asked.kind.api_version)
        item.setdefault("kind", asked.kind.kind)
    return ListPage(items, str(version), str(token or ""))
