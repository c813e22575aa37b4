"""The demo's story of a box, checked step by step: its children are created in three phases (PH-3 to PH-6).

A box is an operator that a YAML file declares. It runs as `box run` runs it: informers, queue, workers and Events over
HTTP, with an API server on a loopback port and simulated workloads.
"""

import json
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import attrs

from kubelab.cluster.embedded import EmbeddedCluster
from kubelab.downstream import DownstreamBehaviour, WorkloadBehaviour
from purekube.apimachinery.conditions import condition_of
from purekube.apimachinery.errors import Invalid
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import DEPLOYMENT, EVENT, INGRESS, NAMESPACE, SERVICE
from purekube.boxes.box import Box
from purekube.boxes.decision.decide import composite_of
from purekube.boxes.definition import crd_of
from purekube.ports import PatchType, WatchEventType
from purekube_run.boxes.load import load_box, runnable
from purekube_run.controller.event_recorder import BackgroundEvents
from purekube_run.controller.runner import ManagerOptions
from purekube_run.process.machine import SystemClock
from purekube_run.reconcilers.extensions import ExtensionManager
from vworkspace_app.demo.demo_world import ServedCluster, open_group, serve_cluster
from vworkspace_app.demo.narrator import Narrator, Sighting, Spectator, StoryWorld, Wanted, gone
from vworkspace_app.demo.stage import Stage
from vworkspace_app.manager.telemetry import Components, components_of_extensions
from vworkspace_core.api.labels import FIELD_MANAGER

FILE: Final = Path(__file__).parent / "boxes" / "webapp.yaml"
"""The file of the demo's box, equal to `examples/boxes/webapp.yaml`."""
NAMESPACE_NAME: Final = "team"
_UNHURRIED: Final = DownstreamBehaviour(
    workloads=WorkloadBehaviour(observe_seconds=0.05, ready_seconds=0.25, address_seconds=0.35)
)
"""The delays of simulated workloads in seconds: long enough to see which object waits for which."""
NAME: Final = "shop"
_SPEC: Final = {"image": "registry.example/shop:1", "replicas": 2, "host": "shop.example.com"}
_GATES: Final = ("children.deployment.status.readyReplicas equals 2", "children.service.status.loadBalancer exists")


@attrs.frozen
class BoxScene(StoryWorld):
    """The parts of the demo about a box: the box, the embedded cluster, and the recorder of changes (`spectator`)."""

    box: Box
    place: ServedCluster

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The box's own kind, then the kinds of its children, in the order of the file."""
        return (self.box.kind, *self.box.child_kinds)


@asynccontextmanager
async def open_box_scene(attach: Callable[[Components], None] = lambda components: None) -> AsyncIterator[BoxScene]:
    """Start the cluster and the box, and yield them once the box's controller is ready.

    Both are stopped after the block. `attach` is called before the controller runs. It gets the parts of the
    process, such as informers and controllers, so that it can display their state.
    """
    (box,) = runnable([load_box(str(FILE))])
    started = time.monotonic()
    async with AsyncExitStack() as stack:
        cluster = EmbeddedCluster.start([crd_of(box)], ("workloads",))
        place = await serve_cluster(stack, cluster, NAMESPACE.manifest(NAMESPACE_NAME))
        place.engines.behaviour = _UNHURRIED
        clock = SystemClock()
        events = BackgroundEvents(place.api, clock, instance="demo", field_manager=FIELD_MANAGER)
        options = ManagerOptions(random.random)
        boxes = ExtensionManager(place.api, clock, events, options, composites=[composite_of(box)])
        attach(components_of_extensions(boxes, events))
        spectator = Spectator(place.watcher, started, (box.kind, *box.child_kinds, EVENT))
        # A group of its own, which ends before the connections that it uses are closed.
        working = await open_group(stack)
        working.start_soon(spectator.run)
        working.start_soon(events.run)
        working.start_soon(boxes.run)
        await boxes.wait_ready()
        yield BoxScene(place.admin, spectator, box, place)


