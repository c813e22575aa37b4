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
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Share the cluster with other tests, each in namespaces of its own, as far as the markers allow."""
    cluster = _cluster()
    alone, operator = (request.node.get_closest_marker(name) is not None for name in ("lone", "operator"))
    with taking_part(alone=alone, operator=operator):
        yield cluster
