"""The demo's main story, act by act. Everything that it shows is also checked (PULL-2, PULL-3, REC-8, REC-10)."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import attrs

from purekube.apimachinery.conditions import condition_of
from purekube.apimachinery.manifest import Manifest, get_path
from purekube.apimachinery.resources import HELM_RELEASE, OCI_REPOSITORY
from purekube.apimachinery.timestamps import format_time
from vworkspace_app.demo.narrator import (
    Narrator,
    Sighting,
    StoryWorld,
    appeared,
    condition_summary,
    conditions,
    event,
    gone,
    has_condition,
    spec_of,
)
from vworkspace_app.demo.scene import BROKEN, EDITED, NAME, WANTED, Application
from vworkspace_app.demo.stage import Stage
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import RETRY
from vworkspace_fake.controlplane.jobs import JobEntry
from vworkspace_fake.controlplane.server import ControlPlaneServer


@attrs.frozen
class PlayedWorld(StoryWorld, ABC):
    """The parts of the demo that its main story uses, on the embedded servers or on a user's cluster.

    The story sends jobs to `control`, the control plane at `control_url`, for `application`. It tolerates that the
    cluster's clock is slower than the control plane's by up to `clocks_differ`.
    """

    control: ControlPlaneServer
    control_url: str
    application: Application
    clocks_differ: timedelta

    @abstractmethod
    async def running(self) -> list[str]:
        """Return the chart versions that Helm has deployed, without the digest that Flux appends for OCI sources."""

    @abstractmethod
    async def repair(self) -> None:
        """Remove the obstacle that makes the upgrade to one version fail, so that a retry of it succeeds."""

    def enqueue(self, job_id: str, payload: Mapping[str, Any], generation: int, kind: str = "apply") -> JobEntry:
        """Enqueue a job of Odoo about the application, and return the job.

        `generation` is part of the job's idempotency key.
        """
        app = self.application
        return self.control.enqueue(
            app.cluster, kind=kind, payload=payload, idempotency_key=app.key(generation), job_id=job_id
        )


@attrs.define
class StoryRunner(Narrator[PlayedWorld]):
    """The narrator of the demo's main story: one instance, from the first job for it to its deletion."""

    @property
    def application(self) -> Application:
        """The application that the story installs, upgrades and deletes."""
        return self.world.application

    def enqueue(self, version: str, generation: int, job_id: str) -> JobEntry:
        """Enqueue the job by which Odoo requests the application in a chart version, and return the job."""
        return self.world.enqueue(job_id, self.application.manifest(version), generation)

    async def outcome(self, job: JobEntry, expected: str) -> Mapping[str, Any]:
        """Wait for the result of a job, print it, check that its outcome is the expected one, and return it."""
        result = await self.result(job)
        self.posted("·", result)
        self.stage.check(f"the outcome is {expected}", wanted=expected, actual=result.get("outcome"))
        return result

    # --- the acts --------------------------------------------------------------------------------------------------

    async def eight_steps(self) -> None:
        """Show the eight steps by which a job of the control plane becomes a running release (PULL-2)."""
        stage = self.stage
        app = self.application
        asks = f'Odoo asks {app.cluster} to ensure "{NAME}", chart {app.chart} {app.first}'
        stage.act("An intent becomes a running release", asks)
        await self.until(lambda: self.world.control.waiting > 0, "a long poll")
        stage.step(1, self.now, f"the agent's long poll is open: GET jobs?cluster={app.cluster}&wait=30")
        asked = self.now
        job = self.enqueue(app.first, 7, "job-1")
        await self.until(lambda: job.offers > 0, "the offer")
        stage.step(2, self.now, "the job comes", {"job": job.raw})
        await self.until(lambda: job.acked_at is not None, "the ack")
        stage.step(3, self.now, f"acknowledged: POST jobs/{job.id}/ack, before anything is applied")
        created = await self.see(appeared(APPLICATION_INSTANCE, NAME), "the instance")
        stage.step(4, created.at, "server-side apply of the ApplicationInstance", _meta(created.object))
        source = await self.see(appeared(OCI_REPOSITORY), "the OCIRepository")
        release = await self.see(appeared(HELM_RELEASE, NAME), "the HelmRelease")
        stage.step(5, source.at, "reconcile: the OCIRepository", spec_of(source.object))
        stage.step(5, release.at, "reconcile: the HelmRelease", spec_of(release.object))
        installing = await self._at_work()
        self.show(6, installing, f"status: {condition_summary(installing.object)}")
        ready = await self.see(has_condition("Ready", "True", "HelmReleaseReady"), "Ready=True")
        self.show(7, ready, "Flux confirmed it: Ready")
        sighting = await self.see(event("ReleaseReady"), "the Event ReleaseReady")
        stage.step(7, sighting.at, f"Kubernetes Event {sighting.object['reason']}: {sighting.object['note']}")
        result = await self.result(job)
        self.posted(8, result)
        self._check_eight_steps(job, created.object, release.object, ready.object, result)
        stage.say(f"            from enqueue to result: {(self.now - asked) * 1000:.0f} ms")

    async def _at_work(self) -> Sighting:
        """Wait until the instance is being installed, and return that change.

        If Flux finishes before this is observed, return the last change with Reconciling=True.
        """
        done = has_condition("Ready", "True", "HelmReleaseReady")
        at_work = has_condition("Reconciling", "True", "HelmReleaseInstalling")
        sighting = await self.see(lambda seen: at_work(seen) or done(seen), "Reconciling=True")
        if at_work(sighting):
            return sighting
        began = has_condition("Reconciling", "True")
        return next(seen for seen in reversed(self.world.spectator.sightings) if began(seen))

    def _check_eight_steps(
        self, job: JobEntry, created: Manifest, release: Manifest, ready: Manifest, result: Mapping[str, Any]
    ) -> None:
        check = self.stage.check
        check("the ack came before the apply", wanted=True, actual=_is_before(job, created, self.world.clocks_differ))
        check(
            "the chart goes by chartRef", wanted="OCIRepository", actual=get_path(release, "spec", "chartRef", "kind")
        )
        states = conditions(ready)
        check("Ready=True/HelmReleaseReady", wanted="True/HelmReleaseReady", actual=states.get("Ready"))
        check("Reconciling=False/Stable", wanted="False/Stable", actual=states.get("Reconciling"))
        check("the outcome is succeeded", wanted="succeeded", actual=result.get("outcome"))
        applied = {**self.application.identity, "uid": get_path(created, "metadata", "uid"), "generation": 1}
        check("appliedRef names what was applied", wanted=applied, actual=result.get("appliedRef"))

    async def failing_upgrade(self) -> None:
        """Show that an upgrade's job fails with Flux's message if the upgrade fails, and that Flux rolls back.

        The job requests the chart version `BROKEN`, to which the upgrade fails.
        """
        stage, since = self.stage, self.mark
        stage.act("An upgrade fails", f"chart {BROKEN}: {self.application.broken}")
        job = self.enqueue(BROKEN, 8, "job-2")
        seen = await self.see(has_condition("Degraded", "True", "HelmReleaseFailed"), "Degraded=True", since)
        self.show("·", seen, f"status: {condition_summary(seen.object)}")
        result = await self.outcome(job, "failed")
        stage.check(
            "it tells the underlying message", wanted=True, actual=self.application.failure in str(result.get("error"))
        )
        stage.check("Flux went back to what worked", wanted=[self.application.first], actual=await self.world.running())

    async def recovery(self) -> None:
        """Repair the failed upgrade in the cluster, and show that a ConditionTransition event reports its success.

        By then no job is open that could report it.
        """
        stage, since = self.stage, self.mark
        stage.act("It recovers", "the cause is mended in the cluster, and a retry asked for; no job is open any more")
        await self.world.repair()
        patch = {"metadata": {"annotations": {RETRY: "after-mending"}}}
        await self.edit(self.application.ref(), patch, "kubectl-annotate")
        stage.step("·", self.now, f"kubectl annotate appinst {NAME} {RETRY}=after-mending")
        seen = await self.see(has_condition("Ready", "True", "HelmReleaseReady"), "Ready=True", since)
        self.show("·", seen, f"status: {condition_summary(seen.object)}")
        stage.check("the new version runs", wanted=[BROKEN], actual=await self.world.running())
        desired = "/Degraded/False/Recovered@"
        await self.until(lambda: self._transition(desired) is not None, "the ConditionTransition event")
        transition = self._transition(desired)
        stage.step("·", self.now, "event posted to the control plane", transition)
        stage.check(
            "the event is a ConditionTransition", wanted="ConditionTransition", actual=(transition or {}).get("kind")
        )

    def _transition(self, part: str) -> Mapping[str, Any] | None:
        posted = self.world.control.events_of(self.application.cluster)
        return next((entry for entry in posted if part in str(entry.get("eventKey"))), None)

    async def replay(self, version: str = BROKEN, generation: int = 8) -> None:
        """Show that a job with the idempotency key of an earlier job changes nothing, and that its result is `noop`.

        `version` is the chart version that the earlier job requested, and `generation` the number in its key. The
        defaults repeat the job of `failing_upgrade`: it has generation 8, and requests `BROKEN`, the version to which
        the upgrade fails until `recovery` repairs the cause.
        """
        stage = self.stage
        stage.act("A replay", "the key of the last job again, under another job id")
        before = await self.live(self.application.ref())
        await self.outcome(self.enqueue(version, generation, "job-3"), "noop")
        after = await self.live(self.application.ref())
        same_version = get_path(after, "metadata", "resourceVersion") == get_path(before, "metadata", "resourceVersion")
        stage.check("the instance was not touched", wanted=True, actual=same_version)

    async def conflict(self) -> None:
        """Show that the operator reports a field that a user owns as a conflict, and does not overwrite it."""
        stage, since = self.stage, self.mark
        stage.act("A human editor", "kubectl edit of the chart version, then Odoo wants another one")
        await self.edit(self.application.ref(), {"spec": {"chart": {"version": EDITED}}})
        ready = has_condition("Ready", "True", "HelmReleaseReady")
        await self.see(
            lambda seen: ready(seen) and get_path(seen.object, "spec", "chart", "version") == EDITED,
            "the edit takes effect",
            since,
        )
        error = str((await self.outcome(self.enqueue(WANTED, 9, "job-4"), "conflict")).get("error"))
        stage.check("it names the manager", wanted=True, actual="kubectl-edit" in error)
        stage.check("it names the path", wanted=True, actual=".spec.chart.version" in error)
        live = await self.live(self.application.ref())
        stage.check("nothing was forced", wanted=EDITED, actual=get_path(live, "spec", "chart", "version"))

    async def deletion(self) -> None:
        """Show that everything is deleted in order, and that the deletion's job succeeds only at the end."""
        stage, since = self.stage, self.mark
        stage.act("Deletion")
        source = str(get_path(await self.live(self.application.ref(HELM_RELEASE)), "spec", "chartRef", "name"))
        job = self.world.enqueue("job-5", self.application.identity, 10, "delete")
        asked = await self.see(_deleting, "Deleting=True", since)
        payload = {"Deleting": condition_of(asked.object, "Deleting")}
        stage.step("·", asked.at, f"status: {condition_summary(asked.object)}", payload)
        order = []
        for kind, name in ((HELM_RELEASE, NAME), (OCI_REPOSITORY, source), (APPLICATION_INSTANCE, NAME)):
            seen = await self.see(gone(kind, name), f"the {kind.kind} gone", since)
            order.append(int(seen.object["metadata"]["resourceVersion"]))
            stage.step("·", seen.at, f"{kind.kind} {name} is gone")
        result = await self.result(job)
        self.posted("·", result)
        stage.check("release, source, instance went in this order", wanted=sorted(order), actual=order)
        stage.check("the outcome is succeeded", wanted="succeeded", actual=result.get("outcome"))
        stage.check("nothing runs any more", wanted=[], actual=await self.world.running())


def _meta(resource: Manifest) -> dict[str, Any]:
    fields = ("name", "namespace", "labels", "annotations", "uid", "generation")
    return {
        "metadata": {key: get_path(resource, "metadata", key) for key in fields if get_path(resource, "metadata", key)}
    }


def _is_before(job: JobEntry, created: Manifest, clocks_differ: timedelta) -> bool:
    """Report whether a job was acknowledged before an object was created, or in the same second.

    The cluster's clock may be up to `clocks_differ` slower than the control plane's, which is tolerated.
    """
    acked = format_time(job.acked_at - clocks_differ) if job.acked_at else "never"
    return acked <= str(get_path(created, "metadata", "creationTimestamp"))


def _deleting(sighting: Sighting) -> bool:
    return sighting.kind == APPLICATION_INSTANCE and condition_of(sighting.object, "Deleting").get("status") == "True"


async def run_story(world: PlayedWorld, stage: Stage) -> None:
    """Play all acts of the demo's main story. Raises TooSlow if a step takes too long."""
    it = StoryRunner(world, stage)
    await it.play(it.eight_steps, it.failing_upgrade, it.recovery, it.replay, it.conflict, it.deletion)
