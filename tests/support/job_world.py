"""The agent's machine among a real API server, a real control plane and a job store, all in memory.

Every effect waits until the test performs it, in the order and with the faults the test chooses; the process
can end at any moment and start again from what is durable. No event loop, no time but the test's.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import attrs

from kubelab.clock import ManualClock
from kubelab.inprocess import InProcessKube, run_sync
from kubelab.server import ApiServer
from purekube.apimachinery.errors import Invalid, JobClosed, NotFound, OperatorError
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, ref_of
from purekube.apimachinery.resources import NAMESPACE as NAMESPACE_KIND
from purekube.apimachinery.resources import SECRET
from purekube.controller.backoff import LogNote, Tick
from purekube.ports import PatchType, WatchEventType
from purekube_run.simulation.faults import Crash, Fault, calm
from tests.support.builders import NAMESPACE, condition
from tests.support.faulty_kube import FaultyKube
from tests.support.furnished import furnish
from tests.support.jobs import CLUSTER_ID, instance
from tests.support.memory_job_store import MemoryJobStore
from vworkspace_core.api import labels
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.operation import TERMINAL_PHASES, Phase
from vworkspace_core.control_plane.outbox import generation_in
from vworkspace_core.jobs import messages as m
from vworkspace_core.jobs.job_store import JobRecord, JobStore
from vworkspace_core.jobs.machine import AgentState, next_deadline, step
from vworkspace_core.jobs.object_status import can_still_start, is_called_off
from vworkspace_core.jobs.performer import JobPerformer
from vworkspace_core.jobs.result import JobOutcome
from vworkspace_core.jobs.scope import JobScope
from vworkspace_core.jobs.state import JobStage
from vworkspace_core.jobs.store import KubeJobStore
from vworkspace_core.jobs.store.codec import head_name
from vworkspace_fake.controlplane import ControlPlaneServer, InProcessControlPlane, JobEntry

TOKEN = "token"
OWN_NAMESPACE = "vworkspace-system"
OWN = (APPLICATION_INSTANCE, OPERATION)


@attrs.frozen
class Deed:
    """One effect that happened on the cluster, whether or not the agent heard of it."""

    verb: str
    job_id: str
    key: str
    name: str
    uid: str
    generation: int


class World:
    """Everything around one agent. `state` and `pending` are what a crash loses.

    Records are in memory, or in Secrets on the same API server.
    """

    def __init__(self, *, in_secrets: bool = False) -> None:
        self.clock = ManualClock()
        self.api = ApiServer(now=self.clock.now)
        self.kube = InProcessKube(self.api)
        numbers = count()
        self.control_server = ControlPlaneServer(now=self.clock.now, mint=lambda: f"t{next(numbers)}")
        self.control_server.tokens.add(CLUSTER_ID, TOKEN)
        self.control = InProcessControlPlane(self.control_server, TOKEN)
        self.faulty = FaultyKube(self.kube)
        self.store = MemoryJobStore()
        self.secrets: KubeJobStore | None = None
        self._in_secrets = in_secrets
        self.deeds: list[Deed] = []
        self.effective: dict[str, tuple[ObjectRef, str]] = {}  # jobs that had their effect or found it there
        self.notes: list[LogNote] = []
        self.offered_again: dict[str, str] = {}  # what was answered the first time
        self._prepare()
        self.start()

    def _prepare(self) -> None:
        furnish(self.kube, crd_manifests())
        self.namespace(NAMESPACE, {"managed-by": "vworkspace"})
        self.namespace("elsewhere", {})
        self.namespace(OWN_NAMESPACE, {})

    def namespace(self, name: str, found: Mapping[str, str]) -> None:
        """Create a namespace with these labels."""
        manifest = {**NAMESPACE_KIND.manifest(name), "metadata": {"name": name, "labels": dict(found)}}
        run_sync(self.kube.create(manifest, kind=NAMESPACE_KIND, field_manager="setup"))

    def start(self) -> None:
        """A new process: it knows nothing but what is durable."""
        self.state = AgentState(JobScope(CLUSTER_ID))
        self.pending: list[m.JobEffect] = []
        self.refused: list[m.PostResult] = []  # tried again after the next poll, slowly, as the lane does
        self.posted: dict[str, Mapping[str, Any]] = {}
        self.watches = [(kind, self.kube.open_watch(kind)) for kind in OWN]
        self.secrets = KubeJobStore(self.faulty, OWN_NAMESPACE, room=300) if self._in_secrets else None
        store: JobStore = self.secrets or self.store
        self.performer = JobPerformer(self.faulty, store)
        for record in run_sync(_loaded(store)):
            self.feed(m.Resumed(record))

    def records(self) -> dict[str, JobRecord]:
        """What is durable of open jobs."""
        if not self._in_secrets:
            return self.store.records
        return {found.job_id: found for found in run_sync(_loaded(KubeJobStore(self.kube, OWN_NAMESPACE)))}

    def has_record(self, job_id: str) -> bool:
        """Whether the job is on record."""
        if not self._in_secrets:
            return job_id in self.store.records
        return self._live(ObjectRef(SECRET, OWN_NAMESPACE, head_name(job_id))) is not None

    def feed(self, event: m.JobEvent) -> None:
        """One step of the machine; its effects join what is pending."""
        self.state, effects = step(self.state, event, self.clock.now())
        self._check_step(event, effects)
        for effect in effects:
            if isinstance(effect, LogNote):
                self.notes.append(effect)
            else:
                self.pending.append(effect)

    def _check_step(self, event: m.JobEvent, effects: Sequence[m.JobEffect]) -> None:
        """Check what every step owes: no status is posted twice, and a step that worked has nothing to try again."""
        for effect in effects:
            if isinstance(effect, m.PostStatus):
                told = {name: value for name, value in effect.body.items() if name != "timestamp"}
                assert self.posted.get(effect.job_id) != told, f"{effect.job_id} is told the same twice"
                self.posted[effect.job_id] = told
        for job in self.state.jobs.values():
            succeeded = job.result is not None and job.result.outcome is JobOutcome.SUCCEEDED
            if job.ref is not None and (job.had_effect or succeeded):
                self.effective[job.id] = job.ref, job.key
        if isinstance(event, m.Recorded | m.Acked | m.Inspected | m.Applied | m.DeleteSent | m.RecordClosed):
            own = self.state.jobs.get(event.job_id)
            waits = own is None or own.stage in (JobStage.WAITING, JobStage.READY)
            assert waits or own is None or own.retry.at is None, f"{event.job_id} tries again what worked"

    # --- performing -----------------------------------------------------------------------------------------

    def perform(self, at: int, *, fault: str = "") -> None:
        """Perform the pending effect `at`. `fault` is empty, "before" or "after" the effect."""
        effect = self.pending.pop(at)
        if isinstance(effect, m.SendAck | m.PostResult | m.PostStatus):
            self._tell(effect, fault)
            return
        if isinstance(effect, LogNote):
            raise AssertionError("notes are not pending")
        answer = m.StepFailed(effect.job_id, "unavailable") if fault == "before" else self._act(effect)
        self.feed(m.StepFailed(effect.job_id, "unanswered") if fault else answer)

    def perform_cut(self, at: int, number: int, fault: Fault) -> None:
        """Perform the pending effect `at` on the cluster or the job store, with `fault` at the call of that number."""
        effect = self.pending.pop(at)
        self.faulty.strike_at(number, fault)
        try:
            answer = self._act(effect)
        except Crash:
            self.faulty.schedule = calm
            self.start()
        else:
            self.faulty.schedule = calm
            self.feed(answer)

    def _act(self, effect: Any) -> m.JobEvent:
        touched = isinstance(effect, m.ApplyForJob | m.DeleteForJob)
        before = self._live(effect.ref) if touched else None
        try:
            return run_sync(self.performer.perform(effect))
        finally:
            if touched:
                self._compare(effect, before, self._live(effect.ref))

    def _compare(self, effect: m.ApplyForJob | m.DeleteForJob, before: Manifest | None, after: Manifest | None) -> None:
        """Remember what the effect did, whether or not anybody was told."""
        if isinstance(effect, m.ApplyForJob):
            if after is not None and _mark(before) != _mark(after):
                self._did("apply", effect.job_id, after)
        elif before is not None and not _is_going(before) and (after is None or _is_going(after)):
            self._did("delete", effect.job_id, before)

    def _live(self, ref: ObjectRef) -> Manifest | None:
        try:
            return run_sync(self.kube.get(ref))
        except NotFound:
            return None

    def _did(self, verb: str, job_id: str, live: Manifest) -> None:
        key = self.control_server.jobs.get(job_id).raw["idempotencyKey"]
        generation = int(key.rpartition("@")[2]) if "@" in key else 0
        self.deeds.append(Deed(verb, job_id, key, live["metadata"]["name"], live["metadata"]["uid"], generation))

    def _tell(self, effect: m.SendAck | m.PostResult | m.PostStatus, fault: str) -> None:
        again = fault != "" and not isinstance(effect, m.PostStatus)
        answer: m.JobEvent | None = None if fault == "before" else self._told(effect)
        if again:
            self.pending.append(effect)
            if fault == "after" and isinstance(effect, m.SendAck):
                self.feed(m.AckLost(effect.job_id))
        elif answer is not None:
            self.feed(answer)

    def _told(self, effect: m.SendAck | m.PostResult | m.PostStatus) -> m.JobEvent | None:
        try:
            match effect:
                case m.SendAck(job_id):
                    run_sync(self.control.ack(job_id))
                    return m.Acked(job_id)
                case m.PostResult(job_id, body):
                    self._judge(job_id, body)
                    run_sync(self.control.result(job_id, body))
                    return m.ResultAccepted(job_id)
                case m.PostStatus(job_id, body):
                    run_sync(self.control.status(job_id, body))
        except JobClosed:
            return m.JobAlreadyClosed(effect.job_id)
        except NotFound:
            if isinstance(effect, m.SendAck):
                return m.JobGone(effect.job_id)
            if isinstance(effect, m.PostResult):
                return m.ResultAccepted(effect.job_id)
        except Invalid:
            # A control plane that was restored from before the ack takes nothing until it has offered the job again.
            assert effect.job_id in self.offered_again, "only what was forgotten is refused"
            if isinstance(effect, m.PostResult):
                self.refused.append(effect)
        return None

    def _judge(self, job_id: str, body: Mapping[str, Any]) -> None:
        """A result must be true when it is posted for the first time."""
        job = self.control_server.jobs.get(job_id)
        outcome, error = body["outcome"], body.get("error", "")
        if job.result is not None or not isinstance(job.raw.get("payload"), Mapping):
            return
        own = [deed for deed in self.deeds if deed.job_id == job_id]
        others = [deed for deed in self.deeds if deed.job_id != job_id and deed.key == job.raw.get("idempotencyKey")]
        there = {live["metadata"]["uid"]: live for live in self.instances()}
        if outcome == "noop" and not error:
            assert not own or job_id in self.offered_again, "a crash between apply and result is no replay"
            before = [get_path(entry.result, "outcome") for entry in self.entries() if key_of(entry) == key_of(job)]
            answered = self.offered_again.get(job_id) == "noop" or "noop" in before
            assert own or others or answered or job.raw["kind"] == "delete", "a replay has something it replays"
        if outcome == "succeeded" and job.raw["kind"] == "apply":
            assert own, "success needs an effect"
        if (outcome == "succeeded" and job.raw["kind"] == "delete") or error.startswith("Deleted: "):
            assert not [deed for deed in own if deed.uid in there], "what is called gone is gone"
        if error.startswith("Superseded: "):
            self._had_a_successor(job_id, key_of(job))
        if outcome == "noop" and error == "expired":
            assert not own, "an expired job has had no effect"
        if outcome in ("failed", "conflict") and not error.startswith("Superseded: "):
            left = [
                operation
                for operation in self.operations()
                if operation["metadata"]["uid"] in {deed.uid for deed in own}
            ]
            assert not any(map(can_still_start, left)), "what is called failed is never carried out later"

    # --- what comes in --------------------------------------------------------------------------------------

    def _had_a_successor(self, job_id: str, key: str) -> None:
        """Check that another job had its effect on the object, a newer one where both have a generation."""
        ref = self.state.jobs[job_id].ref
        assert ref is not None
        own = generation_in(key, ref)
        others = [(of, deed.key) for deed in self.deeds if deed.name == ref.name and (of := deed.job_id) != job_id]
        others += [(of, other) for of, (about, other) in self.effective.items() if about == ref and of != job_id]
        newer = [other for _, other in others if own is None or (generation_in(other, ref) or own + 1) > own]
        assert newer, f"{job_id} ended Superseded, and nothing newer had its effect"

    def fetch(self) -> None:
        """One poll."""
        self.pending += self.refused
        self.refused.clear()
        fetched = run_sync(self.control.fetch(CLUSTER_ID, 0))
        if fetched.server_time is not None:
            self.feed(m.ServerTime(fetched.server_time))
        for raw in fetched.jobs:
            self.feed(m.Offered(raw))

    def offer_again(self, job: JobEntry) -> None:
        """The control plane was restored from before the ack: it knows neither ack nor result."""
        self.offered_again[job.id] = str(get_path(job.result, "outcome"))
        self.posted.pop(job.id, None)  # it knows no status either
        job.acked_at = job.closed_at = job.offered_at = job.result = None

    def deliver(self) -> None:
        """Let the informer tell everything it has."""
        for kind, watch in self.watches:
            for event in watch.drain():
                if event.type is not WatchEventType.BOOKMARK:
                    live = None if event.type is WatchEventType.DELETED else event.object
                    self.feed(m.ObjectChanged(ref_of(event.object, kind), live))

    def advance(self, seconds: float) -> None:
        """Let time pass, and tell the machine when something is due."""
        self.clock.advance(seconds)
        self.tick()

    def tick(self) -> None:
        """Tell the time when something is due; after it nothing may be."""
        due = next_deadline(self.state)
        if due is not None and due <= self.clock.now():
            self.feed(Tick())
        after = next_deadline(self.state)
        assert after is None or after > self.clock.now(), "a Tick leaves nothing due behind it"

    # --- the cluster ----------------------------------------------------------------------------------------

    def instances(self) -> list[Manifest]:
        """Every ApplicationInstance there is."""
        return list(run_sync(self.kube.list(APPLICATION_INSTANCE)).items)

    def operations(self) -> list[Manifest]:
        """Every Operation there is."""
        return list(run_sync(self.kube.list(OPERATION)).items)

    def decide_on(self, live: Manifest, *, accepts: bool = True) -> None:
        """What the reconciler makes of an Operation next: it never starts one that is called off (OPS-11)."""
        phase = get_path(live, "status", "phase")
        if phase in TERMINAL_PHASES:
            return
        if phase == Phase.RUNNING.value:
            self._operation_says(live, Phase.SUCCEEDED, condition("Succeeded", "True", "Done"))
        elif is_called_off(live):
            self._operation_says(live, Phase.CANCELLED, condition("Cancelled", "True", "UserCancelled"))
        elif accepts:
            self._operation_says(live, Phase.RUNNING, condition("Accepted", "True", "TemplateValidated"))
        else:
            self._operation_says(live, Phase.PENDING, condition("Accepted", "False", "TargetNotFound"))

    def _operation_says(self, live: Manifest, phase: Phase, told: Mapping[str, Any]) -> None:
        """Write that status of exactly this copy."""
        meta = live["metadata"]
        since = get_path(live, "status", "startedAt") or ("2026-01-01T00:00:00Z" if phase is Phase.RUNNING else None)
        status = {
            "phase": phase.value,
            "observedGeneration": meta["generation"],
            "conditions": [{**told, "observedGeneration": meta["generation"]}],
            "observedRequest": labels.request_mark(meta.get("annotations") or {}),
            **({"startedAt": since} if since else {}),
        }
        manifest = OPERATION.manifest(meta["name"], meta["namespace"])
        manifest["metadata"] |= {"resourceVersion": meta["resourceVersion"]}
        run_sync(
            self.kube.apply_status({**manifest, "status": status}, kind=OPERATION, field_manager=labels.FIELD_MANAGER)
        )

    def hold(self, live: Manifest) -> None:
        """Put a finalizer on the object, as the reconciler does before it writes anything downstream."""
        if not get_path(live, "metadata", "deletionTimestamp"):
            self._patch(live, {"metadata": {"finalizers": [labels.FINALIZER]}})

    def release(self, live: Manifest) -> None:
        """Take the finalizer off: a terminating object is gone then."""
        self._patch(live, {"metadata": {"finalizers": None}})

    def _patch(self, live: Manifest, patch: Any) -> None:
        ref = ref_of(live, APPLICATION_INSTANCE)
        run_sync(self.kube.patch(ref, patch, patch_type=PatchType.MERGE, field_manager="reconciler"))

    def remove(self, live: Manifest) -> None:
        """Somebody deletes the object."""
        run_sync(self.kube.delete(ref_of(live, APPLICATION_INSTANCE)))

    def report(self, live: Manifest, *conditions: Mapping[str, Any]) -> None:
        """Write these conditions, at the object's present generation, as its status."""
        generation = live["metadata"]["generation"]
        found = [{**c, "observedGeneration": generation} for c in conditions]
        manifest = {
            **APPLICATION_INSTANCE.manifest(live["metadata"]["name"], live["metadata"]["namespace"]),
            "status": {"observedGeneration": generation, "conditions": found},
        }
        run_sync(self.kube.apply_status(manifest, kind=APPLICATION_INSTANCE, field_manager=labels.FIELD_MANAGER))

    def create_by_hand(self, name: str) -> None:
        """Somebody makes an instance that no job asked for."""
        run_sync(self.kube.create(instance(name), kind=APPLICATION_INSTANCE, field_manager="kubectl-create"))

    def take_field(self, live: Manifest, catalog_id: str) -> None:
        """Another manager writes a field that the control plane wrote."""
        ref = ref_of(live, APPLICATION_INSTANCE)
        patch = {"spec": {"appRef": {"catalogId": catalog_id}}}
        run_sync(self.kube.patch(ref, patch, patch_type=PatchType.MERGE, field_manager="kubectl-edit"))

    # --- the end --------------------------------------------------------------------------------------------

    def calm(self, *, rounds: int = 8) -> None:
        """For a while nothing goes wrong."""
        for _ in range(rounds):
            self.fetch()
            while self.pending:
                self.perform(0)
            self._reconcile()
            self.deliver()
            self.advance(6)

    def settle(self, *, rounds: int = 400) -> None:
        """No more faults: everything is performed, told and reconciled until nothing moves."""
        for _ in range(rounds):
            self.fetch()
            while self.pending:
                self.perform(0)
            self._reconcile()
            self.deliver()
            if not self.pending and not self.state.jobs and not self._offers():
                return
            self.advance(5)
        raise AssertionError(f"not settled: {self.state.jobs}")

    def _offers(self) -> bool:
        return any(job.open and job.acked_at is None for job in self.control_server.jobs)

    def _reconcile(self) -> None:
        for live in self.instances():
            if get_path(live, "metadata", "deletionTimestamp"):
                self.release(live)
            else:
                self.report(live, condition("Ready", "True", "HelmReleaseReady"))
        for live in self.operations():
            self.decide_on(live)

    def entries(self) -> Iterator[JobEntry]:
        """Every job of the control plane."""
        return iter(self.control_server.jobs)

    def result_of(self, job_id: str) -> Any:
        """Result of a job, as the control plane has it."""
        return self.control_server.jobs.get(job_id).result


def key_of(job: JobEntry) -> Any:
    """The key under which the job was asked for; None for one that is no job at all."""
    return get_path(job.raw, "idempotencyKey")


async def _loaded(store: JobStore) -> list[JobRecord]:
    return list(await store.load())


def _mark(live: Manifest | None) -> Any:
    """What a job's apply changes."""
    return live and (live["metadata"]["uid"], live["spec"], live["metadata"].get("annotations"))


def _is_going(live: Manifest) -> bool:
    return bool(live["metadata"].get("deletionTimestamp"))


def quiet(call: Any) -> bool:
    """Whether a call of the test's own went through; what it met may have gone meanwhile."""
    try:
        call()
    except OperatorError:
        return False
    return True


def object_ref(name: str) -> ObjectRef:
    """An instance in the gated namespace."""
    return ObjectRef(APPLICATION_INSTANCE, NAMESPACE, name)