@attrs.define
class BoxTeller(Narrator[BoxScene]):
    """The narrator of the demo's story about a box, which prints each step and checks the objects in the cluster."""

    @property
    def shop(self) -> ObjectRef:
        """The reference to the parent: the object of the box's kind that the story creates."""
        return ObjectRef(self.world.box.kind, NAMESPACE_NAME, NAME)

    def child(self, kind: Kind) -> ObjectRef:
        """Return the reference to the child of this kind that the box creates for the parent, the story's object of the
        box's kind.
        """
        return ObjectRef(kind, NAMESPACE_NAME, {SERVICE: f"{NAME}-svc", INGRESS: f"{NAME}-ingress"}.get(kind, NAME))

    async def seen(self, wanted: Wanted, what: str, since: int = 0) -> Sighting:
        """Wait for a recorded change for which `wanted` is true, print it as a step with the text `what`, and return
        it.

        Changes before the index `since` are ignored.
        """
        found = await self.see(wanted, f"waiting for: {what}", since)
        self.stage.step("·", found.at, what, _essence(found.object))
        return found

    def is_there(self, kind: Kind) -> bool:
        """Report whether an object of this kind exists, by the last recorded change of the kind."""
        found = [seen for seen in self.world.spectator.sightings if seen.kind == kind]
        return bool(found) and not found[-1].is_gone

    # --- the acts --------------------------------------------------------------------------------------------------

    async def file(self) -> None:
        """Print the resources in the box's file, before anything is created."""
        stage, box = self.stage, self.world.box
        stage.act("An operator in a file", "webapp.yaml: a kind, three phases, a gate on each of the last two; no code")
        for node in box.nodes:
            stage.step("·", self.now, f"{node.id}: {node.kind.kind}")
        stage.check("phases make a Deployment, a Service and an Ingress", wanted=[DEPLOYMENT, SERVICE, INGRESS],
                    actual=[node.kind for node in box.nodes])  # fmt: skip

    async def phases(self) -> None:
        """Create the parent, and show how its children are created phase by phase until it is Ready."""
        stage = self.stage
        stage.act("Three phases", f"somebody creates {self.shop.kind.kind} {NAME}: two replicas, and a host")
        manifest = self.shop.kind.manifest(NAME, NAMESPACE_NAME, spec=_SPEC)
        await self.world.admin.create(manifest, kind=self.shop.kind, field_manager="kubectl")
        stage.step("1", self.now, f"{self.shop.kind.kind} {NAME} is there", {"spec": _SPEC})
        made = await self.seen(_added(DEPLOYMENT), "phase workload: the Deployment is made")
        replicas = get_path(made.object, "spec", "replicas")
        stage.check("a number of the spec stays a number", wanted=2, actual=replicas)
        blocked = await self.see(_ready(self.shop, "False", "Deployment"), "who is waited for")
        stage.step("·", blocked.at, f"Ready=False: {condition_of(blocked.object, 'Ready')['message']}")
        await self._through(SERVICE, _GATES[0], _has(DEPLOYMENT, 2, "status", "readyReplicas"), "2")
        await self._through(INGRESS, _GATES[1], _has_address, "3")
        await self._all_ready()

    async def _through(self, kind: Kind, gate: str, opens: Wanted, number: str) -> None:
        """Show that a child of the kind `kind` is created only after its gate has opened.

        A gate is a condition of the box that must be true before a child is created; `gate` is its text. Wait for the
        change that opens it (`opens` is true), and for the creation of the child. Check that the child did not exist
        before. `number` is the printed number of the step.
        """
        opened = await self.see(opens, f"waiting for: {gate}")
        self.stage.step(number, opened.at, f"the gate opens: {gate}")
        made = await self.seen(_added(kind), f"the {kind.kind} is made")
        self.stage.step(
            "·", made.at, f"seen {max(made.at - opened.at, 0) * 1000:.0f} ms later, without a sleep or a poll"
        )
        before = [seen.kind for seen in self.world.spectator.sightings[: self.position(opened)]]
        self.stage.check(f"no {kind.kind} before its gate was open", wanted=False, actual=kind in before)

    def position(self, sighting: Sighting) -> int:
        """Return the index of the change `sighting` in the list of all recorded changes."""
        return next(at for at, seen in enumerate(self.world.spectator.sightings) if seen is sighting)

    async def _all_ready(self) -> None:
        stage = self.stage
        ready = await self.see(_ready(self.shop, "True"), "waiting for Ready")
        stage.step(
            "4", ready.at, "Ready=True: every child is ready at its own generation", {"status": ready.object["status"]}
        )
        service = await self.live(self.child(SERVICE))
        address = get_path(service, "status", "loadBalancer", "ingress")[0]["ip"]
        status = ready.object["status"]
        actual = (status.get("readyReplicas"), status.get("address"))
        stage.check("the status shows what the children say", wanted=(2, address), actual=actual)
        early = [
            seen for seen in self.world.spectator.sightings[: self.position(ready)] if _ready(self.shop, "True")(seen)
        ]
        stage.check("it was not Ready before", wanted=[], actual=early)

    async def change(self) -> None:
        """Show that a gate that closes again stops updates of its child, but does not delete the child."""
        stage, since = self.stage, self.mark
        stage.act("A change", "three replicas: the gate of the Service closes meanwhile, and holds")
        before = await self.live(self.child(SERVICE))
        await self.edit(self.shop, {"spec": {"replicas": 3}})
        await self.seen(_has(DEPLOYMENT, 3, "spec", "replicas"), "the Deployment wants 3", since)
        await self.seen(_ready(self.shop, "False"), "Ready=False meanwhile", since)
        await self.seen(_ready(self.shop, "True", generation=2), "Ready=True again", since)
        after = await self.live(self.child(SERVICE))
        same = get_path(before, "metadata", "uid") == get_path(after, "metadata", "uid")
        stage.check("the Service is the same one: a closed gate removes nothing", wanted=True, actual=same)

    async def drift(self) -> None:
        """Show that a deleted child is created again, and that a user's change of a child's field is not reverted."""
        stage, since = self.stage, self.mark
        stage.act("Drift", "somebody deletes the Service; somebody else takes a field of the Deployment")
        await self.world.admin.delete(self.child(SERVICE))
        await self.see(gone(SERVICE, f"{NAME}-svc"), "the Service goes", since)
        since = self.mark
        await self.seen(_added(SERVICE), "the Service is made again", since)
        await self.see(_ready(self.shop, "True"), "waiting for Ready", since)
        since = self.mark
        await self.edit(self.child(DEPLOYMENT), {"spec": {"replicas": 7}})
        told = await self.see(_ready(self.shop, "False", "spec.replicas"), "waiting for the conflict to be told", since)
        ready = condition_of(told.object, "Ready")
        stage.step("·", told.at, f"Ready=False/{ready['reason']}: {ready['message']}")
        stage.check("the conflict is told", wanted="FieldConflict", actual=ready["reason"])
        live = await self.live(self.child(DEPLOYMENT))
        stage.check("and not fought", wanted=7, actual=get_path(live, "spec", "replicas"))
        since = self.mark
        await self.hand_back(told)
        await self.seen(_ready(self.shop, "True"), "handed back by the command that was told: Ready=True", since)
        live = await self.live(self.child(DEPLOYMENT))
        stage.check("the field has its value again", wanted=3, actual=get_path(live, "spec", "replicas"))

    async def hand_back(self, told: Sighting) -> None:
        """Run the command in the message of the condition Ready, which gives the field back to the box.

        The command names an entry of the Deployment's managedFields by its index. The Deployment's controller moves the
        entries when it writes its status, and the API server then refuses the old command; the next message has a
        command with the new index.
        """
        message = condition_of(told.object, "Ready")["message"]
        patch = json.loads(message.split("-p '", 1)[1].split("'", 1)[0])
        try:
            await self.world.admin.patch(
                self.child(DEPLOYMENT), patch, patch_type=PatchType.JSON, field_manager="kubectl-patch"
            )
        except Invalid:
            newer = partial(_has_other_message, former=message)
            await self.hand_back(
                await self.see(newer, "waiting for the command with the new index", self.position(told))
            )

    async def without_host(self) -> None:
        """Show that a child is deleted when its condition `includeWhen` becomes false, and that other children stay."""
        stage, since = self.stage, self.mark
        stage.act("No host", "includeWhen turns false: the Ingress should not exist any longer")
        await self.edit(self.shop, {"spec": {"host": None}})
        await self.seen(gone(INGRESS, f"{NAME}-ingress"), "the Ingress is gone", since)
        await self.see(_ready(self.shop, "True", generation=3), "waiting for Ready", since)
        stage.check("the others stay", wanted=[True, True], actual=[self.is_there(DEPLOYMENT), self.is_there(SERVICE)])

    async def deletion(self) -> None:
        """Show that children are deleted in reverse order of the phases, one after the other."""
        stage, since = self.stage, self.mark
        stage.act("Deletion", "in reverse order of the phases, each once the one before is gone")
        await self.world.admin.delete(self.shop)
        service = await self.seen(gone(SERVICE, f"{NAME}-svc"), "the Service is gone", since)
        deployment = await self.seen(gone(DEPLOYMENT, NAME), "the Deployment is gone", since)
        await self.seen(gone(self.shop.kind, NAME), f"{self.shop.kind.kind} {NAME} is gone", since)
        in_order = self.position(service) < self.position(deployment)
        stage.check("the Service went before what it stood before", wanted=True, actual=in_order)


