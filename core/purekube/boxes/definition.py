"""The CRD of a box's kind, with the rules and defaults that the box adds (PH-6)."""

from collections.abc import Mapping, Sequence
from typing import Any

from purekube.apimachinery.definitions import BOX_NAME
from purekube.apimachinery.manifest import Manifest
from purekube.boxes.box import Box


def crd_of(box: Box) -> Manifest:
    """Return the CRD of the box's kind with the rules and literal defaults that a CRD can express.

    By a label on it, the command `status` recognizes the kind as a box's.
    """
    stored = [_with_rules(version, box) if version.get("storage") else version for version in _versions(box)]
    meta = box.crd["metadata"]
    labelled = {**meta, "labels": {**(meta.get("labels") or {}), BOX_NAME: box.name}}
    return {**box.crd, "metadata": labelled, "spec": {**box.crd["spec"], "versions": stored}}


def _versions(box: Box) -> Sequence[Mapping[str, Any]]:
    versions: Sequence[Mapping[str, Any]] = box.crd["spec"]["versions"]
    return versions


def _with_rules(version: Mapping[str, Any], box: Box) -> Mapping[str, Any]:
    schema = version["schema"]["openAPIV3Schema"]
    rules = [_rule(rule.rule, rule.message, rule.field) for rule in box.rules if rule.in_crd]
    if rules:
        schema = {**schema, "x-kubernetes-validations": [*schema.get("x-kubernetes-validations", ()), *rules]}
    for mutation in box.mutations:
        if mutation.is_default:
            schema = _with_default(schema, mutation.path, mutation.value.raw)
    return {**version, "schema": {"openAPIV3Schema": schema}}


def _rule(rule: str, message: str, field: str) -> dict[str, Any]:
    said = {"rule": rule, **({"message": message} if message else {})}
    return {**said, **({"fieldPath": f".{field}"} if field else {})}


def _with_default(schema: Mapping[str, Any], path: Sequence[str], value: Any) -> Mapping[str, Any]:
    if not path:
        return {**schema, "default": value}
    fields = schema.get("properties") or {}
    below = _with_default(fields.get(path[0]) or {}, path[1:], value)
    return {**schema, "properties": {**fields, path[0]: below}}
