"""The object that a box is run for, and what is recorded on it: which kinds it has children of, what it made once."""

from collections.abc import Sequence
from functools import lru_cache

import attrs
import msgspec

from vworkspace_core.api.codec import read_meta, read_own_conditions
from vworkspace_core.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path
from vworkspace_core.apimachinery.meta import Condition, ObjectMeta
from vworkspace_core.boxes.box import Box
from vworkspace_core.boxes.labels import CREATED, KINDS
from vworkspace_core.boxes.model import DeclaredKind
from vworkspace_core.graph import CreateRecord

READY = "Ready"
RECONCILING = "Reconciling"
STALLED = "Stalled"
DELETING = "Deleting"
STANDARD = (READY, RECONCILING, STALLED, DELETING)
"""Types of conditions that every box's object has, beside those that the box declares."""


@attrs.frozen
class BoxObject:
    """An object of a box's kind. `conditions` are those of the types that the box owns."""

    metadata: ObjectMeta
    manifest: Manifest
    conditions: tuple[Condition, ...] = ()

    @property
    def namespace(self) -> str | None:
        """Its namespace; None for one of a cluster-scoped kind."""
        return self.metadata.namespace or None

    def ref(self, kind: Kind) -> ObjectRef:
        """Where it lives."""
        return ObjectRef(kind, self.namespace, self.metadata.name)


def condition_types(box: Box) -> tuple[str, ...]:
    """The types of conditions that a box owns, in the order of a status."""
    return (*STANDARD, *(condition.type for condition in box.conditions))


def read_object(box: Box, manifest: Manifest) -> BoxObject:
    """An object of the box's kind, as far as it can be read; never raises."""
    return BoxObject(read_meta(manifest), manifest, read_own_conditions(manifest, condition_types(box)))


def recorded_kinds(parent: BoxObject) -> tuple[Kind, ...]:
    """The kinds that an earlier pass, maybe with another file, recorded."""
    return kinds_recorded(parent.metadata.annotations.get(KINDS, ""))


def kinds_recorded(annotation: str) -> tuple[Kind, ...]:
    """The kinds that an annotation of `kinds_annotation` names, as far as it can be read."""
    return tuple(kind for text in annotation.split() if (kind := _kind_of(text)) is not None)


@lru_cache(maxsize=256)
def kinds_annotation(kinds: tuple[Kind, ...]) -> str:
    """Kinds as the annotation has them: `Ingress/ingresses.v1.networking.k8s.io`, behind it `/` for no namespace."""
    return " ".join(sorted(f"{kind.kind}/{_resource(kind)}{'' if kind.namespaced else '/'}" for kind in kinds))


def _resource(kind: Kind) -> str:
    return f"{kind.plural}.{kind.version}.{kind.group}".rstrip(".")


def _kind_of(text: str) -> Kind | None:
    name, _, rest = text.partition("/")
    resource, slash, _ = rest.partition("/")
    plural, _, behind = resource.partition(".")
    version, _, group = behind.partition(".")
    return Kind(group, version, name, plural, not slash) if name and plural and version else None


@lru_cache(maxsize=256)
def child_kinds(box: Box) -> tuple[Kind, ...]:
    """The kinds that a box makes objects of, and those that it declares: an earlier file may have made some."""
    nodes = (*box.nodes, *(node for phase in box.drains for node in phase))
    read = {external.kind for external in box.externals}
    declared = (kind for kind in map(_declared, box.model.spec.kinds) if kind not in read)
    return tuple(dict.fromkeys((*(node.kind for node in nodes), *declared)))


def _declared(said: DeclaredKind) -> Kind:
    group, _, version = said.api_version.rpartition("/")
    return Kind(group, version, said.kind, said.plural, said.namespaced)


def records_of(parent: BoxObject) -> tuple[CreateRecord, ...]:
    """What was, or is about to be, created once; nothing where the annotation cannot be read."""
    try:
        listed = msgspec.json.decode(parent.metadata.annotations.get(CREATED, "[]"))
    except msgspec.DecodeError:
        return ()
    return tuple(_record(entry) for entry in listed if isinstance(entry, dict)) if isinstance(listed, list) else ()


def _record(entry: dict[str, object]) -> CreateRecord:
    said = [str(get_path(entry, field) or "") for field in ("node", "name", "namespace", "item", "uid")]
    return CreateRecord(*said)


def created_annotation(records: Sequence[CreateRecord]) -> str:
    """Those records as the annotation has them."""
    entries = [{key: value for key, value in attrs.asdict(record).items() if value} for record in records]
    return msgspec.json.encode(entries).decode()
