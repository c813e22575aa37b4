"""The pytest plugin of the kit: one test unchanged on a cluster in memory, a kube-apiserver, a cluster of yours."""

from pathlib import Path

import pytest
import yaml

from kubelab import ApiServer, InProcessKube, run_sync
from kubelab.http.serving import kubeconfig
from purekube import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from tests.support.server_thread import served, wall_clock
from tests.support.server_use import real_assets

pytest_plugins = ["pytester"]

SHOPS = (Path(__file__).parents[1] / "property" / "kit" / "test_kit_shop.py").read_text(encoding="utf-8")
RECONCILER = SHOPS.split("# --- its tests")[0].replace("from tests.support.effort import effort\n", "")
TESTS = """
class FakeShops:
    def __init__(self):
        self.there = {}

    async def put(self, key, spec):
        self.there[key] = spec
        return f"remote-{key}"

    async def remove(self, key):
        self.there.pop(key, None)


def test_a_shop_comes_changes_and_goes(kube_cluster):
    shops = FakeShops()
    kube_cluster.run(Shops(shops))
    shop = kube_cluster.until(kube_cluster.create(SHOP, "shop", image="r/x:1"))
    assert shop.status.remote_id == f"remote-{shop.metadata.uid}"

    shop = kube_cluster.until(kube_cluster.change(shop, replicas=51), "Stalled")
    kube_cluster.fault("shops", kill="after", times=1)
    shop = kube_cluster.until(kube_cluster.change(shop, replicas=2))
    assert shops.there == {shop.metadata.uid: shop.spec}
    assert sum("the process is killed" in line for line in kube_cluster.timeline) == 1

    kube_cluster.delete(shop)
    kube_cluster.until_gone(shop)
    assert shops.there == {}


def test_pods_that_do_not_start(kube_cluster):
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "r/x:1"}]}}
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    with kube_cluster.fault("deployments", never_ready=True):
        web = kube_cluster.create(manifest)
        kube_cluster.after(2)
        assert web["metadata"].get("status", {}).get("readyReplicas", 0) == 0
    kube_cluster.until(web, lambda web: web["status"].get("readyReplicas") == 1)


def test_an_hour(kube_cluster):
    kube_cluster.after(3600)
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project of somebody's own."""
    monkeypatch.delenv("KUBE_CLUSTER", raising=False)
    pytester.makepyfile(RECONCILER + TESTS)
    return pytester


@pytest.mark.slow
def test_tests_run_in_memory_unless_told(suite: pytest.Pytester) -> None:
    ended = suite.runpytest_inprocess("-q")

    ended.assert_outcomes(passed=3)


@pytest.mark.slow
def test_each_place_is_said_in_the_names_of_tests_and_why_it_is_skipped(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("KUBE_CLUSTER", "memory,assets,existing")
    ended = suite.runpytest_inprocess("-v", "-rs", "-k", "hour", "--kube-kubeconfig", "nothing.yaml")

    ended.assert_outcomes(passed=1, skipped=2)
    ended.stdout.fnmatch_lines_random(
        [
            "*test_an_hour?memory? PASSED*",
            "*--kube-cluster assets: KUBEBUILDER_ASSETS is not set*",
            "*--kube-cluster existing: *nothing.yaml*",
        ]
    )


def test_a_place_that_there_is_not_is_refused(suite: pytest.Pytester) -> None:
    ended = suite.runpytest_inprocess("--kube-cluster", "cloud")

    assert ended.ret == pytest.ExitCode.USAGE_ERROR
    assert "--kube-cluster cloud: there is memory, assets, existing" in ended.stderr.str() + ended.stdout.str()


@pytest.mark.slow
def test_the_same_tests_run_on_a_kube_apiserver(suite: pytest.Pytester) -> None:
    real_assets()
    ended = suite.runpytest_subprocess("-v", "-rs", "--kube-cluster", "assets")

    ended.assert_outcomes(passed=2, skipped=1)
    ended.stdout.fnmatch_lines(["*lets 3600 s pass, and time is real here: 10 s at the most*"])


@pytest.mark.slow
def test_the_same_tests_run_in_a_cluster_that_is_there_and_leave_nothing(
    suite: pytest.Pytester, tmp_path: Path
) -> None:
    """An embedded API server stands for it, which goes on without the tests."""
    server, file = ApiServer(now=wall_clock, collects=True), tmp_path / "kubeconfig"
    with served(server) as url:
        file.write_text(yaml.safe_dump(kubeconfig(url)), encoding="utf-8")
        ended = suite.runpytest_subprocess("-v", "-rs", "--kube-cluster", "existing", "--kube-kubeconfig", str(file))

    ended.assert_outcomes(passed=1, skipped=2)
    ended.stdout.fnmatch_lines(["*the pods of this cluster are real*"])
    namespaces = run_sync(InProcessKube(server).list(NAMESPACE)).items
    assert [namespace["metadata"]["name"] for namespace in namespaces if "test" in namespace["metadata"]["name"]] == []
    assert run_sync(InProcessKube(server).list(CUSTOM_RESOURCE_DEFINITION)).items == []
