"""The resources of a box's file with their places, its externals, and the checks of both (PH-4 to PH-6).

Externals are objects that the box only reads.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.problems import index
from purekube.boxes.box import ExternalNode
from purekube.boxes.compiler.children import ChildNames
from purekube.boxes.compiler.impersonation import ImpersonationRules
from purekube.boxes.compiler.ordering import Target
from purekube.boxes.compiler.scoping import Variables, origin_of, taints_of
from purekube.boxes.compiler.taint import Origin
from purekube.boxes.compiler.template_compiler import TemplateCompiler
from purekube.boxes.model import ApplyMode, BoxExternal, BoxPhase, BoxResource, OperatorBox, PhaseOn, Power
from purekube.boxes.read import Findings
from purekube.boxes.schemas import KnownKind, Schemas
from purekube.boxes.templates import OPENING, whole_expression
from purekube.cel import DYN, ITEM, STRING, CelSyntaxError, CelType, VariablePath, list_of
from purekube.cel.evaluate import TYPES
from purekube.cel.syntax import RESERVED

SECRET: Final = ("v1", "Secret")
MOST_RESOURCES: Final = 1_000
"""The largest number of resources and externals (objects that are only read) in one box."""
TAKEN: Final = frozenset((*RESERVED, *TYPES, "self", "oldSelf", "old", "children", "true", "false", "null", "in"))
"""Names that have a meaning of their own in expressions, so that no resource or external may have them as its id."""


@attrs.frozen(eq=False)
class Entry:
    """A resource as written in the box's file, with its path in the file and its phase.

    `phase` is the group of resources to which it belongs, None for a resource outside of groups. `drain` is the number
    of the deletion phase in which the resource runs; None for a resource that exists while the parent (object of the
    box's kind) lives.
    """

    resource: BoxResource
    path: str
    phase: BoxPhase | None = None
    phase_path: str = ""
    drain: int | None = None

    @property
    def id(self) -> str:
        """The id of the resource."""
        return self.resource.id

    @property
    def template_path(self) -> str:
        """The path of the resource's template in the file."""
        return f"{self.path}.template"


def entries_of(model: OperatorBox) -> Iterator[Entry]:
    """Yield every resource of a box in the order of the file, including the drains (resources that run before a
    deletion).
    """
    spec, drains = model.spec, 0
    for at, resource in enumerate(spec.resources):
        yield Entry(resource, index("spec.resources", at))
    for number, phase in enumerate(spec.phases):
        path = index("spec.phases", number)
        drain = drains if phase.on is PhaseOn.DELETE else None
        drains += phase.on is PhaseOn.DELETE
        for at, resource in enumerate(phase.resources):
            yield Entry(resource, index(f"{path}.resources", at), phase, path, drain)
    for number, last in enumerate(spec.deletion.phases):
        path = index("spec.deletion.phases", number)
        for at, resource in enumerate(last.resources):
            yield Entry(resource, index(f"{path}.resources", at), drain=drains + number)


def apply_mode(entry: Entry) -> ApplyMode:
    """Return the policy by which a resource is written: on every difference, only if absent, or once.

    If the resource sets none, it is once in a phase that runs on creation, and on every difference elsewhere.
    """
    if entry.resource.apply is not None:
        return entry.resource.apply
    once = entry.phase is not None and entry.phase.on is PhaseOn.CREATE and not entry.resource.reconcile
    return ApplyMode.ONCE if once else ApplyMode.ALWAYS


# --- ids --------------------------------------------------------------------------------------------------------------


def unique(entries: tuple[Entry, ...], model: OperatorBox, findings: Findings) -> tuple[Entry, ...]:
    """Return the resources in `entries` with unique ids. For an id that is used again, a problem is added to
    `findings`, and the resource is omitted.
    """
    named = [(external.id, index("spec.externals", at)) for at, external in enumerate(model.spec.externals)]
    seen: dict[str, str] = {}
    kept: list[Entry] = []
    for name, path in named:
        _take(name, path, seen, findings)
    for entry in entries:
        if _take(entry.id, entry.path, seen, findings):
            kept.append(entry)
    if len(seen) > MOST_RESOURCES:
        findings.problem("spec", f"has {len(seen)} resources and externals; a box has at most {MOST_RESOURCES}")
        return ()
    phases: dict[str, None] = {}
    for at, phase in enumerate(model.spec.phases):
        where = index("spec.phases", at)
        if phase.name in phases or phase.name in seen:
            findings.problem(f"{where}.name", f"{phase.name} is the name of something else already")
        phases.setdefault(phase.name)
    return tuple(kept)


def _take(name: str, path: str, seen: dict[str, str], findings: Findings) -> bool:
    if name in TAKEN:
        findings.problem(f"{path}.id", f"{name} has a meaning of its own in expressions: choose another id")
        return False
    if name in seen:
        findings.problem(f"{path}.id", f"{name} is the id of {seen[name]} already")
        return False
    seen[name] = path
    return True


def targets_of(entries: Iterable[Entry], model: OperatorBox) -> Mapping[str, Target]:
    """Return everything on which resources may depend, by id.

    These are the resources in `entries`, and the box's externals (objects of others that it only reads).
    """
    found = {
        entry.id: Target(entry.resource.template, is_list=entry.resource.for_each is not None) for entry in entries
    }
    return {**found, **{external.id: Target() for external in model.spec.externals}}


# --- kinds ------------------------------------------------------------------------------------------------------------


def kinds_of(
    entries: Sequence[Entry], model: OperatorBox, schemas: Schemas, findings: Findings
) -> Mapping[str, KnownKind]:
    """Return the kinds of resources and of externals (objects that the box only reads), by id.

    `schemas` has the known kinds. An unknown kind is added to `findings` as a problem and omitted.
    """
    known_kinds: dict[str, KnownKind] = {}
    desired: list[tuple[str, Mapping[str, Any], str]] = [
        (entry.id, entry.resource.template, entry.template_path) for entry in entries
    ]
    for at, external in enumerate(model.spec.externals):
        said = {"apiVersion": external.api_version, "kind": external.kind}
        desired.append((external.id, said, index("spec.externals", at)))
    for name, raw, path in desired:
        known = _kind_of(raw, path, schemas, findings)
        if known is not None:
            known_kinds[name] = known
    return known_kinds


def _kind_of(raw: Mapping[str, Any], path: str, schemas: Schemas, findings: Findings) -> KnownKind | None:
    for field in ("apiVersion", "kind"):
        value = raw.get(field)
        if not isinstance(value, str) or not value:
            findings.problem(f"{path}.{field}" if field in raw else path, f"{field} is required: a text")
            return None
        if OPENING in value:
            message = "must be a literal: watches, roles and deletion are known when the file is read"
            findings.problem(f"{path}.{field}", message)
            return None
    known = schemas.find(raw["apiVersion"], raw["kind"])
    if known is None:
        findings.problem(f"{path}.kind", _unknown_kind(raw["apiVersion"], raw["kind"], schemas))
    return known


def _unknown_kind(api_version: str, kind: str, schemas: Schemas) -> str:
    others = schemas.similar(kind)
    if others:
        return f"no {kind} is known in {api_version}; did you mean apiVersion: {others[0]}?"
    near = get_close_matches(kind, schemas.names(), 1)
    if near:
        return f"the kind {kind} is not known; did you mean {near[0]}?"
    return f"the kind {kind} is not known: give its CRD with --crds, or declare it under spec.kinds"


def is_secret(kind: Kind) -> bool:
    """Report whether the kind is Secret, whose data may not be copied into other objects."""
    return (kind.api_version, kind.kind) == SECRET


def variables_of(
    living: Sequence[Entry], model: OperatorBox, kinds: Mapping[str, KnownKind], children: ChildNames, parent: KnownKind
) -> Variables:
    """Return the variables that expressions of the parent's status may read, with their types.

    These are `self` (the parent, of the kind `parent`), and, under their ids in the file, the resources in `living` and
    the externals (objects that the box only reads). `living` has the resources that exist as long as the parent does,
    without those that run only before its deletion. `kinds` maps the id of a resource or external to its kind; if an id
    is not in `kinds`, its variable has the type `dyn`. `children` has the names, such as `children.deployment`, by
    which expressions refer to resources.
    """
    types: dict[str, CelType] = {"self": parent.type}
    for entry in living:
        kind = kinds[entry.id].type if entry.id in kinds else DYN
        types[entry.id] = list_of(kind) if entry.resource.for_each is not None else kind
    for external in model.spec.externals:
        types[external.id] = kinds[external.id].type if external.id in kinds else DYN
    return Variables(types, taints_of(model, kinds, children))


@attrs.frozen(eq=False)
class Externals:
    """A compiler for the externals in a box's file: objects that the box only reads. It adds problems to the box's
    findings.
    """

    said: Sequence[BoxExternal]
    kinds: Mapping[str, KnownKind]
    """The known kinds of resources and externals, by the id of the resource or external."""
    variables: Variables
    templates: TemplateCompiler
    deputies: ImpersonationRules

    @property
    def _findings(self) -> Findings:
        return self.templates.findings

    def compiled(self) -> tuple[ExternalNode | None, ...]:
        """Return the compiled externals (objects that the box only reads) in the order of the file; None for one whose
        kind is unknown.
        """
        return tuple(self._external(at, external) for at, external in enumerate(self.said))

    def _external(self, at: int, external: BoxExternal) -> ExternalNode | None:
        known, path = self.kinds.get(external.id), index("spec.externals", at)
        if known is None:
            return None
        of_self = self.variables.only("self")
        include = self.templates.conditions(external.include_when, f"{path}.includeWhen", of_self)
        of_self = of_self.given(include)
        unknown = [name for name in external.metadata if name not in ("name", "namespace")]
        for field in unknown:
            self._findings.problem(f"{path}.metadata", f"{field}: an external is found by name and namespace alone")
        if "name" not in external.metadata:
            self._findings.problem(f"{path}.metadata", "name is required")
        elsewhere = known.kind.namespaced and not stays_at_home(external.metadata.get("namespace"))
        judge = self.deputies.of(known.kind, path, elsewhere=elsewhere).judge
        name = self.templates.template(external.metadata, f"{path}.metadata", of_self, wanted=STRING, judge=judge)
        own = attrs.evolve(self.variables, types={**self.variables.types, external.id: known.type})
        ready = self.templates.conditions(external.ready_when, f"{path}.readyWhen", own)
        return ExternalNode(
            id=external.id,
            kind=known.kind,
            place=self._findings.place(path),
            name=name,
            elsewhere=elsewhere,
            asks_namespace=is_worked_out(external.metadata.get("namespace")),
            must_agree=self._must_agree(external, known.kind),
            schema=known.schema,
            include=include,
            ready=ready,
            selector=external.selector,
            watch=not is_secret(known.kind) if external.watch is None else external.watch,
        )

    def _must_agree(self, external: BoxExternal, kind: Kind) -> bool:
        """Report whether an external Secret, which the box only reads, must carry an annotation that permits the box to
        read it.

        The annotation is needed if untrusted authors of parents (objects of the box's kind) choose the Secret's name.
        """
        chosen = origin_of(external.metadata.get("name")) is Origin.CHOSEN
        return is_secret(kind) and chosen and Power.SECRETS not in self.deputies.trusted

    def with_fields(self, at: int, external: ExternalNode, read: Iterable[VariablePath]) -> ExternalNode:
        """Return `external` with its `fields` set to the paths in the object that the box's expressions read.

        `at` is the index of the external in the file. `read` has the paths that all expressions of the box read.
        """
        said = self.said[at]
        below = {_field_path(variable_path[1:]) for variable_path in read if variable_path[0] == external.id}
        self._check_fields(said, index("spec.externals", at), below)
        below |= {tuple(field.split(".")) for field in said.fields}
        below |= {("metadata", "annotations")} if external.must_agree else set()
        return attrs.evolve(external, fields=tuple(sorted(below)))

    def _check_fields(self, external: BoxExternal, path: str, read: Iterable[VariablePath]) -> None:
        if not external.fields:
            return
        allowed = [tuple(field.split(".")) for field in external.fields]
        for variable_path in read:
            if variable_path[:1] != ("metadata",) and not any(
                variable_path[: len(prefix)] == prefix for prefix in allowed
            ):
                message = f"an expression reads {'.'.join(variable_path) or 'all of it'}, which is not listed here"
                self._findings.problem(f"{path}.fields", message)


def _field_path(path: VariablePath) -> VariablePath:
    """Return the beginning of a path that a cache can store: its field names before the first list."""
    return path[: path.index(ITEM)] if ITEM in path else path


def is_worked_out(namespace: Any) -> bool:
    """Report whether `namespace`, the namespace in a template, is computed by an expression and may differ from the
    parent's namespace.
    """
    return isinstance(namespace, str) and OPENING in namespace and not stays_at_home(namespace)


def stays_at_home(value: Any) -> bool:
    """Report whether `value`, the namespace in a template, is certainly the namespace of the parent.

    This is so if the template names none, or exactly `${self.metadata.namespace}`.
    """
    if value is None:
        return True
    try:
        piece = whole_expression(value) if isinstance(value, str) else None
    except CelSyntaxError:
        return True  # reported elsewhere
    return piece is not None and "".join(piece.text.split()) == "self.metadata.namespace"
