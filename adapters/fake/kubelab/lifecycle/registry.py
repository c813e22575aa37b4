"""The served resources: the built-in ones and, from the moment a CRD is written, those it declares."""

from collections.abc import Iterable, Iterator

from kubelab.model.failure import not_served
from kubelab.model.resources import ServedResource


class ResourceRegistry:
    """The served resources by path and by kind. `generation` counts the changes of the set."""

    def __init__(self, resources: Iterable[ServedResource] = ()) -> None:
        self.generation = 0
        self._by_path: dict[tuple[str, str, str], ServedResource] = {}
        self._by_kind: dict[tuple[str, str, str], ServedResource] = {}
        for resource in resources:
            self.add(resource)

    def __iter__(self) -> Iterator[ServedResource]:
        return iter(self._by_path.values())

    def add(self, resource: ServedResource) -> None:
        """Serve a resource, replacing an earlier one at the same path."""
        self._by_path[resource.group, resource.version, resource.plural] = resource
        self._by_kind[resource.group, resource.version, resource.kind] = resource
        self.generation += 1

    def remove(self, resource: ServedResource) -> None:
        """Stop serving a resource."""
        self._by_path.pop((resource.group, resource.version, resource.plural), None)
        self._by_kind.pop((resource.group, resource.version, resource.kind), None)
        self.generation += 1

    def at(self, group: str, version: str, plural: str) -> ServedResource:
        """Return the resource of a URL path. Raises the plain-text 404 (W-38)."""
        resource = self._by_path.get((group, version, plural))
        if resource is None:
            raise not_served()
        return resource

    def of_kind(self, api_version: str, kind: str) -> ServedResource | None:
        """Return the resource that an owner reference or a manifest names, if it is served."""
        group, _, version = api_version.rpartition("/")
        return self._by_kind.get((group, version, kind))

    def of_group(self, group: str, plural: str) -> list[ServedResource]:
        """Return every served version of one resource."""
        return [resource for resource in self if (resource.group, resource.plural) == (group, plural)]
