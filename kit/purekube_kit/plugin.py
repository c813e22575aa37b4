"""The pytest fixture `kube_cluster`: a test on a cluster in memory, on a kube-apiserver, or on an existing cluster.

pytest loads this module in every run where the package is installed, so other modules are imported only on demand.
"""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from purekube_kit.cluster import ClusterUnderTest

OPTION: Final = "--kube-cluster"
VARIABLE: Final = "KUBE_CLUSTER"
FIXTURE: Final = "kube_cluster"
PLACES: Final = ("memory", "assets", "existing")
"""The places where tests run: in memory, on a kube-apiserver from KUBEBUILDER_ASSETS, or in a kubeconfig's cluster."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the command line options that choose where tests with the fixture `kube_cluster` run."""
    group = parser.getgroup("purekube_kit", "clusters of purekube_kit")
    group.addoption(
        OPTION,
        default="",
        metavar="PLACES",
        help=f"where tests with {FIXTURE} run, with commas between: {', '.join(PLACES)} (default: {VARIABLE}, memory)",
    )
    group.addoption("--kube-kubeconfig", default="", metavar="FILE", help="for `existing`; KUBECONFIG by default")
    group.addoption("--kube-context", default="", metavar="NAME", help="for `existing`; the current context by default")


def pytest_configure(config: pytest.Config) -> None:
    """Check the options that choose the kinds of cluster in which the tests run.

    Raises UsageError for an unknown kind of cluster.
    """
    places(config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test that uses the fixture `kube_cluster` once in each kind of cluster that the options choose."""
    if FIXTURE in metafunc.fixturenames:
        metafunc.parametrize(FIXTURE, places(metafunc.config), indirect=True, scope="function")


def places(config: pytest.Config) -> list[str]:
    """Return the kinds of cluster in which tests run: `memory`, `assets` or `existing`.

    The command line option decides before the environment variable. Raises UsageError for any other word.
    """
    text = config.getoption(OPTION) or os.environ.get(VARIABLE, "") or PLACES[0]
    chosen = [place.strip() for place in text.split(",") if place.strip()]
    for place in chosen:
        if place not in PLACES:
            raise pytest.UsageError(f"{OPTION} {place}: there is {', '.join(PLACES)}")
    return chosen


@pytest.fixture
def kube_cluster(request: pytest.FixtureRequest) -> "Iterator[ClusterUnderTest]":
    """A cluster in which a test runs controllers and creates objects: see `purekube_kit.ClusterUnderTest`."""
    if missing := _missing():
        pytest.skip(f"{missing} is not installed: pip install 'vworkspace-operator[kit]'")
    match request.param:
        case "memory":
            from purekube_kit.fake import FakeCluster

            with FakeCluster() as cluster:
                yield cluster
        case "assets":
            from purekube_kit.real import RealCluster

            with RealCluster(request.getfixturevalue("_kube_apiserver"), workloads=True) as bare:
                yield bare
        case _:
            yield from _existing(request.config)


def _missing() -> str:
    from importlib.util import find_spec

    return next((name for name in ("anyio", "lightkube", "starlette") if find_spec(name) is None), "")


def _existing(config: pytest.Config) -> "Iterator[ClusterUnderTest]":
    from purekube_kit.real import RealCluster, reachable

    where = config.getoption("--kube-kubeconfig"), config.getoption("--kube-context")
    if problem := reachable(*where):
        pytest.skip(f"{OPTION} existing: {problem}")
    with RealCluster(*where, workloads=False) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def _kube_apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the path of the kubeconfig of a kube-apiserver that all tests of a session share.

    Each test has its own namespace.
    """
    import yaml

    from purekube_kit.kube_apiserver import assets_of, started

    assets = assets_of(os.environ)
    if isinstance(assets, str):
        pytest.skip(f"{OPTION} assets: {assets}")
    with started(assets) as server:
        path = tmp_path_factory.mktemp("kube-apiserver") / "kubeconfig"
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(server.kubeconfig()), encoding="utf-8")
        yield str(path)
