"""Stories through the whole operator: every write and every message of it, in order.

The operator runs in process and under virtual time, between the embedded API server with its simulated controllers and
the simulated control plane. What is taken down is what leaves it: each request to the API server that writes, with its
body and its answer's resourceVersion or error, and each message to the control plane. Reads and polls are left out:
how often somebody looks changes nothing for anybody.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import anyio
import attrs

from kubelab.downstream import DownstreamBehaviour, DownstreamOutcome, DownstreamRule, Ending
from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.apimachinery.resources import NAMESPACE
from purekube.ports import KubeRequest, KubeVerb, Send
from purekube.ports.kube import WRITES
from purekube.ports.kube_api import left_of
from tests.corpus.neutral import Json, to_data
from tests.support.e2e_world import (
    AGENT_TOKEN,
    BROKEN,
    CLUSTER,
    EDITED,
    FIRST,
    INSTANCE,
    LATER,
    NS,
    RELEASE,
    UNGATED_NS,
    World,
    instance,
)
from tests.support.operation_requests import ENGINES_QUICK, FLUX, Operating
from tests.support.servers import Face, _start
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.labels import RETRY
from vworkspace_core.instances.context import Settings
from vworkspace_fake.controlplane import InProcessControlPlane

__all__ = ["STORIES", "Story", "record"]

_MESSAGES: Final = frozenset({"ack", "status", "result", "events", "register", "rotate"})


@attrs.frozen
class _Tap:
    """Passes every call on to `port`, and takes down those of `names`."""

    port: Any
    names: frozenset[str]
    taken: list[Json]

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.port, name)
        return partial(self._taken, name, call) if name in self.names else call

    async def _taken(self, name: str, call: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        line: dict[str, Any] = {"call": name, "given": [to_data(arg) for arg in args]}
        self.taken.append(line)
        try:
            return await call(*args)
        except OperatorError as error:
            line["error"] = to_data(error)
            raise


async def _written(taken: list[Json], request: KubeRequest, proceed: Send) -> Manifest:
    """Take down a request that writes, with the resourceVersion of its answer or its error."""
    if request.verb not in WRITES:
        return await proceed(request)
    applies_status = request.verb is KubeVerb.APPLY and request.subresource
    line = {"call": "apply_status" if applies_status else request.verb.value, **_given(request)}
    taken.append(line)
    try:
        answer = await proceed(request)
    except OperatorError as error:
        line["error"] = to_data(error)
        raise
    if request.verb is not KubeVerb.DELETE or left_of(answer) is not None:
        line["resourceVersion"] = answer["metadata"].get("resourceVersion")
    return answer


def _given(request: KubeRequest) -> dict[str, Any]:
    """Return the object of a request with its content, and the options that are set."""
    path, body, params = _path(request.ref), to_data(request.body), request.params
    writer = {"field_manager": params.get("fieldManager")}
    match request.verb:
        case KubeVerb.DELETE:
            preconditions = body.get("preconditions", {})
            more = {
                "propagation": body["propagationPolicy"],
                "resource_version": preconditions.get("resourceVersion"),
                "uid": preconditions.get("uid"),
            }
            return {"given": [path], "with": {key: value for key, value in more.items() if value}}
        case KubeVerb.PATCH:
            more = {**writer, "patch_type": to_data(request.patch_type), "subresource": request.subresource}
            return {"given": [path, body], "with": {key: value for key, value in more.items() if value}}
        case _:
            more = {**writer, "force": bool(params.get("force")), "dry_run": bool(params.get("dryRun"))}
            return {"given": [{path: body}], "with": {key: value for key, value in more.items() if value}}


def _path(ref: ObjectRef) -> str:
    return f"{ref.kind.api_version}/{ref.kind.plural} {ref.namespace or ''}/{ref.name}"


def record(story: "Story") -> list[Json]:
    """What leaves the operator in the course of `story`, line by line."""
    taken: list[Json] = []

    @asynccontextmanager
    async def opening(world: World, settings: OperatorSettings) -> AsyncIterator[None]:
        world.operator_witness.api = world.operator_witness.api.through(partial(_written, taken))
        control: Any = _Tap(InProcessControlPlane(world.control, AGENT_TOKEN), _MESSAGES, taken)
        async with anyio.create_task_group() as group:
            await _start(group, world, control, settings)
            yield
            group.cancel_scope.cancel()

    async def told(world: World) -> None:
        await story.tell(Operating(world))

    settings = Settings(cluster_id=CLUSTER)
    Face("recorded", True, opening).run(told, behaviour=FLUX, engines=story.engines, decisions=settings)
    return taken


# --- the stories ----------------------------------------------------------------------------------------------


async def _releases(ops: Operating) -> None:
    """Install, upgrade, an upgrade that fails, one that mends it, and the end: each a job from offer to result."""
    world = ops.world
    await world.ready()
    assert (await world.result(world.ask(LATER, 8)))["outcome"] == "succeeded"
    assert (await world.result(world.ask(BROKEN, 9)))["outcome"] == "failed"
    assert (await world.result(world.ask(EDITED, 10)))["outcome"] == "succeeded"
    assert (await world.result(world.ask(FIRST, 5)))["outcome"] == "failed"  # older than what is there
    assert (await world.result(world.ask_deletion(11)))["outcome"] == "succeeded"


async def _strange_jobs(ops: Operating) -> None:
    """Jobs that are refused, malformed, of another namespace, delivered twice, and in conflict with a person."""
    world = ops.world
    await world.ready()
    world.edit(INSTANCE, {"spec": {"chart": {"version": EDITED}}})
    assert (await world.result(world.ask(LATER, 8)))["outcome"] == "conflict"
    elsewhere = instance(FIRST, metadata={"name": "other", "namespace": UNGATED_NS})
    key = f"ApplicationInstance/{UNGATED_NS}/other@1"
    await world.result(world.ask(FIRST, 1, payload=elsewhere, idempotency_key=key))
    await world.result(world.ask(FIRST, 9, kind="nonsense"))
    await world.result(world.ask(FIRST, 10, payload={"apiVersion": "v1", "kind": "Secret"}))
    insane = instance(FIRST, spec={"appRef": {"catalogId": "x"}, "mode": "perhaps"})
    await world.result(world.ask(FIRST, 11, payload=insane))
    await world.result(world.ask(FIRST, 7))  # what has been done


async def _hands(ops: Operating) -> None:
    """People at work: drift, a held field, suspension, a closed gate, a retry, an object that is deleted."""
    world = ops.world
    await world.ready()
    world.edit(RELEASE, {"metadata": {"labels": {"app.vworkspace.io/managed-by": "somebody"}}})
    await world.until(lambda: "Blocked" in world.conditions(), "the conflict is told")
    world.edit(RELEASE, {"spec": {"suspend": True}})
    await world.clock.sleep(5)
    world.edit(INSTANCE, {"spec": {"suspend": True}})
    await world.clock.sleep(5)
    world.edit(INSTANCE, {"spec": {"suspend": False}, "metadata": {"annotations": {RETRY: "once"}}})
    await world.clock.sleep(5)
    gate = ObjectRef(NAMESPACE, None, NS)
    world.edit(gate, {"metadata": {"labels": {"managed-by": None}}})
    await world.clock.sleep(5)
    world.edit(gate, {"metadata": {"labels": {"managed-by": "vworkspace"}}})
    await world.clock.sleep(5)
    world.delete_object(RELEASE)
    await world.clock.sleep(5)
    world.delete_object(INSTANCE)
    await world.until(lambda: world.find(INSTANCE) is None, "the instance is gone")


async def _policy(ops: Operating) -> None:
    """A Cluster object comes with a policy, and what the operator says of itself; then the process begins anew."""
    world = ops.world
    await world.ready()
    ops.forbid(LATER)
    await world.clock.sleep(5)
    await world.result(world.ask(LATER, 8))
    await world.lever.restart()
    await world.clock.sleep(65)
    broken = instance(FIRST)
    broken["metadata"] = {"name": "by-hand", "namespace": NS}
    world.create_object(broken, APPLICATION_INSTANCE)
    await world.clock.sleep(5)


async def _operations(ops: Operating) -> None:
    """One Operation of every template, to its end."""
    await ops.prepare()

    async def run(of: str, **parameters: str) -> dict[str, Any]:
        name = of.replace(".", "-").lower()
        claim = {"required": True, "claim": ops.claim(name, parameters, rid=f"r-{name}")}
        ref = ops.submit(of, name, parameters, **({"approvals": claim} if of == "restore.velero" else {}))
        await ops.reaches(ref, "Succeeded")
        return ops.outputs(ref)

    backup = await run("backup.velero")
    await run("restore.velero", backupName=str(backup["backupName"]))
    await run("upgrade.helm")
    await run("migration.helmHookJob")
    await run("migration.workflow")
    await run("runCommand.job")
    await run("runbook.workflow")
    await run("backup.volsync")
    await run("restore.volsync")
    snapshot = await run("backup.snapshot")
    await run("restore.snapshot", snapshotName=str(snapshot["volumeSnapshotName"]))


async def _troubles(ops: Operating) -> None:
    """Operations that fail, wait for each other or for an approval, are called off, and come as jobs."""
    world = ops.world
    await ops.prepare()
    failing = ops.submit("runCommand.job", "failing")
    await ops.reaches(failing, "Failed")
    stalled = ops.submit("backup.velero", "stalled")
    await ops.reaches(stalled, "Running")
    waiting = ops.submit("backup.volsync", "waiting")
    await world.clock.sleep(2)
    ops.cancel(waiting)
    ops.cancel(stalled)
    await ops.reaches(stalled, "Cancelled")
    unapproved = ops.submit("restore.velero", "unapproved", {"backupName": "none"})
    await world.clock.sleep(2)
    world.delete_object(unapproved)
    await ops.gone(unapproved)
    broken = ops.submit("upgrade.helm", "broken", {"targetVersion": BROKEN})
    await ops.reaches(broken, "Failed")
    assert (await world.result(ops.ask("runbook.workflow", "asked")))["outcome"] == "succeeded"
    late = ops.ask("runbook.workflow", "late", expires_in=-1)
    await world.result(late)
    short = ops.submit("backup.velero", "stalled-too", timeoutSeconds=30)
    await ops.reaches(short, "Failed")
    world.delete_object(ObjectRef(OPERATION, NS, "asked"))
    await ops.gone(ObjectRef(OPERATION, NS, "asked"))


@attrs.frozen
class Story:
    """What is done to a world; `engines` are those of its operations."""

    tell: Callable[[Operating], Awaitable[None]]
    engines: DownstreamBehaviour | None = None


_BAD = attrs.evolve(
    ENGINES_QUICK,
    rules=(
        DownstreamRule(DownstreamOutcome(Ending.STALL), name="*stalled*"),
        DownstreamRule(DownstreamOutcome(Ending.FAIL), name="*failing*"),
    ),
)
STORIES: Final[Mapping[str, Story]] = {
    "releases": Story(_releases),
    "strange jobs": Story(_strange_jobs),
    "people's hands": Story(_hands),
    "a policy and a restart": Story(_policy),
    "operations": Story(_operations, ENGINES_QUICK),
    "operations in trouble": Story(_troubles, _BAD),
}
"""Each by its name."""
