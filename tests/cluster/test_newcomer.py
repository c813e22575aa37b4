"""docs/quickstart.md on a cluster of real controllers, with the roles that it prints (RUN-7, SEE-4).

Two things differ from the page: charts come from the cluster's registry, and the operator runs here, since the cluster
has no kubelet that would run its image.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import NAMESPACE, SECRET
from purekube_http import KubeApiClient, load_config
from purekube_run.controller.lookups import all_of, find
from tests.docs.markdown import ROOT
from tests.docs.tutorial import Tutorial
from tools.cluster.charts import Repository
from tools.cluster.up import Cluster

_REGISTRY = "oci://registry.example.com/charts"
_NAMESPACE = "org-myteam"


pytestmark = pytest.mark.lone


@pytest.fixture
def page(cluster: Cluster, tmp_path: Path) -> Iterator[Tutorial]:
    """The page, followed in a folder whose `kc` is the administrator's and `operator-kc` the operator's."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    assert cluster.registries is not None
    charts = Repository(cluster.registries.trusted, "newcomer", cluster.registries.authority)
    for version in ("6.7.0", "6.8.0"):
        charts.push("podinfo", version, like="settings")
    tutorial = Tutorial(ROOT / "docs" / "quickstart.md", tmp_path)
    manifest = tutorial.block("yaml", "podinfo.yaml")
    assert _REGISTRY in manifest
    (tmp_path / "podinfo.yaml").write_text(manifest.replace(_REGISTRY, charts.oci), encoding="utf-8")
    shutil.copy(cluster.kubeconfig, tmp_path / "kc")
    shutil.copy(cluster.operator_kubeconfig, tmp_path / "operator-kc")
    yield tutorial
    tutorial.shell("export KUBECONFIG=kc; vworkspace-operator uninstall --yes --timeout 60 --keep-applications")
    anyio.run(_remove, cluster)


async def _remove(cluster: Cluster) -> None:
    async with KubeApiClient(load_config(cluster.kubeconfig)) as api:
        ref = ObjectRef(NAMESPACE, None, _NAMESPACE)
        if await find(api, ref) is not None:
            await api.delete(ref)
        while await find(api, ref) is not None:
            await anyio.sleep(0.2)


def _typed(page: Tutorial, name: str) -> str:
    return page.shell(f"export KUBECONFIG=kc\n{page.block('sh', name)}")


def test_the_quickstart_holds_on_real_controllers_with_the_printed_roles(page: Tutorial) -> None:
    installed = page.shell(f"export KUBECONFIG=kc\n{page.block('sh', 'real').rstrip()} || true")
    failed = [line.split(":")[0] for line in installed.splitlines() if line.startswith("failed ")]
    failed = [point for point in failed if f" in {_NAMESPACE}-" not in point]  # namespaces of other tests
    assert failed in ([], ["failed   operator"]), installed
    _typed(page, "namespace")
    with page.started("operator", {"kc": "operator-kc"}):
        shown = _typed(page, "first")
        assert "helmrelease/podinfo  Ready  InstallSucceeded" in shown
        assert "deployed: podinfo 6.7.0" in shown
        assert "deployed: podinfo 6.8.0" in _typed(page, "upgrade")
        assert "appinst/podinfo" not in _typed(page, "end").splitlines()[-3:]
    assert anyio.run(_helm_records, page) == []


async def _helm_records(page: Tutorial) -> list[str]:
    async with KubeApiClient(load_config(page.folder / "kc")) as api:
        records = await all_of(api, SECRET, selector="owner=helm", namespace=_NAMESPACE)
    return [record["metadata"]["name"] for record in records]
