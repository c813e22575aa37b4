"""A small cluster with one owner and a graph of children, carried out by the kernel against the in-memory API server.

The nodes of a graph are data (`NodeSpec`), so that Hypothesis can draw them. What they render is read from the owner's
spec and from each other, as expressions of a box would.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import attrs

from kubelab import SeededEntropy
from kubelab.inprocess import InProcessKube, run_sync
from kubelab.server import ApiServer
from purekube.apimachinery.errors import NotFound, OperatorError
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata, ref_of
from purekube.apimachinery.meta import Condition, ConditionStatus, ObjectMeta
from purekube.apimachinery.problems import Place
from purekube.apimachinery.resources import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from purekube.apimachinery.structuring import read_meta
from purekube.controller.decision import Decision, Finalizer, Snapshot
from purekube.controller.execute import PassRules
from purekube.controller.reconcile import ReconcileResult, run_pass
from purekube.controller.status import LiveStatus, status_change
from purekube.graph.account import conditions_of, conditions_of_teardown
from purekube.graph.node import (
    ApplyPolicy,
    Edge,
    GraphNode,
    Hold,
    HoldCause,
    Item,
    OnImmutable,
    PruneTime,
    Removal,
    Rendered,
    Scope,
    Until,
)
from purekube.graph.node_order import Graph
from purekube.graph.owner import CreateRecord, Marks, Owner
from purekube.graph.plan import Plan, plan
from purekube.graph.teardown import Hooks, Teardown, teardown
from purekube.ports import KubeApi, KubeRequest, KubernetesEvent, PatchType, Propagation, Send
from purekube.schema import compile_schema
from tests.support.apiserver_world import crd

NS: Final = "team"
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
SHOP: Final = Kind("tests.example", "v1", "Shop", "shops")
PART: Final = Kind("tests.example", "v1", "Part", "parts")
EXTRA: Final = Kind("tests.example", "v1", "Extra", "extras")
CHILDREN: Final = (PART, EXTRA, CONFIG_MAP)
MANAGER: Final = "box.shop"
FINALIZER: Final = "tests.example/shop"
MARKS: Final = Marks("box.example")
OTHER: Final = "kubectl-edit"

_PART = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {
                "fixed": {
                    "type": "string",
                    "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed is immutable"}],
                },
                "parts": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
                    },
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                },
            },
        },
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
PART_SCHEMA: Final = compile_schema(_PART)


@attrs.frozen
class NodeSpec:
    """One node as data. `edges` are ids with how much is waited for; `read` what the rendering takes from them.

    `items`: None for a single object; otherwise `spec.items[id]` of the owner is the list of keys. What is unknown is
    said by the owner too: `spec.fault[id]` is `include`, `render` or `gate`, each missing, at fault or over a limit.
    """

    id: str
    edges: tuple[tuple[str, Until], ...] = ()
    kind: Kind = PART
    policy: ApplyPolicy = ApplyPolicy.ALWAYS
    removal: Removal = Removal.DELETE
    prune: PruneTime = PruneTime.WHEN_READY
    on_immutable: OnImmutable = OnImmutable.FAIL
    listed: bool = False
    is_choice: bool = False
    adopt: bool = False
    refers: bool = True
    roll_on: tuple[str, ...] = ()
    body: Mapping[str, Any] = attrs.field(factory=dict)

    def node(self) -> GraphNode:
        """As the engine takes it."""
        return GraphNode(
            self.id,
            self.kind,
            self._render,
            tuple(Edge(to, until, Place(f"resources.{self.id}")) for to, until in self.edges),
            include=lambda scope: self._asked(scope, "include", self.id not in _at(scope, "without", ())),
            when=lambda scope: self._asked(scope, "gate", self.id not in _at(scope, "closed", ())),
            is_choice=self.is_choice,
            schema=None if self.kind == CONFIG_MAP else PART_SCHEMA,
            policy=self.policy,
            removal=self.removal,
            prune=self.prune,
            on_immutable=self.on_immutable,
            adopt=self.adopt,
            refers=self.refers,
            roll_on=self.roll_on,
            place=Place(f"resources.{self.id}", "box.yaml", 7),
        )

    def _asked(self, scope: Scope, what: str, answer: bool) -> bool | Hold:
        return self._hold(scope, what) or answer

    def _hold(self, scope: Scope, what: str) -> Hold | None:
        where, _, cause = _at(scope, "fault", {}).get(self.id, "").partition("/")
        return Hold(HoldCause[cause], f"{self.id} is unknown", Place(what, "box.yaml", 9)) if where == what else None

    def _render(self, scope: Scope) -> Rendered | Hold:
        if (hold := self._hold(scope, "render")) is not None:
            return hold
        read: dict[str, Any] = {}
        for to, until in self.edges:
            for child in scope.nodes[to].items:
                match until:
                    case Until.APPLIED:
                        read[f"{to}-{child.key}"] = get_path(child.rendered, "spec", "size")
                    case Until.OBSERVED:
                        read[f"{to}-{child.key}"] = get_path(child.live, "metadata", "name")
                    case Until.READY if (value := get_path(child.live, "status", "value")) is None:
                        return Hold(HoldCause.MISSING, f"{to} has no status.value yet", Place("render", "box.yaml", 3))
                    case Until.READY:
                        read[f"{to}-{child.key}"] = value
                    case Until.NOTHING:
                        read[f"{to}-{child.key}"] = get_path(child.live, "status", "value")
        keys = _at(scope, "items", {}).get(self.id, ()) if self.listed else ("",)
        return Rendered(tuple(Item(key, self._manifest(scope, key, read)) for key in keys))

    def _manifest(self, scope: Scope, key: str, read: Mapping[str, Any]) -> dict[str, Any]:
        size = _at(scope, "size", 1)
        manifest = self.kind.manifest((f"{self.id}-{key}" if key else self.id) + _at(scope, "suffix", ""))
        read = {name: value for name, value in read.items() if value is not None}
        if self.kind == CONFIG_MAP:
            return {**manifest, "data": {"size": str(size), "read": repr(sorted(read.items()))}}
        return {**manifest, "spec": {"size": size, "read": read, **self.body}}

    def ref(self, key: str = "") -> ObjectRef:
        """Where the item lives."""
        return ObjectRef(self.kind, NS, f"{self.id}-{key}" if key else self.id)


def _at(scope: Scope, name: str, otherwise: Any) -> Any:
    return scope.values.get(name, otherwise)


@attrs.frozen
class Shop:
    """The owner, as the kernel reads it."""

    metadata: ObjectMeta
    manifest: Manifest

    @property
    def records(self) -> tuple[CreateRecord, ...]:
        """What its status says of objects created once."""
        return tuple(CreateRecord(**record) for record in get_path(self.manifest, "status", "created") or ())

    @property
    def conditions(self) -> dict[str, Condition]:
        """Its conditions by type."""
        return {condition.type: condition for condition in _conditions(self.manifest)}


def read_shop(manifest: Manifest) -> Shop:
    """The owner, structured."""
    return Shop(read_meta(manifest), manifest)


def owner_of(shop: Shop, *, references: bool = True) -> Owner:
    """As the engine takes it."""
    labels = {"app.kubernetes.io/managed-by": "box", "box.example/name": "shop"}
    return Owner(SHOP, shop.metadata, MANAGER, MARKS, labels, shop.records, references)


@attrs.define
class Decide:
    """The whole decision about a Shop: the engine's plan, the finalizer and the status."""

    nodes: Sequence[NodeSpec]
    hooks: Sequence[NodeSpec] = ()
    references: bool = True
    compiles: bool = True
    plans: list[Plan] = attrs.field(factory=list)
    teardowns: list[Teardown] = attrs.field(factory=list)

    def __call__(self, shop: Shop, observed: Snapshot) -> Decision:
        scope = Scope(shop.manifest.get("spec") or {})
        owner = owner_of(shop, references=self.references)
        if shop.metadata.deletion_timestamp is not None:
            return self._going(shop, owner, observed, scope)
        planned = plan(self.graph, owner, observed, scope)
        self.plans.append(planned)
        guarded = FINALIZER not in shop.metadata.finalizers
        effects = attrs.evolve(planned.effects, finalizer=Finalizer.ADD if guarded else None)
        effects = attrs.evolve(effects, only_if_current=effects.only_if_current and not guarded)
        return _told(effects, shop, conditions_of(planned), planned.records)

    def _going(self, shop: Shop, owner: Owner, observed: Snapshot, scope: Scope) -> Decision:
        if FINALIZER not in shop.metadata.finalizers:
            return Decision()
        hooks = Hooks.of((spec.node() for spec in self.hooks), scope) if self.compiles and self.hooks else None
        step = teardown(owner, observed, hooks)
        self.teardowns.append(step)
        if step.is_done:
            return Decision(finalizer=Finalizer.REMOVE)
        return _told(step.effects, shop, conditions_of_teardown(step), step.records)

    @property
    def graph(self) -> Graph:
        """The nodes in order."""
        return Graph.of(spec.node() for spec in self.nodes)


