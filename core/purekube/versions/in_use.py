"""The versions in which a CRD's objects may be stored, and advice on how to get rid of the old ones (PH-8)."""

from collections.abc import Mapping
from typing import Any

import attrs

from purekube.apimachinery.manifest import Kind, Manifest, get_path


@attrs.frozen
class VersionsInUse:
    """The versions of one kind: those that its CRD serves, and those in which objects may be stored. `definition` is
    the name of the CRD, and `storage` the version in which new objects are stored.
    """

    definition: str
    kind: Kind
    """The kind, in its storage version."""
    served: tuple[str, ...]
    storage: str
    stored: tuple[str, ...]

    @classmethod
    def of(cls, crd: Manifest) -> "VersionsInUse":
        """Read the versions from a CRD as an API server returns it."""
        spec: Mapping[str, Any] = crd["spec"]
        versions = spec["versions"]
        storage = next(str(version["name"]) for version in versions if version.get("storage"))
        names = spec["names"]
        kind = Kind(spec["group"], storage, names["kind"], names["plural"], spec.get("scope") == "Namespaced")
        served = tuple(str(version["name"]) for version in versions if version.get("served"))
        stored = tuple(str(name) for name in get_path(crd, "status", "storedVersions") or ())
        return cls(str(crd["metadata"]["name"]), kind, served, storage, stored)

    @property
    def stale(self) -> tuple[str, ...]:
        """The versions other than the storage version in which objects may still be stored."""
        return tuple(version for version in self.stored if version != self.storage)

    @property
    def readable(self) -> Kind | None:
        """The kind in its storage version; None if the API server does not serve that version.

        A migration, which writes each object again in the storage version, reads and writes this kind.
        """
        return self.kind if self.storage in self.served else None

    @property
    def advice(self) -> str:
        """The next step for the user, as text, until all objects are stored in the storage version; "" if no step is
        needed.
        """
        if not self.stale:
            return ""
        if self.readable is None:
            return f"serve {self.storage}: nobody can write the version in which objects are stored"
        return f"vworkspace-operator versions migrate {self.definition}"
