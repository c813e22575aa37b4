"""The end-to-end suite leaves the cluster that the environment names as it was; servers end with the run."""

from collections.abc import Iterator

import pytest

from tests.support.cluster_choice import stop_real_server
from tests.support.cluster_environment import leave
from tests.support.lent_server import stop_lent_server


@pytest.fixture(scope="session", autouse=True)
def _cluster() -> Iterator[None]:
    """It starts with the first story that asks for it."""
    yield
    leave()
    stop_real_server()
    stop_lent_server()
