"""The end of a run compared with a fresh world to which only the last intents were applied (SIM-4).

What a cluster went through leaves no trace: crashes, faults, and edits that were taken back. Three things are history
by intent, and are left out: a release that is suspended stays what it was, one whose version cannot be released goes
back to the one before, and an Operation asks for a release once.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, ref_of
from purekube.apimachinery.resources import NAMESPACE
from purekube_run.simulation.laws import Unsettled
from purekube_run.simulation.stable_parts import stable_parts_of
from vworkspace_app.simulation.settled_laws import CHILDREN, is_ready
from vworkspace_app.simulation.surroundings import GUESTS, furnish, open_namespace
from vworkspace_app.simulation.world import SimulatedWorld, WorldSettings
from vworkspace_core.api import labels
from vworkspace_core.api.kinds import APPLICATION_INSTANCE

_MOST: Final = 600.0
_LOOK: Final = 30.0


def differences(world: SimulatedWorld) -> Iterator[Unsettled]:
    """Yield each object that a fresh world would have otherwise. Time passes in the fresh world alone."""
    intents = {ref_of(live, APPLICATION_INSTANCE): live for live in world.objects(APPLICATION_INSTANCE)}
    wanted = {ref: live for ref, live in intents.items() if _is_wanted(live)}
    after = _shapes(world, wanted)
    settings = WorldSettings(seed=world.seed, flux=world.settings.flux, engines=world.settings.engines)
    with SimulatedWorld(settings) as fresh:
        furnish(fresh)
        if world.get(ObjectRef(NAMESPACE, None, GUESTS)) is not None:
            open_namespace(fresh, GUESTS)
        for live in wanted.values():
            fresh.create(_intent(live), APPLICATION_INSTANCE, "people")
        while fresh.seconds < _MOST and not all(_is_there(fresh, ref) for ref in wanted):
            fresh.run(_LOOK)
        fresh.run(_LOOK)
        direct = _shapes(fresh, wanted)
    for ref in sorted({*after, *direct}):
        if after.get(ref) != direct.get(ref):
            yield Unsettled("SIM-4", "state of history is state of intents", str(ref), _told(after, direct, ref))


def _is_wanted(live: Manifest) -> bool:
    """Report whether an instance is as its spec alone says."""
    return is_ready(live) and not get_path(live, "status", "releaseOverride") and not get_path(live, "spec", "suspend")


def _intent(live: Manifest) -> dict[str, Any]:
    meta = live["metadata"]
    kept = {key: meta[key] for key in ("name", "namespace", "labels", "annotations") if key in meta}
    return {"apiVersion": live["apiVersion"], "kind": live["kind"], "metadata": kept, "spec": live["spec"]}


def _is_there(world: SimulatedWorld, ref: ObjectRef) -> bool:
    live = world.get(ref)
    return live is not None and is_ready(live)


def _shapes(world: SimulatedWorld, wanted: Mapping[ObjectRef, Manifest]) -> dict[ObjectRef, bytes]:
    """Return what exists for these instances, and what these report, without uids and times."""
    shapes: dict[ObjectRef, bytes] = {}
    uids: set[str] = set()
    for ref in wanted:
        live = world.get(ref)
        if live is not None:
            uids.add(live["metadata"]["uid"])
            shapes[ref] = repr(_report(live)).encode()
    for kind in CHILDREN:
        for live in world.objects(kind):
            if (live["metadata"].get("labels") or {}).get(labels.INSTANCE_UID) in uids:
                shapes[ref_of(live, kind)] = stable_parts_of(_without_requests(live))
    return shapes


def _report(live: Manifest) -> tuple[Any, ...]:
    """Return what an instance says: conditions that are True. That others were once, only history knows."""
    conditions = sorted(
        (each["type"], each["reason"]) for each in live["status"]["conditions"] if each["status"] == "True"
    )
    return (
        conditions,
        get_path(live, "status", "deployedChart", "version"),
        get_path(live, "status", "lastAppliedChart"),
    )


def _without_requests(live: Manifest) -> dict[str, Any]:
    """Return an object without the annotations that people leave on it and that ask for a retry."""
    annotations = {
        key: value
        for key, value in (live["metadata"].get("annotations") or {}).items()
        if "vworkspace.io" in key and key != labels.RETRY_SENT
    }
    return {**live, "metadata": {**live["metadata"], "annotations": annotations}}


def _told(after: Mapping[ObjectRef, bytes], direct: Mapping[ObjectRef, bytes], ref: ObjectRef) -> str:
    shown = (side.get(ref, b"nothing").decode("utf-8", "replace")[:600] for side in (after, direct))
    return "history: {}; directly: {}".format(*shown)
