"""Decoding of a few fields of an object's JSON without the rest, as every change needs them."""

from collections.abc import Iterator

import msgspec

from purekube.apimachinery.manifest import Kind, ObjectRef


class _Owner(msgspec.Struct):
    apiVersion: str = ""
    kind: str = ""
    name: str = ""


class _Meta(msgspec.Struct):
    namespace: str | None = None
    generation: int = 0
    deletionTimestamp: str | None = None
    ownerReferences: list[_Owner] | None = None


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""


class _Status(msgspec.Struct):
    observedGeneration: int = 0
    conditions: list[_Condition] | None = None


class _WithOwners(msgspec.Struct):
    metadata: _Meta


class _WithStatus(msgspec.Struct):
    metadata: _Meta
    status: _Status | None = None


_decode_owners = msgspec.json.Decoder(_WithOwners).decode
_decode_status = msgspec.json.Decoder(_WithStatus).decode


def owners(raw: bytes, kind: Kind) -> Iterator[ObjectRef]:
    """Yield the owners of `kind` that an object names; none if its metadata is malformed."""
    try:
        meta = _decode_owners(raw).metadata
    except msgspec.ValidationError:
        return
    namespace = meta.namespace if kind.namespaced else None
    for owner in meta.ownerReferences or ():
        if owner.kind == kind.kind and owner.apiVersion.rpartition("/")[0] == kind.group:
            yield ObjectRef(kind, namespace, owner.name)


def is_in_progress(raw: bytes) -> bool:
    """Report whether a controller has yet to give its verdict on this version of the object, by the common conditions.

    There is no verdict if Ready is missing or Unknown, if the status is of an older generation, or next to
    Reconciling=True. An object that is being deleted, or whose status is malformed, is not in progress.
    """
    try:
        partial = _decode_status(raw)
    except msgspec.ValidationError:
        return False
    if partial.metadata.deletionTimestamp is not None:
        return False
    status = partial.status or _Status()
    conditions = {condition.type: condition.status for condition in status.conditions or ()}
    if conditions.get("Reconciling") == "True" or conditions.get("Ready") not in ("True", "False"):
        return True
    return status.observedGeneration != partial.metadata.generation
