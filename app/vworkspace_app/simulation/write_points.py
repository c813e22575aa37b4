"""The write points of the operator: each right to write that it uses, before and after the write (SIM-2)."""

from typing import Final

from kubelab.model.records import ObjectKey
from purekube.ports import KubeRequest, KubeVerb
from purekube_run.simulation.laws import place_of
from vworkspace_app.simulation.world import SimulatedWorld
from vworkspace_core.install import access

_WRITES: Final = ("create", "update", "patch", "delete")
_RIGHTS: Final = (*access.EVERYWHERE, *access.TENANT, *access.JOBS, *access.VELERO, *access.OWN)
SIDES: Final = ("before", "after")
POINTS: Final = tuple(
    sorted({f"{verb} {right.resource}" for right in _RIGHTS for verb in right.verbs if verb in _WRITES})
)
"""Every verb and resource of a write."""
CRASH_POINTS: Final = tuple(f"{side} {point}" for point in POINTS for side in SIDES)
"""Every point at which a process can crash at a write."""


def point_of(world: SimulatedWorld, request: KubeRequest) -> str:
    """Return the write point of a request; an apply of an absent object is a create (S-18)."""
    key: ObjectKey = (request.namespace or "", request.name)
    match request.verb:
        case KubeVerb.APPLY if world.server.store.get(place_of(request.kind), key) is None:
            verb = "create"
        case KubeVerb.APPLY:
            verb = "patch"
        case _:
            verb = request.verb.value
    subresource = f"/{request.subresource}" if request.subresource else ""
    return f"{verb} {request.kind.plural}{subresource}"
