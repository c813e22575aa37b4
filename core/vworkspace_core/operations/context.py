"""The input of a decision about an Operation, and its read from the API server without a cache (REC-2, OPS-3)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import attrs

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from purekube.apimachinery.meta import is_abandoned
from purekube.apimachinery.names import bounded_name
from purekube.apimachinery.problems import ValidationProblems
from purekube.apimachinery.resources import NAMESPACE
from purekube.controller.decision import Snapshot
from purekube.controller.live_reads import LiveReads
from purekube.ports import KubeApi
from vworkspace_core.api.codec import read_operation
from vworkspace_core.api.kinds import OPERATION
from vworkspace_core.api.labels import cancellation_requested, cluster_id_of, is_managed, namespace_is_terminating
from vworkspace_core.api.operation import TERMINAL_PHASES, EngineRef, Operation, Phase
from vworkspace_core.operations.approvals import Claims
from vworkspace_core.operations.builtin import builtin_templates
from vworkspace_core.operations.contract import Engine, EngineContext, no_yaml
from vworkspace_core.operations.engines import ENGINES, engine_kinds
from vworkspace_core.operations.identity import name_of, target_of, target_ref
from vworkspace_core.operations.parameters import parameter_problems
from vworkspace_core.operations.settings import OperationSettings
from vworkspace_core.operations.templates import OperationTemplate, Templates


@attrs.frozen
class OperationObserved(Snapshot):
    """The cluster state on which a decision about an Operation is based.

    `objects` has the target (an ApplicationInstance), the engine object (such as a Job), and the objects that the
    engine's `looks_up` names. `siblings` are the other Operations on the same target; once the run has begun, they are
    read only for an Operation with a schedule. `missing_places` are the namespaces that the decision needs and that do
    not exist. `claims` has the data, such as a key, for checking approval claims (signed proofs that a person approved
    the Operation). The reconcile pass sets it after reading; before that it is None.
    """

    siblings: tuple[Operation, ...] = ()
    missing_places: frozenset[str] = frozenset()
    claims: Claims | None = attrs.field(default=None, repr=False)


@attrs.frozen
class OperationContext:
    """The input of an Operation's decision, except cluster state: settings, time, approvals, templates and engines."""

    settings: OperationSettings
    now: datetime
    claims: Claims = attrs.field(factory=Claims)
    templates: Templates = attrs.field(factory=builtin_templates)
    engines: Mapping[str, Engine] = ENGINES
    parse_yaml: Callable[[str], Any] = attrs.field(default=no_yaml, eq=False, repr=False)

    def engine_of(self, operation: Operation) -> Engine | None:
        """Return the engine that the Operation names, or None for an unknown name."""
        return self.engines.get(operation.spec.engine)

    def for_engine(self, observed: OperationObserved, template: OperationTemplate) -> EngineContext:
        """Return the input for the functions of the engine that `template` names, with the objects in `observed`.

        If the engine's own namespace does not exist, the kinds that the engine creates count as not installed.
        """
        missing, engine = observed.missing_kinds, self.engines.get(template.engine)
        if engine is not None and engine.namespace and engine.namespace(self.settings) in observed.missing_places:
            missing |= frozenset(engine.made_kinds)
        return EngineContext(
            self.settings,
            template,
            observed.objects,
            missing,
            self.parse_yaml,
            siblings=observed.siblings,
            holds_data=() if engine is None else engine.holds_data,
        )


def lookups(operation: Operation, context: OperationContext, target: Manifest | None) -> Iterator[ObjectRef]:
    """Yield the objects that a decision about `operation` reads, except its namespace, target and siblings.

    `context` has the engines, the templates and the settings, and `target` is the ApplicationInstance on which the
    Operation acts, None if it does not exist. Once the run has ended or its engine object (such as a Job) is known,
    only the engine object is read.
    """
    engine, known = context.engine_of(operation), operation.status.engine_ref
    if known is not None and (recorded := _recorded_kind(known, context)):
        yield ObjectRef(recorded, known.namespace, known.name)
    if engine is None or operation.status.phase in TERMINAL_PHASES or (known is not None and known.uid):
        return
    for kind in engine.kinds(operation):
        place = engine.place(operation, context.settings)
        if place != operation.metadata.namespace:
            yield ObjectRef(NAMESPACE, None, place)
        yield ObjectRef(kind, place, name_of(operation))
    template = context.templates.find(operation.spec.type, operation.spec.engine)
    instance = target_of(operation, {} if target is None else {target_ref(operation): target})
    if instance is not None and template is not None and not parameter_problems(operation, template):
        yield from engine.looks_up(operation, instance, context.settings)