def _told(decision: Decision, shop: Shop, wanted: Any, records: tuple[CreateRecord, ...]) -> Decision:
    meta = shop.metadata
    status = shop.manifest.get("status") or {}
    live = LiveStatus(
        ObjectRef(SHOP, NS, meta.name),
        meta.resource_version,
        meta.generation,
        status.get("observedGeneration"),
        _conditions(shop.manifest),
        {"created": status["created"]} if "created" in status else {},
    )
    fields = {"created": [attrs.asdict(record) for record in records]} if records else {}
    change = status_change(live, wanted, fields, NOW)
    return decision if change is None else change.added_to(decision, ())


def _conditions(manifest: Manifest) -> tuple[Condition, ...]:
    return tuple(
        Condition(
            condition["type"],
            ConditionStatus(condition["status"]),
            condition["reason"],
            condition.get("message", ""),
            condition.get("lastTransitionTime", ""),
            condition.get("observedGeneration"),
            condition.get("reasonTransitionTime"),
        )
        for condition in get_path(manifest, "status", "conditions") or ()
    )


class NoEvents:
    """An `EventSink` that nobody reads."""

    async def emit(self, event: KubernetesEvent) -> None:
        """Forget it."""


class RefusingKube(KubeApi):
    """A face of the API server that refuses what `rule` says, by verb and object, before it has an effect."""

    def __init__(self, api: KubeApi, rule: Callable[[str, ObjectRef], OperatorError | None]) -> None:
        super().__init__(api.through(self._ask).transport)
        self.rule = rule
        self.writes: list[tuple[str, ObjectRef]] = []
        """What came through."""

    async def _ask(self, request: KubeRequest, proceed: Send) -> Manifest:
        verb = "status" if request.subresource else request.verb.value
        if (error := self.rule(verb, request.ref)) is not None:
            raise error
        if request.writes:
            self.writes.append((verb, request.ref))
        return await proceed(request)


