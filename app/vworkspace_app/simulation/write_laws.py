"""The laws of every write of a replica of the operator: who may write what, and what a request must name."""

from typing import Final

from purekube.apimachinery.manifest import get_path
from purekube.apimachinery.resources import HELM_RELEASE, LEASE, OCI_REPOSITORY
from purekube.controller.lease.record import lease_name
from purekube.controller.shard import WHOLE, shard_of
from purekube.ports import KubeRequest, KubeVerb
from purekube_run.simulation.connection import ObservedWrite
from purekube_run.simulation.laws import place_of
from vworkspace_app.settings.table import shard_in
from vworkspace_app.simulation.checks import OperatorChecks
from vworkspace_app.simulation.instance_laws import InstanceLaws
from vworkspace_app.simulation.world import OWN_NAMESPACE
from vworkspace_core.api import labels
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION

_OURS: Final = (APPLICATION_INSTANCE, OPERATION)


class WriteLaws:
    """The laws of writes."""

    def __init__(self, laws: OperatorChecks, instances: InstanceLaws) -> None:
        self._laws = laws
        self._instances = instances
        self._world = laws.operator_world
        self._shards = {replica.name: shard_in(replica.settings) for replica in self._world.operators}
        self._world.on_write.append(self._wrote)

    def _wrote(self, write: ObservedWrite) -> None:
        request = write.request
        if write.error is None and self._shards.get(write.replica, WHOLE).count > 1:
            self._check_shard(write)
        if request.verb is KubeVerb.DELETE:
            self._check_delete(write)
        elif request.kind in _OURS and (request.subresource == "status" or request.verb is KubeVerb.PATCH):
            version = get_path(request.body, "metadata", "resourceVersion")
            told = "the request has no resourceVersion"
            self._laws.check("REC-6", "a write names its version", request.ref, bool(version), told)

    def _check_shard(self, write: ObservedWrite) -> None:
        """Check that the writer holds the Lease of its shard, and writes statuses of its share of the namespaces."""
        shard, request = self._shards[write.replica], write.request
        if request.kind == LEASE:
            return
        key = (OWN_NAMESPACE, lease_name("vworkspace-operator", shard))
        lease = self._world.server.store.get(place_of(LEASE), key)
        if lease is not None and not self._laws.is_just_restored(write.at):
            holder = str(get_path(lease.object(), "spec", "holderIdentity") or "")
            holds = f"{write.replica}_" in holder
            self._laws.check("RUN-4", "only the holder of the Lease writes", request.ref, holds, f"{holder} holds it")
        if request.kind in _OURS and request.subresource == "status":
            owns = shard_of(request.namespace or "", shard.count) == shard.index
            self._laws.check("RUN-13", "one shard acts on an object", request.ref, owns, f"shard {shard} wrote it")

    def _check_delete(self, write: ObservedWrite) -> None:
        """Check that a delete hits nothing that a living instance uses."""
        request = write.request
        owner = self._instances.owner_of(str(get_path(request.body, "preconditions", "uid") or ""))
        if write.error is None and owner:
            used = self._is_used(request, owner)
            told = f"the instance {owner} lives and uses it"
            self._laws.check("REC-10", "nothing in use is deleted", request.ref, not used, told)

    def _is_used(self, request: KubeRequest, owner: str) -> bool:
        """Report whether a living instance uses an object: its HelmRelease, or the source that this names."""
        store = self._world.server.store
        instances = store.scan(place_of(APPLICATION_INSTANCE), request.namespace)
        if not any(each.uid == owner and not each.deleting for each in instances):
            return False
        if request.kind == HELM_RELEASE:
            return True
        releases = store.scan(place_of(HELM_RELEASE), request.namespace)
        own = [
            each.object() for each in releases if each.labels.get(labels.INSTANCE_UID) == owner and not each.deleting
        ]
        path = ("chartRef",) if request.kind == OCI_REPOSITORY else ("chart", "spec", "sourceRef")
        return any(get_path(live, "spec", *path, "name") == request.name for live in own)
