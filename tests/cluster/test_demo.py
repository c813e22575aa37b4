"""`demo --kubeconfig` on a cluster of real controllers: what it shows holds, and nothing stays (PULL-2, PULL-3)."""

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from purekube.apimachinery.manifest import Kind, Manifest, get_path
from purekube.apimachinery.resources import EVENT, NAMESPACE
from purekube_http import KubeApiClient, load_config
from purekube_run.controller.lookups import all_of
from tests.support.cluster_environment import RIGHTS
from tests.support.commands import Ended, Running, run
from tests.support.definitions import have_defined
from tools.cluster.charts import Repository
from tools.cluster.up import Cluster
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import CLUSTER

_WHOLE_CLUSTER: tuple[Kind, ...] = (NAMESPACE, CLUSTER, RIGHTS["ClusterRole"], RIGHTS["ClusterRoleBinding"])


pytestmark = pytest.mark.operator


@pytest.fixture(autouse=True)
def defined(cluster: Cluster) -> None:
    """Other tests use the definitions at the same time: the demo finds them, and leaves them."""

    async def define() -> None:
        async with KubeApiClient(load_config(cluster.kubeconfig)) as api:
            await have_defined(crd_manifests(), api)

    anyio.run(define)


def _words(cluster: Cluster, *chart: str) -> tuple[str | Path, ...]:
    return "demo", "--kubeconfig", cluster.kubeconfig, *chart


def _authorities(cluster: Cluster) -> str:
    return str(cluster.folder / "trusted.crt")


def _left_of(cluster: Cluster, out: str) -> list[str]:
    """What is in the cluster of the run with that output."""
    name = _name_of(out)

    def mentions(manifest: Manifest) -> bool:
        names = (get_path(manifest, "metadata", "name"), get_path(manifest, "regarding", "name"))
        return any(name in str(each) for each in names) or name in str(manifest.get("subjects"))

    async def look() -> Iterator[str]:
        async with KubeApiClient(load_config(cluster.kubeconfig)) as api:
            places = [*((kind, None) for kind in _WHOLE_CLUSTER), (EVENT, "default")]
            found = [item for kind, place in places for item in await all_of(api, kind, namespace=place)]
        return (f"{item['kind']} {item['metadata']['name']}" for item in found if mentions(item))

    return list(anyio.run(look))


def _name_of(out: str) -> str:
    match = re.search(r"^namespaces +(vworkspace-demo-\w+),", out, re.MULTILINE)
    assert match is not None, out
    return match.group(1)


def _all_hold(ended: Ended, parts: int) -> None:
    assert (ended.status, ended.err) == (0, ""), ended.out + ended.err
    assert f"checks hold; {parts} parts were passed over" in ended.out
    assert "WRONG" not in ended.out
    assert [f" ms  {number}  " in ended.out for number in range(1, 9)] == [True] * 8


def test_the_demo_with_a_chart_that_it_pushes_shows_every_act_and_leaves_nothing(cluster: Cluster) -> None:
    assert cluster.registries is not None
    ended = run(
        *_words(cluster, "--registry", f"oci://{cluster.registries.trusted}/demo"), SSL_CERT_FILE=_authorities(cluster)
    )

    _all_hold(ended, parts=2 - ("argo" in cluster.components))
    assert "exceeded quota" in ended.out, "Helm's own words of the failed upgrade"
    assert _left_of(cluster, ended.out) == []


def test_the_demo_with_a_named_chart_says_what_it_passes_over_and_leaves_nothing(cluster: Cluster) -> None:
    assert cluster.registries is not None
    charts = Repository(cluster.registries.trusted, "demo-named", cluster.registries.authority)
    charts.push("settings", "1.2.3")

    ended = run(*_words(cluster, "--chart", f"{charts.oci}/settings", "--chart-version", "1.2.3"))

    _all_hold(ended, parts=6 - ("argo" in cluster.components))
    assert "passed over: an upgrade that fails: the chart is named with one version" in ended.out
    assert _left_of(cluster, ended.out) == []


def test_a_demo_that_fails_says_why_and_leaves_nothing(cluster: Cluster) -> None:
    assert cluster.registries is not None
    charts = Repository(cluster.registries.trusted, "demo-broken", cluster.registries.authority)
    charts.push("broken", "1.0.0")
    chart = ("--chart", f"{charts.oci}/broken", "--chart-version", "1.0.0", "--timeout", "15")

    ended = run(*_words(cluster, *chart))

    assert ended.status == 1
    assert "Ready=True: not seen within 15 seconds; the instance says Ready=False, " in ended.out
    assert "Helm install failed" in ended.out
    assert _left_of(cluster, ended.out) == []


@pytest.mark.parametrize("step", ["4", "7"])
def test_a_demo_that_is_interrupted_takes_everything_away_first(step: str, cluster: Cluster, tmp_path: Path) -> None:
    assert cluster.registries is not None
    registry = ("--registry", f"oci://{cluster.registries.trusted}/demo")
    with Running(tmp_path, *_words(cluster, *registry), SSL_CERT_FILE=_authorities(cluster)) as process:
        process.until(lambda: f" ms  {step}  " in process.out, f"step {step}")

        ended = process.stop(signal.SIGINT, seconds=180)

    assert (ended.status, ended.err) == (130, "error: interrupted\n")
    assert " hold" not in ended.out
    assert _left_of(cluster, ended.out) == []
