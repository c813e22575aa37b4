"""The compiler from a box's file and the schemas of its kinds to a `Box`, or to all problems of the file (PH-6)."""

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, Final

import attrs

from purekube.apimachinery.durations import seconds_of
from purekube.apimachinery.manifest import Kind, get_path
from purekube.apimachinery.problems import NoPlaces, Places, index, join
from purekube.boxes.box import Box, BoxNode, BoxRule, CompiledMutation, CompiledVersion, StatusCondition
from purekube.boxes.compiler import template_compiler
from purekube.boxes.compiler.resources import Resources
from purekube.boxes.compiler.scoping import Variables
from purekube.boxes.model import BoxMutation, BoxValidation, BoxVersion, DeletionOrder, OperatorBox
from purekube.boxes.read import BoxProblem, Findings, joined_names
from purekube.boxes.schemas import CrdVersions, KnownKind, Schemas
from purekube.boxes.templates import OPENING, Template
from purekube.cel import BOOL, ITEM, STRING, CelSyntaxError, Environment, VariablePath, compile_expression
from purekube.cel.types import CelType
from purekube.schema.celtypes import type_of_schema
from purekube.schema.node import JsonType, Schema

_RESERVED: Final = ("Ready", "Reconciling", "Stalled", "Deleting")
"""The types of the conditions that every box's controller writes itself."""
_CONDITION_FIELDS: Final = ("type", "status", "reason", "message", "lastTransitionTime", "observedGeneration")
_CONDITIONS: Final = (
    "conditions: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [type], items: {type: object, "
    "required: [type, status, reason, lastTransitionTime], properties: {type: {type: string}, status: {type: string}, "
    "reason: {type: string}, message: {type: string}, observedGeneration: {type: integer}, "
    "lastTransitionTime: {type: string, format: date-time}}}}"
)
"""The schema that messages propose for a status without `conditions`."""


@attrs.frozen(eq=False)
class OwnKind:
    """The compiled part of a box that concerns its own kind: validation, defaults, versions and status
    of the parents.
    """

    fields: Mapping[str, Template]
    conditions: tuple[StatusCondition, ...]
    rules: tuple[BoxRule, ...]
    mutations: tuple[CompiledMutation, ...]
    versions: tuple[CompiledVersion, ...]

    @classmethod
    def of(cls, model: OperatorBox, crd: CrdVersions, resources: Resources) -> "OwnKind":
        """Compile the part of `model` that concerns the box's own kind, whose CRD is `crd`.

        `resources` is the compiler of the box's resources. It provides the variables that expressions may read, and its
        findings receive the problems.
        """
        reader = _Reader(model, crd, resources)
        reader.check_status()
        return cls(
            reader.fields(),
            reader.conditions(),
            tuple(rule for at, one in enumerate(model.spec.validation) if (rule := reader.rule(at, one))),
            tuple(
                made
                for at, box_mutation in enumerate(model.spec.mutation)
                if (made := reader.mutation(at, box_mutation))
            ),
            reader.versions(),
        )


