"""URL paths of the resource API, parsed: `/apis/{group}/{version}/namespaces/{namespace}/{plural}/…`."""

from typing import Final

import attrs

_NAMESPACE_SUBRESOURCES: Final = frozenset({"status", "finalize"})


@attrs.frozen
class ResourcePath:
    """The parts of a path. An empty `plural` means the discovery document of the group and version."""

    group: str
    version: str
    plural: str = ""
    namespace: str | None = None
    name: str = ""
    subresource: str = ""


def parse_path(path: str) -> ResourcePath | None:
    """Parse a path under `/api` or `/apis`; return None for any other path."""
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
