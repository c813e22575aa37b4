"""The decision (what to write) about one object of a box's kind (PH-1 to PH-6), and its controller's rights (RUN-7)."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import lru_cache, partial
from typing import Final

import attrs

from purekube.apimachinery.definitions import BOX_NAME
from purekube.apimachinery.formats import DNS_SUBDOMAIN, matches
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import SERVICE_ACCOUNT, Access
from purekube.boxes.box import MARKS, Box, BoxNode, ExternalNode, finalizer_named
from purekube.boxes.decision.evaluation import Evaluation, report, together, with_faults
from purekube.boxes.decision.nodes import drains_of, external_name, graph_of
from purekube.boxes.expressions import ExpressionFailure
from purekube.boxes.model import ApplyMode, OwnerMode
from purekube.boxes.rollout_policy import DeletionPolicy
from purekube.boxes.templates import Template
from purekube.composites.composite import Composite, Explanation
from purekube.composites.decisions import (
    is_in_scope,
    missing_account,
    orphan_children,
    orphans_children,
    out_of_scope,
    reconcile_children,
    tear_down,
    with_status,
)
from purekube.composites.parent import Parent
from purekube.composites.rights import CompositeAccess, child_rights, owner_access, parent_rights, shared_access
from purekube.controller.decision import Decision, Snapshot
from purekube.graph.account import conditions_of
from purekube.graph.node import OnImmutable, Removal
from purekube.graph.plan import plan
from purekube.graph.teardown import Hooks

_LONGEST_NAME: Final = 253


@lru_cache(maxsize=256)
def composite_of(box: Box) -> Composite:
    """Return the box as a `Composite`, the description of a parent kind that a controller runs."""
    return Composite(
        name=box.name,
        word="box",
        controller=f"box-{box.name}",
        kind=box.kind,
        manager=box.field_manager,
        finalizer=finalizer_named(box.name),
        marks=MARKS,
        labels={"app.kubernetes.io/managed-by": "vworkspace-box", BOX_NAME: box.name},
        selector=f"{BOX_NAME}={box.name}",
        child_kinds=box.child_kinds,
        fields=tuple(box.status_fields),
        decide=lambda parent, observed, now: decide(box, parent, observed, now),
        external_refs=lambda parent: external_refs(box, parent),
        role_command=f"vworkspace-operator box rbac {box.name}.yaml",
        conditions=tuple(condition.type for condition in box.conditions),
        externals=box.externals,
        anywhere=frozenset(node.kind for node in box.all_nodes if node.owner is OwnerMode.LABEL),
        namespaces=box.namespaces,
        asks_namespaces=box.asks_namespaces,
        secrets=box.secrets,
        references=not box.strict_order,
        resync=box.resync,
        rounds=max(graph_of(box).depth, drains_of(box).depth) + 3,
        explain=lambda parent, observed, now: explanation_of(box, parent, observed, now),
        account=None if box.account is None else partial(account_of, box, box.account),
    )


def account_of(box: Box, name: Template, parent: Parent) -> ObjectRef | None:
    """Return the ServiceAccount as which the children of `parent` (an object of the box's kind) are read and written.

    It is in the parent's namespace. Return None if the template `name` renders to no valid name.
    """
    try:
        text = Evaluation(box, parent.manifest).render(name, {"self": parent.manifest})
    except ExpressionFailure:
        return None
    is_name = isinstance(text, str) and len(text) <= _LONGEST_NAME and matches(DNS_SUBDOMAIN, text)
    return ObjectRef(SERVICE_ACCOUNT, parent.namespace, text) if is_name else None


def external_refs(box: Box, parent: Parent) -> Iterator[tuple[ExternalNode, ObjectRef]]:
    """Yield the externals (objects that the box only reads) of one parent, each with the reference of its object.

    A parent is an object of the box's kind. An external whose name cannot be evaluated yet is left out, and so is one
    whose `includeWhen` does not hold.
    """
    evaluation = Evaluation(box, parent.manifest)
    for external in box.externals:
        if together(external.include)(evaluation.scope(), {}) is not True:
            continue
        try:
            found = external_name(evaluation, external)
        except ExpressionFailure:
            continue
        if found is not None:
            yield external, ObjectRef(external.kind, *found)


def explanation_of(box: Box, parent: Parent, observed: Snapshot, now: datetime) -> Explanation:
    """Return the plan for one parent (object of the box's kind), with the state and `when` gates (conditions for
    writes) of each resource.

    It serves to explain the plan to people.
    """
    evaluation = Evaluation(box, parent.manifest, now, observed)
    found = plan(graph_of(box), composite_of(box).owner_of(parent), observed, evaluation.scope())
    gates = {node.id: tuple(gate.shown for gate in node.when_conditions) for node in box.nodes}
    return Explanation(graph_of(box), found, gates, {node.id: node.phase for node in box.nodes})


def decide(box: Box, parent: Parent, observed: Snapshot, now: datetime) -> Decision:
    """Return what to write for `parent`, an object of the box's kind: its children, its status and its finalizer.

    The decision depends on the observed objects and the time.
    """
    composite = composite_of(box)
    going = parent.metadata.deletion_timestamp is not None
    if going and composite.finalizer not in parent.metadata.finalizers:
        return Decision()
    if not going and not is_in_scope(composite, observed):
        return out_of_scope(composite, parent, now)
    account = composite.account_of(parent)
    if box.account is not None and account is None:
        return missing_account(composite, parent, box.account.raw, now)
    chosen = _terminating if going else _decide_present
    return attrs.evolve(chosen(box, composite, parent, observed, now), account=account)


def _decide_present(box: Box, composite: Composite, parent: Parent, observed: Snapshot, now: datetime) -> Decision:
    evaluation = Evaluation(box, parent.manifest, now, observed)
    found = plan(graph_of(box), composite.owner_of(parent), observed, evaluation.scope())
    reported = report(box, evaluation, found.scope)
    decision = reconcile_children(composite, parent, observed, found)
    requeue = decision.requeue.no_later_than(_seconds_until(evaluation.due, now))
    desired = with_faults((*conditions_of(found), *reported.conditions), reported.faults)
    decision = attrs.evolve(decision, requeue=requeue)
    return with_status(decision, composite, parent, observed, desired, reported.fields, now)


def _seconds_until(due: datetime | None, now: datetime) -> float | None:
    return None if due is None else (due - now).total_seconds()


def _terminating(box: Box, composite: Composite, parent: Parent, observed: Snapshot, now: datetime) -> Decision:
    if orphans_children(parent):
        return orphan_children(composite, parent, observed, now)
    evaluation = Evaluation(box, parent.manifest, now, observed)
    hooks = Hooks(drains_of(box), evaluation.scope()) if box.drains else None
    return tear_down(composite, parent, observed, hooks, now, lambda: _seconds_until(evaluation.due, now))


def access_of(boxes: Iterable[Box]) -> CompositeAccess:
    """Return the rights that the controllers of all `boxes` need together."""
    boxes = tuple(boxes)
    everywhere = [*shared_access(map(composite_of, boxes))]
    tenant: list[Access] = []
    for box in boxes:
        composite = composite_of(box)
        everywhere += parent_rights(composite, near=False)
        tenant += parent_rights(composite, near=True)
        if box.model.spec.deletion_policy is DeletionPolicy.DELETE:
            (tenant if box.kind.namespaced else everywhere).append(Access(box.kind, ("delete",)))
        if box.account is not None:
            name = "" if box.account.expressions else box.account.raw
            tenant.append(Access(SERVICE_ACCOUNT, ("impersonate",), name=name))
            continue
        for node in box.all_nodes:
            (tenant if composite.is_near(node.kind) else everywhere).append(Access(node.kind, _changed(node)))
    return CompositeAccess(tuple(everywhere), tuple(tenant))


def access_of_account(box: Box) -> CompositeAccess:
    """Return the rights on children that the ServiceAccount of a parent (object of the box's kind) needs.

    The result matters only if the box acts through ServiceAccounts.
    """
    composite = composite_of(box)
    changed = [(composite.is_near(node.kind), Access(node.kind, _changed(node))) for node in box.all_nodes]
    everywhere = [*child_rights(composite, near=False), *(access for near, access in changed if not near)]
    tenant = [*child_rights(composite, near=True), *(access for near, access in changed if near)]
    return CompositeAccess(tuple(everywhere), tuple(tenant))


def _changed(node: BoxNode) -> tuple[str, ...]:
    """Return the RBAC verbs that are needed to create and change the objects of a resource. Server-side apply of a new
    object needs both create and patch.
    """
    verbs = ["get", "create"]
    if node.apply is not ApplyMode.IF_ABSENT or node.on_delete is Removal.ORPHAN:
        verbs.append("patch")
    if node.on_delete is Removal.DELETE or node.on_immutable is OnImmutable.RECREATE:
        verbs.append("delete")
    return tuple(verbs)


def owners(boxes: Iterable[Box]) -> Iterator[Access]:
    """Yield the RBAC rights that are needed to set `blockOwnerDeletion` in owner references. Clusters check these
    rights if the admission plugin OwnerReferencesPermissionEnforcement is enabled.
    """
    return owner_access(map(composite_of, boxes))
