"""The decision for one object of a pure reconciler (PH-1 to PH-3, PH-7).

Expected flow
    in a namespace that is not selected → report it; being deleted → run the nodes that the user's function
    `drain` returns, then remove the children wave by wave (by depth in the graph), then the finalizer; otherwise the
    user's main function is called, and the graph engine (`purekube.graph`) reconciles the nodes that it returns.
Guarantees
    Pure if the function is. If the function raises, returns an invalid answer, or the object cannot be read, nothing is
    applied and nothing is deleted, since the desired state is unknown. A teardown does not need the function.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from traceback import walk_tb
from typing import Any, Final, TypeVar

import attrs
import msgspec

from purekube.apimachinery.conditions import DELETING, DesiredCondition, progressing, stalled
from purekube.apimachinery.definitions import CONTROLLER_NAME
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, canonical_json, get_path, metadata
from purekube.apimachinery.meta import ConditionStatus
from purekube.apimachinery.resources import SECRET
from purekube.apimachinery.secret_material import safe
from purekube.composites.composite import Composite
from purekube.composites.decisions import (
    is_in_scope,
    orphan_children,
    orphans_children,
    out_of_scope,
    present_fields,
    reconcile_children,
    tear_down,
    with_status,
)
from purekube.composites.parent import MARKS, Parent, as_stored
from purekube.controller.decision import Decision, Fill, Requeue, Snapshot
from purekube.graph.account import conditions_of
from purekube.graph.node import ApplyPolicy, Edge, GraphNode, Hold, HoldCause, Item, Rendered, Scope
from purekube.graph.node_order import Graph, GraphError
from purekube.graph.plan import plan
from purekube.graph.teardown import Hooks
from purekube.reconcilers.desired import Children, Desired, Node, NodeOrId, Object, UnreadableObject
from purekube.reconcilers.pure import AnyPureReconciler, Read, without_secrets
from purekube.reconcilers.request import Terminal

T = TypeVar("T")

_MANAGED_BY: Final = "app.kubernetes.io/managed-by"

UNREADABLE: Final = "ObjectUnreadable"
FAILED: Final = "ReconcileFailed"
"""The condition reason if the user's function raised an error."""
INVALID: Final = "DesiredInvalid"
"""The condition reason if the function's result is invalid (`InvalidDesired`)."""


class InvalidDesired(Exception):
    """The error raised when the user's function returned an invalid result, which is a bug in that function.

    The message says what to write instead.
    """


@lru_cache(maxsize=256)
def composite_of(pure: AnyPureReconciler) -> Composite:
    """Return the reconciler as a `Composite`, the description of a parent kind from which a controller is made."""
    kind = pure.kind.kind
    return Composite(
        name=pure.name,
        word="controller",
        controller=f"controller-{pure.name}",
        kind=kind,
        manager=f"vworkspace-controller.{pure.name}",
        finalizer=f"{kind.group}/{pure.name}",
        marks=MARKS,
        labels={_MANAGED_BY: "vworkspace-controller", CONTROLLER_NAME: pure.name},
        selector=f"{CONTROLLER_NAME}={pure.name}",
        child_kinds=pure.owns,
        fields=pure.kind.status_fields,
        decide=lambda parent, observed, now: decide_pure(pure, parent, observed, now),
        external_refs=lambda parent: _read_refs(pure, parent),
        role_command=f"vworkspace-operator controllers rbac {pure.name}",
        externals=pure.reads,
        anywhere=frozenset(pure.owns) if pure.across_namespaces else frozenset(),
        namespaces=pure.namespaces,
        references=not pure.strict_order,
        resync=pure.resync,
    )


def _read_refs(pure: AnyPureReconciler, parent: Parent) -> Iterator[tuple[Read, ObjectRef]]:
    """Yield each `Read` (an object that the reconciler only reads) with the reference of its object, if the name is
    known.

    Yield nothing if the parent does not fit its classes, and no `Read` whose functions raise: the decision reports
    these.
    """
    if not pure.reads:
        return
    found = pure.kind.read_leniently(parent.manifest)
    if isinstance(found, Object):
        for read in pure.reads:
            with suppress(Exception):
                yield from _ref_of(read, found)


