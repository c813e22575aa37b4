"""A stage in a cluster of real controllers (`make cluster`): a namespace of its own, and a place in the registries."""

import os
import secrets
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from anyio.from_thread import start_blocking_portal

from purekube.apimachinery.errors import NotFound
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import CONFIG_MAP, CORE_EVENT, NAMESPACE, SERVICE_ACCOUNT
from purekube.ports import WatchEvent
from purekube_http import KubeApiClient, load_config
from tests.support.cluster_environment import RIGHTS, apply_printed
from tests.support.flux_stage import NAME, SHOWN, Stage
from tests.support.helm import helm_in
from tests.support.kube_client import RemoteHands, RemoteRecord
from tests.support.patience import PATIENCE
from tools.cluster.charts import Repository, packaged
from tools.cluster.up import Cluster
from vworkspace_app.install import InstallOptions, tenant

_LOOK: Final = 0.1


class RealStage(Stage):
    """Releases are installed with the rights that `manifests --tenant-namespace` prints for them."""

    def __init__(self, hands: RemoteHands, cluster: Cluster, namespace: str) -> None:
        super().__init__(hands, namespace)
        assert cluster.registries is not None, "the cluster runs without flux"
        self.cluster = cluster
        self.repository = Repository(cluster.registries.trusted, namespace, cluster.registries.authority)
        self._record = RemoteRecord(hands, [(kind, namespace) for kind in (*SHOWN, CORE_EVENT)])
        self._seen: list[tuple[Kind, WatchEvent]] = []
        self._record.start()

    @property
    def oci(self) -> str:
        """The trusted listener."""
        return self.repository.oci

    @property
    def http(self) -> str:
        """The trusted listener."""
        return self.repository.http

    @property
    def untrusted(self) -> str:
        """The listener whose authority is not trusted."""
        assert self.cluster.registries is not None
        return f"oci://{self.cluster.registries.untrusted}/{self.namespace}"

    def push(self, chart: str, version: str, **values: Any) -> None:
        """Push it."""
        self.know(self.repository.push(chart, version, values), chart, version)

    def helm_installs(self, chart: str, version: str) -> None:
        """Use Helm's library."""
        with tempfile.TemporaryDirectory() as folder:
            archive = Path(folder) / f"{chart}.tgz"
            archive.write_bytes(packaged(chart, version))
            with helm_in(archive) as helm:
                helm.acted("install", self.cluster.kubeconfig, {}, self.namespace, release=NAME)

    def publish(self, *charts: tuple[str, str]) -> None:
        """Publish them."""
        self.repository.publish(*charts)

    def registry_fails(self, status: int) -> None:
        """Tell the registries' front."""
        self.repository.fail(status)

    def drift(self) -> None:
        """Patch it."""
        self.patch({"data": {"motto": "by hand"}}, CONFIG_MAP, f"{NAME}-settings")

    def kill_helm_controller(self) -> None:
        """Kill the process; the cluster starts it again."""
        os.kill(self.cluster.process("helm-controller"), signal.SIGKILL)

    def end_namespace(self) -> None:
        """Leave it to the namespace controller."""
        self.delete(NAMESPACE, self.namespace)
        self.until_gone(NAMESPACE, self.namespace)

    def wait(self, holds: Callable[[], bool], shown: Callable[[], object]) -> None:
        """Ask again and again."""
        limit = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < limit, f"not within {PATIENCE} s: {shown()}"
            time.sleep(_LOOK)

    def pause(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)

    def let_events_arrive(self) -> None:
        """Give them two seconds."""
        time.sleep(2)

    def seen(self) -> Sequence[tuple[Kind, WatchEvent]]:
        """Everything, in the order of the server."""
        self._seen += self._record.fresh()
        self._seen.sort(key=lambda item: int(item[1].object["metadata"]["resourceVersion"]))
        return self._seen

    def stop(self) -> None:
        """Watch no longer, and leave nothing."""
        self._record.stop()
        with suppress(NotFound):
            self.delete(NAMESPACE, self.namespace)


@contextmanager
def real_stage(cluster: Cluster) -> Iterator[RealStage]:
    """Have a namespace with the printed rights in that cluster, while the block lasts."""
    namespace = f"stage-{secrets.token_hex(3)}"
    config = load_config(cluster.kubeconfig)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(KubeApiClient(config)) as api:
        hands = RemoteHands(portal, api)
        manifest = {**NAMESPACE.manifest(namespace), "metadata": {"name": namespace}}
        hands.do(lambda found: found.create(manifest, kind=NAMESPACE, field_manager="admin"))
        printed = tenant(namespace, InstallOptions(namespace="vworkspace-system"))
        hands.do(partial(apply_printed, printed, {**RIGHTS, SERVICE_ACCOUNT.kind: SERVICE_ACCOUNT}))
        stage = RealStage(hands, cluster, namespace)
        try:
            yield stage
        finally:
            stage.stop()