@attrs.define
class GraphWorld:
    """The cluster, and what people and other controllers do in it."""

    decide: Decide
    server: ApiServer = attrs.field(init=False)
    kube: InProcessKube = attrs.field(init=False)
    face: Any = attrs.field(init=False)
    """What the operator sees of the API server: a test may put a faulty one here."""
    log: list[tuple[str, ObjectRef]] = attrs.field(factory=list)
    """What was done to which object, over all passes."""
    missing: set[Kind] = attrs.field(factory=set)
    cache: Snapshot | None = None
    """What the operator's cache holds, where that is behind."""

    def __attrs_post_init__(self) -> None:
        self.server = ApiServer(now=lambda: NOW, collects=True)
        self.kube = self.face = InProcessKube(self.server)
        for kind in (SHOP, PART, EXTRA):
            definition = crd(kind)
            if kind == PART:
                definition["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": _PART}
            else:
                spec = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
                spec["spec"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
            self._do(self.kube.create(definition, kind=CUSTOM_RESOURCE_DEFINITION, field_manager="admin"))
        self._do(self.kube.create(NAMESPACE.manifest(NS), kind=NAMESPACE, field_manager="admin"))

    @classmethod
    def of(cls, *nodes: NodeSpec, hooks: Sequence[NodeSpec] = (), references: bool = True, **spec: Any) -> "GraphWorld":
        """A world whose owner has that spec and wants these nodes."""
        world = cls(Decide(nodes, hooks, references))
        world.create(**spec)
        return world

    def _do(self, call: Any) -> Any:
        return run_sync(call)

    # --- the owner ----------------------------------------------------------------------------------------------

    def create(self, **spec: Any) -> None:
        """Make the owner."""
        manifest = {**SHOP.manifest("shop", NS), "spec": {"size": 1, **spec}}
        self._do(self.kube.create(manifest, kind=SHOP, field_manager="tenant"))

    def change(self, **spec: Any) -> None:
        """Change its spec."""
        self.patch(ObjectRef(SHOP, NS, "shop"), {"spec": spec})

    def refuse(self, rule: Callable[[str, ObjectRef], OperatorError | None]) -> RefusingKube:
        """From now on the operator's calls are refused by `rule`."""
        self.face = face = RefusingKube(self.kube, rule)
        return face

    def relent(self) -> None:
        """Nothing is refused any more."""
        self.face = self.kube

    def names(self, verb: str = "apply") -> list[str]:
        """Names of the children to which this was done, in order, over all passes."""
        return [ref.name for done, ref in self.log if done == verb and ref.kind != SHOP]

    def delete_shop(self, propagation: Propagation = Propagation.BACKGROUND) -> None:
        """Ask for its deletion."""
        self._do(self.kube.delete(ObjectRef(SHOP, NS, "shop"), propagation=propagation))

    @property
    def shop(self) -> Shop:
        """As it is now. Raises NotFound."""
        return read_shop(self._do(self.kube.get(ObjectRef(SHOP, NS, "shop"))))

    @property
    def is_gone(self) -> bool:
        """Whether there is no owner any more."""
        try:
            return not self.shop
        except NotFound:
            return True

    def condition(self, name: str) -> str:
        """Its status and reason; empty where it has none."""
        condition = self.shop.conditions.get(name)
        return "" if condition is None else f"{condition.status} {condition.reason}"

    def message(self, name: str = "Ready") -> str:
        """What the condition says."""
        return self.shop.conditions[name].message

    # --- everything else ----------------------------------------------------------------------------------------

    @property
    def objects(self) -> dict[ObjectRef, Manifest]:
        """All objects that may be children."""
        found: dict[ObjectRef, Manifest] = {}
        for kind in CHILDREN:
            if kind not in self.missing:
                page = self._do(self.kube.list(kind, namespace=NS))
                found |= {ref_of(manifest, kind): manifest for manifest in page.items}
        return found

    def live(self, ref: ObjectRef) -> Manifest | None:
        """An object; None where there is none."""
        return self.objects.get(ref)

    def patch(self, ref: ObjectRef, patch: Mapping[str, Any], subresource: str = "") -> None:
        """Somebody changes an object."""
        self._do(self.kube.patch(ref, patch, patch_type=PatchType.MERGE, field_manager=OTHER, subresource=subresource))

    def apply_as(self, manager: str, ref: ObjectRef, body: Mapping[str, Any], *, force: bool = False) -> None:
        """Another manager applies to an object."""
        manifest = {**ref.kind.manifest(ref.name, ref.namespace), **body}
        self._do(self.kube.apply(manifest, kind=ref.kind, field_manager=manager, force=force))

    def delete(self, ref: ObjectRef) -> None:
        """Somebody deletes an object."""
        self._do(self.kube.delete(ref))

    def hold(self, ref: ObjectRef, *finalizers: str) -> None:
        """Somebody puts finalizers on an object, or takes them off."""
        self.patch(ref, {"metadata": {"finalizers": list(finalizers)}})

    def say(self, ref: ObjectRef, condition: str = "Ready", value: str = "v") -> None:
        """Its controller says how it is, at its own generation."""
        live = self.objects[ref]
        status = {
            "observedGeneration": metadata(live).get("generation"),
            "value": value,
            "conditions": [{"type": condition, "status": "True", "reason": "Said", "message": f"{ref.name} said so"}],
        }
        self.patch(ref, {"status": status}, subresource="status")

    def heal(self, *, but: Callable[[ObjectRef], bool] = lambda ref: False) -> bool:
        """Each child that can have a status becomes ready at its generation. Whether anything changed."""
        changed = False
        for ref, live in self.objects.items():
            generation = metadata(live).get("generation")
            said = get_path(live, "status", "conditions", 0, "type")
            stale = (get_path(live, "status", "observedGeneration"), said) != (generation, "Ready")
            if ref.kind != CONFIG_MAP and stale and not but(ref) and not metadata(live).get("deletionTimestamp"):
                self.say(ref)
                changed = True
        return changed

    # --- the operator -------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """What the operator sees: what is labelled as the owner's, and whatever has a name that it may want."""
        return self.cache or Snapshot(None, self.objects, frozenset(self.missing))

    @property
    def reconciler(self) -> PassRules[Shop, Snapshot]:
        """The kernel's view."""
        rounds = min(16, self.decide.graph.depth + 2) if self.decide.nodes else 4
        return PassRules(SHOP, read_shop, self.decide, MANAGER, FINALIZER, rounds=rounds, entropy=SeededEntropy())

    def run(self) -> ReconcileResult | None:
        """One pass; None where there is no owner any more."""
        if self.is_gone:
            return None
        result = run_sync(run_pass(self.reconciler, self.shop, self.snapshot(), self.face, NoEvents()))
        self.log.extend(result.executed)
        return result

    def settle(self, passes: int = 40, *, but: Callable[[ObjectRef], bool] = lambda ref: False) -> int:
        """Passes, with other controllers in between, until nothing changes; how many there were.

        `but` are children that their controllers never look at.
        """
        for number in range(passes):
            result = self.run()
            quiet = result is None or not result.executed
            if not self.heal(but=but) and quiet:
                assert result is None or result.error is None, result.error
                return number
        raise AssertionError(f"not settled after {passes} passes: {result}")


def content(manifest: Manifest) -> Any:
    """What of an object is the same in every run that comes to the same end."""
    annotations = dict(get_path(manifest, "metadata", "annotations") or {})
    annotations.pop(MARKS.applied_hash, None)
    body = {key: value for key, value in manifest.items() if key in ("spec", "data")}
    return {**body, "annotations": annotations, "node": get_path(manifest, "metadata", "labels", MARKS.node)}
