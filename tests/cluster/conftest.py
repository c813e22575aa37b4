"""The cluster of real controllers that these tests run on; `make test-cluster` brings one up."""

from collections.abc import Iterator

import pytest

from tests.support.cluster_choice import real_cluster, taking_part
from tools.cluster.up import VARIABLE, Cluster


def _cluster() -> Cluster:
    found = real_cluster()
    if found is None:
        pytest.skip(f"{VARIABLE} is not set: make test-cluster brings a cluster of real controllers up")
    return found


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Share the cluster with other tests: each has namespaces of its own."""
    cluster = _cluster()
    with taking_part():
        yield cluster


@pytest.fixture
def lone_cluster() -> Iterator[Cluster]:
    """Have the cluster alone: its controllers may be killed, and definitions taken away."""
    cluster = _cluster()
    with taking_part(alone=True):
        yield cluster
