"""The names of kinds that tests may use: `deployments`, `deployments.apps`, `Deployment`."""

from collections.abc import Iterator
from functools import cache
from typing import Any

from kubelab.builtin.resources import builtin_resources
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import KNOWN_KINDS
from purekube.reconcilers import Resource


class KindNames:
    """The kinds of a cluster by name: built-in kinds, those of simulated controllers, and kinds that a test adds."""

    def __init__(self) -> None:
        self._kinds: dict[Kind, None] = {}
        self._resources: dict[Kind, Resource[Any, Any]] = {}

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._kinds)

    def add(self, kind: Kind) -> None:
        """Add a kind, so that tests can use its names."""
        self._kinds[kind] = None

    def add_resource(self, resource: Resource[Any, Any]) -> None:
        """Add the kind of `resource`. Tests then get objects of this kind as attrs objects instead of manifests."""
        self.add(resource.kind)
        self._resources[resource.kind] = resource

    def resource(self, kind: Kind) -> Resource[Any, Any] | None:
        """Return the Resource that was added for a kind, or None if the kind was added without a Resource."""
        return self._resources.get(kind)

    def of(self, name: str) -> Kind:
        """Return the kind called `name`: by its plural, its plural and group, or its kind.

        Raises ValueError if the name is unknown or ambiguous.
        """
        found = [kind for kind in (*self._kinds, *_known()) if name in (kind.plural, _full(kind), kind.kind)]
        distinct = list(dict.fromkeys((kind.group, kind.plural) for kind in found))
        if not found:
            raise ValueError(f"{name}: no such kind is known here; give a Kind, or serve its CustomResourceDefinition")
        if len(distinct) > 1 and not any(kind in self._kinds for kind in found[:1]):
            raise ValueError(f"{name} is not clear: {' or '.join(sorted(_full(kind) for kind in found))}")
        return found[0]

    def of_manifest(self, api_version: str, kind: str) -> Kind:
        """Return the kind of manifests with this apiVersion and kind. Raises ValueError if it is unknown."""
        for one in (*self._kinds, *_known()):
            if (one.api_version, one.kind) == (api_version, kind):
                return one
        raise ValueError(f"{api_version} {kind}: no such kind is known here; serve its CustomResourceDefinition")


@cache
def _known() -> tuple[Kind, ...]:
    return tuple(dict.fromkeys((*(resource.core_kind for resource in builtin_resources()), *KNOWN_KINDS)))


def _full(kind: Kind) -> str:
    return kind.crd_name.rstrip(".")
