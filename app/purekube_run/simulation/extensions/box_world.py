"""A simulated cluster for one box: its controller runs as in `box run`, with simulated workloads and no latency.

A box is an operator that is defined in YAML.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypedDict

from kubelab.downstream.behaviour import DownstreamBehaviour
from kubelab.entropy import SeededEntropy
from kubelab.flux import FluxBehaviour
from kubelab.inprocess import run_sync
from purekube.apimachinery.definitions import BOX_NAME
from purekube.apimachinery.errors import AlreadyExists
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, metadata, ref_of
from purekube.apimachinery.resources import CONFIG_MAP, NAMESPACE, SECRET
from purekube.boxes.box import READERS, Box, ExternalNode
from purekube.boxes.decision.decide import composite_of, external_refs
from purekube.boxes.definition import crd_of
from purekube.boxes.expressions import ExpressionFailure
from purekube.boxes.webhooks.kind_webhooks import converter_of
from purekube.controller.execute import STATUS
from purekube.controller.reconcile import ReconcileResult
from purekube.ports import Entropy
from purekube.versions import Converter
from purekube_run.simulation.cluster import MemoryCluster, kinds_with_work, plain_definition, ready_of
from purekube_run.simulation.extensions.extension_replica import Extending, ExtensionReplica
from purekube_run.simulation.faults import Schedule
from purekube_run.simulation.world import World

OPERATOR: Final = "system:serviceaccount:vworkspace-system:vworkspace-box"
_MOST_ROUNDS: Final = 5_000
"""The maximum number of rounds of the event loop at one moment of virtual time; more count as a hot loop."""
_SERVER: Final = (
    *("uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"),
    *("managedFields", "selfLink"),
)
"""The fields of metadata that only an API server writes."""
_SECRETS: Final[Sequence[Mapping[str, Any]]] = (
    {"type": "Opaque", "data": {"key": "dmFsdWU="}},
    {"type": "kubernetes.io/tls", "data": {"tls.crt": "YQ==", "tls.key": "YQ=="}},
    {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "e30="}},
    {"type": "kubernetes.io/basic-auth", "data": {"username": "YQ==", "password": "YQ=="}},
)
"""The contents for a Secret that a box reads as an external (an object of another owner).

