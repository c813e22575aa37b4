"""What people see and do who may read one namespace alone; what they may not read is named (SEE-1)."""

import json
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from kubelab.inprocess import InProcessKube, run_sync
from kubelab.model.calls import Caller
from kubelab.server import ApiServer
from purekube.apimachinery.errors import Forbidden
from purekube.apimachinery.manifest import Kind, Manifest
from purekube.apimachinery.resources import (
    DEPLOYMENT,
    HELM_RELEASE,
    LEASE,
    RBAC_GROUP,
    ROLE,
    ROLE_BINDING,
)
from purekube_run.process.command_line import CommandError
from purekube_run.process.yaml_documents import Format
from tests.support.builders import NAME, instance_manifest
from tests.support.builders import NAMESPACE as NS
from tests.support.e2e_world import usual_crds
from tests.support.furnished import furnish
from tests.support.server_thread import wall_clock
from vworkspace_app.commands.status import list_text, object_text
from vworkspace_app.overview.reading import read_object_context, read_own_objects
from vworkspace_app.verbs import execute_verb, find_named_object
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import INSTANCE_UID
from vworkspace_core.overview import actions

TENANT, GUEST, NOBODY = (Caller(name, ("system:authenticated",)) for name in ("tenant", "guest", "nobody"))
ELSEWHERE = "operators"
"""A namespace whose Leases TENANT may list, and nothing else."""
HELM = {"helm.toolkit.fluxcd.io/name": NAME, "helm.toolkit.fluxcd.io/namespace": NS}


def manifest(kind: Any, name: str, labels: dict[str, str], **fields: Any) -> dict[str, Any]:
    return {**kind.manifest(name, NS), "metadata": {"name": name, "namespace": NS, "labels": labels}, **fields}


def objects(uid: str) -> Iterator[tuple[Kind, Manifest]]:
    """A release of the instance with this uid, its Deployment, and the rights of TENANT and GUEST."""
    release = {"interval": "1m", "chartRef": {"kind": "OCIRepository", "name": NAME}}
    yield HELM_RELEASE, manifest(HELM_RELEASE, NAME, {INSTANCE_UID: uid}, spec=release)
    pods = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": pods}
    yield DEPLOYMENT, manifest(DEPLOYMENT, NAME, HELM, spec=spec)
    groups = [APPLICATION_INSTANCE.group, HELM_RELEASE.group, DEPLOYMENT.group]
    whole = {"apiGroups": groups, "resources": ["*"], "verbs": ["*"]}
    leases = {"apiGroups": [LEASE.group], "resources": ["leases"], "verbs": ["list"]}
    for place, caller, rule in (
        (NS, TENANT, whole),
        (NS, GUEST, {**whole, "resourceNames": [NAME]}),
        (ELSEWHERE, TENANT, leases),
    ):
        yield ROLE, {**ROLE.manifest(caller.user, place), "rules": [rule]}
        role = {"apiGroup": RBAC_GROUP, "kind": "Role", "name": caller.user}
        user = {"apiGroup": RBAC_GROUP, "kind": "User", "name": caller.user}
        yield ROLE_BINDING, {**ROLE_BINDING.manifest(caller.user, place), "roleRef": role, "subjects": [user]}


async def prepare(api: InProcessKube) -> None:
    """Create an application in NS. TENANT may do anything to instances and Helm's objects there, GUEST to one."""
    furnish(api, usual_crds(engines=False), NS, ELSEWHERE)
    instance = await api.create(instance_manifest(), kind=APPLICATION_INSTANCE, field_manager="test")
    for kind, made in objects(instance["metadata"]["uid"]):
        await api.create(made, kind=kind, field_manager="test")


def seen_by(caller: Caller, look: Callable[[InProcessKube], Coroutine[Any, Any, Any]]) -> Any:
    server = ApiServer(now=wall_clock, rbac=True)
    run_sync(prepare(InProcessKube(server)))
    return run_sync(look(InProcessKube(server, caller=caller)))


async def found(api: InProcessKube) -> Manifest:
    return (await find_named_object(api, NAME, NS))[1]


def test_a_tenant_names_an_object_and_acts_on_it_without_the_right_to_list_the_other_kinds_SEE_1() -> None:
    assert seen_by(TENANT, found)["metadata"]["name"] == NAME
    told = seen_by(TENANT, lambda api: execute_verb(api, NAME, NS, actions.suspend))
    assert told.startswith(f"ApplicationInstance {NS}/{NAME} is paused")


def test_a_name_that_is_not_found_says_which_kinds_were_not_searched_SEE_1() -> None:
    with pytest.raises(
        CommandError, match=r"no ApplicationInstance other in .*; not searched: operations: .*clusters: "
    ):
        seen_by(TENANT, lambda api: find_named_object(api, "other", NS))
    with pytest.raises(Forbidden):
        seen_by(NOBODY, found)


def test_a_tenant_sees_what_is_below_an_object_in_its_namespace_SEE_1() -> None:
    async def look(api: InProcessKube) -> dict[str, Any]:
        kind, instance = await find_named_object(api, NAME, NS)
        around = await read_object_context(api, kind, instance, now=wall_clock())
        told: dict[str, Any] = json.loads(object_text(around, Format.JSON, wall_clock()))
        return told

    told = seen_by(TENANT, look)
    (release,) = told["children"]
    assert (release["kind"], [child["kind"] for child in release["children"]]) == ("HelmRelease", ["Deployment"])
    assert not any(each.startswith("helmreleases") for each in told["notShown"]), "all of them were read"
    assert any(each.startswith("deployments: ") for each in told["notShown"]), "those of other namespaces were not"


def test_what_may_not_be_read_is_not_said_to_be_absent_SEE_1() -> None:
    async def look(api: InProcessKube) -> str:
        own = await read_own_objects(api, namespace=NS, system_namespace="vworkspace-system")
        return list_text(own, None, wall_clock())

    told = seen_by(TENANT, look)
    assert "\n1 object: " in told
    assert "\noperator: UNKNOWN (its Leases cannot be read)\n" in told
    assert "box run" not in told
    told = seen_by(NOBODY, look)
    assert told.startswith("no objects of the operator's kinds are shown\noperator: UNKNOWN")


def test_leases_of_another_name_are_not_said_to_be_absent_where_the_deployment_may_not_be_read_SEE_1() -> None:
    """An operator with --leader-elect-resource-name was NONE SEEN, without a word on the Deployment that names it."""

    async def look(api: InProcessKube) -> str:
        own = await read_own_objects(api, namespace=NS, system_namespace=ELSEWHERE)
        return list_text(own, None, wall_clock())

    told = seen_by(TENANT, look)
    assert "\noperator: NONE SEEN" in told
    assert f"\nnot shown: leases other than {ELSEWHERE}/vworkspace-operator: " in told
    assert told.endswith(f'"deployments" in API group "apps" in the namespace "{ELSEWHERE}"\n')


@pytest.mark.parametrize("name", [NAME, f"appinst/{NAME}"])
def test_only_objects_of_a_name_are_read_where_it_is_looked_for_SEE_1(name: str) -> None:
    """All objects of the cluster were read: 40 pages where there are 20,000 instances, and with rights to all."""
    assert seen_by(GUEST, lambda api: find_named_object(api, name, NS))[1]["metadata"]["name"] == NAME


@pytest.mark.parametrize("name", ["a,b", "a=b", "a\\b", ""])
def test_what_can_be_no_name_is_no_object_SEE_1(name: str) -> None:
    with pytest.raises(CommandError, match="there is no ApplicationInstance"):
        seen_by(TENANT, lambda api: find_named_object(api, f"appinst/{name}", NS))
