"""The pytest fixture `kubelab`: a Kubernetes API server for each test.

pytest loads this module in every run where the package is installed, so it imports other modules on demand.
"""

import sys
from collections.abc import Iterable, Iterator
from inspect import signature
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from kubelab.cluster.serving import Server

MARK = "kubelab"
_READ_AT_IMPORT: Final = [
    f"{package}.{module}"
    for package in ("kubernetes", "kubernetes.aio", "kubernetes_asyncio")
    for module in ("config", "config.kube_config")
]
"""The modules of clients that read KUBECONFIG once, when they are imported: measured with kubernetes 37.0."""


def pytest_configure(config: pytest.Config) -> None:
    """Register the pytest marker `kubelab`. A test uses the marker to set options of the server that it gets."""
    config.addinivalue_line("markers", f"{MARK}(**options): options of kubelab.serve for the fixture `kubelab`")


@pytest.fixture
def kubelab(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> "Iterator[Server]":
    """Yield a new Kubernetes API server for one test.

    Its options are the keyword arguments of the test's markers `@pytest.mark.kubelab(…)`. While the test runs, the
    environment variable KUBECONFIG has the path of a kubeconfig for the server. Clients that have read it before, at
    their import, find that path too: otherwise they would take the cluster of the user's own kubeconfig.
    """
    from kubelab.cluster.definitions import read_definitions
    from kubelab.cluster.serving import serve

    options = _options(request.node, signature(serve).parameters)
    root = request.config.rootpath
    options["crds"] = read_definitions(options.get("crds", ()), root)
    if isinstance(options.get("behaviour"), str):
        options["behaviour"] = root / options["behaviour"]
    with serve(**options) as server:
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig))
        for module in filter(None, map(sys.modules.get, _READ_AT_IMPORT)):
            monkeypatch.setattr(module, "KUBE_CONFIG_DEFAULT_LOCATION", str(server.kubeconfig), raising=False)
        yield server


def _options(node: pytest.Item, known: Iterable[str]) -> dict[str, Any]:
    """Return the options of a test's `kubelab` marks. For each option, the mark nearest to the test decides.

    Raises UsageError for an option that is not in `known`.
    """
    marks = list(node.iter_markers(MARK))
    if any(mark.args for mark in marks):
        raise pytest.UsageError(f"@pytest.mark.{MARK} takes options by name only, such as simulate='job'")
    options = {name: value for mark in reversed(marks) for name, value in mark.kwargs.items()}
    if unknown := sorted(options.keys() - set(known)):
        names = ", ".join(known)
        raise pytest.UsageError(f"@pytest.mark.{MARK} has no option {', '.join(unknown)}; it has: {names}")
    return options