def _refs_of(pure: AnyPureReconciler, found: Object[Any, Any]) -> Iterator[tuple[Read, ObjectRef]]:
    """Yield each `Read` with the reference of its object, if the name is known.

    Raises RuntimeError if a function of a `Read` raises: the object would look absent, and the user's function would
    leave out nodes, which are then pruned.
    """
    for read in pure.reads:
        try:
            yield from _ref_of(read, found)
        except Exception as error:
            raise RuntimeError(f"the name of {read.id}, which is read: {type(error).__name__}: {error}") from error


def _ref_of(read: Read, found: Object[Any, Any]) -> tuple[tuple[Read, ObjectRef], ...]:
    name = read.name(found)
    namespace = read.namespace(found) if read.namespace is not None else found.metadata.namespace
    if not name or not (namespace or not read.kind.namespaced):
        return ()
    return ((read, ObjectRef(read.kind, namespace if read.kind.namespaced else None, name)),)


def decide_pure(pure: AnyPureReconciler, parent: Parent, observed: Snapshot, now: datetime) -> Decision:
    """Return what to write for `parent` (children, status, finalizer), given the existing objects and the time."""
    composite = composite_of(pure)
    deleting = parent.metadata.deletion_timestamp is not None
    if deleting and composite.finalizer not in parent.metadata.finalizers:
        return Decision()
    if deleting and orphans_children(parent):
        return orphan_children(composite, parent, observed, now)
    if not deleting and not is_in_scope(composite, observed):
        return out_of_scope(composite, parent, now)
    try:
        return _terminating(pure, parent, observed, now) if deleting else _decide_present(pure, parent, observed, now)
    except _Unreadable as error:
        return _stopped(composite, parent, UNREADABLE, str(error), now)
    except InvalidDesired as error:
        return _stopped(composite, parent, INVALID, _masked_error(pure, error, observed), now)
    except Terminal as error:
        message = without_secrets(error.message or error.reason, observed.objects)
        return _stopped(composite, parent, error.reason, safe(message), now)
    except Exception as error:
        return _failed(composite, parent, _masked_error(pure, error, observed), now)


class _Unreadable(Exception):
    """The error raised when the parent does not fit its attrs classes."""


def _decide_present(pure: AnyPureReconciler, parent: Parent, observed: Snapshot, now: datetime) -> Decision:
    composite, found = composite_of(pure), _readable(pure, parent)
    children = children_of(pure, parent, found, observed)
    desired = _call_user_function(pure.function, found, children)
    if not isinstance(desired, Desired):
        raise InvalidDesired(f"the function returned {type(desired).__name__}, not Desired(nodes, status)")
    if not isinstance(desired.status, pure.kind.status):
        expected = pure.kind.status.__name__
        raise InvalidDesired(f"the status is of {type(desired.status).__name__}, not of {expected}")
    if why := pure.kind.status_problem(desired.status):
        raise InvalidDesired(f"the status is no JSON: {why}")
    graph = _graph_of(pure, found, desired.nodes)
    planned = plan(graph, composite.owner_of(parent), observed, Scope())
    decision = reconcile_children(composite, parent, observed, planned)
    requeue = decision.requeue.no_later_than(desired.requeue_after)
    fields = pure.kind.status_json(desired.status)
    decision = attrs.evolve(decision, requeue=requeue)
    return with_status(decision, composite, parent, observed, conditions_of(planned), fields, now)


def _terminating(pure: AnyPureReconciler, parent: Parent, observed: Snapshot, now: datetime) -> Decision:
    hooks = None
    if pure.drain is not None:
        found = _readable(pure, parent)
        nodes = tuple(_call_user_function(pure.drain, found, children_of(pure, parent, found, observed)))
        graph = _graph_of(pure, found, nodes)
        hooks = Hooks.of(graph.nodes.values(), Scope())
    return tear_down(composite_of(pure), parent, observed, hooks, now)


def _call_user_function(
    function: Callable[[Object[Any, Any], Children], T], found: Object[Any, Any], children: Children
) -> T:
    """Call a function that the user wrote, and return its result.

    Any error except KeyboardInterrupt is raised as an Exception, so that the error affects only this object.
    """
    try:
        return function(found, children)
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:  # `sys.exit()`, or the cancellation of another task, fails this object alone
        raise RuntimeError(f"{type(error).__name__}: {error}") from error


