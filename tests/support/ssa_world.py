"""One object under several field managers: a driver of the pure pipeline for the tests of server-side apply."""

from collections.abc import Mapping
from typing import Any

from kubelab.model.calls import FieldValidation, WriteOutcome, WriteRequest
from kubelab.model.definition import ServedKind, definitions_of_crd
from kubelab.writes import pipeline
from purekube.ports import PatchType

STRING: dict[str, Any] = {"type": "string"}
INTEGER: dict[str, Any] = {"type": "integer"}

_PORT = {
    "type": "object",
    "required": ["port"],
    "properties": {
        "port": INTEGER,
        "protocol": {"type": "string", "default": "TCP"},
        "name": STRING,
        "weight": INTEGER,
    },
}
_ENTRY = {"type": "object", "properties": {"a": STRING, "b": STRING}}
_MARK = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

SPEC: dict[str, Any] = {
    "type": "object",
    "properties": {
        "str": STRING,
        "str2": STRING,
        "num": {"type": "number"},
        "mode": {"type": "string", "default": "normal"},
        "maybe": {"type": "string", "nullable": True},
        "replicas": INTEGER,
        "st": {"type": "object", "properties": {"a": STRING, "b": STRING, "d": {"type": "string", "default": "dd"}}},
        "mark": _MARK,
        "gm": {"type": "object", "additionalProperties": STRING},
        "ms": {"type": "object", "additionalProperties": _ENTRY},
        "am": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": STRING},
        "al": {"type": "array", "items": STRING},
        "set": {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
        "ports": {
            "type": "array",
            "items": _PORT,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"],
        },
        "named": {
            "type": "array",
            "items": {"type": "object", "required": ["name"], "properties": {"name": STRING, "v": STRING, "w": STRING}},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
        "free": _MARK,
    },
}

STATUS: dict[str, Any] = {"type": "object", "properties": {"note": STRING, "count": INTEGER}}

GROUP = "tests.example"


def thing(
    spec: Mapping[str, Any] = SPEC,
    *,
    status: bool = True,
    versions: tuple[str, ...] = ("v1",),
    scope: str = "Namespaced",
    scale: bool = False,
) -> ServedKind:
    """The definition of kind Thing, in the first of `versions`."""
    subresources: dict[str, Any] = {"status": {}} if status else {}
    if scale:
        subresources["scale"] = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.count"}
    schema = {"type": "object", "properties": {"spec": spec, "status": STATUS}}
    entries = [
        {
            "name": version,
            "served": True,
            "storage": index == 0,
            "schema": {"openAPIV3Schema": schema},
            "subresources": subresources,
        }
        for index, version in enumerate(versions)
    ]
    names = {"plural": "things", "kind": "Thing"}
    return definitions_of_crd({"spec": {"group": GROUP, "scope": scope, "names": names, "versions": entries}})[0]


THING = thing()


class World:
    """The one object `t/a`, written through the pipeline; every write happens a second after the one before."""

    def __init__(self, definition: ServedKind = THING) -> None:
        self.definition = definition
        self.live: dict[str, Any] | None = None
        self.outcome: WriteOutcome | None = None
        self.seconds = 0
        self._version = 0
        self._uids = 0

    @property
    def api_version(self) -> str:
        return self.definition.api_version

    def body(self, spec: Any = None, *, status: Any = None, **metadata: Any) -> dict[str, Any]:
        """A manifest of the object."""
        out: dict[str, Any] = {"apiVersion": self.api_version, "kind": self.definition.kind.kind}
        out["metadata"] = {"name": "a", **metadata}
        if spec is not None:
            out["spec"] = spec
        if status is not None:
            out["status"] = status
        return out

    def apply(
        self, manager: str, spec: Any = None, *, force: bool = False, sub: str = "", status: Any = None, **metadata: Any
    ) -> "World":
        config = self.body(spec, status=status, **metadata)
        return self._take(pipeline.apply(self.definition, self.live, config, self._write(manager, sub, force)))

    def apply_raw(self, manager: str, config: Any, *, sub: str = "") -> "World":
        return self._take(pipeline.apply(self.definition, self.live, config, self._write(manager, sub)))

    def create(self, manager: str, spec: Any = None, **metadata: Any) -> "World":
        return self._take(pipeline.create(self.definition, self.body(spec, **metadata), self._write(manager, name="")))

    def merge(self, manager: str, patch: Any, *, sub: str = "") -> "World":
        write = self._write(manager, sub)
        return self._take(pipeline.patch(self.definition, self.object, patch, PatchType.MERGE, write))

    def put(self, manager: str, body: Any, *, sub: str = "") -> "World":
        return self._take(pipeline.update(self.definition, self.object, body, self._write(manager, sub)))

    def delete(self) -> "World":
        """Mark for deletion, or remove when nothing holds the object."""
        meta = self.object["metadata"]
        if not meta.get("finalizers"):
            self.live = None
            return self
        stamp = {"deletionTimestamp": self._now(), "deletionGracePeriodSeconds": 0}
        self.live = {**self.object, "metadata": {**meta, **stamp, "generation": meta["generation"] + 1}}
        return self

    @property
    def object(self) -> dict[str, Any]:
        assert self.live is not None
        return self.live

    @property
    def spec(self) -> Any:
        return self.object.get("spec")

    @property
    def meta(self) -> dict[str, Any]:
        meta: dict[str, Any] = self.object["metadata"]
        return meta

    @property
    def changed(self) -> bool:
        assert self.outcome is not None
        return self.outcome.changed

    @property
    def entries(self) -> list[dict[str, Any]]:
        return list(self.meta.get("managedFields", []))

    def entry(self, manager: str, operation: str = "Apply", subresource: str = "") -> dict[str, Any]:
        """The one entry of a manager; empty when there is none."""
        desired = (manager, operation, subresource)
        found = [e for e in self.entries if (e["manager"], e["operation"], e.get("subresource", "")) == desired]
        assert len(found) <= 1
        return found[0] if found else {}

    def owned(self, manager: str, operation: str = "Apply", subresource: str = "") -> Any:
        """What a manager owns below `spec`, as fieldsV1; None for nothing at all."""
        fields = self.entry(manager, operation, subresource).get("fieldsV1")
        return None if fields is None else fields.get("f:spec")

    def _now(self) -> str:
        return f"2026-01-01T00:{self.seconds // 60:02}:{self.seconds % 60:02}Z"

    def _write(self, manager: str, sub: str = "", force: bool = False, name: str = "a") -> WriteRequest:
        self.seconds += 1
        self._uids += 1
        return WriteRequest(
            manager=manager,
            now=self._now(),
            name=name,
            namespace="t" if self.definition.kind.namespaced else "",
            subresource=sub,
            force=force,
            uid=f"uid-{self._uids}",
            field_validation=FieldValidation.WARN,
        )

    def _take(self, outcome: WriteOutcome) -> "World":
        self.outcome = outcome
        if outcome.changed:
            self._version += 1
            meta = {**outcome.object["metadata"], "resourceVersion": str(self._version)}
            self.live = {**outcome.object, "metadata": meta}
        return self
