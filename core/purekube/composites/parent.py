"""A parent (an object that has children), and the records in its annotations: the kinds of its children, and the
objects that are created only once.
"""

import base64
import re
from collections.abc import Container, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import attrs
import msgspec

from purekube.apimachinery.conditions import DELETING, READY, RECONCILING, STALLED, DesiredCondition
from purekube.apimachinery.definitions import CONTROLLER_DOMAIN as DOMAIN
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path
from purekube.apimachinery.meta import Condition, ObjectMeta
from purekube.apimachinery.structuring import read_meta, read_own_conditions
from purekube.graph.owner import CreateRecord, Marks

MARKS: Final = Marks(DOMAIN)


def as_stored(secret: dict[str, Any]) -> dict[str, Any]:
    """Return a Secret with `stringData` moved into `data`, as the API server stores it.

    The API server never returns `stringData`, so a comparison with it would always find a difference. `secret` itself
    is modified.
    """
    plain = secret.pop("stringData", None)
    if isinstance(plain, Mapping):
        encoded = {key: base64.b64encode(str(value).encode()).decode() for key, value in plain.items()}
        secret["data"] = {**(secret.get("data") or {}), **encoded}
    return secret


STANDARD: Final = (READY, RECONCILING, STALLED, DELETING)
"""Condition types that every parent has, in addition to those that its box declares."""

MOST_KINDS: Final = 256
"""The largest number of kinds that are read from a parent's record."""
_KIND: Final = re.compile(
    r"([A-Za-z][A-Za-z0-9]{0,62})/([a-z0-9][a-z0-9-]{0,62})\.([a-z0-9]{1,63})((?:\.[a-z0-9-]{1,63}){0,20})(/?)"
)


@attrs.frozen
class Parent:
    """An object that has children, read from its manifest.

    `conditions` are its conditions of the types that its controller owns. `notes` are conditions that the status gets
    in addition to the conditions of a decision.
    """

    metadata: ObjectMeta
    manifest: Manifest
    conditions: tuple[Condition, ...] = ()
    notes: tuple[DesiredCondition, ...] = ()

    @property
    def namespace(self) -> str | None:
        """The namespace of the parent; None if its kind is cluster-scoped."""
        return self.metadata.namespace or None

    def ref(self, kind: Kind) -> ObjectRef:
        """Return a reference to the parent, which is an object of `kind`."""
        return ObjectRef(kind, self.namespace, self.metadata.name)


def read_parent(manifest: Manifest, condition_types: Container[str]) -> Parent:
    """Read a parent from its manifest, without parts that cannot be read. Never raises.

    Of its conditions, only those of `condition_types` are read.
    """
    return Parent(read_meta(manifest), manifest, read_own_conditions(manifest, condition_types))


def recorded_kinds(annotation: str) -> tuple[Kind, ...]:
    """Return the kinds in an annotation that `kinds_annotation` wrote. Entries that cannot be read are left out."""
    matches = map(_KIND.fullmatch, annotation.split(maxsplit=MOST_KINDS)[:MOST_KINDS])
    return tuple(
        Kind(match[4][1:], match[3], match[1], match[2], not match[5]) for match in matches if match is not None
    )


@lru_cache(maxsize=256)
def kinds_annotation(kinds: tuple[Kind, ...]) -> str:
    """Return the text that records kinds, such as `Ingress/ingresses.v1.networking.k8s.io`, with a final `/` for a
    cluster-scoped kind.
    """
    return " ".join(sorted(f"{kind.kind}/{_resource(kind)}{'' if kind.namespaced else '/'}" for kind in kinds))


def _resource(kind: Kind) -> str:
    return f"{kind.plural}.{kind.version}.{kind.group}".rstrip(".")


def created_records(text: str) -> tuple[CreateRecord, ...]:
    """Read the records of objects that are created only once. `text` is the value of the annotation that holds them.
    Return an empty tuple if `text` cannot be read.
    """
    try:
        listed = msgspec.json.decode(text or "[]")
    except (msgspec.DecodeError, RecursionError):
        return ()
    return tuple(_record(entry) for entry in listed if isinstance(entry, dict)) if isinstance(listed, list) else ()


def _record(entry: dict[str, object]) -> CreateRecord:
    said = [str(get_path(entry, field) or "") for field in ("node", "name", "namespace", "item", "uid")]
    return CreateRecord(*said)


def created_annotation(records: Sequence[CreateRecord]) -> str:
    """Return the value of the annotation that holds `records` of objects that are created once."""
    entries = [{key: value for key, value in attrs.asdict(record).items() if value} for record in records]
    return msgspec.json.encode(entries).decode()