def _readable(pure: AnyPureReconciler, parent: Parent) -> Object[Any, Any]:
    found = pure.kind.read_leniently(parent.manifest)
    if isinstance(found, UnreadableObject):  # the status can be computed again: it is no reason to stop
        found = pure.kind.read_leniently({**parent.manifest, "status": {}})
    if isinstance(found, UnreadableObject):
        raise _Unreadable(f"the object does not fit {pure.kind.kind.kind}: {found.problems}")
    return found


def children_of(pure: AnyPureReconciler, parent: Parent, found: Object[Any, Any], observed: Snapshot) -> Children:
    """Return the existing child objects, and the objects that are read, in the form that the user's function receives.

    `found` is the parent as an object of the kind's classes.
    """
    owner = composite_of(pure).owner_of(parent)
    seen: dict[str, list[Manifest]] = {}
    for _, live in owner.held(observed):
        seen.setdefault(owner.node_of(live), []).append(live)
    for read, ref in _refs_of(pure, found):
        if (there := observed.objects.get(ref)) is not None:
            seen[read.id] = [there]
    schemas = {(kind.api_version, kind.kind): schema for kind, schema in pure.schemas.items()}
    return Children(seen, schemas)


# --- answers that cannot be carried out ------------------------------------------------------------------------------


def _masked_error(pure: AnyPureReconciler, error: Exception, observed: Snapshot) -> str:
    """Return the error's text with the values of all Secrets that were read or created masked."""
    text = without_secrets(str(error), observed.objects)
    if isinstance(error, InvalidDesired):
        return safe(f"{pure.name}: {text}")
    lines = ", ".join(dict.fromkeys(_lines_of(error)))
    return safe(f"{pure.name}: {type(error).__name__}: {text}{f' ({lines})' if lines else ''}")


def _lines_of(error: Exception) -> Iterator[str]:
    """Yield the outermost and the innermost line of the user's code from which the error came.

    A decision writes no log, so the status alone says where the defect is. Errors that this module wrapped have their
    lines in the cause.
    """
    causes = (one for one in (error, error.__cause__) if one is not None)
    calls = ((step.f_code.co_filename, line) for one in causes for step, line in walk_tb(one.__traceback__))
    theirs = [call for call in calls if not call[0].startswith((_FRAMEWORK, "<"))]
    for file, line in (*theirs[:1], *theirs[-1:]):
        yield f"{file.rpartition('/')[2]}:{line}"


_FRAMEWORK: Final = __file__.rpartition("reconcilers")[0]
"""The folder of this framework, whose lines say nothing to users."""


def _stopped(composite: Composite, parent: Parent, reason: str, message: str, now: datetime) -> Decision:
    """Return a decision (the writes to make) that changes no child and only writes the status.

    The status reports that only a change of the object or of the code helps.
    """
    desired = (*stalled(reason, message), *_deleting(parent, reason, message))
    return with_status(Decision(), composite, parent, Snapshot(), desired, present_fields(composite, parent), now)


def _failed(composite: Composite, parent: Parent, message: str, now: datetime) -> Decision:
    """Return a decision (the writes to make) that changes no child, and retries with backoff.

    The status reports a failure that may be temporary.
    """
    desired = (*progressing(FAILED, message), *_deleting(parent, FAILED, message))
    fields = present_fields(composite, parent)
    return with_status(Decision(requeue=Requeue.BACKOFF), composite, parent, Snapshot(), desired, fields, now)


def _deleting(parent: Parent, reason: str, message: str) -> Iterator[DesiredCondition]:
    if parent.metadata.deletion_timestamp is not None:
        yield DesiredCondition(DELETING, ConditionStatus.TRUE, reason, message)


# --- nodes of the engine ---------------------------------------------------------------------------------------------


def _graph_of(pure: AnyPureReconciler, found: Object[Any, Any], nodes: Sequence[Node]) -> Graph:
    """Build the graph of `nodes` and of the `Read` objects on which they depend or roll.

    Raises InvalidDesired if a node is invalid, or if the nodes form no acyclic graph.
    """
    if wrong := next((node for node in nodes if not isinstance(node, Node)), None):
        raise InvalidDesired(f"there is a {type(wrong).__name__} among the nodes: write Node(id, manifest)")
    kinds = {(kind.api_version, kind.kind): kind for kind in pure.owns}
    reads = {read.id: (read, ref) for read, ref in _refs_of(pure, found)}
    made = [_graph_node(pure, node, _kind_of(pure, node, kinds)) for node in nodes]
    if not pure.across_namespaces and pure.kind.kind.namespaced:
        _check_namespaces(found.metadata.namespace, nodes)
    waited_for = {name for node in made for name in (*(edge.to for edge in node.edges), *node.roll_on)}
    externals = [_external(read, reads.get(read.id)) for read in pure.reads if read.id in waited_for]
    try:
        return Graph.of((*externals, *made))
    except GraphError as error:
        raise InvalidDesired(error.message) from error


