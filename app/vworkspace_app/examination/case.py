"""The run of a check on instances and Operations: its namespace, its simulated Flux, and its steps as a user."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Self

import attrs

from purekube.apimachinery.conditions import condition_of, conditions_by_type
from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, merge_patch
from purekube.apimachinery.resources import (
    CLUSTER_ROLE,
    EVENT,
    HELM_RELEASE,
    HELM_REPOSITORY,
    LEASE,
    OCI_REPOSITORY,
    ROLE_BINDING,
    SERVICE_ACCOUNT,
)
from purekube_run.examination.audit import RecordedRequest, Where
from purekube_run.examination.examination import HUMAN, Case, Examination
from purekube_run.examination.objects import is_owned_by, shown
from purekube_run.examination.patience import no_wait
from purekube_run.examination.verdicts import Catalogue, Check, NotTried
from vworkspace_app.examination.played import engines_in, flux_in
from vworkspace_core.api import labels
from vworkspace_core.api.installation import RELEASE_ACCOUNT
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.operations.settings import RUNNER
from vworkspace_fake.controlplane import ControlPlaneServer, JobEntry

CHART: Final = "oci://registry.example.com/charts/shop"
"""The chart of the instances that checks apply. A simulated Flux never fetches it."""
VERSION: Final = "1.0.0"
"""The chart version with which checks begin; later ones are 1.1.0 and 1.2.0."""
SOURCES: Final = (OCI_REPOSITORY, HELM_REPOSITORY)
CHILDREN: Final = (HELM_RELEASE, *SOURCES)
FAILED: Final = ("HelmReleaseFailed", "RolledBack")
"""The reasons of the condition Ready=False of an instance whose release failed."""
IMAGE: Final = "registry.example.com/shop:1"

NEEDS: Final[Mapping[str, str]] = {
    "control-plane": "{control_plane}, {token_file} and {cluster_id} in --operator",
    "replicas": "--replicas, a command that starts one of several replicas",
    "operations": "the CRD of Operations",
    "clusters": "the CRD of Clusters",
    "played-flux": "Flux played by the examiner (--flux played)",
    "velero": "the embedded cluster, or the CRDs of Velero",
    "snapshots": "the embedded cluster, or the CRDs of the CSI snapshotter",
    "embedded": "the embedded cluster, since it takes CRDs away",
}
"""The prerequisites that a check may have, each with the text that `conformance list` prints for it."""


class InstanceCase(Case):
    """One run of a check on instances or Operations, in a namespace of its own.

    Its methods are the steps that several checks need. A method raises Broken if the operator fails the check, and
    NotTried if the check could not be made.
    """

    labels: ClassVar = {labels.NAMESPACE_GATE: labels.NAMESPACE_GATE_VALUE}

    def __init__(self, examination: Examination, check: Check[Any]) -> None:
        super().__init__(examination, check)
        self.flux = flux_in(self.api, examination.group, self.namespace)
        self.engines = engines_in(self.api, examination.group, self.namespace)
        self._subjects: list[ObjectRef] = []
        played = CHILDREN if "played-flux" in examination.has else ()
        self.held = (APPLICATION_INSTANCE, OPERATION, *played)

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        if "played-flux" in self.examination.has:
            self.flux.begin()
        else:
            await self._permit_releases()
        for account in (RELEASE_ACCOUNT, RUNNER):
            made = SERVICE_ACCOUNT.manifest(account, self.namespace)
            await self.api.create(made, kind=SERVICE_ACCOUNT, field_manager=HUMAN)
        if self.check.clause.startswith("OPS"):
            self.engines.begin()
        return self

    async def _permit_releases(self) -> None:
        """Bind the releases' service account to the ClusterRole admin, so that a real Flux may install charts."""
        role = {"apiGroup": CLUSTER_ROLE.group, "kind": CLUSTER_ROLE.kind, "name": "admin"}
        subject = {"kind": SERVICE_ACCOUNT.kind, "name": RELEASE_ACCOUNT, "namespace": self.namespace}
        binding = ROLE_BINDING.manifest(RELEASE_ACCOUNT, self.namespace, roleRef=role, subjects=[subject])
        await self.api.create(binding, kind=ROLE_BINDING, field_manager=HUMAN)

    async def clean(self) -> None:
        """Wait until all instances and HelmReleases of the check are gone; the simulated Flux runs meanwhile.

        The caller has deleted their namespace. Then stop the simulated Flux and the simulated engines.
        """
        if "played-flux" in self.examination.has:
            self.flux.begin()

        async def gone() -> bool:
            return not await self.objects(APPLICATION_INSTANCE) and not await self.objects(HELM_RELEASE)

        await self.seen(gone)
        self.flux.pause()
        self.engines.pause()

    @property
    def cluster_id(self) -> str:
        """The id of the cluster that the operator serves."""
        return self.examination.values["cluster_id"]

    # --- instances ---------------------------------------------------------------------------------------------------

    def chart(self, version: str = VERSION) -> dict[str, str]:
        """Return the `spec.chart` of an instance for this chart version."""
        url, _, name = str(self.examination.played["chart"]).rpartition("/")
        return {"sourceType": "oci", "url": url, "name": name, "version": version}

    def manifest(self, name: str = "shop", **spec: Any) -> dict[str, Any]:
        """Return the manifest of an instance; `spec` replaces fields of its spec, and None removes a field."""
        fields = {
            "appRef": {"catalogId": "shop"},
            "chart": self.chart(),
            "release": {"name": name, "namespace": self.namespace},
            "values": {"source": "inline", "inline": {"replicaCount": 1}},
            **spec,
        }
        spec = {key: value for key, value in fields.items() if value is not None}
        return APPLICATION_INSTANCE.manifest(name, self.namespace, {"labels": self._marks()}, spec=spec)

    def _marks(self) -> dict[str, str]:
        return {labels.MANAGED_BY: labels.MANAGED_BY_VALUE, labels.CLUSTER_ID: self.cluster_id}

    async def instance(self, name: str = "shop", **spec: Any) -> ObjectRef:
        """Apply an instance as a GitOps tool does, and return its reference.

        The arguments are those of `InstanceCase.manifest`.
        """
        return await self.have(self.manifest(name, **spec))

    async def have(self, manifest: Manifest) -> ObjectRef:
        """Apply an instance with this manifest, and return its reference.

        If the check fails at a later wait, the instance's state is part of the evidence in its finding (result).
        """
        ref = await self.apply(manifest, APPLICATION_INSTANCE)
        self._subjects.append(ref)
        return ref

    async def want(self, ref: ObjectRef, version: str = "", **values: Any) -> int:
        """Edit an instance as a user: set the chart version and values in one write. Return the new generation."""
        change: dict[str, Any] = {"chart": {"version": version}} if version else {}
        change = merge_patch(change, {"values": {"inline": values}} if values else {})
        return int((await self.edit(ref, {"spec": change}))["metadata"]["generation"])

    async def at_work(self) -> None:
        """Apply an instance in another namespace, and wait until the operator has made its release.

        A process that waits for a Lease is silent, too. Raises NotTried if there is no release in time.
        """
        other = f"{self.namespace}-proof"
        await self.make_namespace(other, self.labels)
        manifest = self.manifest()
        manifest["metadata"]["namespace"] = manifest["spec"]["release"]["namespace"] = other
        ref = await self.have(manifest)
        release = attrs.evolve(self.release_ref(), namespace=other)
        await self.required(f"a release of {ref}", lambda: self.get(release), 3 * self.patience)

    def release_ref(self, name: str = "shop") -> ObjectRef:
        """Return the reference of an instance's HelmRelease."""
        return ObjectRef(HELM_RELEASE, self.namespace, name)

    async def release(self, name: str = "shop") -> Manifest:
        """Return the HelmRelease of an instance, as soon as it exists.

        After the time limit, raise NotTried (the check could not be made).
        """
        return await self.required("a HelmRelease of the operator (REC-4)", lambda: self.get(self.release_ref(name)))

    async def released(self, test: Any, what: str, name: str = "shop") -> Manifest:
        """Wait until `test` is true for the HelmRelease of an instance, and return it.

        After the time limit, raise NotTried (the check could not be made), with `what` in its message.
        """
        return await self.required(what, self.of(self.release_ref(name), lambda live: live if test(live) else None))

    async def ready(self, ref: ObjectRef) -> Manifest:
        """Wait until the instance is Ready at its generation, and return it.

        After the time limit, raise NotTried (the check could not be made) rather than Broken: only the check of REC-1
        counts that as a failure.
        """
        return await self.required("an instance that becomes Ready (REC-1)", lambda: self.is_ready(ref))

    async def is_ready(self, ref: ObjectRef) -> Manifest | None:
        """Return the instance if it is Ready at its present generation, else None."""
        return await self.of(ref, lambda live: live if is_ready_now(live) else None)()

    async def events_about(self, ref: ObjectRef) -> list[Manifest]:
        """Return the Events in the check's namespace about the object `ref`."""
        return [event for event in await self.objects(EVENT) if get_path(event, "regarding", "name") == ref.name]

    async def managed(self, name: str = "shop", **spec: Any) -> ObjectRef:
        """Apply an instance, wait until it is Ready, and return its reference. Raises NotTried after the time limit."""
        ref = await self.instance(name, **spec)
        await self.ready(ref)
        return ref

    async def condition(self, ref: ObjectRef, kind: str, status: str, *reasons: str) -> Manifest:
        """Wait until the object's condition `kind` has this status and one of `reasons`, and return the object.

        Without `reasons` any reason is accepted. Raises Broken after the time limit.
        """
        wanted = f"{kind}={status}" + (f"/{' or '.join(reasons)}" if reasons else "")
        return await self.until(f"{wanted} of {ref.name}", lambda: self.has_condition(ref, kind, status, *reasons))

    async def has_condition(self, ref: ObjectRef, kind: str, status: str, *reasons: str) -> Manifest | None:
        """Return the object if its condition `kind` has this status and one of `reasons`; otherwise return None.

        Without `reasons` any reason is accepted.
        """
        live = await self.get(ref)
        entry = condition_of(live, kind)
        return live if entry.get("status") == status and (not reasons or entry.get("reason") in reasons) else None

    async def explained(self, ref: ObjectRef, *words: str) -> Manifest:
        """Wait until the message of one of the object's conditions contains all these words, and return the object.

        Raises Broken after the time limit.
        """

        async def look() -> Manifest | None:
            live = await self.get(ref)
            messages = [str(entry.get("message")) for entry in conditions_by_type(live).values()]
            return live if any(all(word in message for word in words) for message in messages) else None

        return await self.until(f"a condition of {ref.name} that names {', '.join(words)}", look)

    async def refused_or(self, manifest: Manifest) -> ObjectRef | None:
        """Apply an instance, and return its reference. Return None if the API server refuses the instance.

        The refusal may come from the schema or from a webhook.
        """
        try:
            return await self.have(manifest)
        except OperatorError as error:
            self.evidence.append(f"refused by the API server: {error.message}")
            return None

    async def evidence_now(self) -> list[str]:
        """Return the present state of the objects that this check applied, and the operator's last two requests.

        Each is a line of text. They are the evidence in the finding (result) of a check that failed at a time limit.
        """
        lives = [shown(await self.get(ref)) for ref in self._subjects]
        return [*lives, *map(str, self.calls()[-2:])]

    def a_write(self, *kinds: Kind, name: str = "", verb: str = "") -> Where:
        """Return a predicate for requests: whether they write an object of these kinds in the check's namespace.

        An empty `name` or `verb` matches any.
        """

        def matches(call: RecordedRequest) -> bool:
            same = call.writes and call.is_of(*kinds) and call.path.namespace == self.namespace
            return same and name in ("", call.name) and verb in ("", call.verb)

        return matches

    def child_writes(self, since: int | None = None) -> list[RecordedRequest]:
        """Return the operator's writes of HelmReleases and chart sources in the check's namespace."""
        return [call for call in self.writes(since) if call.is_of(*CHILDREN)]

    def own_writes(self, since: int | None = None) -> list[RecordedRequest]:
        """Return the operator's writes in the check's namespace, except writes of Events and Leases."""
        return [call for call in self.writes(since) if not call.is_of(EVENT, LEASE) and call.path.plural != "events"]

    async def sources(self) -> Sequence[Manifest]:
        """Return all chart sources (OCIRepository, HelmRepository) in the namespace."""
        return [live for kind in SOURCES for live in await self.objects(kind)]

    async def children_of(self, uid: str) -> Sequence[Manifest]:
        """Return the HelmReleases and sources whose owner is the instance with this uid."""
        return [live for kind in CHILDREN for live in await self.objects(kind) if is_owned_by(live, uid)]

    # --- Operations --------------------------------------------------------------------------------------------------

    def operation(self, name: str, kind: str, engine: str, target: str = "shop", **spec: Any) -> dict[str, Any]:
        """Return the manifest of an Operation of the type `kind` on the instance `target`.

        `engine` is the engine that shall run it, such as `velero`. `spec` adds fields to its spec.
        """
        spec = {"targetRef": {"name": target}, "type": kind, "engine": engine, **spec}
        return OPERATION.manifest(name, self.namespace, {"labels": self._marks()}, spec=spec)

    async def operate(self, name: str, kind: str, engine: str, **spec: Any) -> ObjectRef:
        """Apply an Operation, and return its reference. The arguments are those of `InstanceCase.operation`.

        If the check fails at a later wait, the Operation's state is part of the evidence in its finding (result).
        """
        ref = await self.apply(self.operation(name, kind, engine, **spec), OPERATION)
        self._subjects.append(ref)
        return ref

    async def command(self, name: str = "run", **spec: Any) -> ObjectRef:
        """Apply an Operation that runs a command in a Job, and return its reference. `spec` adds fields to its spec."""
        parameters = {"image": IMAGE, "command": ["shop", "--version"]}
        return await self.operate(name, "RunCommand", "job", **{"parameters": parameters, **spec})

    async def target(self, *capabilities: tuple[str, str]) -> ObjectRef:
        """Apply an instance, wait until it is Ready, and annotate it with an engine for each capability, such as
        `backup`.

        `capabilities` are pairs of capability and engine.
        """
        ref = await self.managed()
        marks = {f"{labels.CAPABILITY_PREFIX}{name}": engine for name, engine in capabilities}
        await self.edit(ref, {"metadata": {"annotations": marks}})
        return ref

    async def phase(self, ref: ObjectRef, *phases: str) -> Manifest:
        """Wait until the phase of an Operation is one of `phases`, and return the Operation.

        Raises Broken after the time limit.
        """
        look = self.of(ref, lambda live: live if get_path(live, "status", "phase") in phases else None)
        return await self.until(f"phase {' or '.join(phases)} of Operation {ref.name}", look)

    async def made_for(self, ref: ObjectRef, kind: Kind) -> Sequence[Manifest]:
        """Return the objects of a kind that an engine created for an Operation."""
        live = await self.get(ref) or {}
        uid = str(get_path(live, "metadata", "uid") or "?")
        return [item for item in await self.objects(kind) if _label(item, labels.OPERATION_UID) == uid]

    # --- jobs --------------------------------------------------------------------------------------------------------

    @property
    def control(self) -> ControlPlaneServer:
        """The control plane that the examiner simulates. Raises NotTried if the operator was started without one."""
        control = self.examination.played.get("control")
        if not isinstance(control, ControlPlaneServer):
            raise NotTried(f"needs {NEEDS['control-plane']}")
        return control

    def offer(
        self, generation: int = 1, version: str = "1.0.0", name: str = "shop", kind: str = "apply", **fields: Any
    ) -> JobEntry:
        """Offer a job of `kind` for an instance, by default to apply the instance with this chart version.

        `generation` is the generation that the job requests, a part of its id and of its idempotency key. `fields`
        replace fields of the job, such as `payload`.
        """
        ref = ObjectRef(APPLICATION_INSTANCE, self.namespace, name)
        if ref not in self._subjects:
            self._subjects.append(ref)
        manifest = self.manifest(name, chart=self.chart(version))
        where = {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], "namespace": self.namespace}
        payload = manifest if kind == "apply" else {**where, "name": name}
        del manifest["metadata"]["labels"]
        key = f"ApplicationInstance/{self.namespace}/{name}@{generation}"
        given = {
            "payload": payload,
            "idempotency_key": key,
            "job_id": f"{self.namespace}-{name}-{generation}",
            **fields,
        }
        return self.control.enqueue(self.cluster_id, kind=kind, **given)

    async def result(self, job: JobEntry) -> Mapping[str, Any]:
        """Wait for the result of a job, and return it. Raises Broken after the time limit."""
        result: Mapping[str, Any] = await self.until(f"a result of job {job.id}", no_wait(lambda: job.result))
        return result

    async def acked(self, job: JobEntry) -> None:
        """Wait until a job is acknowledged.

        After the time limit, raise NotTried (the check could not be made) rather than Broken: only the check of PULL-1
        counts that as a failure.
        """
        is_acked = no_wait(lambda: job.acked_at is not None or job.result is not None)
        await self.required(f"an ack of job {job.id} (PULL-1)", is_acked)


CHECKS: Final[Catalogue[InstanceCase]] = Catalogue()
"""The catalogue of all checks, which the modules in `checks` fill when they are imported."""


def is_ready_now(live: Manifest) -> bool:
    """Report whether the instance's status has Ready=True for its present generation."""
    ready = condition_of(live, "Ready")
    observed = ready.get("observedGeneration") or get_path(live, "status", "observedGeneration")
    return ready.get("status") == "True" and observed == get_path(live, "metadata", "generation")


def _label(live: Manifest, name: str) -> str:
    return str(get_path(live, "metadata", "labels", name) or "")
