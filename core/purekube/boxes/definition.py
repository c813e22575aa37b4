"""The CRD of a box's kind, with the rules and defaults that the box adds (PH-6)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from purekube.apimachinery.definitions import BOX_NAME
from purekube.apimachinery.manifest import Manifest, get_path
from purekube.boxes.box import Box

_RULES: Final = "x-kubernetes-validations"


def crd_of(box: Box) -> Manifest:
    """Return the CRD of the box's kind with the rules and literal defaults that a CRD can express.

    By a label on it, the command `status` recognizes the kind as a box's.
    """
    stored = [_with_rules(version, box) if version.get("storage") else version for version in _versions(box)]
    meta = box.crd["metadata"]
    labelled = {**meta, "labels": {**(meta.get("labels") or {}), BOX_NAME: box.name}}
    return {**box.crd, "metadata": labelled, "spec": {**box.crd["spec"], "versions": stored}}


def not_enforced(box: Box, live: Manifest) -> tuple[str, ...]:
    """Return the rules and defaults of a box that the stored version of a live CRD lacks, each in words."""
    versions = get_path(live, "spec", "versions") or ()
    stored: Mapping[str, Any] = next((version for version in versions if version.get("storage")), {})
    schema = get_path(stored, "schema", "openAPIV3Schema") or {}
    rules = tuple(f"the rule {rule['rule']}" for rule in _absent_rules(schema, box))
    fields = (mutation.path for mutation in box.mutations if mutation.is_default)
    absent = (path for path in fields if get_path(schema, *_steps(path), "default") is None)
    return (*rules, *(f"the default of {'.'.join(path)}" for path in absent))


def _steps(path: Sequence[str]) -> Iterator[str]:
    for field in path:
        yield from ("properties", field)


def _versions(box: Box) -> Sequence[Mapping[str, Any]]:
    versions: Sequence[Mapping[str, Any]] = box.crd["spec"]["versions"]
    return versions


def _with_rules(version: Mapping[str, Any], box: Box) -> Mapping[str, Any]:
    schema = version["schema"]["openAPIV3Schema"]
    if rules := _absent_rules(schema, box):
        schema = {**schema, _RULES: [*schema.get(_RULES, ()), *rules]}
    for mutation in box.mutations:
        if mutation.is_default:
            schema = _with_default(schema, mutation.path, mutation.value.raw)
    return {**version, "schema": {"openAPIV3Schema": schema}}


def _absent_rules(schema: Mapping[str, Any], box: Box) -> Sequence[Mapping[str, Any]]:
    """Return the rules that a CRD can check and this schema lacks."""
    present = [rule.get("rule") for rule in schema.get(_RULES) or ()]
    rules = (_rule(rule.rule, rule.message, rule.field) for rule in box.rules if rule.in_crd)
    return [rule for rule in rules if rule["rule"] not in present]


def _rule(rule: str, message: str, field: str) -> dict[str, Any]:
    said = {"rule": rule, **({"message": message} if message else {})}
    return {**said, **({"fieldPath": f".{field}"} if field else {})}


def _with_default(schema: Mapping[str, Any], path: Sequence[str], value: Any) -> Mapping[str, Any]:
    if not path:
        return {**schema, "default": value}
    fields = schema.get("properties") or {}
    below = _with_default(fields.get(path[0]) or {}, path[1:], value)
    return {**schema, "properties": {**fields, path[0]: below}}