def _check_namespaces(own: str, nodes: Sequence[Node]) -> None:
    """Raise InvalidDesired for a node in another namespace than `own`, as a deletion would not find its object."""
    for node in nodes:
        namespace = metadata(node.manifest).get("namespace") or own
        if namespace != own:
            raise InvalidDesired(f"node {node.id} is in namespace {namespace}: give across_namespaces=True")


def _kind_of(pure: AnyPureReconciler, node: Node, kinds: Mapping[tuple[Any, Any], Kind]) -> Kind:
    said = (node.manifest.get("apiVersion"), node.manifest.get("kind"))
    if absent := next((key for key in ("apiVersion", "kind") if not node.manifest.get(key)), ""):
        raise InvalidDesired(f"the manifest of node {node.id} has no {absent}")
    if said not in kinds:
        raise InvalidDesired(f"node {node.id} is a {said[1]} of {said[0]}: add {said[0]}/{said[1]} to owns=[…]")
    if any(read.id == node.id for read in pure.reads):
        raise InvalidDesired(f"node {node.id} has the id of something that is read: give it another one")
    return kinds[said]


def _graph_node(pure: AnyPureReconciler, node: Node, kind: Kind) -> GraphNode:
    manifest = _plain(node, kind)
    return GraphNode(
        node.id,
        kind,
        lambda scope: Rendered((Item("", manifest),)),
        edges=tuple(Edge(_id_of(one), node.until, declared=True) for one in node.depends_on),
        when=_when_condition(node),
        ready=lambda scope, item, live: node.healthy(live),
        schema=pure.schemas.get(kind),
        policy=_policy(node),
        removal=node.removal,
        prune=node.prune,
        on_immutable=node.on_immutable,
        adopt=node.adopt,
        generate=tuple(_as_stored(kind, fill) for fill in node.generate),
        roll_on=tuple(map(_id_of, node.roll_on)),
        title=f"{kind.kind} {node.id}",
    )


def _as_stored(kind: Kind, fill: Fill) -> Fill:
    """Return `fill`, with base64 encoding switched on if the field is in the `data` of a Secret."""
    return attrs.evolve(fill, base64=fill.base64 or (kind == SECRET and fill.path[0] == "data"))


def _policy(node: Node) -> ApplyPolicy:
    """Return the node's apply policy.

    A node with random text is only created, because an apply would replace the text.
    """
    return ApplyPolicy.IF_ABSENT if node.generate and node.apply is ApplyPolicy.ALWAYS else node.apply


def _id_of(one: NodeOrId) -> str:
    return one if isinstance(one, str) else one.id


def _when_condition(node: Node) -> Callable[[Scope], bool | Hold]:
    if node.when is True:
        return lambda scope: True
    held = Hold(HoldCause.NO, node.when or "its `when` is False; a text there would say what it waits for")
    return lambda scope: held


def _plain(node: Node, kind: Kind) -> dict[str, Any]:
    """Return a JSON copy of the node's manifest, which the user's code cannot change later. Raises InvalidDesired if
    the manifest is not JSON or has no name.
    """
    try:
        manifest = msgspec.json.decode(canonical_json(node.manifest))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidDesired(f"node {node.id}: its manifest is no JSON: {error}") from error
    if not isinstance(get_path(manifest, "metadata"), dict) or not node.name:
        raise InvalidDesired(f"node {node.id}: its manifest has no metadata.name")
    return as_stored(manifest) if kind == SECRET else dict(manifest)


def _external(read: Read, known: tuple[Read, ObjectRef] | None) -> GraphNode:
    def render(scope: Scope) -> Rendered | Hold:
        if known is None:
            return Hold(HoldCause.MISSING, "its name is not known yet")
        ref = known[1]
        return Rendered((Item("", ref.kind.manifest(ref.name, ref.namespace)),))

    return GraphNode(read.id, read.kind, render, policy=ApplyPolicy.NEVER, title=f"{read.kind.kind} {read.id}")
