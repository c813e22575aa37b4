"""The compilation of a box's resources: kinds, templates, `when` conditions, and what they wait for (PH-4 to PH-6)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from purekube.apimachinery.formats import DNS_SUBDOMAIN, matches, quoted
from purekube.apimachinery.manifest import get_path
from purekube.apimachinery.problems import index
from purekube.boxes.box import BoxNode, ExternalNode, Iteration, StatusCondition
from purekube.boxes.compiler.children import ChildNames, list_name
from purekube.boxes.compiler.entries import (
    TAKEN,
    Entry,
    Externals,
    apply_mode,
    entries_of,
    is_secret,
    is_worked_out,
    kinds_of,
    stays_at_home,
    targets_of,
    unique,
    variables_of,
)
from purekube.boxes.compiler.form_checks import FormChecks
from purekube.boxes.compiler.impersonation import ImpersonationRules
from purekube.boxes.compiler.ordering import Target, descendants, inferred, known_nodes, ordered
from purekube.boxes.compiler.scoping import ExpressionCompiler, Variables, paths_of, read_by
from purekube.boxes.compiler.taint import TRUSTED, taint_of
from purekube.boxes.compiler.template_compiler import TemplateCompiler
from purekube.boxes.compiler.when_entries import WhenEntries
from purekube.boxes.expressions import BoxExpression
from purekube.boxes.model import ApplyMode, BoxResource, Dependency, OperatorBox
from purekube.boxes.read import Findings, no_such
from purekube.boxes.schemas import CrdVersions, KnownKind, Schemas
from purekube.boxes.templates import Template
from purekube.cel import DYN, ITEM, STRING, CelType, VariablePath, list_of
from purekube.composites.composite import SecretUse
from purekube.graph.node import Edge, Until
from purekube.schema.node import Schema


@attrs.frozen(eq=False)
class Resources:
    """A compiler for the resources of one box, which makes a BoxNode of each."""

    model: OperatorBox
    findings: Findings
    entries: tuple[Entry, ...]
    kinds: Mapping[str, KnownKind]
    """The known kinds of resources and externals, by the id of the resource or external."""
    parent: KnownKind
    children: ChildNames
    variables: Variables
    """The variables that expressions of the parent's status may read, with their types."""
    templates: TemplateCompiler
    gating: WhenEntries
    forms: FormChecks
    deputies: ImpersonationRules
    targets: Mapping[str, Target]
    """The resources and externals on which a resource may depend, by id."""
    reads: dict[str, list[VariablePath]] = attrs.field(factory=dict)
    """The paths that the template, `includeWhen` and `forEach` of each resource read, by the resource's id."""

    @classmethod
    def of(cls, model: OperatorBox, crd: CrdVersions, schemas: Schemas, findings: Findings) -> "Resources":
        """Return the compiler for the resources of `model`.

        `crd` is the CRD of the box's kind. `schemas` has the other kinds that resources may have. Problems are added to
        `findings`.
        """
        entries = unique(tuple(entries_of(model)), model, findings)
        kinds = kinds_of(entries, model, schemas, findings)
        living = [entry for entry in entries if entry.drain is None]
        children = ChildNames.of((entry.id, kinds[entry.id].kind.kind) for entry in living if entry.id in kinds)
        variables = variables_of(living, model, kinds, children, crd.stored)
        lists = {list_name(kind): list_of(kinds[ids[0]].type) for kind, ids in children.by_kind.items()}
        expressions = ExpressionCompiler(findings, children, lists, crd.where)
        gating = WhenEntries(expressions, _schemas(kinds, crd.stored))
        targets = targets_of(entries, model)
        templates = TemplateCompiler(findings, expressions)
        names = (*(entry.id for entry in living), *(external.id for external in model.spec.externals))
        forms = FormChecks(findings, crd.stored.kind, frozenset(names))
        deputies = ImpersonationRules(findings, crd.stored.kind, frozenset(model.spec.trust_parents))
        known = (kinds, crd.stored, children, variables)
        return cls(model, findings, entries, *known, templates, gating, forms, deputies, targets)

    @property
    def expressions(self) -> ExpressionCompiler:
        """The compiler for the CEL expressions of these resources, in templates and elsewhere."""
        return self.templates.expressions

    @property
    def _externals(self) -> list[str]:
        return list(dict.fromkeys(external.id for external in self.model.spec.externals))

    @property
    def living(self) -> tuple[Entry, ...]:
        """The resources that exist as long as the parent (object of the box's kind) does.

        Resources that run before a deletion are excluded.
        """
        return tuple(entry for entry in self.entries if entry.drain is None)

    # --- nodes --------------------------------------------------------------------------------------------------------

    def compiled(self) -> tuple[BoxNode, ...]:
        """Return the compiled resources in topological order, each with its wave (depth in the graph). If there is a
        cycle, they are in the order of the file.
        """
        self.forms.check_twice(self.living)
        nodes = [node for entry in self.living if (node := self._node(entry, self.variables)) is not None]
        return ordered(nodes, self._externals, self.findings)

    def drained(self) -> tuple[tuple[BoxNode, ...], ...]:
        """Return the compiled resources that run before a deletion, in one tuple per deletion phase.

        Expressions of these resources read only the parent (object of the box's kind) and other such resources.
        """
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
        return tuple(ordered(known_nodes(nodes, known), (), self.findings) for _, nodes in sorted(phases.items()))

    def observed(self) -> tuple[ExternalNode, ...]:
        """Return the externals (objects that the box only reads) with the paths that expressions read in each.

        Call this method after all other parts are compiled, because only then are all expressions known.
        """
        externals = Externals(self.model.spec.externals, self.kinds, self.variables, self.templates, self.deputies)
        found = externals.compiled()
        read = [path for paths in self.reads.values() for path in paths]
        read += [path for made in self.expressions.made for path in paths_of(made, self.variables)]
        return tuple(
            externals.with_fields(at, external, read) for at, external in enumerate(found) if external is not None
        )

    def account(self) -> Template | None:
        """Return the template of the ServiceAccount that acts for a parent (object of the box's kind).

        Return None if the box uses its own rights.
        """
        text, path = self.model.spec.service_account_name, "spec.serviceAccountName"
        if not text:
            return None
        if not self.parent.kind.namespaced:
            self.findings.problem(path, f"{self.parent.kind.kind} has no namespace in which an account could be")
        template = self.templates.template(text, path, self.variables.only("self"), wanted=STRING)
        if not template.expressions and not matches(DNS_SUBDOMAIN, text):
            self.findings.problem(path, f"{quoted(text)} is no name of a ServiceAccount")
        return template

    def use_of_secrets(self) -> SecretUse:
        """Return which part of the Secrets that the box creates must be read from the cluster.

        Call this method after all other parts are compiled, because only then are all expressions known.
        """
        secrets = [entry for entry in self.entries if entry.id in self.kinds and is_secret(self.kinds[entry.id].kind)]
        names = {secret.id for secret in secrets}
        names |= {name for name, ids in self.children.lists.items() if names.intersection(ids)}
        paths = (path for made in self.expressions.made for path in paths_of(made, self.variables))
        read = {next((step for step in path[1:] if step != ITEM), "") for path in paths if path[0] in names}
        if any(apply_mode(secret) is ApplyMode.ALWAYS for secret in secrets) or read - {"metadata", "type"}:
            return SecretUse.CONTENT
        return SecretUse.TYPE if "type" in read else SecretUse.METADATA

    def _type(self, entry: Entry) -> CelType:
        known = self.kinds.get(entry.id)
        kind = DYN if known is None else known.type
        return list_of(kind) if entry.resource.for_each is not None else kind

    def _node(self, entry: Entry, seen: Variables) -> BoxNode | None:
        known = self.kinds.get(entry.id)
        if known is None:
            return None
        resource, others = entry.resource, seen.making(entry.id)
        include = self.templates.conditions(resource.include_when, f"{entry.path}.includeWhen", others)
        seen, others = seen.given(include), others.given(include)
        iteration, inside = self._iteration(entry, others)
        template = self._template(entry, known, inside)
        ready = self._ready(entry, known, seen, inside)
        gates = self.gating.when_conditions_of(entry.phase, entry.phase_path, resource, entry.path, seen)
        self.forms.check_form(entry, known.kind)
        self.forms.check_name(entry, template, inside, iteration)
        self.forms.warn_of_volatile(entry, known.kind, include, others)
        return BoxNode(
            id=entry.id,
            kind=known.kind,
            place=self.findings.place(entry.path),
            template=template,
            asks_namespace=is_worked_out(get_path(entry.resource.template, "metadata", "namespace")),
            phase=entry.phase.name if entry.phase is not None else "",
            schema=known.schema,
            iteration=iteration,
            include=include,
            when_conditions=gates,
            ready=ready,
            readiness=resource.readiness,
            edges=self._edges(entry, template, include, iteration, inside, others),
            apply=apply_mode(entry),
            on_delete=resource.on_delete,
            prune=resource.prune,
            on_immutable=resource.on_immutable,
            owner=resource.owner,
            generate=resource.generate.fields,
            roll_on=resource.roll_on,
        )

    # --- expressions of a resource ------------------------------------------------------------------------------------

    def _iteration(self, entry: Entry, others: Variables) -> tuple[Iteration | None, Variables]:
        """Compile the `forEach` of a resource, which makes one object for each item of a list.

        Return a pair: the compiled `forEach`, None if it is absent or invalid, and the variables that the resource's
        templates may read.
        """
        each, path = entry.resource.for_each, f"{entry.path}.forEach"
        if each is None:
            return None, others
        items = self.templates.whole(each.items, f"{path}.{each.variable}", others)
        item, alias, certain = DYN, None, others.certain
        if items is not None:
            given = items.program.type
            if given.name not in ("list", "dyn"):
                self.findings.problem(f"{path}.{each.variable}", f"must give a list, not {given}")
            item = given.item if given.name == "list" else DYN
            roots = [read for read, _ in read_by(items, others)]
            if all(root[0] in others.certain for root in roots):
                certain = certain | {each.variable}
            alias = _list_place(items, others)
        if each.variable in TAKEN or each.variable in self.variables.types:
            self.findings.problem(path, f"the variable {each.variable} has the name of something else: choose another")
        taint = TRUSTED if items is None else taint_of(items.program.tree, others.taints).item
        inside = others.with_variable(each.variable, item, taint)
        aliases = {**others.aliases, **({each.variable: (*alias, ITEM)} if alias is not None else {})}
        inside = attrs.evolve(inside, certain=certain, aliases=aliases)
        key = self.templates.whole(each.key, f"{path}.key", inside, STRING)
        if items is None or key is None:
            return None, inside
        return Iteration(each.variable, items, key), inside

    def _ready(self, entry: Entry, known: KnownKind, seen: Variables, inside: Variables) -> tuple[BoxExpression, ...]:
        """Compile the conditions `readyWhen` of a resource. In a resource with `forEach`, the resource's id means the
        single item.
        """
        item = attrs.evolve(seen.taints[entry.id], listed=False)
        own = attrs.evolve(inside, types={**seen.types, **inside.types}).with_variable(entry.id, known.type, item)
        return self.templates.conditions(entry.resource.ready_when, f"{entry.path}.readyWhen", own)

    def _template(self, entry: Entry, known: KnownKind, inside: Variables) -> Template:
        raw, path = entry.resource.template, entry.template_path
        below = (f"{path}.data", f"{path}.stringData") if is_secret(known.kind) else ()
        schema = known.schema
        if schema is not None:
            schema = _as_template(schema, entry.resource)
        elsewhere = known.kind.namespaced and not stays_at_home(get_path(raw, "metadata", "namespace"))
        judge = self.deputies.of(known.kind, path, elsewhere=elsewhere).judge
        return self.templates.template(raw, path, inside, schema=schema, secret_below=below, judge=judge)

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
            self.reads.setdefault(entry.id, []).extend(path for path, _ in read_by(expression, variables))
            for edge in inferred(read_by(expression, variables), self.targets, self.children.lists, expression.place):
                found.setdefault(edge)
        for edge in self._declared(entry):
            found.setdefault(edge)
        return tuple(found)

    def _declared(self, entry: Entry) -> Iterator[Edge]:
        yield from self._dependencies(entry, entry.resource.depends_on, f"{entry.path}.dependsOn")
        if entry.phase is not None:
            yield from self._dependencies(entry, entry.phase.depends_on, f"{entry.phase_path}.dependsOn")

    def _dependencies(self, entry: Entry, dependencies: Sequence[Dependency], path: str) -> Iterator[Edge]:
        phases = {phase.name: [resource.id for resource in phase.resources] for phase in self.model.spec.phases}
        pool = {one.id for one in self.entries if (one.drain is None) == (entry.drain is None)}
        if entry.drain is None:
            pool.update(self._externals)
        for at, dependency in enumerate(dependencies):
            where = index(path, at)
            ids = [dependency.id] if dependency.id in pool else phases.get(dependency.id)
            if ids is None or not pool.issuperset(ids):
                self.findings.problem(where, no_such(dependency.id, {*pool, *phases}))
                continue
            place = self.findings.place(where)
            if entry.id in ids and dependency.id == entry.id:
                self.findings.problem(where, f"{entry.id} cannot wait for itself")
            yield from (Edge(to, Until[dependency.until.name], place, declared=True) for to in ids if to != entry.id)

    def check_status_circles(self, fields: Mapping[str, Template], conditions: Sequence[StatusCondition]) -> None:
        """Report each resource, status field or condition that reads a value computed from itself: it would change
        forever.
        """
        self._check_status_itself(fields, conditions)
        made_of = {
            name: {path[0] for made in template.expressions for path in paths_of(made, self.variables)}
            for name, template in fields.items()
        }
        below = descendants(self.reads)
        for entry in self.entries:
            for path in self.reads.get(entry.id, ()):
                name = path[2] if path[:2] == ("self", "status") and len(path) > 2 else ""
                sources = {
                    root for source in made_of.get(name, ()) for root in self.children.lists.get(source, (source,))
                }
                if any(entry.id == source or entry.id in below.get(source, ()) for source in sources):
                    message = f"reads self.status.{name}, which is made of {entry.id} itself: it would never settle"
                    self.findings.problem(entry.template_path, message)

    def _check_status_itself(self, fields: Mapping[str, Template], conditions: Sequence[StatusCondition]) -> None:
        said = {name: template.expressions for name, template in fields.items()}
        said["conditions"] = tuple(
            made
            for condition in conditions
            for made in (condition.status, *condition.reason.expressions, *condition.message.expressions)
        )
        reads = {
            name: {field for made in texts for field in self._own_status(made, said)} for name, texts in said.items()
        }
        for name, read in reads.items():
            if any(name == field or name in _reached(field, reads) for field in read):
                path = "spec.status.conditions" if name == "conditions" else f"spec.status.fields.{name}"
                shown = ", ".join(f"self.status.{field}" for field in sorted(read))
                self.findings.problem(path, f"reads {shown}, which is made of it: it would never settle")

    def _own_status(self, made: BoxExpression, own: Iterable[str]) -> Iterator[str]:
        """Yield the names of status fields that the expression `made` reads although the box itself writes them. `own`
        are the names of all status fields that the box writes.
        """
        for path in paths_of(made, self.variables):
            if path[:3] == ("self", "metadata", "resourceVersion") or path in (("self",), ("self", "status")):
                yield from own  # each write of the status changes it
            elif path[:2] == ("self", "status"):
                yield path[2]


def _reached(name: str, reads: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    pending = [name]
    while pending:
        new = reads.get(pending.pop(), set()) - found
        found |= new
        pending += new
    return found


def _schemas(kinds: Mapping[str, KnownKind], parent: KnownKind) -> Mapping[str, Schema]:
    found = {name: known.schema for name, known in kinds.items() if known.schema is not None}
    return {**found, **({"self": parent.schema} if parent.schema is not None else {})}


def _as_template(schema: Schema, resource: BoxResource) -> Schema:
    """Return `schema` changed for a template: generated fields, metadata and status are not required."""
    drawn = {field.path.partition(".")[0] for field in resource.generate.fields}
    required = tuple(
        name for name in schema.required if name not in (*drawn, "metadata", "apiVersion", "kind", "status")
    )
    return attrs.evolve(schema, required=required)


def _list_place(items: BoxExpression, variables: Variables) -> VariablePath | None:
    """Return the path if the expression `items` is only a path of fields (`self.spec.hosts`), otherwise None."""
    reads = list(paths_of(items, variables))
    tree = items.program.tree
    return reads[0] if len(reads) == 1 and not hasattr(tree, "arguments") and not hasattr(tree, "body") else None
