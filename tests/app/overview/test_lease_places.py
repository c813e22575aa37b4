"""The Lease of an operator is found where its Deployment has it, under any name (SEE-1, RUN-4)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest

from kubelab.inprocess import InProcessKube, run_sync
from kubelab.server import ApiServer
from purekube.apimachinery.resources import DEPLOYMENT, LEASE, NAMESPACE
from purekube.apimachinery.timestamps import microtime
from tests.support.uninstall_world import OWN_NS
from vworkspace_app.commands.status import list_text
from vworkspace_app.install import InstallOptions, installation
from vworkspace_app.install.deployed import LeasePlace, lease_place
from vworkspace_app.overview.checking import installed
from vworkspace_app.overview.reading import read_own_objects
from vworkspace_core.overview.checkup import CheckResult
from vworkspace_core.overview.tree import is_held

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
ELSEWHERE = {"leader_elect_resource_name": "ours", "leader_elect_resource_namespace": "leases"}


class Versioned(InProcessKube):
    """The API server in memory, which says its version too."""

    async def server_version(self) -> str:
        return "v1.33.0"


def lease(name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    spec = {"holderIdentity": "pod_1", "leaseDurationSeconds": 15, "renewTime": microtime(NOW), **spec}
    return {**LEASE.manifest(name, namespace), "spec": spec}


def with_an_operator(settings: dict[str, str]) -> Versioned:
    """A cluster with the operator's Deployment, and its Lease where the settings put it."""
    api = Versioned(ApiServer(now=lambda: NOW))
    for name in (OWN_NS, "leases"):
        run_sync(api.create(NAMESPACE.manifest(name), kind=NAMESPACE, field_manager="admin"))
    options = InstallOptions(namespace=OWN_NS, settings=settings)
    (made,) = (one for one in installation(options) if one["kind"] == "Deployment")
    run_sync(api.create(made, kind=DEPLOYMENT, field_manager="kubectl"))
    place = lease_place(made, OWN_NS)
    run_sync(api.create(lease(place.name, place.namespace), kind=LEASE, field_manager="operator"))
    return api


@pytest.mark.parametrize("settings", [{}, ELSEWHERE])
def test_status_and_check_see_the_replica_that_leads(settings: dict[str, str]) -> None:
    """With a Lease of another name or namespace, status said NONE SEEN, and check that none of its replicas works."""
    api = with_an_operator(settings)
    own_objects = run_sync(read_own_objects(api, namespace=None, system_namespace=OWN_NS))
    assert "operator: pod_1 leads, last renewed 0s ago" in list_text(own_objects, None, NOW)

    async def found() -> dict[str, CheckResult]:
        options = InstallOptions(namespace=OWN_NS, agent=False)
        return {one.point: one.verdict async for one in installed(api, options, NOW)}  # type: ignore[arg-type]

    assert anyio.run(found)["operator"] is CheckResult.OK


def test_an_argument_wins_over_the_environment() -> None:
    variables = [{"name": "VWORKSPACE_LEADER_ELECT_RESOURCE_NAME", "value": "mine"}]
    container = {"args": ["run", "--leader-elect-resource-name", "ours"], "env": variables}
    deployment = {"spec": {"template": {"spec": {"containers": [container]}}}}
    assert lease_place(deployment, OWN_NS) == LeasePlace(OWN_NS, "ours")
    assert lease_place(None, OWN_NS) == LeasePlace(OWN_NS, "vworkspace-operator")


@pytest.mark.parametrize(("duration", "held"), [(15, False), (300, True)])
def test_a_leader_with_a_long_lease_leads_until_it_ends(duration: int, held: bool) -> None:
    """`uninstall --keep-applications` deleted the CRDs while such a leader, renewing every 100 s, still wrote."""
    renewed = microtime(NOW - timedelta(seconds=90))
    assert is_held(lease("a", "b", leaseDurationSeconds=duration, renewTime=renewed), NOW) is held