def _recorded_kind(known: EngineRef, context: OperationContext) -> Kind | None:
    """Return the kind of the engine object (such as a Job) that the Operation's status names (`known`).

    Return None if no engine creates that kind. All engines are searched, because this version of the operator may not
    know the Operation's own engine.
    """
    kinds = engine_kinds(context.engines)
    return next((kind for kind in kinds if (kind.api_version, kind.kind) == (known.api_version, known.kind)), None)


def operations_on(target: ObjectRef, manifests: Iterable[Manifest], cluster_id: str) -> Iterator[Operation]:
    """Yield the well-formed Operations among `manifests` on `target` for which this operator is responsible.

    These are the managed Operations whose cluster label is `cluster_id`. A run that has begun counts even if the label
    has changed since.
    """
    for manifest in manifests:
        try:
            operation = read_operation(manifest)
        except ValidationProblems:
            continue
        here = cluster_id_of(operation.metadata) == bounded_name(cluster_id) or operation.status.started_at is not None
        if is_managed(operation.metadata) and here and target_ref(operation) == target:
            yield operation


def siblings_of(operation: Operation, manifests: Iterable[Manifest], context: OperationContext) -> Iterator[Operation]:
    """Yield the other Operations among `manifests` on the same target for which this operator is responsible.

    `context` has the id of the operator's cluster.
    """
    for other in operations_on(target_ref(operation), manifests, context.settings.cluster_id):
        if other.metadata.uid != operation.metadata.uid:
            yield other


async def siblings_live(api: KubeApi, operation: Operation, context: OperationContext) -> tuple[Operation, ...]:
    """List the other Operations on the same target from the API server.

    The list is expensive, since ended Operations are kept for years. A run that has begun needs no siblings, although
    it is reconciled every few seconds, and an Operation that waits takes them from the cache.
    """
    items = (await api.list(OPERATION, namespace=operation.metadata.namespace)).items
    return tuple(siblings_of(operation, items, context))


def needs_siblings(operation: Operation, context: OperationContext) -> bool:
    """Report whether the decision about a run that has begun depends on the other Operations on its target."""
    engine = context.engine_of(operation)
    return operation.status.phase is Phase.RUNNING and engine is not None and engine.recurring(operation)


def may_start(operation: Operation) -> bool:
    """Report whether the Operation has not started, and is neither cancelled nor being deleted."""
    meta = operation.metadata
    stopped = meta.deletion_timestamp is not None or cancellation_requested(meta)
    return operation.status.phase in (None, Phase.PENDING) and not stopped


async def observe_operation_live(
    api: KubeApi,
    operation: Operation,
    context: OperationContext,
    not_served: Iterable[Kind] = (),
    known: Iterable[Manifest] | None = None,
) -> OperationObserved:
    """Read everything that a decision about `operation` needs from the API server, without a cache.

    `known` are the Operations of its namespace, if they need not be listed.

    Objects of the kinds in `not_served` or in missing namespaces are not read: without rights on them, the API server
    would answer Forbidden instead of NotFound.
    Raises the errors of `KubeApi.get` and `KubeApi.list`.
    """
    meta = operation.metadata
    reading = LiveReads(api, missing=set(not_served))
    # What may not be read must not hold an Operation that its owner has given up.
    reading.lenient = meta.deletion_timestamp is not None and is_abandoned(meta)
    namespace = await reading.get(ObjectRef(NAMESPACE, None, meta.namespace))
    reading.lenient = reading.lenient or namespace_is_terminating(namespace)
    await reading.add(target_ref(operation))
    target = reading.objects.get(target_ref(operation))
    missing_places: set[str | None] = set()
    for lookup in dict.fromkeys(lookups(operation, context, target)):
        if lookup.kind in reading.missing or lookup.namespace in missing_places:
            continue
        await reading.add(lookup)
        if lookup.kind == NAMESPACE and lookup not in reading.objects:
            missing_places.add(lookup.name)
    engine = context.engine_of(operation)
    for ref in () if engine is None else engine.extra_reads(operation, reading.objects):
        await reading.add(ref)
    for listing in () if engine is None else engine.diagnostics(operation, reading.objects):
        await reading.add_selected(
            listing.kind,
            listing.namespace,
            label_selector=listing.label_selector,
            field_selector=listing.field_selector,
            limit=listing.limit,
        )
    siblings = () if known is None else tuple(siblings_of(operation, known, context))
    if known is None and (may_start(operation) or needs_siblings(operation, context)):
        siblings = await siblings_live(api, operation, context)
    places = frozenset(filter(None, missing_places))
    return OperationObserved(
        namespace, reading.objects, frozenset(reading.missing), siblings=siblings, missing_places=places
    )
