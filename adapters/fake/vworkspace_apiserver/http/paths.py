"""URL paths of the resource API, taken apart: `/apis/{group}/{version}/namespaces/{namespace}/{plural}/…`."""

from typing import Final

import attrs

_NAMESPACE_SUBRESOURCES: Final = frozenset({"status", "finalize"})


@attrs.frozen
class ResourcePath:
    """What a path names. An empty `plural` is the discovery document of the group and version."""

    group: str
    version: str
    plural: str = ""
    namespace: str | None = None
    name: str = ""
    subresource: str = ""


def parse_path(path: str) -> ResourcePath | None:
    """Take a path under `/api` or `/apis` apart; None when it has another form."""
    parts = path.strip("/").split("/")
    match parts:
        case ["api", version, *rest]:
            return _resource("", version, rest)
        case ["apis", group, version, *rest]:
            return _resource(group, version, rest)
        case _:
            return None


def _resource(group: str, version: str, rest: list[str]) -> ResourcePath | None:
    match rest:
        case []:
            return ResourcePath(group, version)
        case ["namespaces", name, subresource] if not group and subresource in _NAMESPACE_SUBRESOURCES:
            return ResourcePath(group, version, "namespaces", None, name, subresource)
        case ["namespaces", namespace, plural, *names] if len(names) <= 2:
            return ResourcePath(group, version, plural, namespace, *names)
        case [plural, *names] if len(names) <= 2:
            return ResourcePath(group, version, plural, None, *names)
        case _:
            return None
