"""A stage in a cluster of real controllers (`make cluster`): a namespace of its own with the printed service account."""

import secrets
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from anyio.from_thread import start_blocking_portal

from tests.support.cluster_environment import RIGHTS, apply_printed
from tests.support.engine_stage import SEEN, EngineStage
from tests.support.kube_client import RemoteHands, RemoteRecord, Seen
from tests.support.patience import PATIENCE
from tools.cluster.up import Cluster
from vworkspace_app.install import InstallOptions, tenant
from vworkspace_core.apimachinery.errors import OperatorError
from vworkspace_core.apimachinery.manifest import Kind, Manifest, ObjectRef
from vworkspace_core.apimachinery.resources import JOB, NAMESPACE, VELERO_BACKUP
from vworkspace_core.ports import KubeApi
from vworkspace_fake.downstream.kinds import SERVICE_ACCOUNT
from vworkspace_kube import KubeApiClient, load_config

_LOOK: Final = 0.1
_FATE: Final = "cluster.vworkspace.io/pod"
_QUOTA: Final = Kind("", "v1", "ResourceQuota", "resourcequotas")


class RealEngineStage(EngineStage):
    """Pods end as a label of theirs says."""

    def __init__(self, hands: RemoteHands, namespace: str) -> None:
        super().__init__(hands, namespace, str(uuid.uuid4()))
        served = [kind for kind in SEEN if hands.do(partial(_is_served, kind))]
        self._record = RemoteRecord(hands, [(kind, self._place(kind)) for kind in served])
        self._seen: list[Seen] = []
        self._record.start()

    def _place(self, kind: Kind) -> str | None:
        if not kind.namespaced:
            return None
        return "velero" if kind.group == VELERO_BACKUP.group else self.namespace

    def pods_end(self, kind: Kind, body: dict[str, Any], fate: str) -> None:
        """Label the pods."""
        if kind == JOB:
            body["spec"]["template"]["metadata"]["labels"][_FATE] = fate

    def quota(self, pods: int | None) -> None:
        """Create a ResourceQuota and wait until it is counted, or delete it."""
        ref = ObjectRef(_QUOTA, self.namespace, "small")
        if pods is None:
            return self.delete(ref)
        spec = {"hard": {"pods": str(pods)}}
        self.create({**_QUOTA.manifest("small", self.namespace), "spec": spec}, _QUOTA)
        self.until(lambda: "used" in ((self.find(ref) or {}).get("status") or {}), "the quota is counted")

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Look again and again."""
        limit = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < limit, f"not within {PATIENCE} s: {what}; {self.find(self.ref)}"
            time.sleep(_LOOK)

    def pause(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)

    def seen(self) -> Sequence[Seen]:
        """Return everything that is this stage's, in the order of the server."""
        self._seen += [item for item in self._record.fresh() if self._is_ours(item)]
        self._seen.sort(key=lambda item: int(item[1].object["metadata"]["resourceVersion"]))
        return self._seen

    def _is_ours(self, item: Seen) -> bool:
        """Say whether an object is of this stage: some kinds lie in a namespace that stages share, or in none."""
        kind, event = item
        return kind.namespaced or self.namespace in str(event.object.get("spec"))

    def stop(self) -> None:
        """Watch no longer, and leave nothing."""
        self._record.stop()
        self.hands.do(lambda api: api.delete(ObjectRef(NAMESPACE, None, self.namespace)))


async def _is_served(kind: Kind, api: KubeApi) -> bool:
    try:
        await api.list(kind, namespace=None)
    except OperatorError:
        return False
    return True


@contextmanager
def real_stage(cluster: Cluster) -> Iterator[RealEngineStage]:
    """Have a namespace with the printed roles in that cluster, while the block lasts."""
    namespace = f"stage-{secrets.token_hex(3)}"
    config = load_config(cluster.kubeconfig)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(KubeApiClient(config)) as api:
        hands = RemoteHands(portal, api)
        manifest: Manifest = {**NAMESPACE.manifest(namespace), "metadata": {"name": namespace}}
        hands.do(lambda found: found.create(manifest, kind=NAMESPACE, field_manager="admin"))
        printed = tenant(namespace, InstallOptions(namespace="vworkspace-system"))
        hands.do(partial(apply_printed, printed, {**RIGHTS, SERVICE_ACCOUNT.kind: SERVICE_ACCOUNT}))
        stage = RealEngineStage(hands, namespace)
        try:
            yield stage
        finally:
            stage.stop()
