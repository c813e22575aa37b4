"""Rights on kinds of the API, from which roles are printed (RUN-7)."""

from collections.abc import Iterable

import attrs

from purekube.apimachinery.manifest import Kind


@attrs.frozen
class Access:
    """Verbs of the API on a kind, or on one of its subresources; with `name`, only on the object of that name."""

    kind: Kind
    verbs: tuple[str, ...]
    subresource: str = ""
    name: str = ""

    @property
    def resource(self) -> str:
        """The resource in a role, such as `helmreleases` or `deployments/status`."""
        return f"{self.kind.plural}/{self.subresource}" if self.subresource else self.kind.plural


def resources(accesses: Iterable[Access]) -> dict[tuple[str, str, str], set[str]]:
    """Return the verbs by (group, resource, name of the only object or empty)."""
    verbs: dict[tuple[str, str, str], set[str]] = {}
    for access in accesses:
        verbs.setdefault((access.kind.group, access.resource, access.name), set()).update(access.verbs)
    return verbs
