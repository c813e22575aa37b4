"""The jobs of a simulated control plane: signed, offered again under new ids, and forged."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from purekube_run.simulation.script import Act
from vworkspace_app.simulation.script import Do
from vworkspace_app.simulation.world import CLUSTER_ID, SimulatedWorld
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION

FORGED: Final = "9.9.9"
"""The version that only forged jobs ask for (PULL-9)."""


@attrs.define
class JobRequests:
    """The jobs about instances that the control plane manages. `generations` counts what was asked of each."""

    world: SimulatedWorld
    instance: Callable[[str, str, int], Mapping[str, Any]]
    space_of: Callable[[str], str]
    generations: dict[str, int] = attrs.field(factory=dict)

    def ask(self, act: Act) -> None:
        """Offer the job of an act."""
        do = Do(act.do)
        match do:
            case Do.REPLAY:
                self._replay(act.name)
            case Do.FORGED_JOB:
                self._forge(act.name)
            case _:
                self._next(act.name, delete=do is Do.DELETE_JOB)

    def ask_for(self, operation: Mapping[str, Any]) -> None:
        """Offer a job that asks for an Operation."""
        meta = operation["metadata"]
        self._enqueue(
            "intent",
            {"intent": "request-operation", "operation": operation},
            f"{OPERATION.kind}/{meta['namespace']}/{meta['name']}@1",
        )

    def _next(self, name: str, *, delete: bool) -> None:
        generation = self.generations[name] = self.generations.get(name, 0) + 1
        space = self.space_of(name)
        identity = {"apiVersion": APPLICATION_INSTANCE.api_version, "kind": APPLICATION_INSTANCE.kind}
        payload: Mapping[str, Any] = (
            {**identity, "namespace": space, "name": name}
            if delete
            else self.instance(name, f"1.{generation}.0", generation)
        )
        self._enqueue("delete" if delete else "apply", payload, self._key(name, generation))

    def _key(self, name: str, generation: int) -> str:
        return f"{APPLICATION_INSTANCE.kind}/{self.space_of(name)}/{name}@{generation}"

    def _enqueue(self, kind: str, payload: Mapping[str, Any], key: str) -> None:
        self.world.control.enqueue(CLUSTER_ID, kind=kind, payload=payload, idempotency_key=key)

    def _replay(self, name: str) -> None:
        """Offer the content of an earlier job under a new id, as a control plane that repeats itself."""
        earlier = [
            job.raw
            for job in self.world.control.jobs
            if f"/{name}@" in job.raw["idempotencyKey"] and not is_forged(job.raw)
        ]
        if earlier:
            raw = earlier[len(earlier) // 2]
            self._enqueue(raw["kind"], raw["payload"], raw["idempotencyKey"])

    def _forge(self, name: str) -> None:
        """Offer a job whose signature is of other content, as an attacker between control plane and cluster."""
        entry = self.world.control.enqueue(
            CLUSTER_ID,
            kind="apply",
            payload=self.instance(name, "1.0.0", 0),
            idempotency_key=self._key(name, self.generations.get(name, 0) + 1),
        )
        entry.raw = {**entry.raw, "payload": self.instance(name, FORGED, 0)}


def is_forged(raw: Mapping[str, Any]) -> bool:
    """Report whether a job was forged."""
    chart = (raw["payload"].get("spec") or {}).get("chart") or {}
    return bool(chart.get("version") == FORGED)
