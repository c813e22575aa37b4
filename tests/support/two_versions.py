"""A kind in two versions, `v1` and `v1alpha1`, that call two of their fields by other names."""

from copy import deepcopy
from typing import Any

import attrs

_RENAMED = {"replicas": "size", "hostName": "host"}
"""From v1alpha1 to v1."""
_TEXT = {"type": "string"}


@attrs.frozen
class TwoVersions:
    """The kind Thing of a group."""

    group: str

    @property
    def name(self) -> str:
        """Of its definition."""
        return f"things.{self.group}"

    def crd(self, conversion: dict[str, Any] | None = None, storage: str = "v1") -> dict[str, Any]:
        """Its definition; without a `conversion` the server changes the apiVersion only."""
        free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        fields = {
            "v1": {"size": {"type": "integer"}, "host": _TEXT, "tier": {**_TEXT, "default": "one"}},
            "v1alpha1": {
                "replicas": {"type": "integer"},
                "hostName": _TEXT,
                "tier": {**_TEXT, "default": "zero"},
                "past": {**_TEXT, "default": "long"},
            },
        }
        versions = [
            {
                "name": version,
                "served": True,
                "storage": version == storage,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": {"type": "object", "properties": properties}, "status": free},
                    }
                },
            }
            for version, properties in fields.items()
        ]
        names = {"kind": "Thing", "plural": "things"}
        spec = {"group": self.group, "scope": "Namespaced", "names": names, "versions": versions}
        if conversion is not None:
            spec["conversion"] = conversion
        kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
        return {**kind, "metadata": {"name": self.name}, "spec": spec}

    def thing(self, version: str, name: str, **spec: Any) -> dict[str, Any]:
        """One of them."""
        meta = {"name": name, "namespace": "default"}
        return {"apiVersion": f"{self.group}/{version}", "kind": "Thing", "metadata": meta, "spec": spec}

    def path(self, version: str, name: str = "") -> str:
        """Where they are."""
        return f"/apis/{self.group}/{version}/namespaces/default/things{name and '/'}{name}"


def converted(manifest: dict[str, Any], api_version: str) -> dict[str, Any]:
    """What a sound webhook makes of a Thing: what only the old version has goes."""
    names = _RENAMED if api_version.endswith("/v1") else {new: old for old, new in _RENAMED.items()}
    out = {**deepcopy(manifest), "apiVersion": api_version}
    spec = {names.get(key, key): value for key, value in (out.get("spec") or {}).items() if key != "past"}
    return {**out, "spec": spec} if "spec" in out else out
