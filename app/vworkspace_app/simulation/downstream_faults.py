"""Faults of the tools that the operator uses: Flux, and engines, which carry out Operations (SIM-2).

The tools report wrong statuses, and CRDs are removed or changed.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import attrs

from kubelab.downstream import DownstreamBehaviour, DownstreamOutcome, DownstreamRule, Ending
from kubelab.inprocess import run_sync
from purekube.apimachinery.errors import AlreadyExists, OperatorError
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, ref_of
from purekube.apimachinery.resources import (
    CUSTOM_RESOURCE_DEFINITION,
    HELM_RELEASE,
    HELM_REPOSITORY,
    OCI_REPOSITORY,
    REPLICATION_SOURCE,
    VELERO_BACKUP,
    VOLUME_SNAPSHOT,
    WORKFLOW,
)
from purekube.ports import KubeVerb, PatchType
from purekube_run.simulation.connection import ObservedWrite
from purekube_run.simulation.prompt_laws import AFTERMATH
from purekube_run.simulation.world_faults import SimulatedFault, Strike
from vworkspace_app.simulation.operator_world import PASSWORD, SimulatedWorld

_Strike = Strike[SimulatedWorld]
_FLUX: Final = "helm-controller"
_FLAPS: Final = ("False", "True", "Unknown", "True", "False", "True")
_GARBAGE: Final = f"\x00\ufffd release failed: password={PASSWORD} " + "x" * 30_000
_PHASE: Final = "Superposition"
"""The phase that a fault writes into the status of an engine's object. No engine knows it."""
_ENDED: Final = ("Succeeded", "Failed", "Error")
"""The last phases of a Workflow."""
_AT_WORK: Final = 1.0
"""The seconds after its creation at which a Workflow is at work."""
_INJECTED: Final = "Injected"
"""The reason of the condition Ready in a status that a fault has written."""
_DEFINED: Final = (
    *(VELERO_BACKUP, WORKFLOW, VOLUME_SNAPSHOT, REPLICATION_SOURCE),
    *(OCI_REPOSITORY, HELM_REPOSITORY, HELM_RELEASE),
)
"""The kinds whose CRDs faults remove or change."""
_FOUND: Final = AFTERMATH + 10.0
"""The seconds after which Flux looks for drift: laws of promptness hold again by then."""
_AGAIN: Final = 5.0
"""The seconds between two attempts to create a removed CRD again, because its deletion may not be complete."""


def _chosen(at: _Strike, kinds: Sequence[Kind]) -> tuple[ObjectRef, Manifest] | None:
    """Return a random object of these kinds that is not being deleted, or None if there is none."""
    live = [
        (ref_of(each, kind), each)
        for kind in kinds
        for each in at.world.objects(kind)
        if not each["metadata"].get("deletionTimestamp")
    ]
    return live[int(at.choice * len(live))] if live else None


def _write_status(
    world: SimulatedWorld, ref: ObjectRef, status: Mapping[str, Any], subresource: str = "status"
) -> bool:
    """Write fields of an object's status as Flux does. Return whether the API server accepted them."""
    try:
        run_sync(
            world.admin.patch(
                ref, {"status": status}, patch_type=PatchType.MERGE, field_manager=_FLUX, subresource=subresource
            )
        )
    except OperatorError:
        return False
    return True


def _tell_the_truth(world: SimulatedWorld, ref: ObjectRef, live: Manifest) -> None:
    """End a fault: replace the status that it injected by the status of `live`, unless Flux has replaced it already.

    The simulated Flux then begins again, so that it processes all objects.
    """
    now = world.get(ref)
    if now is not None and now["metadata"]["uid"] == live["metadata"]["uid"] and _is_injected(now):
        true = live.get("status") or {}
        _write_status(world, ref, {key: true.get(key) for key in ("observedGeneration", "conditions")})
    world.restart_flux()


def _is_injected(live: Manifest) -> bool:
    """Report whether the object's status is still the one that a fault injected."""
    return any(each["reason"] == _INJECTED for each in get_path(live, "status", "conditions") or ())


