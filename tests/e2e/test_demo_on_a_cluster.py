"""`demo --kubeconfig` where it cannot work: it says what to do, and leaves nothing. Real ones: tests/cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import Running, call, one_line, run

pytestmark = pytest.mark.slow

_CHART = ("--chart", "oci://registry.example.com/charts/podinfo", "--chart-version", "6.7.0")
_ADMIN, _GUEST = "admin-0123456789", "guest-0123456789"


@contextmanager
def _embedded(folder: Path, *words: str) -> Iterator[tuple[Path, str]]:
    kubeconfig = folder / "kc"
    with Running(folder / "cluster", "cluster", "--bare", "--kubeconfig-out", kubeconfig, *words) as cluster:
        yield kubeconfig, cluster.ready()


def _names(url: str, path: str) -> set[str]:
    items: list[dict[str, Any]] = call("GET", f"{url}{path}")["items"]
    return {item["metadata"]["name"] for item in items}


def test_a_cluster_without_flux_is_said_to_need_it(tmp_path: Path) -> None:
    with _embedded(tmp_path) as (kubeconfig, url):
        line = one_line(run("demo", "--kubeconfig", kubeconfig, *_CHART), 1)

        assert line.startswith("Flux: not installed in this cluster: helmreleases.helm.toolkit.fluxcd.io")
        assert ". To fix: install " in line
        assert not any("demo" in name for name in _names(url, "/api/v1/namespaces"))


def test_whoever_may_not_install_is_told_so(tmp_path: Path) -> None:
    users = tmp_path / "users.csv"
    users.write_text(f"{_GUEST},guest,1\n", encoding="utf-8")
    words = ("--simulate", "flux", "--rbac", "--tls", "--tokens", str(users))
    with _embedded(tmp_path, *words) as (kubeconfig, _):
        line = one_line(run("demo", "--kubeconfig", kubeconfig, *_CHART), 1)

    assert "may not create" in line
    assert "use the kubeconfig of an administrator" in line


def test_a_registry_that_cannot_be_reached_is_named_with_what_to_do(tmp_path: Path) -> None:
    with _embedded(tmp_path, "--simulate", "flux") as (kubeconfig, url):
        before = _names(url, "/api/v1/namespaces")
        line = one_line(run("demo", "--kubeconfig", kubeconfig, "--registry", "oci://127.0.0.1:1/charts"), 1)

        assert line.startswith("the chart cannot be pushed to oci://127.0.0.1:1/charts/vworkspace-demo-")
        assert "name a chart with --chart" in line
        assert _names(url, "/api/v1/namespaces") == before


def test_what_was_installed_works_with_its_account_and_goes_again(tmp_path: Path) -> None:
    """The operator runs with a token of its service account, as in a pod."""
    places = ("/api/v1/namespaces", *(f"/apis/{path}" for path in _INSTALLED))
    with _embedded(tmp_path, "--simulate", "flux") as (kubeconfig, url):
        before = [_names(url, place) for place in places]
        ended = run("demo", "--kubeconfig", kubeconfig, *_CHART)

        assert (ended.status, ended.err) == (0, "")
        assert "all 11 checks hold; 6 parts were passed over" in ended.out
        assert "taking everything away again" in ended.out
        assert [_names(url, place) for place in places] == before


_INSTALLED = (
    "apiextensions.k8s.io/v1/customresourcedefinitions",
    "rbac.authorization.k8s.io/v1/clusterroles",
    "rbac.authorization.k8s.io/v1/clusterrolebindings",
)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "--kubeconfig needs a chart: give --registry to push one, or --chart and --chart-version"),
        ((*_CHART, "--registry", "oci://r.example.com"), "--kubeconfig needs a chart"),
        (
            ("--chart", "podinfo", "--chart-version", "1"),
            "--chart podinfo: not a chart in an OCI registry, such as oci://",
        ),
        (("--chart", "oci://r.example.com/podinfo"), "--chart oci://r.example.com/podinfo needs --chart-version"),
        (("--registry", "https://r.example.com"), "--registry https://r.example.com: not oci://HOST[:PORT][/PATH]"),
        ((*_CHART, "--keep"), "--kubeconfig tells the main story and leaves nothing"),
        ((*_CHART, "--operations"), "--kubeconfig tells the main story and leaves nothing"),
    ],
)
def test_options_that_do_not_go_together_are_refused_before_anything_is_asked(
    words: tuple[str, ...], expected: str, tmp_path: Path
) -> None:
    assert one_line(run("demo", "--kubeconfig", tmp_path / "absent", *words), 2).startswith(expected)


def test_a_chart_without_a_cluster_is_refused() -> None:
    line = one_line(run("demo", *_CHART), 2)

    assert line == "--registry and --chart are for a cluster: name it with --kubeconfig"
