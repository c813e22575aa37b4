"""H2 on a real kube-apiserver: it stores objects that no decoder follows, and everybody else's go on being seen."""

import json
import os
import ssl
import urllib.request
from contextlib import suppress

import pytest

from purekube.apimachinery.errors import NotFound
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import HELM_RELEASE
from tests.support.cluster_choice import real_server
from tests.support.e2e_world import NS, UNGATED_NS, World, instance
from tests.support.operation_requests import LABELS
from tests.support.patience import PATIENCE
from tests.support.servers import ENVIRONMENT
from vworkspace_core.api.kinds import APPLICATION_INSTANCE

pytestmark = pytest.mark.skipif(
    not os.environ.get("KUBEBUILDER_ASSETS"), reason="needs a kube-apiserver: the embedded one takes no such object"
)

LEVELS = 1_200
DEEP = '{"a":' * LEVELS + "1" + "}" * LEVELS


def store(kind: Kind, manifest: Manifest) -> None:
    """POST as it is: no client of ours could write it."""
    server = real_server()
    where = f"{server.url}/apis/{kind.api_version}/namespaces/{manifest['metadata']['namespace']}/{kind.plural}"
    body = json.dumps(manifest).replace('"DEEP"', DEEP).encode()
    headers = {"content-type": "application/json", "authorization": f"Bearer {server.token}"}
    trust = ssl.create_default_context(cadata=(server.authority or b"").decode())
    request = urllib.request.Request(where, body, headers)
    with urllib.request.urlopen(request, timeout=PATIENCE, context=trust) as answer:
        assert answer.status == 201


def remove(world: World, ref: ObjectRef) -> None:
    with suppress(NotFound):
        world.delete_object(ref)


def test_one_object_too_deep_stops_nobody_and_one_of_ours_says_so() -> None:
    stranger = ObjectRef(APPLICATION_INSTANCE, UNGATED_NS, "deep")
    release = ObjectRef(HELM_RELEASE, UNGATED_NS, "deep")
    ours = ObjectRef(APPLICATION_INSTANCE, NS, "deep-ours")
    spec = {**instance()["spec"], "values": {"source": "inline", "inline": "DEEP"}}

    async def story(world: World) -> None:
        plain = {"name": "deep", "namespace": UNGATED_NS}
        store(APPLICATION_INSTANCE, {**instance(), "metadata": plain, "spec": spec})
        chart = {"chart": {"spec": {"chart": "x", "sourceRef": {"kind": "HelmRepository", "name": "x"}}}}
        store(
            HELM_RELEASE,
            {**HELM_RELEASE.manifest("deep", UNGATED_NS), "spec": {**chart, "interval": "5m", "values": "DEEP"}},
        )
        labelled = {"name": "deep-ours", "namespace": NS, "labels": LABELS}
        deep = {**spec, "release": {"name": "deep-ours", "namespace": NS}}
        store(APPLICATION_INSTANCE, {**instance(), "metadata": labelled, "spec": deep})
        try:
            await world.ready()
            await world.until(lambda: _blocked(world, ours)[0] == "ValidationFailed", "what is wrong with it")
            assert "spec.values: is nested too deeply" in _blocked(world, ours)[1]
        finally:
            for ref in (stranger, release, ours):
                remove(world, ref)

    ENVIRONMENT.run(story)


def _blocked(world: World, ref: ObjectRef) -> tuple[str, str]:
    for condition in get_path(world.find(ref), "status", "conditions") or ():
        if (condition["type"], condition["status"]) == ("Blocked", "True"):
            return condition["reason"], condition["message"]
    return "", ""
