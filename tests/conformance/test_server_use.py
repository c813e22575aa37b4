"""`make test-cluster` runs those of tests/e2e and tests/conformance that use a kube-apiserver, no others (RUN-8)."""

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

SUITE = """
from contextlib import contextmanager
from functools import partial

import attrs
import pytest

from tests.support.cluster_choice import reached, real_server
from tests.support.servers import ENVIRONMENT, IN_PROCESS


@contextmanager
def real():
    yield real_server()


def embedded():
    pass


@attrs.frozen
class Site:
    kind: str

    def open(self):
        return lambda: reached()


@pytest.fixture
def server():
    return real_server()


@pytest.fixture(params=[embedded, partial(real)], ids=["embedded", "real"])
def either(request):
    pass


def test_by_a_call():
    real_server()


def test_by_a_fixture(server):
    pass


def test_by_a_parameter_of_a_fixture(either):
    pass


@pytest.mark.parametrize("face", [IN_PROCESS, ENVIRONMENT], ids=["memory", "environment"])
def test_by_a_face(face):
    face.run(None)


def test_by_a_method():
    Site("x").open()


def test_without():
    embedded()
    IN_PROCESS.run(None)
"""
CHOSEN = {
    "test_by_a_call",
    "test_by_a_fixture",
    "test_by_a_parameter_of_a_fixture[real]",
    "test_by_a_face[environment]",
    "test_by_a_method",
}


@pytest.mark.slow
def test_tests_that_can_reach_a_server_are_chosen_by_their_code_alone_RUN_8(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import tests.support.server_use as use

        def pytest_collection_modifyitems(items):
            use._OURS = ("tests.", "test_suite")
            items[:] = [item for item in items if use.uses_server(item)]
        """
    )
    pytester.makepyfile(test_suite=SUITE)
    ended = pytester.runpytest_inprocess("--collect-only", "-q")
    assert {line.split("::")[1] for line in ended.outlines if "::" in line} == CHOSEN


def test_tests_find_the_server_in_one_way_alone_RUN_8() -> None:
    """A test that asks by itself would not be chosen."""
    tests = Path(__file__).parents[1]
    asking = {path.name for path in tests.rglob("*.py") if "assets_of(os.environ)" in path.read_text(encoding="utf-8")}
    assert asking == {"server_use.py", Path(__file__).name}
