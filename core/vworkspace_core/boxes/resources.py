"""The resources and externals of a box, compiled: kinds, templates, gates, and what they wait for (PH-4 to PH-6)."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

import attrs

from vworkspace_core.apimachinery.manifest import Kind, get_path
from vworkspace_core.apimachinery.problems import index
from vworkspace_core.boxes import fits
from vworkspace_core.boxes.box import BoxNode, ExternalNode, Iteration
from vworkspace_core.boxes.children import Children, list_name
from vworkspace_core.boxes.edges import UNTIL, Target, inferred
from vworkspace_core.boxes.expressions import BoxExpression
from vworkspace_core.boxes.gating import Gating
from vworkspace_core.boxes.model import (
    ApplyMode,
    BoxExternal,
    BoxPhase,
    BoxResource,
    Dependency,
    OperatorBox,
    OwnerMode,
    PhaseOn,
)
from vworkspace_core.boxes.problems import Findings, listed
from vworkspace_core.boxes.schemas import CrdVersions, KnownKind, Schemas
from vworkspace_core.boxes.scoping import ExpressionCompiler, Variables
from vworkspace_core.boxes.taint import Taint
from vworkspace_core.boxes.templates import OPENING, Piece, Template, compile_template, whole
from vworkspace_core.cel import BOOL, DYN, ITEM, STRING, CelSyntaxError, CelType, VariablePath, list_of
from vworkspace_core.cel.durations import parse_duration
from vworkspace_core.cel.evaluate import TYPES
from vworkspace_core.cel.syntax import RESERVED
from vworkspace_core.graph import Cycle, Edge, Graph, Node, Rendered
from vworkspace_core.schema.node import Schema

SECRET: Final = ("v1", "Secret")
MOST_RESOURCES: Final = 1_000
"""Resources and externals of one box."""

_LONGEST_CIRCLE: Final = 12
"""Ids of a circle that a message names."""
_TAKEN: Final = frozenset((*RESERVED, *TYPES, "self", "oldSelf", "old", "children", "true", "false", "null", "in"))
_SERVERS: Final = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "deletionTimestamp")
"""Fields of metadata that the API server alone writes."""
_CHANGING: Final = frozenset(("resourceVersion", "managedFields", "generation"))
"""Fields of metadata that change by themselves: a name made of one would be a new object in each pass."""
_OWN_DOMAIN: Final = "box.vworkspace.io/"
_LABEL_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


@attrs.frozen(eq=False)
class Entry:
    """A resource of the file with its place and its phase; `drain` counts the phases that run before a deletion."""

    resource: BoxResource
    path: str
    phase: BoxPhase | None = None
    phase_path: str = ""
    drain: int | None = None

    @property
    def id(self) -> str:
        """Its id."""
        return self.resource.id

    @property
    def template_path(self) -> str:
        """Where its template stands."""
        return f"{self.path}.template"


def seconds_of(text: str) -> float:
    """A duration in seconds; the form was checked before."""
    duration = parse_duration(text)
    return duration.nanos / 1e9 if duration is not None else 60.0


def entries_of(model: OperatorBox) -> Iterator[Entry]:
    """Every resource of a box, drains included, in the order of the file."""
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


@attrs.frozen(eq=False)
class Resources:
    """The resources of one box on their way to nodes."""

    model: OperatorBox
    findings: Findings
    entries: tuple[Entry, ...]
    kinds: Mapping[str, KnownKind]
    """By id, those that are known."""
    parent: KnownKind
    children: Children
    variables: Variables
    """Everything that a status field may read."""
    expressions: ExpressionCompiler
    gating: Gating
    targets: Mapping[str, Target]
    """What can be depended on, by id."""
    reads: dict[str, list[VariablePath]] = attrs.field(factory=dict)
    """What each template reads, by id."""

    @classmethod
    def of(cls, model: OperatorBox, crd: CrdVersions, schemas: Schemas, findings: Findings) -> "Resources":
        """What the file names, with what is known of its kinds."""
        entries = _unique(tuple(entries_of(model)), model, findings)
        kinds = _kinds(entries, model, schemas, findings)
        living = [entry for entry in entries if entry.drain is None]
        children = Children.of((entry.id, kinds[entry.id].kind.kind) for entry in living if entry.id in kinds)
        variables = _variables(living, model, kinds, children, crd.stored)
        lists = {list_name(kind): list_of(kinds[ids[0]].type) for kind, ids in children.by_kind.items()}
        expressions = ExpressionCompiler(findings, children, lists, crd.where)
        gating = Gating(expressions, _schemas(kinds, crd.stored))
        targets = _targets(entries, model)
        return cls(model, findings, entries, kinds, crd.stored, children, variables, expressions, gating, targets)

    @property
    def living(self) -> tuple[Entry, ...]:
        """The resources that exist as long as the parent does."""
        return tuple(entry for entry in self.entries if entry.drain is None)

    # --- nodes --------------------------------------------------------------------------------------------------------

    def compiled(self) -> tuple[BoxNode, ...]:
        """The nodes in topological order with their waves; as in the file where they make no graph."""
        self._check_twice()
        nodes = [node for entry in self.living if (node := self._node(entry, self.variables)) is not None]
        return self._ordered(nodes)

    def drained(self) -> tuple[tuple[BoxNode, ...], ...]:
        """The nodes of each phase that runs before a deletion: they see the parent and each other alone."""
        drains = [entry for entry in self.entries if entry.drain is not None]
        names = [entry.id for entry in drains]
        types = {entry.id: self._type(entry) for entry in drains}
        seen = attrs.evolve(self.variables, types={"self": self.variables.types["self"], **types})
        phases: dict[int, list[BoxNode]] = {}
        for entry in drains:
            node = self._node(entry, seen.only("self", *names))
            if node is not None and entry.drain is not None:
                phases.setdefault(entry.drain, []).append(node)
        known = {name for nodes in phases.values() for name in (node.id for node in nodes)}
        return tuple(self._ordered(_within(nodes, known), drain=True) for _, nodes in sorted(phases.items()))

    def observed(self) -> tuple[ExternalNode, ...]:
        """The externals, with what expressions read of them; to be asked last, when all of these are known."""
        found = [self._external(at, external) for at, external in enumerate(self.model.spec.externals)]
        read = [path for paths in self.reads.values() for path in paths]
        read += [path for made in self.expressions.made for path in _paths(made, self.variables)]
        return tuple(self._with_fields(at, external, read) for at, external in enumerate(found) if external is not None)

    def _type(self, entry: Entry) -> CelType:
        known = self.kinds.get(entry.id)
        kind = DYN if known is None else known.type
        return list_of(kind) if entry.resource.for_each is not None else kind

    def _node(self, entry: Entry, seen: Variables) -> BoxNode | None:
        known = self.kinds.get(entry.id)
        if known is None:
            return None
        resource, others = entry.resource, seen.without(entry.id)
        iteration, inside = self._iteration(entry, others)
        template = self._template(entry, known, inside)
        include = self._conditions(resource.include_when, f"{entry.path}.includeWhen", others)
        ready = self._ready(entry, known, seen, inside)
        gates = self.gating.gates_of(entry.phase, entry.phase_path, resource, entry.path, seen)
        self._check_form(entry, known)
        self._check_name(entry, template, inside, iteration)
        self._warn_of_volatile(entry, include, others)
        return BoxNode(
            id=entry.id,
            kind=known.kind,
            place=self.findings.place(entry.path),
            template=template,
            phase=entry.phase.name if entry.phase is not None else "",
            schema=known.schema,
            iteration=iteration,
            include=include,
            gates=gates,
            ready=ready,
            readiness=resource.readiness,
            edges=self._edges(entry, template, include, iteration, inside, others),
            apply=_apply_mode(entry),
            on_delete=resource.on_delete,
            prune=resource.prune,
            on_immutable=resource.on_immutable,
            owner=resource.owner,
            generate=resource.generate.fields,
            roll_on=resource.roll_on,
        )

    # --- expressions of a resource ------------------------------------------------------------------------------------

    def _iteration(self, entry: Entry, others: Variables) -> tuple[Iteration | None, Variables]:
        """`forEach`, and what its templates see."""
        each, path = entry.resource.for_each, f"{entry.path}.forEach"
        if each is None:
            return None, others
        items = self.whole(each.items, f"{path}.{each.variable}", others)
        item, alias, certain = DYN, None, others.certain
        if items is not None:
            given = items.program.type
            if given.name not in ("list", "dyn"):
                self.findings.problem(f"{path}.{each.variable}", f"must give a list, not {given}")
            item = given.item if given.name == "list" else DYN
            roots = [read for read, _ in _read(items, others)]
            if all(root[0] in others.certain for root in roots):
                certain = certain | {each.variable}
            alias = _list_place(items, others)
        if each.variable in _TAKEN or each.variable in self.variables.types:
            self.findings.problem(path, f"the variable {each.variable} has the name of something else: choose another")
        taint = Taint.SECRET if alias is not None and others.taints.get(alias[0]) else Taint.CLEAN
        inside = others.with_variable(each.variable, item, taint)
        aliases = {**others.aliases, **({each.variable: (*alias, ITEM)} if alias is not None else {})}
        inside = attrs.evolve(inside, certain=certain, aliases=aliases)
        key = self.whole(each.key, f"{path}.key", inside, STRING)
        if items is None or key is None:
            return None, inside
        return Iteration(each.variable, items, key), inside

    def whole(self, text: str, path: str, variables: Variables, wanted: CelType | None = None) -> BoxExpression | None:
        """A field that is one expression; None where it is none, which is told."""
        try:
            piece = whole(text)
        except CelSyntaxError as error:
            self.findings.syntax(path, error, text, 0)
            return None
        if piece is None:
            self.findings.problem(path, f"must be one expression: ${{{text.strip() or '…'}}}")
            return None
        return self.expressions.piece(piece, path, variables, wanted=wanted)

    def _conditions(self, texts: Sequence[str], path: str, variables: Variables) -> tuple[BoxExpression, ...]:
        made = [self.whole(text, index(path, at), variables, BOOL) for at, text in enumerate(texts)]
        return tuple(expression for expression in made if expression is not None)

    def _ready(self, entry: Entry, known: KnownKind, seen: Variables, inside: Variables) -> tuple[BoxExpression, ...]:
        """Of an item of a list its own id is the item itself."""
        taint = Taint.SECRET if _is_secret(known.kind) else Taint.CLEAN
        own = attrs.evolve(inside, types={**seen.types, **inside.types}).with_variable(entry.id, known.type, taint)
        return self._conditions(entry.resource.ready_when, f"{entry.path}.readyWhen", own)

    def template(
        self,
        raw: Any,
        path: str,
        variables: Variables,
        *,
        schema: Schema | None = None,
        wanted: CelType | None = None,
        secret_below: Sequence[str] = (),
    ) -> Template:
        """A compiled template whose expressions fit the schema; `secret_below` are paths that secret data may fill."""
        leaves = dict(fits.leaves(raw, schema, path)) if schema is not None else {}

        def compile_piece(where: str, piece: Piece, in_text: bool) -> BoxExpression | None:
            secret = any(where.startswith(prefix) for prefix in secret_below)
            asked = STRING if in_text else wanted
            made = self.expressions.piece(piece, where, variables, wanted=asked, secret=secret)
            leaf = leaves.get(where)
            if made is not None and leaf is not None:
                self._check_leaf(made, leaf, where, piece, in_text=in_text)
            return made

        template, problems = compile_template(raw, path, compile_piece)
        for problem in problems:
            self.findings.syntax(problem.path, problem.error, _text_at(raw, problem.path, path), 0)
        if schema is not None:
            for misfit in fits.misfits(raw, schema, path):
                self.findings.problem(misfit.path, misfit.message)
        return template

    def _check_leaf(self, made: BoxExpression, leaf: Schema, where: str, piece: Piece, *, in_text: bool) -> None:
        misfit = fits.mismatch(STRING if in_text else made.program.type, leaf)
        if misfit is not None:
            told = f"{misfit.path}: {misfit.message}" if misfit.path else misfit.message
            self.findings.problem(where, f"{told} ({piece.text.strip()})", piece.at)

    def _template(self, entry: Entry, known: KnownKind, inside: Variables) -> Template:
        raw, path = entry.resource.template, entry.template_path
        below = (f"{path}.data", f"{path}.stringData") if _is_secret(known.kind) else ()
        schema = known.schema
        if schema is not None:
            schema = _as_template(schema, entry.resource)
        return self.template(raw, path, inside, schema=schema, secret_below=below)

    # --- edges --------------------------------------------------------------------------------------------------------

    def _edges(
        self,
        entry: Entry,
        template: Template,
        include: Sequence[BoxExpression],
        iteration: Iteration | None,
        inside: Variables,
        others: Variables,
    ) -> tuple[Edge, ...]:
        found: dict[Edge, None] = {}
        made = [(expression, inside) for expression in template.expressions]
        made += [(expression, others) for expression in include]
        if iteration is not None:
            made += [(iteration.items, others), (iteration.key, inside)]
        for expression, variables in made:
            self.reads.setdefault(entry.id, []).extend(path for path, _ in _read(expression, variables))
            for edge in inferred(_read(expression, variables), self.targets, self.children.lists, expression.place):
                found.setdefault(edge)
        for edge in self._declared(entry):
            found.setdefault(edge)
        return tuple(found)

    def _declared(self, entry: Entry) -> Iterator[Edge]:
        yield from self._dependencies(entry, entry.resource.depends_on, f"{entry.path}.dependsOn")
        if entry.phase is not None:
            yield from self._dependencies(entry, entry.phase.depends_on, f"{entry.phase_path}.dependsOn")

    def _dependencies(self, entry: Entry, given: Sequence[Dependency], path: str) -> Iterator[Edge]:
        phases = {phase.name: [resource.id for resource in phase.resources] for phase in self.model.spec.phases}
        pool = {one.id for one in self.entries if (one.drain is None) == (entry.drain is None)}
        if entry.drain is None:
            pool.update(external.id for external in self.model.spec.externals)
        for at, dependency in enumerate(given):
            where = index(path, at)
            ids = [dependency.id] if dependency.id in pool else phases.get(dependency.id)
            if ids is None or not pool.issuperset(ids):
                self.findings.problem(where, _no_such(dependency.id, {*pool, *phases}))
                continue
            place = self.findings.place(where)
            if entry.id in ids and dependency.id == entry.id:
                self.findings.problem(where, f"{entry.id} cannot wait for itself")
            yield from (Edge(to, UNTIL[dependency.until], place, declared=True) for to in ids if to != entry.id)

    def _ordered(self, nodes: Sequence[BoxNode], *, drain: bool = False) -> tuple[BoxNode, ...]:
        externals = [] if drain else [external.id for external in self.model.spec.externals]
        known = {node.id for node in nodes}.union(externals)
        stand_ins = [_stand_in(name, (), ()) for name in externals]
        for node in nodes:
            roll_on = tuple(name for name in node.roll_on if name in known)
            stand_ins.append(_stand_in(node.id, [edge for edge in node.edges if edge.to in known], roll_on))
        try:
            graph = Graph.of(stand_ins)
        except Cycle as error:
            first = next((node.place for node in nodes if node.id == error.path[0]), None)
            place = error.place if str(error.place) or first is None else first
            self.findings.problem(place.path, f"these wait for each other: {_circle(error.path)}")
            return tuple(nodes)
        by_id = {node.id: node for node in nodes}
        return tuple(attrs.evolve(by_id[name], wave=graph.waves[name]) for name in graph.nodes if name in by_id)

    def check_status_circles(self, fields: Mapping[str, Template]) -> None:
        """A template must not read a field of the status that is made of it: it would chase itself (trap 7)."""
        made_of = {
            name: {path[0] for made in template.expressions for path in _paths(made, self.variables)}
            for name, template in fields.items()
        }
        below = _descendants(self.reads)
        for entry in self.entries:
            for path in self.reads.get(entry.id, ()):
                name = path[2] if path[:2] == ("self", "status") and len(path) > 2 else ""
                sources = {
                    root for source in made_of.get(name, ()) for root in self.children.lists.get(source, (source,))
                }
                if any(entry.id == source or entry.id in below.get(source, ()) for source in sources):
                    message = f"reads self.status.{name}, which is made of {entry.id} itself: it would never settle"
                    self.findings.problem(entry.template_path, message)

    # --- what is wrong with a resource as a whole ---------------------------------------------------------------------

    def _check_form(self, entry: Entry, known: KnownKind) -> None:
        resource, path, raw = entry.resource, entry.template_path, entry.resource.template
        metadata = raw.get("metadata")
        if not isinstance(metadata, Mapping):
            self.findings.problem(f"{path}.metadata", "is required, with a name")
            return
        if "name" not in metadata:
            hint = ": generateName would make a new object in each pass" if "generateName" in metadata else ""
            self.findings.problem(f"{path}.metadata", f"name is required{hint}")
        for field in (name for name in _SERVERS if name in metadata):
            self.findings.problem(f"{path}.metadata.{field}", "is written by the API server alone")
        if "ownerReferences" in metadata:
            self.findings.problem(f"{path}.metadata.ownerReferences", "are written for you; see `owner`")
        if "status" in raw:
            self.findings.problem(f"{path}.status", "is what its controller writes: a template cannot")
        self._check_marks(metadata, path)
        self._check_owner(entry, known.kind, metadata)
        self._check_generated(entry, known.kind)
        self._check_rolled(entry)
        if resource.reconcile and (entry.phase is None or entry.phase.on is not PhaseOn.CREATE):
            self.findings.warning(f"{entry.path}.reconcile", "says nothing outside a phase with `on: create`")

    def _check_marks(self, metadata: Mapping[str, Any], path: str) -> None:
        for part in ("labels", "annotations"):
            given = metadata.get(part)
            for name in given if isinstance(given, Mapping) else ():
                if isinstance(name, str) and name.startswith(_OWN_DOMAIN):
                    self.findings.problem(
                        f"{path}.metadata.{part}", f"{name}: names below {_OWN_DOMAIN} are the engine's"
                    )

    def _check_owner(self, entry: Entry, kind: Kind, metadata: Mapping[str, Any]) -> None:
        parent, namespace = self.parent.kind, metadata.get("namespace")
        path = f"{entry.template_path}.metadata"
        if namespace is not None and not kind.namespaced:
            self.findings.problem(f"{path}.namespace", f"{kind.kind} lives in no namespace")
        if kind.namespaced and not parent.namespaced and namespace is None:
            message = f"namespace is required: a {parent.kind} lives in no namespace that could be taken"
            self.findings.problem(path, message)
        elsewhere = kind.namespaced and namespace is not None and not _is_own_namespace(namespace)
        outside = parent.namespaced and (not kind.namespaced or elsewhere)
        if outside and entry.resource.owner is OwnerMode.REFERENCE:
            message = "an owner reference cannot leave the namespace: write `owner: Label` at the resource"
            self.findings.problem(path, message)

    def _check_generated(self, entry: Entry, kind: Kind) -> None:
        if not entry.resource.generate.fields:
            return
        path = f"{entry.path}.generate"
        if _apply_mode(entry) is ApplyMode.ALWAYS:
            message = "what is drawn is drawn once: write `apply: IfAbsent`, or `apply: Once`"
            self.findings.problem(path, message)
        for field in entry.resource.generate.fields:
            if not _is_secret(kind) or field.path.partition(".")[0] not in ("data", "stringData"):
                self.findings.problem(path, f"{field.path}: only data of a Secret can be drawn, such as data.password")

    def _check_rolled(self, entry: Entry) -> None:
        names = {*(one.id for one in self.living), *(external.id for external in self.model.spec.externals)}
        for at, name in enumerate(entry.resource.roll_on):
            where = index(f"{entry.path}.rollOn", at)
            if name not in names:
                self.findings.problem(where, _no_such(name, names))
            elif name == entry.id:
                self.findings.problem(where, f"{name} cannot be rolled on itself")
        if entry.resource.roll_on and not isinstance(get_path(entry.resource.template, "spec", "template"), Mapping):
            message = "the resource has no spec.template, whose annotations the hash would go to"
            self.findings.problem(f"{entry.path}.rollOn", message)

    def _check_name(self, entry: Entry, template: Template, inside: Variables, iteration: Iteration | None) -> None:
        """A name must not be made of what changes by itself."""
        prefix = f"{entry.template_path}.metadata.name"
        made = [one for one in template.expressions if one.place.path.startswith(prefix)]
        made += [iteration.key] if iteration is not None else []
        for expression in made:
            for path, _ in _read(expression, inside):
                if "metadata" in path and _CHANGING.intersection(path):
                    field = next(step for step in path if step in _CHANGING)
                    message = f"{field} changes by itself: a name that is made of it is a new object in each pass"
                    self.findings.problem(expression.place.path, message)

    def _warn_of_volatile(self, entry: Entry, include: Sequence[BoxExpression], others: Variables) -> None:
        for at, expression in enumerate(include):
            if any("status" in path[1:3] for path, _ in _read(expression, others)):
                kind = self.kinds[entry.id].kind.kind
                message = f"includeWhen reads a status: the {kind} comes and goes with it; `when` would hold instead"
                self.findings.warning(index(f"{entry.path}.includeWhen", at), message)

    def _check_twice(self) -> None:
        """Two resources that write one object would fight for it."""
        seen: dict[tuple[str, ...], Entry] = {}
        for entry in self.living:
            raw = entry.resource.template
            named = [get_path(raw, "metadata", part) for part in ("namespace", "name")]
            if entry.resource.for_each is not None or not isinstance(named[1], str):
                continue
            key = (str(raw.get("apiVersion")), str(raw.get("kind")), str(named[0]), named[1])
            if key in seen:
                message = f"is the object that {seen[key].id} writes already: give it another name"
                self.findings.problem(f"{entry.template_path}.metadata.name", message)
            seen.setdefault(key, entry)

    # --- externals ----------------------------------------------------------------------------------------------------

    def _external(self, at: int, external: BoxExternal) -> ExternalNode | None:
        known, path = self.kinds.get(external.id), index("spec.externals", at)
        if known is None:
            return None
        of_self = self.variables.only("self")
        unknown = [name for name in external.metadata if name not in ("name", "namespace")]
        for field in unknown:
            self.findings.problem(f"{path}.metadata", f"{field}: an external is found by name and namespace alone")
        if "name" not in external.metadata:
            self.findings.problem(f"{path}.metadata", "name is required")
        name = self.template(external.metadata, f"{path}.metadata", of_self, wanted=STRING)
        taint = Taint.SECRET if _is_secret(known.kind) else Taint.CLEAN
        own = self.variables.with_variable(external.id, known.type, taint)
        ready = self._conditions(external.ready_when, f"{path}.readyWhen", own)
        return ExternalNode(
            id=external.id,
            kind=known.kind,
            place=self.findings.place(path),
            name=name,
            schema=known.schema,
            ready=ready,
            selector=external.selector,
            watch=not _is_secret(known.kind) if external.watch is None else external.watch,
        )

    def _with_fields(self, at: int, external: ExternalNode, read: Iterable[VariablePath]) -> ExternalNode:
        said = self.model.spec.externals[at]
        below = {_field_path(one[1:]) for one in read if one[0] == external.id}
        self._check_fields(said, index("spec.externals", at), below)
        return attrs.evolve(external, fields=tuple(sorted({*below, *(tuple(one.split(".")) for one in said.fields)})))

    def _check_fields(self, external: BoxExternal, path: str, read: Iterable[VariablePath]) -> None:
        if not external.fields:
            return
        allowed = [tuple(field.split(".")) for field in external.fields]
        for one in read:
            if one[:1] != ("metadata",) and not any(one[: len(prefix)] == prefix for prefix in allowed):
                message = f"an expression reads {'.'.join(one) or 'all of it'}, which is not listed here"
                self.findings.problem(f"{path}.fields", message)


# --- what the file names ----------------------------------------------------------------------------------------------


def _unique(entries: tuple[Entry, ...], model: OperatorBox, findings: Findings) -> tuple[Entry, ...]:
    """Every id once; what has the id of something else is told and left out."""
    named = [(external.id, index("spec.externals", at)) for at, external in enumerate(model.spec.externals)]
    seen: dict[str, str] = {}
    kept: list[Entry] = []
    for name, path in named:
        _take(name, path, seen, findings)
    for entry in entries:
        if _take(entry.id, entry.path, seen, findings):
            kept.append(entry)
    if not kept and not named:
        findings.problem("spec", "has neither resources nor phases: there is nothing to do")
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


def _targets(entries: Iterable[Entry], model: OperatorBox) -> Mapping[str, Target]:
    found = {
        entry.id: Target(entry.resource.template, is_list=entry.resource.for_each is not None) for entry in entries
    }
    return {**found, **{external.id: Target() for external in model.spec.externals}}


def _take(name: str, path: str, seen: dict[str, str], findings: Findings) -> bool:
    if name in _TAKEN:
        findings.problem(f"{path}.id", f"{name} has a meaning of its own in expressions: choose another id")
        return False
    if name in seen:
        findings.problem(f"{path}.id", f"{name} is the id of {seen[name]} already")
        return False
    seen[name] = path
    return True


def _kinds(
    entries: Sequence[Entry], model: OperatorBox, schemas: Schemas, findings: Findings
) -> Mapping[str, KnownKind]:
    known_kinds: dict[str, KnownKind] = {}
    wanted: list[tuple[str, Mapping[str, Any], str]] = [
        (entry.id, entry.resource.template, entry.template_path) for entry in entries
    ]
    for at, external in enumerate(model.spec.externals):
        said = {"apiVersion": external.api_version, "kind": external.kind}
        wanted.append((external.id, said, index("spec.externals", at)))
    for name, raw, path in wanted:
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


def _variables(
    living: Sequence[Entry],
    model: OperatorBox,
    kinds: Mapping[str, KnownKind],
    children: Children,
    parent: KnownKind,
) -> Variables:
    types: dict[str, CelType] = {"self": parent.type}
    for entry in living:
        kind = kinds[entry.id].type if entry.id in kinds else DYN
        types[entry.id] = list_of(kind) if entry.resource.for_each is not None else kind
    for external in model.spec.externals:
        types[external.id] = kinds[external.id].type if external.id in kinds else DYN
    secrets = {name for name, known in kinds.items() if _is_secret(known.kind)}
    lists = {name for name, ids in children.lists.items() if secrets.intersection(ids)}
    return Variables(types, dict.fromkeys((*secrets, *lists), Taint.SECRET))


def _schemas(kinds: Mapping[str, KnownKind], parent: KnownKind) -> Mapping[str, Schema]:
    found = {name: known.schema for name, known in kinds.items() if known.schema is not None}
    return {**found, **({"self": parent.schema} if parent.schema is not None else {})}


def _is_secret(kind: Kind) -> bool:
    return (kind.api_version, kind.kind) == SECRET


def _apply_mode(entry: Entry) -> ApplyMode:
    if entry.resource.apply is not None:
        return entry.resource.apply
    once = entry.phase is not None and entry.phase.on is PhaseOn.CREATE and not entry.resource.reconcile
    return ApplyMode.ONCE if once else ApplyMode.ALWAYS


def _is_own_namespace(value: Any) -> bool:
    try:
        piece = whole(value) if isinstance(value, str) else None
    except CelSyntaxError:
        return True  # told elsewhere
    return piece is not None and "".join(piece.text.split()) == "self.metadata.namespace"


def _as_template(schema: Schema, resource: BoxResource) -> Schema:
    """What a template has to say: fields that are drawn need not be there, and the status is no part of it."""
    drawn = {field.path.partition(".")[0] for field in resource.generate.fields}
    required = tuple(
        name for name in schema.required if name not in (*drawn, "metadata", "apiVersion", "kind", "status")
    )
    return attrs.evolve(schema, required=required)


def _text_at(raw: Any, path: str, root: str) -> str:
    """The text of a template at a path, as far as it can be found again."""
    below = path.removeprefix(root)
    for step in re.findall(r"\[(\d+)\]|\['([^']*)'\]|\.([^.\[]+)", below):
        number, quoted, plain = step
        key: Any = int(number) if number else quoted or plain
        raw = get_path(raw, key)
    return raw if isinstance(raw, str) else ""


def _read(expression: BoxExpression, variables: Variables) -> Iterator[tuple[VariablePath, bool]]:
    checked = expression.program.checked
    return iter(()) if checked is None else variables.places_of(checked)


def _paths(expression: BoxExpression, variables: Variables) -> Iterator[VariablePath]:
    return (path for path, _ in _read(expression, variables))


def _list_place(items: BoxExpression, variables: Variables) -> VariablePath | None:
    """The place that an expression is, where it is nothing else."""
    reads = list(_paths(items, variables))
    tree = items.program.tree
    return reads[0] if len(reads) == 1 and not hasattr(tree, "arguments") and not hasattr(tree, "body") else None


def _field_path(path: VariablePath) -> VariablePath:
    """A path as far as caches can keep it: down to the first list."""
    return path[: path.index(ITEM)] if ITEM in path else path


def _descendants(reads: Mapping[str, Sequence[VariablePath]]) -> Mapping[str, set[str]]:
    """For each id what its template is made of, near and far."""
    direct = {name: {path[0] for path in paths if path[0] in reads} for name, paths in reads.items()}
    found: dict[str, set[str]] = {}
    for name in direct:
        seen, open_ = set[str](), [name]
        while open_:
            for other in direct.get(open_.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    open_.append(other)
        found[name] = seen
    return found


def _within(nodes: Sequence[BoxNode], known: set[str]) -> list[BoxNode]:
    return [attrs.evolve(node, edges=tuple(edge for edge in node.edges if edge.to in known)) for node in nodes]


def _stand_in(name: str, edges: Sequence[Edge], roll_on: Sequence[str]) -> Node:
    """A node for the order alone."""
    kind = Kind("", "v1", "Order", "orders")
    return Node(name, kind, lambda scope: Rendered(), tuple(edges), roll_on=tuple(roll_on))


def _circle(path: Sequence[str]) -> str:
    """A long circle is cut in the middle: who opens it anywhere has opened it."""
    if len(path) > _LONGEST_CIRCLE:
        path = (*path[: _LONGEST_CIRCLE - 2], f"({len(path) - _LONGEST_CIRCLE + 1} more)", path[-1])
    return " → ".join(path)


def _no_such(name: str, names: Iterable[str]) -> str:
    near = get_close_matches(name, sorted(names), 1)
    hint = f"did you mean {near[0]}?" if near else listed(names)
    return f"there is no resource, external or phase {name}: {hint}"
