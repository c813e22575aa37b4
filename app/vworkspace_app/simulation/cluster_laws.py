"""The laws (required properties) of the Cluster object, and of the credential for the control plane (RES-3, PULL-8)."""

from functools import partial
from typing import Final

from kubelab.clock import START
from kubelab.model.records import Record
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import SECRET
from purekube.ports import KubeVerb
from purekube_run.simulation.connection import ObservedWrite
from vworkspace_app.simulation.checks import OperatorChecks
from vworkspace_app.simulation.cluster_requests import REPLACED
from vworkspace_app.simulation.operator_world import OWN_NAMESPACE, TOKEN, TOKEN_LIFETIME
from vworkspace_core.api.kinds import CLUSTER
from vworkspace_core.credentials.secret import secret_ref, stored_credential

_SECRET: Final = secret_ref(OWN_NAMESPACE)
_AFTERMATH: Final = 300.0
"""The seconds after a fault in which a refused renewal may still wait for its next try."""


class ClusterLaws:
    """The checks of the laws (required properties) of the Cluster object and of the credential in a simulated run."""

    def __init__(self, laws: OperatorChecks) -> None:
        self._check = laws.check
        self._laws = laws
        self._tokens = laws.operator_world.control.tokens
        self._stored = {TOKEN}
        """The tokens that the Secret has ever held."""
        self._seen: set[tuple[str, int]] = set()
        """The processes that have written the Cluster object's status, each a replica and the number of its start."""
        laws.observe(SECRET, self._secret)
        laws.world.on_write.append(self._wrote)
        for replica in laws.operator_world.operators:
            replica.on_token.append(partial(laws.world.inform, self._used))

    def _wrote(self, write: ObservedWrite) -> None:
        """Check that no process makes the Cluster object again after it has seen one: a user has deleted it."""
        if write.request.kind != CLUSTER or write.error is not None:
            return
        starts = next(each.starts for each in self._laws.operator_world.operators if each.name == write.replica)
        if write.request.verb is not KubeVerb.CREATE:
            self._seen.add((write.replica, starts))
            return
        is_first = (write.replica, starts) not in self._seen
        self._check(
            "RES-3", "a deleted Cluster stays away", write.request.ref, is_first, "the process has seen one before"
        )

    def _secret(self, ref: ObjectRef, before: Record | None, after: Record | None) -> None:
        """Check that the old token stays in the Secret until the new one has worked."""
        if ref != _SECRET or after is None:
            return
        now = stored_credential(after.shared())
        self._stored |= {now.token, now.previous}
        if before is None or self._laws.is_restored_now or now.token.startswith(REPLACED):
            return
        was = stored_credential(before.shared())
        known = self._tokens.find(now.token)
        if now.token != was.token:
            kept = bool(now.previous) and now.previous in (was.token, was.previous)
            self._check("PULL-8", "the old token stays until the new one works", ref, kept, "it is gone at once")
        elif was.previous and not now.previous:
            works = known is None or known.used
            self._check("PULL-8", "the old token stays until the new one works", ref, works, "the new one was not used")

    def _used(self, token: str) -> None:
        told = "a token that the Secret never held is used"
        self._check("PULL-8", "a token is used once the Secret holds it", _SECRET, token in self._stored, told)
        known, world = self._tokens.find(token), self._laws.operator_world
        if known is not None and known.ends is not None and not world.was_restored:
            # It is renewed when at least a quarter of its time is left, if nothing is in the way then.
            due = (known.ends - TOKEN_LIFETIME / 4 - START).total_seconds()
            holds = world.loop.now() < known.ends or world.troubled_until > due - _AFTERMATH
            self._check("PULL-8", "a token is renewed before it ends", _SECRET, holds, f"it has ended at {known.ends}")
