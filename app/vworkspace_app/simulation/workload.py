"""The acts of a script, carried out on a world: people with kubectl, and jobs of the control plane."""

from collections.abc import Mapping
from typing import Any, Final

import attrs

from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.manifest import ObjectRef, get_path
from purekube.apimachinery.resources import HELM_RELEASE
from purekube_run.simulation.laws import NOTE
from purekube_run.simulation.script import Act
from vworkspace_app.simulation.script import Do
from vworkspace_app.simulation.world import CLUSTER_ID, NAMESPACES, SimulatedWorld
from vworkspace_core.api import labels
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION

PASSWORD: Final = "pass-77c1"
"""A text in the values of every instance, which no output may show (RES-7)."""
BROKEN: Final = "6.6.6"
"""The version that cannot be released."""
_BACKUPS: Final = f"{labels.CAPABILITY_PREFIX}backup"


def space_of(name: str) -> str:
    """Return the namespace of an instance."""
    return NAMESPACES[int(name.rpartition("-")[2]) % len(NAMESPACES)]


def ref_of_instance(name: str) -> ObjectRef:
    """Return the reference of an instance."""
    return ObjectRef(APPLICATION_INSTANCE, space_of(name), name)


def instance(name: str, version: str, number: int = 0) -> dict[str, Any]:
    """Return an ApplicationInstance."""
    marks = {labels.MANAGED_BY: labels.MANAGED_BY_VALUE, labels.CLUSTER_ID: CLUSTER_ID}
    chart = {"sourceType": "oci", "url": "oci://r.example.test/charts", "name": "nextcloud", "version": version}
    return {
        **APPLICATION_INSTANCE.manifest(name, space_of(name)),
        "metadata": {"name": name, "namespace": space_of(name), "labels": marks, "annotations": {_BACKUPS: "velero"}},
        "spec": {
            "appRef": {"catalogId": "nextcloud"},
            "chart": chart,
            "release": {"name": name, "namespace": space_of(name)},
            "values": {"source": "inline", "inline": {"note": PASSWORD, "number": number}},
        },
    }


@attrs.define
class SimulatedWorkload:
    """The users of one world. `jobs` counts the generation of each instance that jobs manage."""

    world: SimulatedWorld
    jobs: dict[str, int] = attrs.field(factory=dict)
    done: int = 0
    """The number of acts that had an effect."""

    def perform(self, act: Act) -> None:
        """Carry out an act; one that the API server refuses has no effect."""
        try:
            self._perform(act)
        except OperatorError as error:
            self.world.note("people", f"{act.do} {act.name}: {type(error).__name__}")
            return
        self.done += 1
        self.world.note("people", f"{act.do} {act.name} {act.number}")

    def counts(self) -> Mapping[str, int]:
        """Return how many jobs there were."""
        return {"jobs": sum(1 for _ in self.world.control.jobs)}

    def _perform(self, act: Act) -> None:
        ref, world = ref_of_instance(act.name), self.world
        match act.do:
            case Do.CREATE:
                world.create(instance(act.name, "1.0.0", act.number), APPLICATION_INSTANCE)
            case Do.UPGRADE | Do.BREAK:
                version = BROKEN if act.do is Do.BREAK else f"1.{act.number}.0"
                world.change(ref, {"spec": {"chart": {"version": version}}})
            case Do.VALUES:
                world.change(ref, {"spec": {"values": {"inline": {"number": act.number}}}})
            case Do.SUSPEND | Do.RESUME:
                world.change(ref, {"spec": {"suspend": act.do is Do.SUSPEND}})
            case Do.DELETE:
                world.delete(ref)
            case Do.ANNOTATE:
                world.change(ref, {"metadata": {"annotations": {NOTE: str(act.number)}}})
            case Do.DELETE_CHILD:
                world.delete(self._release(act.name))
            case Do.ANNOTATE_CHILD:
                world.change(self._release(act.name), {"metadata": {"annotations": {NOTE: str(act.number)}}})
            case Do.JOB | Do.DELETE_JOB:
                self._ask(act.name, delete=act.do is Do.DELETE_JOB)
            case Do.REPLAY:
                self._replay(act.name)
            case Do.BACKUP:
                world.create(_backup(act), OPERATION)

    def _release(self, name: str) -> ObjectRef:
        return ObjectRef(HELM_RELEASE, space_of(name), name)

    def _ask(self, name: str, *, delete: bool) -> None:
        generation = self.jobs[name] = self.jobs.get(name, 0) + 1
        head = APPLICATION_INSTANCE.manifest(name, space_of(name))
        payload: Mapping[str, Any] = (
            {"apiVersion": head["apiVersion"], "kind": head["kind"], "namespace": space_of(name), "name": name}
            if delete
            else instance(name, f"1.{generation}.0", generation)
        )
        key = f"{APPLICATION_INSTANCE.kind}/{space_of(name)}/{name}@{generation}"
        self.world.control.enqueue(
            CLUSTER_ID, kind="delete" if delete else "apply", payload=payload, idempotency_key=key
        )

    def _replay(self, name: str) -> None:
        """Offer the content of an earlier job under a new id, as a control plane that repeats itself."""
        earlier = [job for job in self.world.control.jobs if f"/{name}@" in str(get_path(job.raw, "idempotencyKey"))]
        if earlier:
            raw = earlier[len(earlier) // 2].raw
            fields = {"kind": raw["kind"], "payload": raw["payload"], "idempotency_key": raw["idempotencyKey"]}
            self.world.control.enqueue(CLUSTER_ID, **fields)


def _backup(act: Act) -> dict[str, Any]:
    target = {"apiVersion": APPLICATION_INSTANCE.api_version, "kind": APPLICATION_INSTANCE.kind, "name": act.name}
    head = OPERATION.manifest(f"backup-{act.name}-{act.number}", space_of(act.name))
    head["metadata"]["labels"] = {labels.MANAGED_BY: labels.MANAGED_BY_VALUE, labels.CLUSTER_ID: CLUSTER_ID}
    return {**head, "spec": {"targetRef": target, "type": "Backup", "engine": "velero"}}