def _ready(live: Manifest, status: str, generation: int, message: str) -> list[dict[str, Any]]:
    """Return the conditions of an object with another Ready condition, for a fault that injects it."""
    others = [each for each in get_path(live, "status", "conditions") or () if each["type"] != "Ready"]
    moment = live["metadata"]["creationTimestamp"]
    ready = {"type": "Ready", "status": status, "reason": _INJECTED, "message": message}
    return [{**ready, "lastTransitionTime": moment, "observedGeneration": max(0, generation)}, *others]


def _flux_lies(at: _Strike) -> None:
    """Make a HelmRelease report Ready for a generation that is later or earlier than its own."""
    found = _chosen(at, (HELM_RELEASE,))
    if found is None:
        return
    ref, live = found
    generation = int(live["metadata"]["generation"]) + (1 if at.choice < 0.5 else -1)
    status = {"observedGeneration": generation, "conditions": _ready(live, "True", generation, "injected lie")}
    if _write_status(at.world, ref, status):
        at.happened(f"{ref} is Ready for generation {generation}")
        at.later(lambda: _tell_the_truth(at.world, ref, live))


def _flux_flaps(at: _Strike) -> None:
    """Make a HelmRelease report Ready with changing statuses, in quick succession.

    What Flux reports meanwhile is kept: its other conditions, and the generation that it has observed.
    """
    found = _chosen(at, (HELM_RELEASE,))
    if found is None:
        return
    ref, truth = found

    def flap(status: str) -> None:
        nonlocal truth
        now = at.world.get(ref)
        if now is None or now["metadata"]["uid"] != truth["metadata"]["uid"]:
            return
        truth = truth if _is_injected(now) else now
        generation = int(get_path(now, "status", "observedGeneration") or 0)
        _write_status(at.world, ref, {"conditions": _ready(now, status, generation, "injected flapping")})

    for number, status in enumerate(_FLAPS):
        at.world.loop.call_later(at.seconds * number / len(_FLAPS), flap, status)
    at.later(lambda: _tell_the_truth(at.world, ref, truth))
    at.happened(f"{ref} for {at.seconds:g} s")


def _flux_drifts(at: _Strike) -> None:
    """Change an object of a release, as people do by hand, until another fault of Flux ends.

    Flux is restarted so that it finds the change, once this fault is no longer an excuse for promptness, and at the end
    of all faults, so that it finds that nothing has drifted.
    """
    found, flux = _chosen(at, (HELM_RELEASE,)), at.world.flux
    if found is None or flux is None:
        return
    ref, _ = found
    name = f"{ref.namespace}/{ref.name}"
    drifted = {**flux.behaviour.drifted, name: (f"Deployment/{name}",)}
    at.world.set_behaviour(flux=attrs.evolve(flux.behaviour, drifted=drifted))
    at.world.loop.call_later(_FOUND, at.world.restart_flux)
    at.world.at_end_of_faults.append(at.world.restart_flux)
    at.happened(str(ref))


def _flux_garbage(at: _Strike) -> None:
    """Make a Flux object report a long message with a secret and control characters.

    Its observedGeneration is negative.
    """
    found = _chosen(at, (HELM_RELEASE, OCI_REPOSITORY, HELM_REPOSITORY))
    if found is None:
        return
    ref, live = found
    status = {"observedGeneration": -7, "conditions": _ready(live, "False", 0, _GARBAGE)}
    if _write_status(at.world, ref, status):
        at.happened(str(ref))
        at.later(lambda: _tell_the_truth(at.world, ref, live))


def _engine_garbage(at: _Strike) -> None:
    """Make a Workflow report an unknown phase, which counts as progress and not as failure (OPS-6).

    If none is at work now, it is the next one that a replica creates.
    """
    world = at.world

    def is_at_work(live: Manifest) -> bool:
        return get_path(live, "status", "phase") not in _ENDED and not live["metadata"].get("deletionTimestamp")

    def created(write: ObservedWrite) -> None:
        if write.request.verb is KubeVerb.CREATE and write.request.kind == WORKFLOW and write.error is None:
            world.on_write.remove(created)
            world.loop.call_later(_AT_WORK, _report_garbage, at, write.request.ref)

    def forget() -> None:
        with suppress(ValueError):
            world.on_write.remove(created)

    live = [each for each in world.objects(WORKFLOW) if is_at_work(each)]
    if live:
        _report_garbage(at, ref_of(live[int(at.choice * len(live))], WORKFLOW))
    else:
        world.on_write.append(created)
        world.at_end_of_faults.append(forget)


