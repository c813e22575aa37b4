"""The requests of simulated users: Operations of every engine, and jobs, some of them repeated or forged.

An engine, such as Velero, carries out an Operation. A job is a unit of work that the control plane offers to the
operator; a repeated job has a new id.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

import attrs

from purekube.apimachinery.conditions import condition_of
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import CONFIG_MAP
from purekube.apimachinery.timestamps import parse_time
from purekube_run.simulation.laws import HOLD
from purekube_run.simulation.script import Act
from vworkspace_app.simulation.acts import Do
from vworkspace_app.simulation.operator_world import (
    APPROVAL_SECRET,
    BROKEN,
    CLASS,
    CLUSTER_ID,
    GUESTS,
    HOOK,
    OWN_NAMESPACE,
    STUCK,
    SimulatedWorld,
)
from vworkspace_core.api import labels
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.operations.approvals import approval_claim, parameters_digest
from vworkspace_core.operations.builtin import builtin_templates
from vworkspace_core.operations.engines import engine_kinds
from vworkspace_core.operations.templates import OperationTemplate
from vworkspace_fake.controlplane.jobs import JobEntry

_IMAGE: Final = "registry.example.test/tool:1"
_PARAMETERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "backup.velero": {"retention": "30d"},
    "backup.volsync": {"source": "data", "repository": "restic"},
    "backup.snapshot": {"pvc": "data", "snapshotClassName": CLASS},
    "restore.velero": {},
    "restore.volsync": {"destination": "data", "repository": "restic"},
    "restore.snapshot": {"size": "1Gi"},
    "migration.workflow": {"workflowTemplate": "migrate"},
    "migration.helmHookJob": {"hookName": HOOK},
    "runCommand.job": {"image": _IMAGE, "command": ["true"]},
    "runbook.workflow": {"workflowTemplate": "runbook"},
    "upgrade.helm": {},
}
"""The parameters of each template, without those that name objects of earlier Operations."""
_TEMPLATES: Final = {template.name: template for template in builtin_templates().items}
_BACKUPS: Final = ("velero", "volsync", "snapshot")
_MIGRATIONS: Final = ("workflow", "helmHookJob")
_EARLIER: Final = {"velero": "backupName", "snapshot": "snapshotName"}
"""The parameter by which a restore names the object of an earlier backup, by engine."""
_WITH_DEADLINE: Final = 3
"""Every third Operation has a deadline, before which its engine does not end."""
_DEADLINE: Final = 60
"""The deadline in seconds."""
_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)
"""The time for which an approval is valid, longer than a run: what is not used must not expire when it is at rest."""
_QUEUED: Final = timedelta(minutes=5)
"""The time after which users give up a run that Velero has not started."""
_LATE: Final = timedelta(hours=12)
"""The time since an approval expired, longer than the clocks of replicas are wrong."""
FORGED_REQUEST: Final = "request-forged"
"""The beginning of the ids of approvals that are signed with a wrong key (OPS-4)."""
MISFIT: Final = "misfit"
"""The beginning of the names of Operations that may not start (OPS-3)."""
_ANOTHER: Final = "simulated-2"
"""The id of another cluster."""
_OTHERS: Final = {"agreed": "to others"}
"""Parameters of which no Operation has any."""
_YEARLY: Final = "0 0 1 1 *"
"""A schedule that is never due in a run: an Operation with it goes on until it is cancelled."""


def engines_of(name: str) -> dict[str, str]:
    """Return the name of the engine (such as `velero`) for each capability (such as `backup`) of an instance.

    It depends on the number in the instance's name.
    """
    number = int(name.rpartition("-")[2])
    backups, migrations = _BACKUPS[number % len(_BACKUPS)], _MIGRATIONS[number % len(_MIGRATIONS)]
    others = {"upgrade": "helm", "runcommand": "job", "runbook": "workflow"}
    return {"backup": backups, "restore": backups, "migration": migrations, **others}


def _templates_of(name: str) -> list[OperationTemplate]:
    engines = engines_of(name)
    return [template for template in _TEMPLATES.values() if engines.get(template.capability) == template.engine]


@attrs.define
class OperationRequests:
    """The Operations that simulated users and jobs request, and the methods by which users request and change them.

    `asked` has the references of these Operations, in order of request, by the name of their instance.
    """

    world: SimulatedWorld
    asked: dict[str, list[ObjectRef]] = attrs.field(factory=dict)
    _first_approved: dict[str, str] = attrs.field(factory=dict, init=False)

    def manifest(self, act: Act, namespace: str, *, of: str = "") -> dict[str, Any]:
        """Return the manifest of a new Operation for `act`, a simulated user's action on the instance `act.name`.

        It is made from the template named `of`. If `of` is empty, `act.number` selects one of the templates for the
        instance.
        """
        choices = _templates_of(act.name)
        template = _TEMPLATES[of] if of else choices[act.number % len(choices)]
        stuck = f"{STUCK}-" if act.number % _WITH_DEADLINE == 2 else ""
        name = f"{stuck}{template.name.replace('.', '-').lower()}-{act.name}-{act.number}"
        target = {"apiVersion": APPLICATION_INSTANCE.api_version, "kind": APPLICATION_INSTANCE.kind, "name": act.name}
        parameters = {**_PARAMETERS[template.name], **self._further(template, act)}
        spec: dict[str, Any] = {
            "targetRef": target,
            "type": str(template.type),
            "engine": template.engine,
            "parameters": parameters,
        }
        if stuck:
            spec["timeoutSeconds"] = _DEADLINE
        # Not by parity alone: the number also selects the template, and some templates get only odd or even numbers.
        if template.name == "backup.volsync" and act.number % 4 in (1, 2):
            parameters["schedule"] = _YEARLY
        if template.needs_approval and act.number % 4 == 1:
            spec["approvals"] = self._approval(name, namespace, parameters, name)
        meta = {"labels": {labels.MANAGED_BY: labels.MANAGED_BY_VALUE, labels.CLUSTER_ID: CLUSTER_ID}}
        self.asked.setdefault(act.name, []).append(ObjectRef(OPERATION, namespace, name))
        return OPERATION.manifest(name, namespace, meta, spec=spec)

    def create(self, act: Act, namespace: str, *, of: str = "") -> None:
        """Create an Operation in `namespace` for `act`, a simulated user's action on the instance `act.name`.

        It is made from the template named `of`. If `of` is empty, `act.number` selects one of the templates for the
        instance. Raises errors of the API server.
        """
        manifest = self.manifest(act, namespace, of=of)
        if act.number % 5 == 2 and namespace != GUESTS:
            manifest["metadata"]["finalizers"] = [HOLD]
        self.world.create(manifest, OPERATION)

    def create_approved(self, act: Act, namespace: str, *, late: bool = False) -> None:
        """Create an Operation that has an approval already, for `act`, a simulated user's action on an instance.

        If `act.number` is odd, or the approval is `late`, which means that it has expired, the approval is new.
        Otherwise it is the first approval for the instance, which may have been used already. Raises errors of the API
        server.
        """
        manifest = self.manifest(act, namespace, of=f"backup.{engines_of(act.name)['backup']}" if late else "")
        name, spec = manifest["metadata"]["name"], manifest["spec"]
        first = name if late else self._first_approved.setdefault(act.name, name)
        request = name if act.number % 2 else first
        ends = -_LATE if late else _DAY
        spec["approvals"] = self._approval(name, namespace, spec["parameters"], request, ends)
        self.world.create(manifest, OPERATION)

    def create_forged(self, act: Act, namespace: str) -> None:
        """Create a backup with an approval that is not valid, for `act`, a simulated user's action on an instance.

        By `act.number`, the approval is for another namespace or for other parameters, or it is signed with a wrong
        key. Raises errors of the API server.
        """
        manifest = self.manifest(act, namespace, of=f"backup.{engines_of(act.name)['backup']}")
        name, spec = manifest["metadata"]["name"], manifest["spec"]
        parameters = spec["parameters"]
        match act.number % 4:
            case 1:
                spec["approvals"] = self._approval(name, "elsewhere", parameters, name)
            case 3:
                spec["approvals"] = self._approval(name, namespace, {**parameters, **_OTHERS}, name)
            case _:
                spec["approvals"] = self._approval(name, namespace, parameters, f"forged-{name}", secret=b"a guess")
        self.world.create(manifest, OPERATION)

    def create_misfit(self, act: Act, namespace: str) -> None:
        """Create an Operation that may not start, for `act`, a simulated user's action on the instance `act.name`.

        By `act.number`, the instance does not name its engine, its parameters are invalid, its target does not exist,
        or it is another cluster's or not managed at all. Raises errors of the API server.
        """
        variant = act.number % 5
        backups = [engine for engine in _BACKUPS if variant or engine != engines_of(act.name)["backup"]]
        manifest = self.manifest(act, namespace, of="runCommand.job" if variant else f"backup.{backups[0]}")
        *others, _ = self.asked.pop(act.name)  # nothing else is done with it
        if others:
            self.asked[act.name] = others
        meta, spec = manifest["metadata"], manifest["spec"]
        meta["name"] = f"{MISFIT}-{variant}-{act.name}-{act.number}"
        match variant:
            case 1:
                spec["parameters"] = {"image": _IMAGE, "command": "true"}
            case 2:
                spec["targetRef"] = {**spec["targetRef"], "name": "absent"}
            case 3:
                meta["labels"] = {**meta["labels"], labels.CLUSTER_ID: _ANOTHER}
            case 4:
                meta["labels"] = {}
            case _:
                pass
        self.world.create(manifest, OPERATION)

    def approve(self, act: Act) -> None:
        """Approve the last Operation on the instance `act.name`. Do nothing if there is none.

        If `act.number` is a multiple of four, the approval of the instance's first Operation is used instead of a new
        one; if it is another even number, the approval is for other parameters.
        """
        live = self._last(act.name)
        if live is None:
            return
        name, namespace = live["metadata"]["name"], live["metadata"]["namespace"]
        first = self.asked[act.name][0].name
        agreed = _OTHERS if act.number % 4 == 2 else live["spec"].get("parameters")
        claim = self._approval(name, namespace, agreed, first if act.number % 4 == 0 else name)
        self.world.change(ObjectRef(OPERATION, namespace, name), {"spec": {"approvals": claim}})

    def cancel(self, act: Act) -> None:
        """Request the cancellation of the last Operation on the instance `act.name`. Do nothing if there is none."""
        self._change(act.name, {"metadata": {"annotations": {labels.CANCEL: "true"}}})

    def stop_endless(self) -> None:
        """Request the cancellation of each Operation that would go on for ever.

        It has a schedule and no deadline, or its run is queued for minutes after one that does not end.
        """
        for live in self.world.objects(OPERATION):
            meta, parameters = live["metadata"], get_path(live, "spec", "parameters") or {}
            recurs = "schedule" in parameters and get_path(live, "spec", "timeoutSeconds") is None
            if (recurs or self._is_queued(live)) and labels.CANCEL not in (meta.get("annotations") or {}):
                ref = ObjectRef(OPERATION, meta["namespace"], meta["name"])
                self.world.change(ref, {"metadata": {"annotations": {labels.CANCEL: "true"}}})

    def _is_queued(self, live: Manifest) -> bool:
        running = condition_of(live, "Running")
        since = parse_time(str(running.get("lastTransitionTime"))) if running else None
        waits = running.get("reason") == "VeleroBackupQueued"
        return waits and since is not None and self.world.loop.now() - since > _QUEUED

    def delete(self, act: Act) -> None:
        """Delete the last Operation on the instance `act.name`, or the object that its engine runs, such as a Job.

        Do nothing if there is none. Without that object, nothing shows how the run ended (OPS-8).
        """
        if act.do != Do.DELETE_RUN and act.name in self.asked:
            self.world.delete(self.asked[act.name][-1])
        made = get_path(self._last(act.name), "status", "engineRef") or {}
        kind = next((each for each in engine_kinds() if each.kind == made.get("kind")), None)
        if act.do == Do.DELETE_RUN and kind is not None:
            self.world.delete(ObjectRef(kind, made["namespace"], made["name"]))

    def _change(self, name: str, patch: Mapping[str, Any]) -> None:
        if name in self.asked:
            self.world.change(self.asked[name][-1], patch)

    def _last(self, name: str) -> Manifest | None:
        return self.world.get(self.asked[name][-1]) if name in self.asked else None

    def _further(self, template: OperationTemplate, act: Act) -> Mapping[str, Any]:
        """Return the parameters that depend on the user's action, or on the engine object of an earlier Operation."""
        if act.do == Do.FAILING_UPGRADE:
            return {"targetVersion": BROKEN}
        if template.engine == "helm":
            return {"targetVersion": f"1.{act.number}.1", "valuesPatch": {"patched": act.number}}
        if template.capability == "restore" and (field := _EARLIER.get(template.engine)):
            return {field: self._made(act.name, template.engine) or "nothing-was-made"}
        return {}

    def _made(self, name: str, engine: str) -> str:
        """Return the name of the object, such as a Velero Backup, that `engine` made for the last successful backup.

        It is the backup of the instance `name`. The result is "" if there is none.
        """
        backups = [self.world.get(ref) for ref in self.asked.get(name, ())]
        done = [
            str(get_path(live, "status", "engineRef", "name"))
            for live in backups
            if get_path(live, "status", "phase") == "Succeeded"
            and (get_path(live, "spec", "type"), get_path(live, "spec", "engine")) == ("Backup", engine)
        ]
        return done[-1] if done else ""

    def _approval(
        self,
        name: str,
        namespace: str,
        parameters: Any,
        request: str,
        ends: timedelta = _DAY,
        *,
        secret: bytes = APPROVAL_SECRET,
    ) -> dict[str, Any]:
        """Return the `spec.approvals` of an Operation, with a claim that is signed with the key `secret`.

        `request` is the id of the approver's decision, which is valid for one run. It expires after the time `ends`.
        """
        now = self.world.loop.now()
        payload = {
            "at": now.isoformat(),
            "by": "alice",
            "exp": int((now + ends).timestamp()),
            "op": name,
            "rid": f"request-{request}",
            "ns": namespace,
            "params": parameters_digest(parameters),
        }
        return {"required": True, "claim": approval_claim(payload, secret)}


