"""What a test with the kit leaves in a cluster of others: nothing of its own, and everything of theirs."""

from typing import Any

import anyio
import pytest

import kubelab
from kubelab.model.calls import Caller
from purekube.apimachinery.errors import Forbidden
from purekube.apimachinery.manifest import Kind, ObjectRef
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from purekube_http import KubeApiClient, load_config
from purekube_kit.real import RealCluster
from tests.support.greetings_controller import CRD, greeting
from tests.support.patience import until

WIDE: dict[str, Any] = {**CRD, "spec": {**CRD["spec"], "scope": "Cluster"}}
GREETINGS = Kind("example.com", "v1", "Greeting", "greetings", namespaced=False)
ROLE = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "tester"}}
ROLE_KIND = Kind("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)
BINDING = Kind("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False)


def names(server: kubelab.Server, kind: Kind) -> set[str]:
    async def listed() -> set[str]:
        async with KubeApiClient(load_config(server.kubeconfig)) as api:
            return {item["metadata"]["name"] for item in (await api.list(kind)).items}

    return anyio.run(listed)


def test_an_object_without_a_namespace_goes_with_the_test_and_then_its_definition() -> None:
    with kubelab.serve() as server:
        with RealCluster(str(server.kubeconfig), workloads=False) as cluster:
            cluster.serve(WIDE)
            mine = greeting(who="World")
            mine["metadata"] = {"name": "mine", "finalizers": ["example.com/held"]}
            cluster.create(mine)
        until(lambda: WIDE["metadata"]["name"] not in names(server, CUSTOM_RESOURCE_DEFINITION), "the CRD is gone")


def test_objects_of_others_without_a_namespace_stay() -> None:
    with kubelab.serve(crds=[WIDE]) as server:
        with RealCluster(str(server.kubeconfig), workloads=False) as theirs:
            other = {**greeting(who="World"), "metadata": {"name": "theirs"}}
            theirs._do(lambda api: api.create(other, kind=GREETINGS, field_manager="others"))
            with RealCluster(str(server.kubeconfig), workloads=False) as cluster:
                cluster.serve(WIDE)
                cluster.create({**other, "metadata": {"name": "mine"}})
                again = cluster.create({**other, "metadata": {"name": "again"}})
                cluster.delete(again)
                theirs._do(lambda api: api.create(again_of(other), kind=GREETINGS, field_manager="others"))
        assert names(server, GREETINGS) == {"theirs", "again"}


def again_of(other: Any) -> Any:
    return {**other, "metadata": {"name": "again"}}


def test_a_kind_that_may_not_be_listed_keeps_no_namespace() -> None:
    verbs = ["get", "create", "delete", "patch"]
    rules = [
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": verbs},
        {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": verbs},
        {"apiGroups": ["example.com"], "resources": ["greetings"], "verbs": verbs},
    ]
    tester, admin = Caller("tester", ("system:authenticated",)), Caller()
    with (
        kubelab.serve(crds=[CRD], rbac=True, tokens={"admin": admin, "tester": tester}) as server,
        RealCluster(str(server.kubeconfig), workloads=False) as place,
    ):
        place._do(lambda api: api.create({**ROLE, "rules": rules}, kind=ROLE_KIND, field_manager="admin"))
        binding = {
            **BINDING.manifest("tester"),
            "roleRef": {"apiGroup": ROLE_KIND.group, "kind": "ClusterRole", "name": "tester"},
            "subjects": [{"apiGroup": ROLE_KIND.group, "kind": "User", "name": "tester"}],
        }
        place._do(lambda api: api.create(binding, kind=BINDING, field_manager="admin"))
        cluster = RealCluster(str(server.kubeconfig), "tester", workloads=False)
        cluster.__enter__()
        cluster.serve(CRD)
        cluster.create(greeting(who="World"))
        with pytest.raises(Forbidden, match="greetings"):
            cluster.__exit__()
        until(lambda: place._live(ObjectRef(NAMESPACE, None, cluster.namespace)) is None, "the namespace is gone")