async def run_box_story(scene: BoxScene, stage: Stage) -> None:
    """Play all acts of the demo's box story, one after the other; `stage` prints each step.

    Raises TooSlow if a step takes too long.
    """
    it = BoxTeller(scene, stage)
    await it.play(it.file, it.phases, it.change, it.drift, it.without_host, it.deletion)


def lines(scene: BoxScene) -> Iterator[str]:
    """Yield the text that `demo --keep` prints after the story: the kubeconfig, and commands to try."""
    plural, where = scene.box.kind.plural, f"-n {NAMESPACE_NAME}"
    yield "the box and the simulated controllers go on. Try, in another shell:"
    yield ""
    yield f"  export KUBECONFIG={scene.place.kubeconfig}"
    yield f"  kubectl get {plural},deployments,services,ingresses {where}"
    yield f"  kubectl describe {plural} {NAME} {where}"
    patch = '{"spec":{"replicas":4}}'
    yield f"  kubectl patch {plural} {NAME} {where} --type merge \\\n    -p '{patch}'"
    yield f"  kubectl delete {plural} {NAME} {where}"
    yield ""
    yield "Ctrl-C ends everything."


async def create_example_object(scene: BoxScene) -> None:
    """Create an object of the kind of the demo's box, which the user can then change."""
    manifest = scene.box.kind.manifest(NAME, NAMESPACE_NAME, spec=_SPEC)
    await scene.admin.apply(manifest, kind=scene.box.kind, field_manager="kubectl")


