"""The conformance suite's real server, where the environment names one, ends with the run."""

from collections.abc import Iterator

import pytest

from tests.support.cluster_choice import stop_real_server


@pytest.fixture(scope="session", autouse=True)
def _real_server() -> Iterator[None]:
    """It starts with the first check that asks for it."""
    yield
    stop_real_server()