@attrs.frozen(eq=False)
class _Reader:
    model: OperatorBox
    crd: CrdVersions
    resources: Resources

    @property
    def _findings(self) -> Findings:
        return self.resources.findings

    @property
    def _schema(self) -> Schema | None:
        return self.crd.stored.schema

    @property
    def _status(self) -> Schema | None:
        return None if self._schema is None else self._schema.properties.get("status")

    @property
    def _file(self) -> str:
        return self.model.spec.crd.file or self.crd.stored.kind.crd_name

    # --- status -------------------------------------------------------------------------------------------------------

    def check_status(self) -> None:
        """Report status fields that the box writes but the CRD does not declare. The API server would drop them, and
        every reconcile would write them again.
        """
        if not self.crd.has_status:
            message = f"{self._file}: the version {self.crd.storage} needs `subresources: {{status: {{}}}}`"
            self._findings.problem("spec.crd", message)
        if self._schema is None or self._schema.preserve_unknown:
            return
        status = self._status
        if status is None:
            self._findings.problem("spec.crd", f"{self._file}: the schema declares no status; add to it: {_CONDITIONS}")
            return
        if status.preserve_unknown or status.type is JsonType.ANY:
            return
        if status.child("observedGeneration") is None:
            self._dropped("status.observedGeneration", "observedGeneration: {type: integer, format: int64}")
        self._check_conditions(status.child("conditions"))

    def _check_conditions(self, conditions: Schema | None) -> None:
        if conditions is None:
            self._dropped("status.conditions", _CONDITIONS)
            return
        item = conditions.items
        if item is None or item.preserve_unknown:
            return
        missing = [name for name in _CONDITION_FIELDS if item.child(name) is None]
        if missing:
            self._dropped(f"status.conditions[*].{missing[0]}", _CONDITIONS)

    def _dropped(self, field: str, addition: str) -> None:
        message = f"{self._file}: the API server would drop {field}; add to the schema of the status: {addition}"
        self._findings.problem("spec.crd", message)

    def fields(self) -> Mapping[str, Template]:
        """Return the templates of the status fields that the box declares, by name."""
        templates: dict[str, Template] = {}
        for name, raw in self.model.spec.status.fields.items():
            path = join("spec.status.fields", name)
            child = None if self._status is None else self._status.child(name)
            if name in ("conditions", "observedGeneration"):
                self._findings.problem(path, "is written by the engine; declare conditions under status.conditions")
                continue
            if child is None and self._status is not None and not self._status.preserve_unknown:
                hint = template_compiler.undefined(name, self._status).removeprefix("undefined field")
                message = f"the API server would drop it: {self._file} declares no status.{name}{hint}"
                self._findings.problem(path, message)
            templates[name] = self.resources.templates.template(raw, path, self.resources.variables, schema=child)
        return templates

    def conditions(self) -> tuple[StatusCondition, ...]:
        """Return the status conditions that the box declares."""
        status_conditions: list[StatusCondition] = []
        seen: set[str] = set()
        for at, one in enumerate(self.model.spec.status.conditions):
            path = index("spec.status.conditions", at)
            if one.type in _RESERVED:
                self._findings.problem(f"{path}.type", f"{one.type} is written by the engine: choose another type")
            if one.type in seen:
                self._findings.problem(f"{path}.type", f"{one.type} is there twice")
            seen.add(one.type)
            status = self.resources.templates.whole(one.status, f"{path}.status", self.resources.variables, BOOL)
            reason = self._text(one.reason or one.type, f"{path}.reason")
            message = self._text(one.message, f"{path}.message")
            if status is not None:
                status_conditions.append(StatusCondition(one.type, status, reason, message))
        return tuple(status_conditions)

    def _text(self, raw: str, path: str) -> Template:
        return self.resources.templates.template(raw, path, self.resources.variables, wanted=STRING)

    # --- rules and filled fields --------------------------------------------------------------------------------------

    def rule(self, at: int, one: BoxValidation) -> BoxRule | None:
        """Compile the validation rule `one`, item `at` of `spec.validation`; report an invalid rule and return None.

        A rule goes into the CRD if it reads only fields that rules of a CRD can read. Unless the CRD can check it in
        every served version, the rule also goes to the webhook, which reads the storage version.
        """
        path = f"{index('spec.validation', at)}.rule"
        if one.field and self._schema is not None and _schema_at(self._schema, one.field.split(".")) is None:
            self._findings.problem(f"{index('spec.validation', at)}.field", f"there is no field {one.field}")
        stored = self.crd.stored
        in_crd = _compiles_in_crd(one.rule, stored)
        error = None if in_crd else _error_of_rule(one.rule, stored.type)
        if error is not None:
            self._findings.syntax(path, error, one.rule, 0)
            return None
        others = self.crd.served_others
        is_everywhere = not (others and self._converts) and all(_compiles_in_crd(one.rule, kind) for kind in others)
        message = one.message or f"must hold: {one.rule}"
        return BoxRule(one.rule, message, one.field, in_crd, in_webhook=not (in_crd and is_everywhere))

    @property
    def _converts(self) -> bool:
        """Report whether objects of the box's kind are converted between versions. An object may then have other fields
        in a served version than in the storage version.
        """
        strategy = get_path(self.crd.manifest, "spec", "conversion", "strategy")
        return bool(self.model.spec.versions) or strategy == "Webhook"

    def mutation(self, at: int, one: BoxMutation) -> CompiledMutation | None:
        """Compile the default `one`, item `at` of `spec.mutation`; report an invalid default and return None.

        A literal value becomes a default of the CRD; an expression is evaluated by the webhook.
        """
        path = index("spec.mutation", at)
        steps = tuple(one.field.split("."))
        schema = None if self._schema is None else _schema_at(self._schema, steps)
        if steps[0] != "spec" or (self._schema is not None and schema is None):
            self._findings.problem(f"{path}.field", f"there is no field {one.field} in the spec of {self._file}")
            return None
        of_self = self.resources.variables.only("self")
        template = self.resources.templates.template(one.value, f"{path}.value", of_self, schema=schema)
        return CompiledMutation(steps, template, is_default=not any(OPENING in text for text in _texts(one.value)))

    # --- versions -----------------------------------------------------------------------------------------------------

    def versions(self) -> tuple[CompiledVersion, ...]:
        """Return the versions that the box declares, each with its conversion; the storage version has none."""
        given = self.model.spec.versions
        names = [version.name for version in given]
        for at, version in enumerate(given):
            path = index("spec.versions", at)
            if version.name not in self.crd.kinds:
                told = f"{self._file} has no version {version.name}; it has {joined_names(self.crd.kinds)}"
                self._findings.problem(f"{path}.name", told)
            if version.name in names[:at]:
                self._findings.problem(f"{path}.name", f"{version.name} is there twice")
        if given and self.crd.storage not in names:
            self._findings.problem("spec.versions", f"the storage version {self.crd.storage} is missing")
        made = (self._version(at, version) for at, version in enumerate(given) if version.name in self.crd.kinds)
        return tuple(version for version in made if version is not None)

    def _version(self, at: int, version: BoxVersion) -> CompiledVersion | None:
        path, converts = index("spec.versions", at), bool(version.up or version.down)
        if version.name == self.crd.storage:
            if converts:
                self._findings.problem(path, f"{version.name} is the storage version: it is converted to and from")
            return CompiledVersion(version.name, {}, {}, version.keeps, is_storage=True)
        if not version.up or not version.down:
            self._findings.problem(path, "needs `up`, to the storage version, and `down`, from it")
            return None
        old, new = self.crd.kinds[version.name], self.crd.stored
        up = self._conversion(version.up, f"{path}.up", "old", old, new)
        down = self._conversion(version.down, f"{path}.down", "self", new, old)
        return CompiledVersion(version.name, up, down, version.keeps)

    def _conversion(
        self, fields: Mapping[str, Any], path: str, variable: str, source: KnownKind, target: KnownKind
    ) -> Mapping[tuple[str, ...], Template]:
        variables = Variables({variable: source.type}, certain=frozenset((variable,)))
        templates: dict[tuple[str, ...], Template] = {}
        for name, raw in fields.items():
            steps, where = tuple(name.split(".")), join(path, name)
            schema = None if target.schema is None else _schema_at(target.schema, steps)
            if target.schema is not None and schema is None:
                self._findings.problem(where, f"there is no field {name} in {target.kind.version}")
            templates[steps] = self.resources.templates.template(raw, where, variables, schema=schema)
        return templates


