"""Rights that Flux needs to upgrade or uninstall the existing HelmReleases (RUN-7)."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata

_Account: TypeAlias = tuple[str | None, str]
"""Namespace and name of a service account."""


def named_by_releases(rights: Mapping[ObjectRef, Manifest], releases: Iterable[Manifest]) -> frozenset[ObjectRef]:
    """Return those of the `rights` that HelmReleases use: service accounts, their bindings, and the bound roles."""
    accounts = {
        (metadata(release).get("namespace"), str(name))
        for release in releases
        if (name := get_path(release, "spec", "serviceAccountName"))
    }
    bindings = [
        (ref, manifest)
        for ref, manifest in rights.items()
        if not accounts.isdisjoint(_subjects(manifest, ref.namespace))
    ]
    roles = {_role(manifest, ref.namespace) for ref, manifest in bindings}
    return frozenset(
        {ref for ref, _ in bindings}
        | {ref for ref in rights if (ref.kind.kind, ref.namespace, ref.name) in roles}
        | {ref for ref in rights if ref.kind.kind == "ServiceAccount" and (ref.namespace, ref.name) in accounts}
    )


def _subjects(binding: Manifest, namespace: str | None) -> Iterator[_Account]:
    for subject in binding.get("subjects") or ():
        if get_path(subject, "kind") == "ServiceAccount":
            yield get_path(subject, "namespace") or namespace, str(get_path(subject, "name"))


def _role(binding: Manifest, namespace: str | None) -> tuple[Any, str | None, Any]:
    kind, name = get_path(binding, "roleRef", "kind"), get_path(binding, "roleRef", "name")
    return kind, namespace if kind == "Role" else None, name