The first content with which the box considers the Secret ready is used.
"""


class _Simulated(TypedDict):
    simulated: tuple[str, ...]
    flux: FluxBehaviour | None
    converters: tuple[Converter, ...]


def simulated_for(box: Box) -> _Simulated:
    """Return the keyword arguments of `MemoryCluster` for a box: the simulated controllers and converters it needs."""
    kinds = {*box.child_kinds, *(external.kind for external in box.externals)}
    makes_flux = any(kind.group.endswith(".toolkit.fluxcd.io") for kind in box.child_kinds)
    converter = converter_of(box)
    return {
        "simulated": kinds_with_work(kinds),
        "flux": FluxBehaviour() if makes_flux else None,
        "converters": () if converter is None else (converter,),
    }


def install_box(cluster: MemoryCluster, box: Box, definitions: Iterable[Manifest] = ()) -> None:
    """Install the CRD of a box with its rules, and the CRDs in `definitions`.

    Namespaces get the labels that the box's namespace selector requires.
    """
    cluster.namespace_labels = labels = dict((box.namespaces or {}).get("matchLabels") or {})
    if labels:
        cluster.change(ObjectRef(NAMESPACE, None, "default"), {"metadata": {"labels": labels}})
    cluster.install([crd_of(box) if box.crd else plain_definition(box.kind), *definitions])


def store_observed(cluster: MemoryCluster, box: Box, manifest: Manifest) -> ObjectRef:
    """Store an object that was observed in another cluster, with its uid, status and managedFields.

    An object with the box's label and without managedFields counts as applied by the box. A Namespace that exists
    already gets the labels and annotations of the observed one. Raises OperatorError if the API server refuses the
    object.
    """
    ref = cluster.ref(manifest)
    existing = cluster.get(ref) if ref.kind == NAMESPACE else None
    meta = {**metadata(manifest), **({"namespace": ref.namespace} if ref.namespace else {})}
    plain = {key: value for key, value in meta.items() if key not in _SERVER}
    body = {key: value for key, value in manifest.items() if key != "status"} | {"metadata": plain}
    labels = metadata(manifest).get("labels") or {}
    if labels.get(BOX_NAME) == box.name and not meta.get("managedFields"):
        made = run_sync(cluster.admin.apply(body, kind=ref.kind, field_manager=box.field_manager))
    elif existing is not None:
        made = {**existing, "metadata": {**metadata(existing), "labels": {}, "annotations": {}, **plain}}
    else:
        made = cluster.create(body, ref.kind)
    observed = {key: value for key, value in meta.items() if key in _SERVER and key != "resourceVersion"}
    status = {"status": manifest["status"]} if "status" in manifest else {}
    stored = {**made, **status, "metadata": {**metadata(made), **observed}}
    cluster.server.store.put(cluster.server.resource(ref.kind).storage, stored)
    return ref


def children_of(cluster: MemoryCluster, box: Box) -> dict[ObjectRef, Manifest]:
    """Return every object of the kinds that a box creates, by reference."""
    return {ref_of(live, kind): live for kind in box.child_kinds for live in cluster.objects(kind)}


def create_externals(cluster: MemoryCluster, box: Box, ref: ObjectRef) -> None:
    """Create the externals (objects of other owners) to which the parent `ref` refers, unless they exist.

    They get contents by which the box considers them ready.
    """
    for external, where in external_refs(box, composite_of(box).read(run_sync(cluster.admin.get(ref)))):
        for body in _bodies(external.kind):
            agrees = {"annotations": {READERS: box.kind.crd_name}} if external.must_agree else {}
            plain = external.kind.manifest(where.name, where.namespace)
            manifest = {**plain, "metadata": {**plain["metadata"], **agrees}, **body}
            if _would_be_ready(external, manifest):
                with suppress(AlreadyExists):
                    cluster.create(manifest, external.kind)
                break


def _bodies(kind: Kind) -> Sequence[Mapping[str, Any]]:
    if kind == SECRET:
        return _SECRETS
    return ({"data": {"key": "value"}},) if kind == CONFIG_MAP else ()


def _would_be_ready(external: ExternalNode, manifest: Manifest) -> bool:
    names = {external.id: manifest}
    try:
        return all(condition.holds(names) for condition in external.ready)
    except ExpressionFailure:
        return False


class BoxWorld(World):
    """A simulated cluster in which one process runs one box (an operator defined in YAML). Use it in a `with` block.

    `timeline` records the actions of the box's controller with their times. `writes` counts its writes.
    """

    def __init__(
        self,
        box: Box,
        definitions: Iterable[Manifest] = (),
        behaviour: DownstreamBehaviour | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        super().__init__(most_rounds=_MOST_ROUNDS, behaviour=behaviour, **simulated_for(box))
        self.box = box
        self.writes = 0
        self.on_pass: Callable[[ObjectRef], None] = lambda ref: None
        """The function that is called after each pass that wrote something, with the parent."""
        self._entropy = SeededEntropy(0) if entropy is None else entropy
        install_box(self, box, definitions)
        self._replica = self._process()
        self.replicas.append(self._replica)

    def _process(self) -> ExtensionReplica:
        extending = Extending((composite_of(self.box),), entropy=self._entropy, concluded=self._concluded)
        return ExtensionReplica(self, "box", extending, user=OPERATOR)

    def restart(self, box: Box | None = None) -> None:
        """Kill the process that runs the box, and start a new one, with the definition `box` if given."""
        self.box = box or self.box
        schedule = self._replica.schedule
        self.remove(self._replica)
        self._replica = self._process()
        self._replica.schedule = schedule
        self.add(self._replica)

    def set_faults(self, schedule: Schedule) -> None:
        """Inject faults into the requests of the box's controller from now on.

        `schedule` is called with each request, and returns its fault, or None. The schedule `calm` ends all faults.
        """
        self._replica.schedule = schedule

    def _concluded(self, ref: ObjectRef, result: ReconcileResult) -> None:
        self.writes += result.writes
        for verb, what in result.executed:
            if verb != STATUS:
                self.say(f"{verb} {what}")
        if result.status is not None:
            self.say(f"status: {ready_of(result.status)}")
        if result.executed:
            self.on_pass(ref)

    # --- objects -----------------------------------------------------------------------------------------------------

    def children(self) -> Mapping[ObjectRef, Manifest]:
        """Return every object of the kinds that the box creates, by reference."""
        return children_of(self, self.box)

    def parents(self) -> Sequence[ObjectRef]:
        """Return the reference of every object of the box's kind."""
        return [ref_of(live, self.box.kind) for live in self.objects(self.box.kind)]

    # --- time --------------------------------------------------------------------------------------------------------

    def waits(self, ref: ObjectRef) -> float | None:
        """Return the seconds of virtual time until the next scheduled reconcile of the object `ref`, or None if none is
        scheduled.
        """
        manager = self._replica.manager
        pools = () if manager is None else manager.worker_pools.values()
        return next((due for pool in pools if (due := pool.due_in(ref)) is not None), None)

    def reconcile(self, ref: ObjectRef) -> None:
        """Request a reconcile of the parent `ref`, and run all tasks that are due now.

        Raises WorldHotLoop if tasks go on forever without time passing.
        """
        if self._replica.manager is not None:
            self._replica.manager.enqueue(composite_of(self.box).controller, ref)
        self.run(0)

    def settle(self, within: float = 3600.0) -> None:
        """Let virtual time pass until no work is left, but at most `within` seconds.

        Raises WorldHotLoop if work goes on forever without time passing.
        """
        self.until(lambda: self._replica.is_at_rest and self.controllers.next_work() is None, within)
