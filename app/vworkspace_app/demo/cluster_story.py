"""The demo's story on a user's cluster: the acts of the story on embedded servers, and Operations.

One Operation runs for each engine whose controller is installed in the cluster, before the application is deleted in
the last act.
"""

from typing import Final

from kubelab.downstream.kinds import WORKFLOW_TEMPLATE
from purekube.apimachinery.manifest import get_path
from purekube.apimachinery.resources import VELERO_BACKUP, WORKFLOW
from purekube_run.controller.lookups import find
from vworkspace_app.demo.cluster_world import ClusterWorld
from vworkspace_app.demo.narrator import condition, conditions, phase_is
from vworkspace_app.demo.operations_scene import OperationRequest
from vworkspace_app.demo.scene import WANTED
from vworkspace_app.demo.spectator import TooSlow
from vworkspace_app.demo.stage import Stage
from vworkspace_app.demo.story import StoryRunner

_CHECKUP: Final = "checkup"
_PAUSE: Final = {"entrypoint": "main", "templates": [{"name": "main", "suspend": {"duration": "1"}}]}
"""The spec of an Argo Workflow that only pauses for a second, and so needs no image."""
_ONE_VERSION: Final = "the chart is named with one version; with --registry the demo pushes several"


async def run_cluster_story(world: ClusterWorld, stage: Stage) -> None:
    """Play all acts of the demo's story on a user's cluster, one after the other; `stage` prints each step.

    Raises TooSlow if a step takes too long; the error includes the condition Ready of the story's instance.
    """
    try:
        await _run_story(StoryRunner(world, stage), world)
    except TooSlow as error:
        raise TooSlow(f"{error}; {await _obstacle(world)}") from error


async def _obstacle(world: ClusterWorld) -> str:
    """Return the instance's Ready condition in words, to explain why a step took too long."""
    instance = await find(world.admin, world.application.ref())
    if instance is None:
        return "the instance is not there"
    ready = condition(instance, "Ready")
    return f"the instance says Ready={ready.get('status')}, {ready.get('reason')}: {ready.get('message')}"


async def _run_story(teller: StoryRunner, world: ClusterWorld) -> None:
    stage, application = teller.stage, world.application
    await teller.eight_steps()
    if application.broken:
        await teller.failing_upgrade()
        await teller.recovery()
        await teller.replay()
        await teller.conflict()
    else:
        await teller.replay(application.first, 7)
        for what in ("an upgrade that fails", "its recovery", "a human editor"):
            stage.passed_over(what, _ONE_VERSION)
    await _operations(teller, world)
    await teller.deletion()


async def _operations(teller: StoryRunner, world: ClusterWorld) -> None:
    """Run an Operation for each engine whose controller is installed.

    An engine is skipped if it needs objects that the cluster lacks.
    """
    stage = teller.stage
    stage.act("Operations", "as far as their controllers are in this cluster")
    if world.application.broken:
        await _run(teller, OperationRequest("upgrade", "Upgrade", "helm", {"targetVersion": WANTED}))
        stage.check("the version that it names runs", wanted=[WANTED], actual=await world.running())
    else:
        stage.passed_over("engine helm", _ONE_VERSION)
    if await world.serves(WORKFLOW):
        template = {**WORKFLOW_TEMPLATE.manifest(_CHECKUP, world.application.namespace), "spec": _PAUSE}
        await world.admin.create(template, kind=WORKFLOW_TEMPLATE, field_manager="vworkspace-demo")
        await _run(teller, OperationRequest(_CHECKUP, "Runbook", "workflow", {"workflowTemplate": _CHECKUP}))
    else:
        stage.passed_over("engine workflow", f"Argo Workflows is not in this cluster ({WORKFLOW.crd_name})")
    why = "its backups go to a storage location of yours, which the demo leaves alone"
    is_there = await world.serves(VELERO_BACKUP)
    stage.passed_over("engine velero", why if is_there else f"Velero is not in this cluster ({VELERO_BACKUP.crd_name})")


async def _run(teller: StoryRunner, request: OperationRequest) -> None:
    stage, application, since = teller.stage, teller.application, teller.mark
    stage.step("·", teller.now, f"{request.engine}: {request.type} {request.name}")
    intent = {"intent": "request-operation", "operation": request.manifest_in(application.namespace)}
    job = teller.world.control.enqueue(
        application.cluster,
        kind="intent",
        payload=intent,
        idempotency_key=f"Operation/{application.namespace}/{request.name}@1",
        job_id=f"job-{request.name}",
    )
    ended = await teller.see(phase_is(request.name, "Succeeded"), f"{request.name} Succeeded", since)
    stage.step("·", ended.at, "Succeeded", {"conditions": conditions(ended.object)})
    result = await teller.result(job)
    teller.posted("·", result)
    stage.check(f"{job.id} succeeded", wanted="succeeded", actual=get_path(result, "outcome"))
