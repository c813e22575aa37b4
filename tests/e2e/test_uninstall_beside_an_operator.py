"""`uninstall` beside an operator that runs outside the cluster, with no Deployment there, loses nothing (RUN-7).

Real processes over HTTP, on the embedded API server and, where KUBEBUILDER_ASSETS names one, on a kube-apiserver. There
nothing is collected, so what is judged is what a garbage collector would go by: owner references and uids.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import attrs
import pytest
import yaml

from kubelab.http.serving import kubeconfig
from tests.support.clusters_under_test import INSTANCES, SITES, Site
from tests.support.commands import Ended, Running, run
from tests.support.e2e_world import CLUSTER, NS, OWN_NS
from tests.support.tcp_proxy import Middle

pytestmark = pytest.mark.slow

APPLICATIONS = 4
RELEASES = f"apis/helm.toolkit.fluxcd.io/v2/namespaces/{NS}/helmreleases"
DEFINITION = "apis/apiextensions.k8s.io/v1/customresourcedefinitions/applicationinstances.apps.vworkspace.io"
ELECTING = ("--leader-elect", "--leader-elect-identity", "laptop")


@attrs.frozen
class Host:
    """A machine outside the cluster: an administrator's kubeconfig, and the proxy that it leads through.

    The operator reaches the API server through another one.
    """

    site: Site
    middle: Middle
    kubeconfig: Path
    of_operator: Path

    @contextmanager
    def operator(self, *words: str) -> Iterator[Running]:
        """Run an operator here until four applications are ready. Nothing of it is in the cluster."""
        where = ("--kubeconfig", self.of_operator, "--no-agent", "--cluster-id", CLUSTER)
        with Running(self.site.folder / "operator", "run", *where, *words) as process:
            for number in range(APPLICATIONS):
                self.site.apply(number, "1.0.0")
            process.until(lambda: len(self.site.ready("1.0.0")) == APPLICATIONS, "all applications ready")
            yield process

    @property
    def words(self) -> tuple[str | Path, ...]:
        """Of the command."""
        return ("uninstall", "--kubeconfig", self.kubeconfig, "--keep-applications", "--yes")

    def uninstall(self, *words: str) -> Ended:
        """Run the command to its end."""
        return run(*self.words, *words)

    def kept(self) -> dict[str, str]:
        """Uids of the HelmReleases that nothing will take: they are not deleted, and their owners exist."""
        instances = (self.site.ask("GET", INSTANCES) or {"items": []})["items"]
        there = {instance["metadata"]["uid"] for instance in instances}
        return {
            release["metadata"]["name"]: release["metadata"]["uid"]
            for release in self.site.ask("GET", RELEASES)["items"]
            if "deletionTimestamp" not in release["metadata"]
            and all(owner["uid"] in there for owner in release["metadata"].get("ownerReferences") or ())
        }

    def check_gone(self, kept: dict[str, str]) -> None:
        """The operator has gone, and the releases are the same as before, and nobody's."""
        assert self.site.ask("GET", DEFINITION) is None
        assert self.kept() == kept
        releases = self.site.ask("GET", RELEASES)["items"]
        assert not [release for release in releases if release["metadata"].get("ownerReferences")]


@pytest.fixture(params=SITES)
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Host]:
    with request.param(tmp_path) as site:
        port = urlsplit(site.url).port
        assert port is not None
        with Middle(port, site.trust, site.shown) as middle, Middle(port, site.trust, site.shown) as another:
            yield Host(site, middle, written(site, "mine", middle), written(site, "operator", another))


def written(site: Site, name: str, middle: Middle) -> Path:
    """Write a kubeconfig that leads through a proxy."""
    authority = None if site.shown is None else site.shown.authority
    path = site.folder / f"{name}.kubeconfig"
    path.write_text(yaml.safe_dump(kubeconfig(middle.url, site.admin, authority=authority)), encoding="utf-8")
    return path


def test_uninstall_refuses_while_a_replica_leads_that_no_deployment_runs(host: Host) -> None:
    with host.operator(*ELECTING) as process:
        kept = host.kept()
        assert len(kept) == APPLICATIONS
        ended = host.uninstall("--timeout", "3")
        assert ended.status == 1, ended
        (problem,) = ended.problems
        assert "laptop" in problem
        assert f"{OWN_NS}/vworkspace-operator" in problem
        assert "Stop it" in problem
        assert host.kept() == kept
        assert len(host.site.ready("1.0.0")) == APPLICATIONS

        process.stop()
        ended = host.uninstall()
        assert (ended.status, ended.err) == (0, "")
    host.check_gone(kept)


def test_uninstall_keeps_applications_while_an_operator_without_a_lease_runs_on(host: Host) -> None:
    with host.operator() as process:
        kept = host.kept()
        ended = host.uninstall()
        assert (ended.status, ended.err) == (0, "")
        assert process.is_running
        host.check_gone(kept)
    host.check_gone(kept)


MARKED = 2 * APPLICATIONS
"""After so many writes each instance is marked and deleted; a living operator does what follows as well."""


@pytest.mark.parametrize("number", [1, 4, MARKED, MARKED + 1, 2 * MARKED, 2 * MARKED + 3])
def test_uninstall_that_is_killed_at_a_write_and_repeated_keeps_applications(host: Host, number: int) -> None:
    with host.operator() as process:
        kept = host.kept()
        if number > MARKED:
            process.stop()
        with Running(host.site.folder / "killed", *host.words) as command:
            host.middle.after_write(number, lambda: command.send(signal.SIGKILL))
            assert command.end().status != 0
        assert host.kept() == kept
        ended = host.uninstall()
        assert (ended.status, ended.err) == (0, "")
        host.check_gone(kept)
