"""The cluster of real controllers that these tests run on; `make test-cluster` brings one up."""

import os
from pathlib import Path

import pytest

from tools.cluster.up import VARIABLE, Cluster


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    folder = os.environ.get(VARIABLE, "")
    if not folder:
        pytest.skip(f"{VARIABLE} is not set: make test-cluster brings a cluster of real controllers up")
    return Cluster.load(Path(folder))
