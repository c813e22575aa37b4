"""The webhooks of a box's kind: checks, computed fields and conversions that no CRD can hold (PH-6, PH-8)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import Kind, Manifest, get_path, is_terminating
from purekube.apimachinery.problems import Place, Problem, amount, index
from purekube.boxes.box import Box, CompiledMutation, CompiledVersion
from purekube.boxes.definition import crd_of
from purekube.boxes.expressions import ExpressionFailure
from purekube.boxes.model import KeptIn
from purekube.boxes.read import BoxProblem
from purekube.boxes.schemas import CrdVersions, KnownKind
from purekube.boxes.templates import Template
from purekube.boxes.webhooks.policy_expressions import beyond_the_api_server, pointer
from purekube.cel import DYN, CelError, CelType, Environment, Program, compile_expression
from purekube.cel.values import ABSENT
from purekube.schema import Schema
from purekube.schema.pruning import apply_defaults
from purekube.versions import Conversion, Convert, Converter

Patch = list[dict[str, Any]]

FROM_FILE: Final = "or run the box from its file, with its webhook (box manifests FILE)"
NOT_COMPUTED: Final = f"compute it where it is used, {FROM_FILE}"
"""The advice at the end of messages that refuse an applied box because of a computed value."""

_WHOLE: Final = "object"
"""The path that a problem has if its rule belongs to no single field."""


@attrs.frozen(eq=False)
class AdmissionRule:
    """A validation rule that the box's webhook checks on each write, since the CRD cannot.

    `program` is the compiled rule. `field` is the path of the field to which a violation is attributed; empty for the
    whole object. `of_change` says that the rule compares the object with the old object.
    """

    program: Program
    message: str
    field: str
    of_change: bool


@attrs.frozen(eq=False)
class BoxAdmission:
    """The validation rules and computed defaults of a box that its CRD cannot express, so that webhooks apply them."""

    name: str
    kind: Kind
    rules: tuple[AdmissionRule, ...]
    mutations: tuple[CompiledMutation, ...]
    type: CelType = DYN
    """The CEL type of the variable `self` in rules and computed fields."""
    schema: Schema | None = None
    """The schema of the storage version. Its defaults are filled in before a check, since a conversion does not fill
    them in.
    """

    @classmethod
    def of(cls, box: Box) -> "BoxAdmission":
        """Return the rules and computed defaults of `box` that its CRD cannot express, if any."""
        stored = CrdVersions.of(crd_of(box)).stored if box.crd else KnownKind(box.kind)
        environment = Environment({"self": stored.type, "oldSelf": stored.type})
        compiled = ((rule, compile_expression(rule.rule, environment)) for rule in box.rules if rule.in_webhook)
        rules = tuple(
            AdmissionRule(
                program, one.message, one.field, program.checked is not None and program.checked.uses("oldSelf")
            )
            for one, program in compiled
        )
        mutations = tuple(mutation for mutation in box.mutations if not mutation.is_default)
        return cls(box.name, box.kind, rules, mutations, stored.type, stored.schema)

    def problems(self, new: Manifest, old: Manifest | None) -> tuple[Problem, ...]:
        """Return a problem for each rule that the object `new` breaks. `old` is the object that it replaces, None on
        create.
        """
        return () if is_terminating(new) else tuple(self._broken(self._defaulted(new), old and self._defaulted(old)))

    def _defaulted(self, manifest: Manifest) -> Manifest:
        return manifest if self.schema is None else apply_defaults(self.schema, manifest)

    def _broken(self, new: Manifest, old: Manifest | None) -> Iterator[Problem]:
        for rule in self.rules:
            if rule.of_change and old is None:
                continue
            try:
                held = rule.program.evaluate({"self": new} if old is None else {"self": new, "oldSelf": old})
            except CelError as error:
                yield Problem(rule.field or _WHOLE, f"{rule.message} (it cannot be told: {error})")
                continue
            if held is not True:
                yield Problem(rule.field or _WHOLE, rule.message)

    def patch(self, new: Manifest) -> tuple[Patch, tuple[Problem, ...]]:
        """Return a pair: the patch (RFC 6902) that fills in absent fields of the object `new`, and the problems.

        There is a problem for each field whose value cannot be computed.
        """
        patch: Patch = []
        problems: list[Problem] = []
        made: dict[str, Any] = {}
        for one in () if is_terminating(new) else self.mutations:
            if get_path(new, *one.path) is not None:
                continue
            try:
                value = one.value.render({"self": new})
            except ExpressionFailure as failure:
                problems.append(Problem(".".join(one.path), f"cannot be filled in: {failure.problem}"))
                continue
            if value is not ABSENT:
                patch += _added(new, made, one.path, value)
        return patch, tuple(problems)


def _added(manifest: Manifest, made: dict[str, Any], path: Sequence[str], value: Any) -> Patch:
    """Return the operations of a JSON patch that add `value` at `path`; none if a value on the path is not an object.

    `made` has the JSON pointers of objects that earlier operations added, and is updated.
    """
    there: Any = manifest
    patch: Patch = []
    for depth, step in enumerate(path[:-1], 1):
        there = there.get(step) if isinstance(there, Mapping) else None
        above = pointer(path[:depth])
        if there is None and above not in made:
            made[above] = True
            patch.append({"op": "add", "path": above, "value": {}})
        elif there is not None and not isinstance(there, Mapping):
            return []
    return [*patch, {"op": "add", "path": pointer(path), "value": value}]


@attrs.frozen
class WebhookDuties:
    """The work for which a box needs webhooks.

    `versions` names the versions from and to which objects are converted, `rules` is the number of rules that a webhook
    checks, and `fields` has the paths of the fields that a webhook fills in.
    """

    versions: tuple[str, ...] = ()
    rules: int = 0
    fields: tuple[str, ...] = ()

    @classmethod
    def of(cls, box: Box) -> "WebhookDuties":
        """Return the work for which `box` needs webhooks; all three fields are empty or 0 if it needs none."""
        return cls(
            tuple(version.name for version in box.versions if not version.is_storage),
            sum(rule.in_webhook for rule in box.rules),
            tuple(".".join(mutation.path) for mutation in box.mutations if not mutation.is_default),
        )

    def __bool__(self) -> bool:
        return bool(self.versions or self.rules or self.fields)

    def __str__(self) -> str:
        parts = [f"conversion of {', '.join(self.versions)}"] if self.versions else []
        parts += [amount(self.rules, "rule")] if self.rules else []
        return ", ".join([*parts, *([f"filling in {', '.join(self.fields)}"] if self.fields else [])])


def refused_where_applied(box: Box) -> Iterator[BoxProblem]:
    """Yield a problem for each computed default that an admission policy cannot compute, with what to write instead.

    This is for a box that is applied to the cluster as an OperatorBox object: it has no webhook that computes values
    (PH-10). Two values also give a problem if one field lies within the other.
    """
    admission = BoxAdmission.of(box)
    for mutation in admission.mutations:
        path = index("spec.mutation", box.mutations.index(mutation))
        for reason in dict.fromkeys(beyond_the_api_server(mutation.value, admission.type)):
            message = f"the API server, which computes the value, cannot: {reason}; write it otherwise, {NOT_COMPUTED}"
            yield BoxProblem(Place(f"{path}.value"), message)
        others = (one for one in admission.mutations if one is not mutation)
        if whole := next((one for one in others if mutation.path[: len(one.path)] == one.path), None):
            message = f"is in the value of {'.'.join(whole.path)}: write one value, {FROM_FILE}"
            yield BoxProblem(Place(f"{path}.field"), message)


def converter_of(box: Box, crd: CrdVersions | None = None) -> Converter | None:
    """Return the converter between the versions of a box's kind; None if the box declares no other version.

    `crd` has the versions of the kind's CRD; if it is None, they are read from the CRD that the box holds.
    """
    spokes = [version for version in box.versions if not version.is_storage]
    if not spokes:
        return None
    known = CrdVersions.of(box.crd) if crd is None else crd
    schemas = {name: kind.schema for name, kind in known.kinds.items() if kind.schema is not None}
    conversions = (_conversion(version) for version in spokes)
    return Converter.of(box.kind.group, box.kind.kind, known.storage, *conversions, schemas=schemas)


def _conversion(version: CompiledVersion) -> Conversion:
    keeps = version.keeps is KeptIn.ANNOTATION
    return Conversion(version.name, _filling("old", version.up), _filling("self", version.down), keeps=keeps)


def _filling(variable: str, fields: Mapping[tuple[str, ...], Template]) -> Convert:
    """Return a function that converts an object to another version of its kind, by setting the fields in `fields`.

    A field's value is that of its template, whose expressions read the unconverted object as the variable `variable`.
    Fields that the target version does not declare are pruned later. The function raises ExpressionFailure.
    """

    def convert(manifest: Manifest) -> dict[str, Any]:
        found: dict[str, Any] = dict(manifest)
        values = [(steps, template.render({variable: manifest})) for steps, template in fields.items()]
        for steps, value in values:
            _put(found, steps, value)
        return found

    return convert


def _put(target: dict[str, Any], steps: Sequence[str], value: Any) -> None:
    """Set the field at the path `steps` of `target`, or remove it if `value` is `ABSENT`."""
    for step in steps[:-1]:
        below = target.get(step)
        if not isinstance(below, dict):
            if value is ABSENT:
                return
            below = target[step] = {}
        target = below
    if value is ABSENT:
        target.pop(steps[-1], None)
    else:
        target[steps[-1]] = value
