"""The base of all laws (required properties): the check for secrets, and the laws about a status (RES-4, RES-7)."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from purekube.apimachinery.conditions import conditions_by_type
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import LEASE
from purekube.apimachinery.timestamps import parse_time
from purekube.controller.lease.record import lease_name
from purekube_run.simulation.laws import Laws
from purekube_run.simulation.prompt_laws import PromptLaws
from vworkspace_app.settings.table import lease_policy, shard_in
from vworkspace_app.simulation.operator_world import OWN_NAMESPACE, PASSWORD, SimulatedWorld
from vworkspace_core.api import labels
from vworkspace_core.api.vocabulary import is_admitted, owned_types

_SECRETS: Final = (PASSWORD.encode(), b"tok-")


class OperatorChecks(Laws):
    """The common checks of laws (required properties) in a simulated run of the operator."""

    def __init__(self, world: SimulatedWorld) -> None:
        super().__init__(world, None)
        self.operator_world = world
        self.shards = {replica.name: shard_in(replica.settings) for replica in world.operators}
        self.renew_deadline = lease_policy(world.settings.run).renew_deadline
        self.prompt = PromptLaws(self)

    def lease_of(self, replica: str) -> ObjectRef | None:
        """Return the Lease of the replica's shard."""
        return ObjectRef(LEASE, OWN_NAMESPACE, lease_name("vworkspace-operator", self.shards[replica]))

    @property
    def earliest_now(self) -> datetime:
        """The earliest present time of all replicas, of which a clock may have been set back."""
        return min(replica.clock.now() for replica in self.world.replicas)

    @staticmethod
    def shows_secret(value: Any) -> bool:
        """Report whether a value, encoded as JSON, contains a secret of the simulation."""
        return leaks(msgspec.json.encode(value))


def leaks(text: bytes) -> bool:
    """Report whether a string contains a secret of the simulation."""
    return any(secret in text for secret in _SECRETS)


LONGEST: Final = 1024
"""The maximum length in bytes of a message that quotes another component (REC-5 row 4)."""
Flaw = tuple[str, str, str]
"""A violation of a law (required property): the clause of the specification, the law, and the observed state."""


def status_flaws(kind: str, manifest: Manifest) -> Iterator[Flaw]:
    """Yield a flaw for each law (required property) that the status of an object violates.

    `kind` is the object's kind.
    """
    generation, own = manifest["metadata"]["generation"], owned_types(kind)
    for condition in conditions_by_type(manifest).values():
        if condition["type"] not in own:
            continue
        shown = f"{condition['type']}={condition['status']}/{condition['reason']}"
        if not is_admitted(kind, condition["type"], condition["status"], condition["reason"]):
            yield "RES-4", "conditions are of the vocabulary", shown
        if condition["type"] != "Blocked" and len(condition["message"].encode()) > LONGEST:
            yield "REC-5", "messages are cut", f"{shown}: {len(condition['message'].encode())} bytes"
        if condition.get("observedGeneration", 0) > generation:
            yield "REC-7", "no condition is of a later generation", f"{shown}: {condition['observedGeneration']}"


def course_of(live: Manifest) -> tuple[object, ...]:
    """Return what users want of an object: its generation, its deletion, the cancellation of its run, and its retry."""
    meta = live["metadata"]
    asked = (get_path(meta, "annotations", name) for name in (labels.CANCEL, labels.RETRY))
    return meta["generation"], meta.get("deletionTimestamp"), *asked


_LONGEST_WAY: Final = timedelta(minutes=5)
"""More time than passes between the decision on a status and its write, in a process that may be paused."""


def succession_flaws(kind: str, before: Manifest, after: Manifest, at: datetime) -> Iterator[Flaw]:
    """Yield a flaw for each law (required property) that the change of an object from `before` to `after` violates.

    `kind` is the object's kind, and `at` the time of the change by the clock that may have written it.
    """
    old, new = (int(get_path(live, "status", "observedGeneration") or 0) for live in (before, after))
    if new < old:
        yield "REC-7", "observedGeneration does not fall", f"{old}, then {new}"
    now, own = conditions_by_type(after), owned_types(kind)
    for name, was in conditions_by_type(before).items():
        condition = now.get(name)
        if name not in own and condition != was:
            yield "RES-4", "conditions of others stay", name
        if condition is None or name not in own:
            continue
        moved = condition["lastTransitionTime"] != was["lastTransitionTime"]
        is_same = condition["status"] == was["status"]
        if moved and is_same:
            yield "RES-4", "lastTransitionTime moves with status", f"{name} stayed {condition['status']}"
        if not moved and not is_same and at - parse_time(was["lastTransitionTime"]) > _LONGEST_WAY:
            told = f"{name} is {condition['status']} since {was['lastTransitionTime']}, as it was {was['status']}"
            yield "RES-4", "lastTransitionTime moves with status", told
        if condition.get("observedGeneration", 0) < was.get("observedGeneration", 0):
            yield "REC-7", "no condition goes back", f"{name}: {was['observedGeneration']}"
