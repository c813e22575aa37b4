"""The demo's story about Operations, act by act. Everything that it shows is also checked (OPS-1 to OPS-12, PULL-3)."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import attrs

from kubelab.downstream import DownstreamRule
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import JOB
from vworkspace_app.demo.demo_world import DemoWorld
from vworkspace_app.demo.narrator import Narrator, conditions, created_for, gone, operation_says, phase_is
from vworkspace_app.demo.operations_scene import CAPABILITIES, REQUESTS, SLOW, OperationRequest, approval
from vworkspace_app.demo.scene import APPLICATION, CLUSTER, FIRST, NAME, NAMESPACE_NAME
from vworkspace_app.demo.stage import Stage
from vworkspace_core.api.kinds import OPERATION
from vworkspace_core.api.labels import CANCEL, CAPABILITY_PREFIX
from vworkspace_fake.controlplane.jobs import JobEntry


@attrs.define
class OperationsTeller(Narrator[DemoWorld]):
    """The narrator of the demo's story about Operations on one application."""

    generation: int = 0
    jobs: int = 0

    # --- Odoo's side -----------------------------------------------------------------------------------------------

    def ensure(self, **engines: str) -> JobEntry:
        """Enqueue the job by which Odoo requests the instance, and return the job.

        The instance has an annotation with the engine of each capability, such as `backup`. `engines` replaces the
        default engines of some capabilities, such as `backup="velero"`.
        """
        self.generation += 1
        marks = {CAPABILITY_PREFIX + name: engine for name, engine in {**CAPABILITIES, **engines}.items()}
        desired = APPLICATION.manifest(FIRST)
        desired["metadata"]["annotations"] = marks
        return self._enqueue(kind="apply", payload=desired, idempotency_key=APPLICATION.key(self.generation))

    def ask(self, request: OperationRequest, version: int = 1) -> JobEntry:
        """Enqueue the job by which Odoo requests an Operation, and return the job.

        `version` is part of the job's idempotency key: a higher version changes the spec of the same Operation.
        """
        return self._enqueue(**request.job_in(NAMESPACE_NAME, version))

    def _enqueue(self, **job: Any) -> JobEntry:
        self.jobs += 1
        return self.world.control.enqueue(CLUSTER, job_id=f"job-{self.jobs}", **job)

    # --- small helpers ---------------------------------------------------------------------------------------------

    async def succeeded(self, job: JobEntry) -> Mapping[str, Any]:
        """Wait for the job's result, check that the job succeeded, and return the result."""
        result = await self.result(job)
        self.stage.check(f"{job.id} succeeded", wanted="succeeded", actual=result.get("outcome"))
        return result

    async def failed(self, job: JobEntry, reason: str) -> None:
        """Wait for the job's result, and check that the job failed for `reason`."""
        result = await self.result(job)
        self.posted("·", result)
        actual_reason = str(result.get("error")).partition(":")[0]
        self.stage.check(
            f"{job.id} failed: {reason}", wanted=("failed", reason), actual=(result.get("outcome"), actual_reason)
        )

    def engine_objects(self, name: str) -> list[str]:
        """Return the names of all engine objects (such as Jobs) that were created for the Operation with this name."""
        desired = created_for(name)
        return [get_path(seen.object, "metadata", "name") for seen in self.world.spectator.sightings if desired(seen)]

    def ran_together(self, *names: str) -> bool:
        """Report whether these Operations were ever Running at the same time."""
        phases: dict[str, object] = {}
        for seen in self.world.spectator.sightings:
            if seen.kind == OPERATION:
                phases[get_path(seen.object, "metadata", "name")] = get_path(seen.object, "status", "phase")
                if all(phases.get(name) == "Running" for name in names):
                    return True
        return False

    # --- the acts --------------------------------------------------------------------------------------------------

    async def application(self) -> None:
        """Create the application, which is the target of all later acts."""
        stage = self.stage
        stage.act(
            "An application", f'Odoo asks {CLUSTER} for "{NAME}", chart nextcloud {FIRST}, and what it is good at'
        )
        job = self.ensure()
        stage.step(
            "·", self.now, "which engine for what", {"annotations": job.raw["payload"]["metadata"]["annotations"]}
        )
        await self.succeeded(job)

    async def every_engine(self) -> None:
        """Run one Operation of each engine to its end."""
        self.stage.act("One operation per engine", "each asked for by an intent, each to its end")
        for request in REQUESTS:
            capability = request.type.lower()
            if CAPABILITIES.get(capability) != request.engine:
                await self.result(self.ensure(**{capability: request.engine}))
            await self._run(request)
        await self.result(self.ensure())

    async def _run(self, request: OperationRequest) -> None:
        stage, since = self.stage, self.mark
        stage.step(request.engine, self.now, f"{request.type} {request.name}", {"parameters": dict(request.parameters)})
        job = self.ask(request)
        if request.engine != "helm":
            made = await self.see(created_for(request.name), f"the object that makes {request.engine} work", since)
            stage.step("·", made.at, f"made: {made.kind.kind} {_where(made.object)}")
        ended = await self.see(phase_is(request.name, "Succeeded"), f"{request.name} Succeeded", since)
        payload = {"outputs": get_path(ended.object, "status", "outputs"), "conditions": conditions(ended.object)}
        stage.step("·", ended.at, "Succeeded", payload)
        await self.succeeded(job)

    async def conflict_and_approval(self) -> None:
        """Show a restore that is blocked, first because it lacks an approval, then because a backup runs."""
        stage, since = self.stage, self.mark
        stage.act("A conflict, and an approval", "a restore needs somebody's word, and excludes the backup that runs")
        backup = self.ask(OperationRequest("slow-backup", "Backup", "velero"))
        await self.see(phase_is("slow-backup", "Running"), "the backup running", since)
        saved = self.engine_objects("nightly")[0]
        restore = OperationRequest("restore", "Restore", "velero", {"backupName": saved})
        first = self.ask(restore)
        await self._blocked("restore", "AwaitingApproval", since)
        claim = approval("restore", restore.parameters, datetime.now(UTC))
        again = self.ask(attrs.evolve(restore, more={"approvals": {"required": True, "claim": claim}}), version=2)
        stage.step(
            "·", self.now, "alice agrees in Odoo, which sends it again with her claim", {"claim": claim[:21] + "…"}
        )
        await self.failed(first, "Superseded")
        message = await self._blocked("restore", "ConflictingOperation", since)
        stage.check("it names what it waits for", wanted=True, actual="slow-backup" in message)
        stage.check("nothing was created for it yet", wanted=[], actual=self.engine_objects("restore"))
        self._let_end(SLOW)
        await self.succeeded(backup)
        await self.succeeded(again)
        together = self.ran_together("slow-backup", "restore")
        stage.check("they never ran at the same time", wanted=False, actual=together)
        stage.check("one restore was made", wanted=1, actual=len(self.engine_objects("restore")))

    def _let_end(self, rule: DownstreamRule) -> None:
        engines = self.world.place.engines
        rules = tuple(candidate for candidate in engines.behaviour.rules if candidate != rule)
        engines.behaviour = attrs.evolve(engines.behaviour, rules=rules)

    async def _blocked(self, name: str, reason: str, since: int) -> str:
        """Wait until an Operation is Blocked for `reason`, and return the message of the condition."""
        seen = await self.see(operation_says(name, "Blocked", f"True/{reason}"), f"Blocked/{reason}", since)
        entries = get_path(seen.object, "status", "conditions")
        message = next(str(entry.get("message")) for entry in entries if entry["type"] == "Blocked")
        self.stage.step("·", seen.at, f"{name} is Blocked/{reason}: {message}")
        return message

    async def cancellation(self) -> None:
        """Show the cancellation of an Operation whose Workflow hangs. The Workflow is deleted first."""
        stage, since = self.stage, self.mark
        stage.act("A cancellation", "a runbook hangs, and somebody has seen enough")
        job = self.ask(
            OperationRequest("stuck-runbook", "Runbook", "workflow", {"workflowTemplate": "nextcloud-checkup"})
        )
        made = await self.see(created_for("stuck-runbook"), "the Workflow", since)
        await self.see(operation_says("stuck-runbook", "Running", "True/WorkflowInProgress"), "it at work", since)
        patch = {"metadata": {"annotations": {CANCEL: "true"}}}
        await self.edit(ObjectRef(OPERATION, NAMESPACE_NAME, "stuck-runbook"), patch, "kubectl-annotate")
        stage.step("·", self.now, f"kubectl annotate operation stuck-runbook {CANCEL}=true")
        name = str(get_path(made.object, "metadata", "name"))
        went = await self.see(gone(made.kind, name), "the Workflow gone", since)
        ended = await self.see(phase_is("stuck-runbook", "Cancelled"), "Cancelled", since)
        stage.step("·", went.at, f"Workflow {name} is gone")
        self.show("·", ended, "Cancelled")
        await self.failed(job, "Cancelled")

    async def timeout(self) -> None:
        """Show that an Operation whose Job hangs fails at its deadline, and that the Job is deleted."""
        stage, since = self.stage, self.mark
        stage.act("A deadline", "a command hangs; it was given a second")
        command = {"image": "nextcloud:30", "command": ["sleep", "infinity"]}
        job = self.ask(OperationRequest("stuck-command", "RunCommand", "job", command, {"timeoutSeconds": 1}))
        ended = await self.see(phase_is("stuck-command", "Failed"), "Failed", since)
        self.show("·", ended, "Failed")
        status = ended.object["status"]
        passed = datetime.fromisoformat(status["finishedAt"]) - datetime.fromisoformat(status["startedAt"])
        stage.check("it ended at its deadline, not before", wanted=True, actual=passed.total_seconds() >= 1.0)
        # On a slow machine the deadline may pass before the Job is made.
        for name in self.engine_objects("stuck-command"):
            went = await self.see(gone(JOB, name), "the Job gone", since)
            stage.step("·", went.at, f"Job {name} is gone")
        await self.failed(job, "Timeout")

    async def partial(self) -> None:
        """Show that an Operation whose backup is partial succeeds, with the condition Degraded."""
        stage, since = self.stage, self.mark
        stage.act("A backup in part", "Velero could not save everything")
        job = self.ask(OperationRequest("partial-backup", "Backup", "velero"))
        ended = await self.see(phase_is("partial-backup", "Succeeded"), "Succeeded", since)
        outputs = get_path(ended.object, "status", "outputs")
        self.show("·", ended, "Succeeded", outputs=outputs)
        degraded_state = conditions(ended.object).get("Degraded")
        stage.check("it is Degraded", wanted="True/PartialFailure", actual=degraded_state)
        counts = {name: get_path(outputs, name) for name in ("totalItems", "errors", "warnings")}
        stage.check("the counts are told", wanted={"totalItems": 120, "errors": 3, "warnings": 2}, actual=counts)
        await self.succeeded(job)

    async def afterwards(self) -> None:
        """Show that a finished Backup stays when the Operation that created it is deleted."""
        stage, since = self.stage, self.mark
        stage.act("Afterwards", "the request for the first backup is deleted; the backup is not")
        ref = ObjectRef(OPERATION, NAMESPACE_NAME, "nightly")
        backup = next(seen for seen in self.world.spectator.sightings if created_for("nightly")(seen))
        await self.world.admin.delete(ref)
        seen = await self.see(gone(OPERATION, "nightly"), "the Operation gone", since)
        stage.step("·", seen.at, "Operation nightly is gone")
        meta = backup.object["metadata"]
        live = await self.live(ObjectRef(backup.kind, meta["namespace"], meta["name"]))
        stage.check("its Backup is there", wanted="Completed", actual=get_path(live, "status", "phase"))
        made = {request.name: len(self.engine_objects(request.name)) for request in REQUESTS}
        desired = {request.name: int(request.engine != "helm") for request in REQUESTS}
        stage.check("every Operation made one engine object (an upgrade makes none)", wanted=desired, actual=made)


def _where(resource: Manifest) -> str:
    meta = resource["metadata"]
    return f"{meta['namespace']}/{meta['name']}"


async def run_operations_story(world: DemoWorld, stage: Stage) -> None:
    """Play all acts of the demo's story about Operations. Raises TooSlow if a step takes too long."""
    it = OperationsTeller(world, stage)
    await it.play(it.application, it.every_engine, it.conflict_and_approval, it.cancellation, it.timeout, it.partial)
    await it.afterwards()
