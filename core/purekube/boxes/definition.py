"""The CRD of a box's kind, with the rules and defaults that the box adds (PH-6)."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from purekube.apimachinery.definitions import BOX_NAME
from purekube.apimachinery.manifest import Manifest, get_path
from purekube.boxes.box import Box, CompiledMutation

_RULES: Final = "x-kubernetes-validations"


def crd_of(box: Box) -> Manifest:
    """Return the CRD of the box's kind with the rules and literal defaults that a CRD can express.

    Each version of the CRD gets the rules and defaults that apply to it. The command `status` finds the CRD by a label.
    """
    versions = [_with_rules(version, box) for version in _versions(box)]
    meta = box.crd["metadata"]
    labelled = {**meta, "labels": {**(meta.get("labels") or {}), BOX_NAME: box.name}}
    return {**box.crd, "metadata": labelled, "spec": {**box.crd["spec"], "versions": versions}}


def not_enforced(box: Box, live: Manifest) -> tuple[str, ...]:
    """Return, in words, the rules and defaults of a box that a served version of the live CRD lacks.

    A default in the storage version is enough: the API server fills it in whenever it reads the object.
    """
    versions: Sequence[Mapping[str, Any]] = get_path(live, "spec", "versions") or ({"storage": True},)
    stored = next((version for version in versions if version.get("storage")), {})
    served = [stored, *(each for each in versions if each is not stored and each.get("served") is not False)]
    rules = (_lacking(version, box, is_named=version is not stored) for version in served)
    fields = (mutation.path for mutation in box.mutations if mutation.is_default)
    schema = _schema_of(stored)
    absent = (path for path in fields if get_path(schema, *_steps(path), "default") is None)
    return (*chain.from_iterable(rules), *(f"the default of {'.'.join(path)}" for path in absent))


def _lacking(version: Mapping[str, Any], box: Box, *, is_named: bool) -> Iterator[str]:
    place = f" in {version.get('name')}" if is_named else ""
    return (f"the rule {rule['rule']}{place}" for rule in _absent_rules(version, box))


def _schema_of(version: Mapping[str, Any]) -> Mapping[str, Any]:
    return get_path(version, "schema", "openAPIV3Schema") or {}


def _steps(path: Sequence[str]) -> Iterator[str]:
    for field in path:
        yield from ("properties", field)


def _versions(box: Box) -> Sequence[Mapping[str, Any]]:
    versions: Sequence[Mapping[str, Any]] = box.crd["spec"]["versions"]
    return versions


def _with_rules(version: Mapping[str, Any], box: Box) -> Mapping[str, Any]:
    schema = _schema_of(version)
    rules, defaults = _absent_rules(version, box), [*_defaults(version, box)]
    if not rules and not defaults:
        return version
    if rules:
        schema = {**schema, _RULES: [*schema.get(_RULES, ()), *rules]}
    for mutation in defaults:
        schema = _with_default(schema, mutation.path, mutation.value.raw)
    return {**version, "schema": {"openAPIV3Schema": schema}}


def _absent_rules(version: Mapping[str, Any], box: Box) -> Sequence[Mapping[str, Any]]:
    """Return the rules of the box that `version` of a CRD could check but does not contain."""
    present = [rule.get("rule") for rule in _schema_of(version).get(_RULES) or ()]
    own = (rule for rule in box.rules if (rule.in_crd if version.get("storage") else not rule.in_webhook))
    rules = (_rule(rule.rule, rule.message, rule.field) for rule in own)
    return [rule for rule in rules if rule["rule"] not in present]


def _defaults(version: Mapping[str, Any], box: Box) -> Iterator[CompiledMutation]:
    """Yield the defaults of the box for `version`, a version in a CRD's `spec.versions`. The storage version gets all;
    another version gets the defaults of fields that both versions declare alike.
    """
    stored = _schema_of(next((each for each in _versions(box) if each.get("storage")), {}))
    schema = _schema_of(version)
    for mutation in box.mutations:
        steps = [*_steps(mutation.path)]
        alike = _declared(get_path(schema, *steps)) == _declared(get_path(stored, *steps))
        if mutation.is_default and (version.get("storage") or alike):
            yield mutation


def _declared(field: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    return field and {name: value for name, value in field.items() if name not in ("default", "description")}


def _rule(rule: str, message: str, field: str) -> dict[str, Any]:
    said = {"rule": rule, **({"message": message} if message else {})}
    return {**said, **({"fieldPath": f".{field}"} if field else {})}


def _with_default(schema: Mapping[str, Any], path: Sequence[str], value: Any) -> Mapping[str, Any]:
    if not path:
        return {**schema, "default": value}
    fields = schema.get("properties") or {}
    below = _with_default(fields.get(path[0]) or {}, path[1:], value)
    return {**schema, "properties": {**fields, path[0]: below}}
