"""CustomResourceDefinition: its schema is compiled before it is accepted."""

from collections.abc import Mapping
from typing import Any, Final

from vworkspace_core.errors import Cause
from vworkspace_core.known import CUSTOM_RESOURCE_DEFINITION
from vworkspace_fake.apiserver.behaviour import Behaviour, Generation
from vworkspace_fake.apiserver.builtin.build import built_in
from vworkspace_fake.apiserver.builtin.openapi import ANY, BOOL, INT32, INT64, STRING, STRINGS, choice, items, obj
from vworkspace_fake.apiserver.builtin.pod_defaults import filled
from vworkspace_fake.apiserver.builtin.shapes import CONDITIONS
from vworkspace_fake.apiserver.definition import definitions_of_crd
from vworkspace_fake.apiserver.schema.causes import invalid_value, required
from vworkspace_fake.apiserver.schema.node import SchemaError

__all__ = ["CRDS"]

Manifest = Mapping[str, Any]

_NAMES: Final = obj(
    "plural",
    "kind",
    categories=STRINGS,
    kind=STRING,
    listKind=STRING,
    plural=STRING,
    shortNames=STRINGS,
    singular=STRING,
)
_COLUMN: Final = obj(
    "name",
    "type",
    "jsonPath",
    description=STRING,
    format=STRING,
    jsonPath=STRING,
    name=STRING,
    priority=INT32,
    type=STRING,
)
_VERSION: Final = obj(
    "name",
    "served",
    "storage",
    additionalPrinterColumns=items(_COLUMN),
    deprecated=BOOL,
    deprecationWarning=STRING,
    name=STRING,
    schema=obj(openAPIV3Schema={"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
    selectableFields=items(obj("jsonPath", jsonPath=STRING)),
    served=BOOL,
    storage=BOOL,
    subresources=obj(
        scale=obj(
            "specReplicasPath",
            "statusReplicasPath",
            labelSelectorPath=STRING,
            specReplicasPath=STRING,
            statusReplicasPath=STRING,
        ),
        status={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    ),
)


def _read(manifest: Manifest) -> Manifest:
    spec = filled(manifest.get("spec") or {}, conversion={"strategy": "None"})
    names = spec.get("names")
    if isinstance(names, Mapping) and isinstance(names.get("kind"), str):
        spec["names"] = filled(names, singular=names["kind"].lower(), listKind=names["kind"] + "List")
    return {**manifest, "spec": spec}


def _check(manifest: Manifest) -> list[Cause]:
    spec = manifest.get("spec") or {}
    names, versions = spec.get("names") or {}, spec.get("versions") or []
    found: list[Cause] = []
    wanted = f"{names.get('plural')}.{spec.get('group')}"
    if manifest["metadata"].get("name") != wanted:
        text = 'must be spec.names.plural+"."+spec.group'
        found.append(invalid_value("metadata.name", manifest["metadata"].get("name"), text))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        text = "must have exactly one version marked as storage version"
        found.append(invalid_value("spec.versions", [version.get("name") for version in versions], text))
    if len({version.get("name") for version in versions}) != len(versions):
        text = "must contain unique version names"
        found.append(invalid_value("spec.versions", [version.get("name") for version in versions], text))
    missing = [
        required(f"spec.versions[{index}].schema.openAPIV3Schema", "schemas are required")
        for index, version in enumerate(versions)
        if not (version.get("schema") or {}).get("openAPIV3Schema")
    ]
    return found + missing if missing else found + _compiled(manifest)


def _compiled(manifest: Manifest) -> list[Cause]:
    try:
        definitions_of_crd(manifest)
    except SchemaError as error:
        return [invalid_value(problem.path, "", problem.message) for problem in error.problems]
    except (KeyError, TypeError):
        return []  # the schema of CustomResourceDefinition itself has said what is missing
    return []


def _check_update(new: Manifest, old: Manifest) -> list[Cause]:
    found = _check(new)
    for path in (("group",), ("scope",), ("names", "kind"), ("names", "plural")):
        now, before = new["spec"], old["spec"]
        for step in path:
            now, before = now.get(step), before.get(step)
        if now != before:
            found.append(invalid_value("spec." + ".".join(path), now, "field is immutable"))
    return found


CRDS: Final = (
    built_in(
        CUSTOM_RESOURCE_DEFINITION,
        obj(
            "spec",
            spec=obj(
                "group",
                "names",
                "scope",
                "versions",
                conversion=obj("strategy", strategy=choice("None", "Webhook"), webhook=ANY),
                group=STRING,
                names=_NAMES,
                preserveUnknownFields=BOOL,
                scope=choice("Cluster", "Namespaced"),
                versions=items(_VERSION),
            ),
            status=obj(
                acceptedNames=_NAMES,
                conditions=CONDITIONS,
                observedGeneration=INT64,
                storedVersions=STRINGS,
            ),
        ),
        Behaviour(
            skeleton={"spec": {"names": {}}, "status": {}},
            generation=Generation.SPEC,
            read=_read,
            check=_check,
            check_update=_check_update,
        ),
        short_names=("crd", "crds"),
        categories=("api-extensions",),
    ),
)
