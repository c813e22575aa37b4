"""A cluster in memory under a virtual clock: API server, simulated workloads, and actions of users.

It never waits in real time and nothing in it is random, so equal actions give equal clusters. `box test`, `box plan`
and the kit for users' tests are built on it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from kubelab.downstream import CONTROLLERS, DownstreamSimulator
from kubelab.downstream.behaviour import DownstreamBehaviour
from kubelab.downstream.crds import downstream_crds
from kubelab.flux import FluxBehaviour, FluxSimulator
from kubelab.flux.crds import flux_crds
from kubelab.inprocess import InProcessKube, run_sync
from kubelab.model.calls import Caller
from kubelab.server import ApiServer
from kubelab.simulation.simulator import Simulator
from purekube.apimachinery.conditions import condition_of
from purekube.apimachinery.definitions import crd_manifest
from purekube.apimachinery.errors import KindMissing, NotFound, OperatorError
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from purekube.ports import PatchType
from purekube.versions import Converter, answer_review
from purekube_run.process.command_line import CommandError
from purekube_run.simulation.controllers import SimulatedControllers

SOMEBODY: Final = "kubectl"
"""The field manager of objects that users write."""
SIMULATED: Final = ("job", "workloads", "snapshot")
"""The names of all simulated controllers. Without them, no workload becomes ready."""


_CONVERSION: Final = {
    "strategy": "Webhook",
    "webhook": {"clientConfig": {"url": "https://memory.invalid/convert"}, "conversionReviewVersions": ["v1"]},
}
"""The `conversion` field of CRDs that have a converter. Requests to its URL are answered by a function, no server."""


class MemoryCluster:
    """A simulated cluster in memory: an API server and simulated controllers, on a virtual clock.

    `now` returns the cluster's time. `simulated` names the simulated controllers; `behaviour` and `flux` determine how
    they behave. Without `flux`, there is no simulated Flux. `converters` replace the conversion webhooks of their
    kinds. `timeline` records events with their times.
    """

    def __init__(
        self,
        now: Callable[[], datetime],
        *,
        seed: int = 0,
        window: int = 10_000,
        simulated: Sequence[str] = SIMULATED,
        flux: FluxBehaviour | None = None,
        behaviour: DownstreamBehaviour | None = None,
        converters: Sequence[Converter] = (),
    ) -> None:
        self.now = now
        self._began = now()
        self._converters = converters
        self.server = ApiServer(
            now=now,
            seed=seed,
            window=window,
            collects=True,
            ask=lambda webhook, review: answer_review(review, converters),
        )
        self.admin = InProcessKube(self.server)
        api = InProcessKube(self.server, caller=Caller("system:simulated", agent="simulated/1"))
        self.workloads = DownstreamSimulator(api, behaviour, names=simulated)
        self.flux = None if flux is None else FluxSimulator(api, flux)
        simulators: Sequence[Simulator] = (self.workloads, *([] if self.flux is None else [self.flux]))
        self.controllers = SimulatedControllers(api, simulators, now)
        """The simulated controllers. Their method `work` runs everything that is due."""
        self.timeline: list[str] = []
        self.namespace_labels: Mapping[str, str] = {}
        """The labels of namespaces that are created automatically."""
        self.makes_namespaces = True
        """True if a namespace is created when an object needs it."""
        self._simulated = tuple(simulated)

    def connect(self, user: str, agent: str) -> InProcessKube:
        """Return a client whose requests come from `user`, with the user agent `agent`."""
        return InProcessKube(self.server, caller=Caller(user, agent=agent))

    def install(self, definitions: Iterable[Manifest]) -> None:
        """Create the CRDs `definitions`, then the CRDs of simulated controllers that are still missing.

        CRDs that were read from a cluster are created like others. Raises CommandError with the name of a CRD that the
        API server refuses, and the reason.
        """
        for definition in definitions:
            try:
                meta = {key: value for key, value in metadata(definition).items() if key != "resourceVersion"}
                self.create(self.converted({**definition, "metadata": meta}), CUSTOM_RESOURCE_DEFINITION)
            except OperatorError as error:
                raise CommandError(f"CRD {metadata(definition).get('name')} is refused: {error.message}") from error
        flux = () if self.flux is None else flux_crds()
        for definition in (*downstream_crds(self._simulated), *flux):
            if not self.is_defined(definition["metadata"]["name"]):
                self.create(definition, CUSTOM_RESOURCE_DEFINITION)

    def converted(self, definition: Manifest) -> Manifest:
        """Return the CRD with a conversion webhook if its kind is in `converters` and it has no conversion itself.

        Otherwise return the CRD unchanged.
        """
        kind = (get_path(definition, "spec", "group"), get_path(definition, "spec", "names", "kind"))
        known = [(converter.group, converter.kind) for converter in self._converters]
        if kind not in known or get_path(definition, "spec", "conversion") is not None:
            return definition
        return {**definition, "spec": {**definition["spec"], "conversion": _CONVERSION}}

    def is_defined(self, name: str) -> bool:
        """Report whether a CustomResourceDefinition of this name exists."""
        return self.get(ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, name)) is not None

    # --- objects ------------------------------------------------------------------------------------------------------

    def kind(self, api_version: str, kind: str) -> Kind:
        """Return the kind with this apiVersion and name. Raises CommandError if the kind is not served."""
        resource = self.server.registry.of_kind(api_version, kind)
        if resource is None:
            raise CommandError(f"{api_version} {kind}: there is no such kind here; give its CRD with --crds")
        return resource.core_kind

    def ref(self, manifest: Manifest) -> ObjectRef:
        """Return the reference of a manifest. Raises CommandError if the manifest's kind is not served.

        A manifest of a namespaced kind without a namespace is in `default`.
        """
        kind = self.kind(str(manifest.get("apiVersion")), str(manifest.get("kind")))
        namespace = metadata(manifest).get("namespace", "default") if kind.namespaced else None
        return ObjectRef(kind, namespace, str(metadata(manifest).get("name", "")))

    def get(self, ref: ObjectRef) -> Manifest | None:
        """Return an object as stored now, or None if it does not exist."""
        try:
            return run_sync(self.admin.get(ref))
        except NotFound:
            return None

    def objects(self, kind: Kind) -> Sequence[Manifest]:
        """Return all objects of a kind. The result is empty if the kind is not served."""
        try:
            return run_sync(self.admin.list(kind)).items
        except KindMissing:
            return ()

    # --- actions of users ---------------------------------------------------------------------------------------------

    def create(self, manifest: Manifest, kind: Kind, manager: str = SOMEBODY) -> Manifest:
        """Create an object as a user does, and return it as it is stored.

        If `makes_namespaces` is set, the object's namespace is created first if it does not exist. `manager` is the
        field manager. Raises the errors of `KubeApi.create`.
        """
        namespace = metadata(manifest).get("namespace")
        if kind.namespaced and namespace and self.makes_namespaces:
            self.have_namespace(namespace)
        return run_sync(self.admin.create(manifest, kind=kind, field_manager=manager))

    def have_namespace(self, name: str) -> None:
        """Create the namespace `name`, unless it exists."""
        if self.get(ObjectRef(NAMESPACE, None, name)) is None:
            made = NAMESPACE.manifest(name, metadata={"labels": dict(self.namespace_labels)})
            run_sync(self.admin.create(made, kind=NAMESPACE, field_manager=SOMEBODY))

    def change(self, ref: ObjectRef, patch: Mapping[str, Any], manager: str = SOMEBODY) -> Manifest:
        """Change an object by a merge patch, as a user does, and return it as it is stored.

        `manager` is the field manager. Raises the errors of `KubeApi.patch`.
        """
        return run_sync(self.admin.patch(ref, patch, patch_type=PatchType.MERGE, field_manager=manager))

    def apply(self, manifest: Manifest, kind: Kind, manager: str) -> Manifest:
        """Apply an object with force, so that fields of other managers are taken over, and return it as it is stored.

        `manager` is the field manager. Raises the errors of `KubeApi.apply`.
        """
        return run_sync(self.admin.apply(manifest, kind=kind, field_manager=manager, force=True))

    def delete(self, ref: ObjectRef) -> None:
        """Delete an object as a user does. Raises the errors of `KubeApi.delete`."""
        run_sync(self.admin.delete(ref))

    # --- time --------------------------------------------------------------------------------------------------------

    def say(self, what: str) -> None:
        """Add the line `what` to the timeline, with the present time."""
        self.timeline.append(f"{(self.now() - self._began).total_seconds():8.1f} s  {what}")


def ready_of(manifest: Manifest) -> str:
    """Return the condition Ready of an object as one line of text."""
    ready = condition_of(manifest, "Ready")
    if not ready:
        return "no Ready"
    return f"Ready={ready.get('status')}/{ready.get('reason')} {ready.get('message', '')}".strip()


def kinds_with_work(kinds: Iterable[Kind]) -> tuple[str, ...]:
    """Return the names of the simulated controllers that act on any of these kinds, such as that of Deployments."""
    desired = set(kinds)
    return tuple(
        name for name in SIMULATED if any(desired & set(controller.subjects) for controller in CONTROLLERS[name])
    )


def plain_definition(kind: Kind) -> Manifest:
    """Return a CRD that admits every object, for a kind whose schema is unknown."""
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": free},
    }
    return crd_manifest(kind, [version])