def _compiles_in_crd(rule: str, kind: KnownKind) -> bool:
    return kind.schema is not None and _error_of_rule(rule, type_of_schema(kind.schema, root=True)) is None


def _error_of_rule(rule: str, type: CelType) -> CelSyntaxError | None:
    """Return the error with which a rule fails to compile; None if the rule compiles.

    `type` is the type of `self` and `oldSelf` in the rule.
    """
    try:
        program = compile_expression(rule, Environment({"self": type, "oldSelf": type}))
    except CelSyntaxError as error:
        return error
    if program.type.name not in ("bool", "dyn"):
        return CelSyntaxError(f"must give true or false, not {program.type}", rule, 0)
    return None


def _schema_at(schema: Schema, steps: Sequence[str]) -> Schema | None:
    node: Schema | None = schema
    for step in steps:
        node = None if node is None else node.applied(step) if node.preserve_unknown else node.child(step)
    return node


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from (key, *_texts(item))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


@attrs.frozen(eq=False)
class BoxExamination:
    """The result of checking a box. `box` is set if there are no problems.

    `unchecked` are paths that expressions read although no schema defines their type. `untyped` are kinds without a
    schema. `expressions` is the number of compiled expressions.
    """

    box: Box | None
    problems: tuple[BoxProblem, ...] = ()
    warnings: tuple[BoxProblem, ...] = ()
    unchecked: tuple[str, ...] = ()
    untyped: tuple[str, ...] = ()
    expressions: int = 0


