"""Additional versions of a kind that is made from attrs classes; only the stored version is reconciled (PH-8)."""

from collections.abc import Callable
from typing import Any, TypeVar

import attrs

from purekube.apimachinery.manifest import Manifest, get_path
from purekube.reconcilers.desired import Spec, Status
from purekube.reconcilers.resource import OtherVersion, Resource
from purekube.versions import Conversion, Convert

OldSpec = TypeVar("OldSpec")
OldStatus = TypeVar("OldStatus")

_OF_THE_ENGINE = ("conditions", "observedGeneration")


@attrs.frozen(eq=False)
class KindConversion:
    """The conversion between two versions of a kind, in both directions, made by `conversion`."""

    old: Resource[Any, Any]
    new: Resource[Any, Any]
    conversion: Conversion


def conversion(
    old: Resource[OldSpec, OldStatus],
    new: Resource[Spec, Status],
    *,
    up: Callable[[OldSpec], Spec],
    down: Callable[[Spec], OldSpec],
    up_status: Callable[[OldStatus], Status] | None = None,
    down_status: Callable[[Status], OldStatus] | None = None,
    keeps: bool = False,
    hub_keeps: bool = False,
) -> KindConversion:
    """Return the conversion between `old` and the stored version `new`, made from functions for specs and statuses.

    With `keeps` an annotation keeps data that `old` cannot express, with `hub_keeps` data that `new` cannot express.
    Raises ValueError for two different kinds, for equal versions, and if the status classes differ and `up_status` or
    `down_status` is missing.
    """
    same = ("group", "kind", "plural", "namespaced")
    for name in same:
        one, other = getattr(old.kind, name), getattr(new.kind, name)
        if one != other:
            raise ValueError(f"versions of one kind have the same {name}, and not {one} and {other}")
    if old.kind.version == new.kind.version:
        raise ValueError(f"{new.kind.kind}: {new.kind.version} is converted to itself")
    if old.status is not new.status and (up_status is None or down_status is None):
        raise ValueError(
            f"{new.kind.kind}: the statuses of {old.kind.version} and {new.kind.version} are of two classes: "
            "give up_status and down_status"
        )
    made = Conversion(
        old.kind.version,
        _between(old, new, up, up_status),
        _between(new, old, down, down_status),
        keeps=keeps,
        hub_keeps=hub_keeps,
    )
    return KindConversion(old, new, made)


def versioned(stored: Resource[Spec, Status], *conversions: KindConversion) -> Resource[Spec, Status]:
    """Return the kind `stored` with further versions. Its CRD lists these versions, and its `converter` converts them.

    Raises ValueError for a conversion to another kind or version, and for two conversions of one version.
    """
    for one in conversions:
        if one.new.kind != stored.kind:
            told = f"{one.old.kind.version} is converted to {one.new.kind.version} of {one.new.kind.crd_name}"
            raise ValueError(f"{told}, and not to {stored.kind.version} of {stored.kind.crd_name}, which is stored")
    others = tuple(OtherVersion(one.old.definition, one.old.schema, one.conversion) for one in conversions)
    made = attrs.evolve(stored, versions=others)
    _ = made.converter  # two of one version are reported here
    return made


def _between(
    source: Resource[Any, Any],
    target: Resource[Any, Any],
    spec: Callable[[Any], Any],
    status: Callable[[Any], Any] | None,
) -> Convert:
    def convert(manifest: Manifest) -> dict[str, Any]:
        # A status that is only copied need not fit its class: an object that cannot be converted fails every list.
        given = source.read(manifest if status is not None else {**manifest, "status": None})
        out = {**manifest, "spec": target.spec_json(spec(given.spec))}
        if status is not None and "status" in manifest:
            engine = {
                name: value for name in _OF_THE_ENGINE if (value := get_path(manifest, "status", name)) is not None
            }
            out["status"] = {**target.status_json(status(given.status)), **engine}
        return out

    return convert