FORGED: Final = "9.9.9"
"""The chart version that only forged jobs request (PULL-9)."""
GHOST: Final = "ghost"
"""The prefix of instances that jobs only delete, in the end (PULL-4)."""
STRAY: Final = "stray"
"""The beginning of the names of instances without the label of managed ones, which no job may delete (PULL-10)."""
OUTSIDE: Final = "outside"
"""The beginning of the names of objects that no job may touch (PULL-10)."""
WITHDRAWN: Final = "withdrawn"
"""The beginning of the names of instances of jobs that are withdrawn at once (PULL-1)."""
TAKEN: Final = "taken"
"""The beginning of the names of instances whose HelmRelease others have made (REC-4)."""
EXPIRED: Final = "expired-0"
"""The instance that only an expired job requests (PULL-3)."""


@attrs.define
class JobRequests:
    """The jobs by which the control plane manages instances. `generations` counts the requests for each instance.

    `instance` returns an instance's manifest for its name, chart version and a number among its values. `space_of`
    returns the namespace of an instance by name.
    """

    world: SimulatedWorld
    instance: Callable[[str, str, int], Mapping[str, Any]]
    space_of: Callable[[str], str]
    generations: dict[str, int] = attrs.field(factory=dict)
    _versions: int = attrs.field(default=0, init=False)
    _offered_again: set[str] = attrs.field(factory=set, init=False)
    _has_offered_expired: bool = attrs.field(default=False, init=False)

    def offer_again(self) -> None:
        """Offer acknowledged jobs again after a restore of etcd, which may have lost their records."""
        if not self.world.was_restored:
            return
        for job in self.world.control.jobs:
            if job.open and job.acked_at is not None and job.id not in self._offered_again:
                self._offered_again.add(job.id)
                job.acked_at = job.offered_at = None
                self.world.control.wake()
                self.world.note("people", f"offer {job.id} again, since etcd was restored")

    def offer_expired(self) -> None:
        """Offer a job that has expired already, as after a long outage. Nothing may come of it (PULL-3)."""
        if not self._has_offered_expired:
            self._has_offered_expired = True
            self.world.control.enqueue(
                CLUSTER_ID,
                kind="apply",
                payload=self.instance(EXPIRED, "1.0.0", 0),
                idempotency_key=self._key(EXPIRED, 1),
                expires_in=-_HOUR,
            )

    def ask(self, act: Act) -> None:
        """Offer the job for a user's action: it changes or deletes an instance, or is a repeated or forged job."""
        do = Do(act.do)
        match do:
            case Do.REPLAY:
                self._replay(act)
            case Do.FORGED_JOB:
                self._forge(act.name)
            case Do.JOBS:
                self._together(act)
            case Do.STRAY_JOB:
                self._ask_for_stray(f"{STRAY}-{act.number}")
            case Do.OUTSIDE_JOB:
                self._reach_out(f"{OUTSIDE}-{act.number}", act.number % 4)
            case Do.WITHDRAWN_JOB:
                self._withdraw(f"{WITHDRAWN}-{act.number}", act.number % 10 / 100)
            case _:
                self._next(act.name, delete=do is Do.DELETE_JOB)

    def ask_for(self, operation: Mapping[str, Any]) -> None:
        """Offer a job that requests the Operation of which `operation` is the manifest."""
        meta = operation["metadata"]
        self._enqueue(
            "intent",
            {"intent": "request-operation", "operation": operation},
            f"{OPERATION.kind}/{meta['namespace']}/{meta['name']}@1",
        )

    def _together(self, act: Act) -> None:
        """Offer two jobs in one poll: under hashes, in their order, or by generations, with the newer one first.

        Half of the latter are about an object that must never exist, because the newer job deletes it.
        """
        name, variant = act.name, act.number % 3
        if variant == 1:
            for number in range(2):
                self._offer(name, f"{self._object(name)}@h{act.number}-{number}")
            return
        if variant == 2:
            name = f"{GHOST}-{name.rpartition('-')[2]}"
        older, newer = (self._key(name, self._count(name)) for _ in range(2))
        self._offer(name, newer, delete=variant == 2)
        self._offer(name, older)

    def _next(self, name: str, *, delete: bool) -> None:
        self._offer(name, self._key(name, self._count(name)), delete=delete)

    def _count(self, name: str) -> int:
        self.generations[name] = self.generations.get(name, 0) + 1
        return self.generations[name]

    def _offer(self, name: str, key: str, *, delete: bool = False) -> None:
        self._versions += 1
        identity = {"apiVersion": APPLICATION_INSTANCE.api_version, "kind": APPLICATION_INSTANCE.kind}
        payload: Mapping[str, Any] = (
            {**identity, "namespace": self.space_of(name), "name": name}
            if delete
            else self.instance(name, f"1.{self._versions}.0", self._versions)
        )
        self._enqueue("delete" if delete else "apply", payload, key)

    def _key(self, name: str, generation: int) -> str:
        return f"{self._object(name)}@{generation}"

    def _object(self, name: str) -> str:
        return f"{APPLICATION_INSTANCE.kind}/{self.space_of(name)}/{name}"

    def _enqueue(self, kind: str, payload: Mapping[str, Any], key: str) -> JobEntry:
        return self.world.control.enqueue(CLUSTER_ID, kind=kind, payload=payload, idempotency_key=key)

    def _withdraw(self, name: str, seconds: float) -> None:
        """Offer a job, and withdraw it after `seconds`: before its offer, before its ack, or when it has its effect."""
        job = self._enqueue("apply", self.instance(name, "1.0.0", 0), self._key(name, 1))
        self.world.loop.call_later(seconds, self.world.control.close_job, job.id)

    def _ask_for_stray(self, name: str) -> None:
        """Offer a job that deletes an instance which a user made for another operator (PULL-10)."""
        manifest = self.instance(name, "1.0.0", 0)
        self.world.create({**manifest, "metadata": {**manifest["metadata"], "labels": {}}}, APPLICATION_INSTANCE)
        self._next(name, delete=True)

    def _reach_out(self, name: str, variant: int) -> None:
        """Offer a job that applies an object beyond the scope of jobs (PULL-10).

        By `variant`, it is in a namespace that is not managed, it is meant for another cluster, it is of another kind,
        or it exists and is another cluster's.
        """
        manifest: dict[str, Any] = {**self.instance(name, "1.0.0", 0)}
        meta = manifest["metadata"]
        foreign = {**meta, "labels": {**meta["labels"], labels.CLUSTER_ID: _ANOTHER}}
        match variant:
            case 0:
                manifest["metadata"] = {**meta, "namespace": OWN_NAMESPACE}
                manifest["spec"] = {**manifest["spec"], "release": {"name": name, "namespace": OWN_NAMESPACE}}
            case 1:
                manifest["metadata"] = foreign
            case 2:
                manifest = CONFIG_MAP.manifest(name, meta["namespace"], data={})
            case _:
                self.world.create({**manifest, "metadata": foreign}, APPLICATION_INSTANCE)
        self._enqueue("apply", manifest, self._key(name, 1))

    def _replay(self, act: Act) -> None:
        """Offer an earlier job under a new id."""
        number = act.name.rpartition("-")[2]
        earlier = [
            job.raw
            for job in self.world.control.jobs
            if f"-{number}@" in job.raw["idempotencyKey"] and not is_forged(job.raw)
        ]
        if earlier:
            raw = earlier[act.number % len(earlier)]
            self._enqueue(raw["kind"], raw["payload"], raw["idempotencyKey"])

    def _forge(self, name: str) -> None:
        """Offer a job whose payload was replaced after it was signed, as an attacker on the network could do."""
        entry = self.world.control.enqueue(
            CLUSTER_ID,
            kind="apply",
            payload=self.instance(name, "1.0.0", 0),
            idempotency_key=self._key(name, self.generations.get(name, 0) + 1),
        )
        entry.raw = {**entry.raw, "payload": self.instance(name, FORGED, 0)}


def is_forged(raw: Mapping[str, Any]) -> bool:
    """Report whether a job is forged: forged jobs request a chart version of their own."""
    chart = (raw["payload"].get("spec") or {}).get("chart") or {}
    return bool(chart.get("version") == FORGED)