# --- predicates on sightings -----------------------------------------------------------------------------------------


def _added(kind: Kind) -> Wanted:
    return lambda seen: seen.kind == kind and seen.type is WatchEventType.ADDED


def _of(kind: Kind, holds: Callable[[Manifest], bool]) -> Wanted:
    return lambda seen: seen.kind == kind and not seen.is_gone and holds(seen.object)


def _has(kind: Kind, value: object, *path: str) -> Wanted:
    """Return a predicate for changes: whether an object of this kind has `value` at a path."""
    return _of(kind, lambda live: get_path(live, *path) == value)


def _has_address(seen: Sighting) -> bool:
    return seen.kind == SERVICE and bool(get_path(seen.object, "status", "loadBalancer", "ingress"))


def _ready(ref: ObjectRef, status: str, about: str = "", generation: int = 0) -> Wanted:
    """Return a predicate for changes: whether the object's condition Ready has this status and is up to date.

    Its message must contain `about`, and the object's generation must be at least `generation`.
    """

    def holds(live: Manifest) -> bool:
        found, present = condition_of(live, "Ready"), get_path(live, "metadata", "generation")
        is_current = found.get("observedGeneration") == present and present >= generation
        return is_current and found.get("status") == status and about in str(found.get("message"))

    return _of(ref.kind, holds)


def _has_other_message(seen: Sighting, former: str) -> bool:
    """Report whether a change of the parent has another message about the taken field than `former`."""
    message = str(condition_of(seen.object, "Ready").get("message"))
    return not seen.is_gone and "spec.replicas" in message and message != former


def _essence(manifest: Manifest) -> dict[str, Any]:
    """Return the parts of an object that the demo shows: kind, spec and status."""
    return {key: manifest[key] for key in ("kind", "spec", "status") if key in manifest}