def examine(
    model: OperatorBox, crd: CrdVersions | None, schemas: Schemas, places: Places | None = None
) -> BoxExamination:
    """Check and compile a box. The result has the problems, and the box if there are none.

    `crd` is the CRD of the box's own kind; None (it could not be read) is a problem. `schemas` has the other kinds that
    the box may use, with their schemas. `places` finds the lines of fields in the file; without it, problems have only
    paths.
    """
    findings = Findings(NoPlaces() if places is None else places)
    if crd is None:
        findings.problem("spec.crd", "the CRD of the box's kind is not known: name its file, or give it with --crds")
        return BoxExamination(None, findings.problems)
    resources = Resources.of(model, crd, schemas, findings)
    nodes = resources.compiled()
    drains = resources.drained()
    own = OwnKind.of(model, crd, resources)
    externals = resources.observed()
    box = Box(
        name=model.metadata.name,
        kind=crd.stored.kind,
        model=model,
        crd=crd.manifest,
        schema=crd.stored.schema,
        resync=seconds_of(model.spec.resync, otherwise=60.0),
        namespaces=model.spec.namespaces,
        nodes=nodes,
        drains=drains,
        externals=externals,
        strict_order=model.spec.deletion.order is DeletionOrder.STRICT,
        account=resources.account(),
        status_fields=own.fields,
        conditions=own.conditions,
        lists=resources.children.lists,
        rules=own.rules,
        mutations=own.mutations,
        versions=own.versions,
        secrets=resources.use_of_secrets(),
    )
    resources.check_status_circles(own.fields, own.conditions)
    return BoxExamination(
        box=None if findings.problems else box,
        problems=findings.problems,
        warnings=findings.warnings,
        unchecked=_islands(resources.expressions.unchecked),
        untyped=_untyped(box.all_nodes, [(external.kind, external.schema is None) for external in box.externals]),
        expressions=len(resources.expressions.made),
    )


def _islands(paths: Set[VariablePath]) -> tuple[str, ...]:
    """Return the paths whose type is unknown as sorted dotted strings.

    If both a path and a path below it are in the set, only the upper one is returned.
    """
    first = (path for path in paths if not any(path[:length] in paths for length in range(1, len(path))))
    return tuple(sorted(".".join(path).replace(f".{ITEM}", ITEM) for path in first))


def _untyped(nodes: Sequence[BoxNode], externals: Sequence[tuple[Kind, bool]]) -> tuple[str, ...]:
    kinds = [(node.kind, node.schema is None) for node in nodes]
    return tuple(sorted({f"{kind.api_version} {kind.kind}" for kind, untyped in (*kinds, *externals) if untyped}))
