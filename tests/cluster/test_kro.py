"""kro, the peer of boxes, runs on the cluster of `make cluster --with kro` (RUN-8)."""

import secrets
import time
from collections.abc import Callable, Iterator

import pytest
from anyio.from_thread import start_blocking_portal

from purekube.apimachinery.errors import KindMissing, NotFound
from purekube.apimachinery.manifest import Kind, ObjectRef, get_path
from purekube.apimachinery.resources import CONFIG_MAP
from purekube_http import KubeApiClient, load_config
from tests.support.kube_client import RemoteHands
from tests.support.patience import PATIENCE
from tools.cluster.up import Cluster

GRAPH = Kind("kro.run", "v1alpha1", "ResourceGraphDefinition", "resourcegraphdefinitions", namespaced=False)


@pytest.fixture
def hands(cluster: Cluster) -> Iterator[RemoteHands]:
    if "kro" not in cluster.components:
        pytest.skip("the cluster runs without kro")
    config = load_config(cluster.kubeconfig)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(KubeApiClient(config)) as api:
        yield RemoteHands(portal, api)


def test_a_graph_becomes_a_kind_and_its_object_a_config_map_RUN_8(hands: RemoteHands) -> None:
    name = f"shop{secrets.token_hex(3)}"
    kind = Kind("kro.run", "v1alpha1", name.capitalize(), f"{name}s")
    template = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "${schema.metadata.name}"},
        "data": {"motto": "${schema.spec.motto}"},
    }
    schema = {"apiVersion": "v1alpha1", "kind": kind.kind, "spec": {"motto": "string"}}
    graph = {**GRAPH.manifest(name), "spec": {"schema": schema, "resources": [{"id": "it", "template": template}]}}
    place = ObjectRef(GRAPH, None, name)
    hands.do(lambda api: api.create(graph, kind=GRAPH, field_manager="test"))
    try:
        until(lambda: get_path(hands.do(lambda api: api.get(place)), "status", "state") == "Active")
        shop = {**kind.manifest(name, "default"), "spec": {"motto": "new"}}
        hands.do(lambda api: api.create(shop, kind=kind, field_manager="test"))
        made = ObjectRef(CONFIG_MAP, "default", name)
        until(lambda: get_path(hands.do(lambda api: api.get(made)), "data", "motto") == "new")
        hands.do(lambda api: api.delete(ObjectRef(kind, "default", name)))
    finally:
        hands.do(lambda api: api.delete(place))


def until(holds: Callable[[], bool]) -> None:
    limit = time.monotonic() + PATIENCE
    while not _holds(holds):
        assert time.monotonic() < limit, "kro did not get so far"
        time.sleep(0.2)


def _holds(holds: Callable[[], bool]) -> bool:
    try:
        return holds()
    except (NotFound, KindMissing):
        return False