def _report_garbage(at: _Strike, ref: ObjectRef) -> None:
    before = get_path(at.world.get(ref), "status", "phase")
    if before in _ENDED or not _write_status(at.world, ref, {"phase": _PHASE}, ""):
        return
    at.happened(str(ref))

    def mend() -> None:
        if get_path(at.world.get(ref), "status", "phase") == _PHASE:
            _write_status(at.world, ref, {"phase": before}, "")

    at.later(mend)


_BAD_ENDS: Final = (Ending.ERROR, Ending.INVALID, Ending.FAIL, Ending.PARTIAL)


def _engines_fail(at: _Strike) -> None:
    """Let every attempt that an engine begins fail for a while, in one of the ways that engines know."""
    ending = _BAD_ENDS[int(at.choice * len(_BAD_ENDS))]
    at.world.set_behaviour(engines=DownstreamBehaviour(rules=(DownstreamRule(DownstreamOutcome(ending)),)))
    at.later(at.world.calm_down)
    at.happened(f"{ending} for {at.seconds:g} s")


def _remove_definition(at: _Strike) -> None:
    """Delete a CRD with all its objects, and create it again later."""
    ref = ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, _DEFINED[int(at.choice * len(_DEFINED))].crd_name)
    live = at.world.get(ref)
    if live is None or live["metadata"].get("deletionTimestamp"):
        return
    annotations = live["metadata"].get("annotations") or {}
    plain = ref.kind.manifest(ref.name, metadata={"annotations": annotations}, spec=live["spec"])
    at.world.delete(ref)
    at.happened(f"{ref.name} for {at.seconds:g} s")

    def define() -> None:
        try:
            at.world.create(plain, CUSTOM_RESOURCE_DEFINITION, "admin")
        except AlreadyExists:
            if (get_path(at.world.get(ref), "metadata") or {}).get("deletionTimestamp"):
                at.world.loop.call_later(_AGAIN, define)

    at.later(define)


def _change_definition(at: _Strike) -> None:
    """Add a printer column to a CRD, as an upgrade may do."""
    ref = ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, _DEFINED[int(at.choice * len(_DEFINED))].crd_name)
    live = at.world.get(ref)
    if live is None or live["metadata"].get("deletionTimestamp"):
        return
    column = {"name": f"Changed{int(at.world.seconds)}", "type": "string", "jsonPath": ".metadata.name"}
    versions = [
        {**each, "additionalPrinterColumns": [*(each.get("additionalPrinterColumns") or ()), column]}
        for each in live["spec"]["versions"]
    ]
    with suppress(OperatorError):
        at.world.change(ref, {"spec": {"versions": versions}}, "admin")
        at.happened(ref.name)


DOWNSTREAM_FAULTS: Final[Mapping[str, SimulatedFault[SimulatedWorld]]] = {
    "flux-lies": SimulatedFault(_flux_lies, 1.0, (2.0, 60.0)),
    "flux-flaps": SimulatedFault(_flux_flaps, 1.0, (5.0, 60.0)),
    "flux-garbage": SimulatedFault(_flux_garbage, 0.5, (2.0, 60.0)),
    "engine-garbage": SimulatedFault(_engine_garbage, 1.0, (2.0, 60.0)),
    "crd-removed": SimulatedFault(_remove_definition, 0.3, (5.0, 90.0)),
    "crd-changed": SimulatedFault(_change_definition, 0.5),
    "engines-fail": SimulatedFault(_engines_fail, 1.0, (5.0, 120.0)),
    "flux-drifts": SimulatedFault(_flux_drifts, 3.0),
}
"""The faults of Flux, of engines and of CRDs, by name."""
